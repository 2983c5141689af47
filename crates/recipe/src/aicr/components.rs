//! Reads the components of a `RecipeResult`, and reports those that a bundle cannot deploy.

use super::{AicrOptions, errors, kustomizations};
use contract::grammar::{grammar, shown};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::nearest::did_you_mean;
use diagnostics::source::SourceSpan;
use diagnostics::tree::{MapEntry, YamlNode};

/// All keys of a component in AICR's format.
const KEYS: [&str; 18] = [
    "name",
    "namespace",
    "chart",
    "type",
    "source",
    "version",
    "tag",
    "path",
    "patches",
    "valuesFile",
    "overrides",
    "dependencyRefs",
    "manifestFiles",
    "preManifestFiles",
    "cleanup",
    "expectedResources",
    "healthCheckAsserts",
    "healthCheckSkip",
];
/// Lists of files with objects that AICR applies in addition to a chart.
pub(super) const MANIFESTS: [&str; 2] = ["preManifestFiles", "manifestFiles"];
/// Overrides that disable a component, and are not values.
pub(super) const GATES: [&str; 2] = ["enabled", "install"];
/// Keys that must be lists of strings.
const LISTS: [&str; 4] = ["patches", "dependencyRefs", "manifestFiles", "preManifestFiles"];
/// Keys that must be strings.
const TEXTS: [&str; 6] = ["name", "namespace", "chart", "type", "source", "valuesFile"];

/// One component.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComponentReference<'a> {
    /// The component's name.
    pub(super) name: &'a str,
    /// The position of the name.
    pub(super) place: SourceSpan,
    /// The component's entry.
    pub(super) node: &'a YamlNode,
    /// Whether it is deployed: it is enabled, and has a chart or manifest files.
    pub(super) is_deployed: bool,
}

impl<'a> ComponentReference<'a> {
    /// Returns the value of a key, unless it is null or an empty string, which AICR treats as not
    /// set.
    pub(super) fn get(&self, key: &str) -> Option<&'a YamlNode> {
        self.node.get(key).filter(|node| !node.is_null() && node.text() != Some(""))
    }

    /// Returns the string of a key, unless it is empty.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key).and_then(YamlNode::text)
    }

    /// Returns its manifest files, each with the key of its list.
    pub(super) fn manifest_files(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'a YamlNode)> + use<'a> {
        let node = self.node;
        MANIFESTS.into_iter().flat_map(move |key| {
            let list = node.get(key).map_or(&[][..], YamlNode::items);
            list.iter().map(move |file| (key, file))
        })
    }

    /// Whether it has a chart. AICR decides this by `source`.
    pub(super) fn has_chart(&self) -> bool {
        let has_source = self.get("source").is_some() && !self.is_kustomization();
        has_source || catalog::component(self.name).is_some()
    }

    /// Whether it is a kustomization.
    pub(super) fn is_kustomization(&self) -> bool {
        self.text("type").is_some_and(|kind| kind.eq_ignore_ascii_case("kustomize"))
    }

    /// Returns the names of the components that it needs, with their positions.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = (&'a str, SourceSpan)> + use<'a> {
        self.node
            .get("dependencyRefs")
            .map_or(&[][..], YamlNode::items)
            .iter()
            .filter_map(|item| Some((item.text()?, item.origin)))
    }
}

/// Reads `componentRefs`.
pub(super) fn read<'a>(
    result: &'a YamlNode,
    options: &AicrOptions,
    findings: &mut Vec<Diagnostic>,
) -> Vec<ComponentReference<'a>> {
    let Some(list) = result.entry("componentRefs") else {
        Diagnostic::error("`componentRefs` is missing, so the recipe has no components")
            .at(result.origin)
            .report(findings);
        return Vec::new();
    };
    if list.node.list().is_none() {
        Diagnostic::error(format!("`componentRefs`: expected a list, found {}", list.node.kind()))
            .at(list.key_origin)
            .report(findings);
        return Vec::new();
    }
    if list.node.items().is_empty() {
        Diagnostic::error("the recipe has no components")
            .at(list.key_origin)
            .hint("add an entry to `componentRefs`")
            .report(findings);
    }
    let mut references: Vec<ComponentReference<'a>> = Vec::new();
    for item in list.node.items() {
        let Some(name) =
            item.get("name").filter(|name| name.text().is_some_and(|text| !text.is_empty()))
        else {
            Diagnostic::error("this entry of `componentRefs` has no `name`")
                .at(item.origin)
                .report(findings);
            continue;
        };
        let text = name.text().unwrap_or_default();
        // Before the name becomes part of a path.
        if let Some(grammar) = grammar("componentName").filter(|grammar| !(grammar.fits)(text)) {
            Diagnostic::error(format!("`{}` {}", shown(text), grammar.what))
                .at(name.origin)
                .hint(grammar.hint)
                .report(findings);
            continue;
        }
        if let Some(earlier) = references.iter().find(|earlier| earlier.name == text) {
            Diagnostic::error(format!("the component `{text}` is in the list twice"))
                .at(name.origin)
                .related(earlier.place, "first here")
                .hint("keep one of them")
                .report(findings);
            continue;
        }
        let mut reference =
            ComponentReference { name: text, place: name.origin, node: item, is_deployed: true };
        let before = errors(findings);
        // A disabled component is not checked.
        reference.is_deployed = is_switched_on(&reference, findings);
        if reference.is_deployed {
            check(&reference, findings);
            let is_sound = errors(findings) == before;
            reference.is_deployed = has_objects(&reference, options, findings) && is_sound;
        }
        references.push(reference);
    }
    references
}

/// Checks keys and types.
fn check(reference: &ComponentReference<'_>, findings: &mut Vec<Diagnostic>) {
    for entry in reference.node.entries().iter().filter(|entry| !entry.node.is_null()) {
        let key = entry.key.as_str();
        if !KEYS.contains(&key) {
            Diagnostic::error(format!("components of AICR have no key `{key}`"))
                .at(entry.key_origin)
                .hint(
                    did_you_mean(key, KEYS)
                        .unwrap_or_else(|| format!("known keys: {}", KEYS.join(", "))),
                )
                .report(findings);
        } else if TEXTS.contains(&key) && entry.node.text().is_none() {
            Diagnostic::error(format!("`{key}`: expected a string, found {}", entry.node.kind()))
                .at(place(entry))
                .report(findings);
        } else if LISTS.contains(&key) {
            texts(entry, findings);
        }
    }
    kustomizations::check(reference, findings);
}

/// Checks a list of strings.
pub(super) fn texts(entry: &MapEntry, findings: &mut Vec<Diagnostic>) {
    if entry.node.list().is_none() {
        Diagnostic::error(format!("`{}`: expected a list, found {}", entry.key, entry.node.kind()))
            .at(place(entry))
            .report(findings);
    }
    for item in entry.node.items().iter().filter(|item| item.text().is_none()) {
        Diagnostic::error(format!(
            "`{}`: expected a list of strings, found {}",
            entry.key,
            item.kind()
        ))
        .at(item.origin)
        .report(findings);
    }
}

/// Returns the position of an entry's value; of a map or list, that of its key.
pub(super) fn place(entry: &MapEntry) -> SourceSpan {
    if entry.node.origin.range().is_empty() { entry.key_origin } else { entry.node.origin }
}

/// Whether a component is enabled. AICR disables a component by a value.
fn is_switched_on(reference: &ComponentReference<'_>, findings: &mut Vec<Diagnostic>) -> bool {
    let mut on = true;
    for gate in GATES {
        let Some(node) = reference.node.at_keys(&["overrides", gate]) else { continue };
        if let Some(flag) = node.boolean() {
            on &= flag;
        } else if !node.is_null() {
            Diagnostic::error(format!(
                "`{gate}` enables or disables `{}`: expected a boolean, found {}",
                reference.name,
                node.kind()
            ))
            .at(node.origin)
            .hint("write `true` or `false`, without quotes")
            .report(findings);
        }
    }
    on
}

/// Whether something of a component is deployed: with `--without-manifests`, only its chart. Reports
/// the manifest files that are omitted.
fn has_objects(
    reference: &ComponentReference<'_>,
    options: &AicrOptions,
    findings: &mut Vec<Diagnostic>,
) -> bool {
    let files: Vec<&YamlNode> = reference.manifest_files().map(|(_, file)| file).collect();
    let Some(first) = files.first().filter(|_| options.without_manifests) else { return true };
    let has_chart = reference.has_chart();
    let names = files
        .iter()
        .map(|file| format!("`{}`", file.text().unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(", ");
    let what = if has_chart {
        "the component is deployed without"
    } else {
        "the component has nothing else and is omitted:"
    };
    Diagnostic::warning(format!("`{}`: {what} the manifest files {names}", reference.name))
        .at(first.origin)
        .hint("apply those that you need yourself: pods that mount their objects do not start before")
        .maybe_hint(has_chart.then(|| {
            "or unset the values that name their objects, such as `--set components.gpu-operator.values.dcgmExporter.config=null`"
                .to_owned()
        }))
        .report(findings);
    has_chart
}
