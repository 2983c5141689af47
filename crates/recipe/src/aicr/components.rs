//! The components of a `RecipeResult`: which ones are deployed, and what of them cannot be.

use super::{AicrOptions, errors};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::nearest::did_you_mean;
use diagnostics::source::SourceSpan;
use diagnostics::tree::{MapEntry, YamlNode};

/// Everything that the format has for a component.
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
/// Keys of Kustomize.
const KUSTOMIZE: [&str; 3] = ["tag", "path", "patches"];
/// Lists of files with objects that AICR applies beside a chart.
const MANIFESTS: [&str; 2] = ["preManifestFiles", "manifestFiles"];
/// Overrides that are no values but switch a component off.
const GATES: [&str; 2] = ["enabled", "install"];
/// Keys that must be lists of texts.
const LISTS: [&str; 4] = ["patches", "dependencyRefs", "manifestFiles", "preManifestFiles"];
/// Keys that must be texts.
const TEXTS: [&str; 6] = ["name", "namespace", "chart", "type", "source", "valuesFile"];

/// One component.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComponentReference<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Where the name stands.
    pub(super) place: SourceSpan,
    /// All that is said about it.
    pub(super) node: &'a YamlNode,
    /// Whether it is deployed: it is not switched off, and has something that can be deployed.
    pub(super) is_deployed: bool,
}

impl<'a> ComponentReference<'a> {
    /// The value of a key, unless it is null or an empty text: AICR takes both for not set.
    pub(super) fn get(&self, key: &str) -> Option<&'a YamlNode> {
        self.node.get(key).filter(|node| !node.is_null() && node.text() != Some(""))
    }

    /// The text of a key, unless it is empty.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key).and_then(YamlNode::text)
    }

    /// The names of the components that it needs, with their places.
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
        Diagnostic::error("`componentRefs` is missing: the recipe deploys nothing")
            .at(result.origin)
            .report(findings);
        return Vec::new();
    };
    if list.node.list().is_none() {
        Diagnostic::error(format!(
            "`componentRefs` must be a list, and this is {}",
            list.node.kind()
        ))
        .at(list.key_origin)
        .report(findings);
        return Vec::new();
    }
    if list.node.items().is_empty() {
        Diagnostic::error("the recipe deploys nothing")
            .at(list.key_origin)
            .hint("`componentRefs` needs an entry")
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
        if let Some(earlier) = references.iter().find(|earlier| earlier.name == text) {
            Diagnostic::error(format!("the component `{text}` stands twice in the list"))
                .at(name.origin)
                .related(earlier.place, "first here")
                .hint("keep one of them")
                .report(findings);
            continue;
        }
        let mut reference =
            ComponentReference { name: text, place: name.origin, node: item, is_deployed: true };
        let before = errors(findings);
        // What is switched off may be anything.
        reference.is_deployed = is_switched_on(&reference, findings);
        if reference.is_deployed {
            check(&reference, findings);
            let is_sound = errors(findings) == before;
            reference.is_deployed = has_chart(&reference, options, findings) && is_sound;
        }
        references.push(reference);
    }
    references
}

/// Keys and types.
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
            Diagnostic::error(format!(
                "`{key}` must be a string, and this is {}",
                entry.node.kind()
            ))
            .at(place(entry))
            .report(findings);
        } else if LISTS.contains(&key) {
            texts(entry, findings);
        }
    }
    let kind = reference
        .get("type")
        .filter(|kind| kind.text().is_some_and(|text| !text.eq_ignore_ascii_case("helm")));
    let key = KUSTOMIZE
        .iter()
        .find_map(|key| Some((key, reference.get(key).filter(|node| !is_empty_list(node))?)));
    let finding = match (kind, key) {
        (Some(kind), _) => kustomize(
            reference.name,
            &format!("type `{}`", kind.text().unwrap_or_default()),
            kind.origin,
        ),
        (None, Some((key, node))) => kustomize(reference.name, &format!("`{key}`"), node.origin),
        (None, None) => return,
    };
    findings.push(finding);
}

fn is_empty_list(node: &YamlNode) -> bool {
    node.list().is_some_and(<[_]>::is_empty)
}

/// A list of texts.
pub(super) fn texts(entry: &MapEntry, findings: &mut Vec<Diagnostic>) {
    if entry.node.list().is_none() {
        Diagnostic::error(format!(
            "`{}` must be a list, and this is {}",
            entry.key,
            entry.node.kind()
        ))
        .at(place(entry))
        .report(findings);
    }
    for item in entry.node.items().iter().filter(|item| item.text().is_none()) {
        Diagnostic::error(format!(
            "`{}` is a list of strings, and this is {}",
            entry.key,
            item.kind()
        ))
        .at(item.origin)
        .report(findings);
    }
}

fn kustomize(name: &str, what: &str, origin: SourceSpan) -> Diagnostic {
    Diagnostic::error(format!(
        "`{name}` cannot be deployed: {what} is not supported, a bundle deploys Helm charts only"
    ))
    .at(origin)
    .hint("take the component out of the recipe and apply it yourself")
}

fn place(entry: &MapEntry) -> SourceSpan {
    if entry.node.origin.range().is_empty() { entry.key_origin } else { entry.node.origin }
}

/// AICR switches a component off by a value.
fn is_switched_on(reference: &ComponentReference<'_>, findings: &mut Vec<Diagnostic>) -> bool {
    let mut on = true;
    for gate in GATES {
        let Some(node) = reference.node.at_keys(&["overrides", gate]) else { continue };
        if let Some(flag) = node.boolean() {
            on &= flag;
        } else if !node.is_null() {
            Diagnostic::error(format!(
                "`{gate}` switches `{}` on or off, and this is {}",
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

/// Manifest files are templates of AICR's own making: no deployer of ours runs them.
fn has_chart(
    reference: &ComponentReference<'_>,
    options: &AicrOptions,
    findings: &mut Vec<Diagnostic>,
) -> bool {
    let files: Vec<&YamlNode> =
        MANIFESTS.iter().filter_map(|key| reference.get(key)).flat_map(YamlNode::items).collect();
    let has_chart =
        reference.text("chart").is_some() || catalog::component(reference.name).is_some();
    let Some(first) = files.first() else { return true };
    let names = files
        .iter()
        .map(|file| format!("`{}`", file.text().unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(", ");
    let what = if has_chart {
        "the component is deployed without"
    } else {
        "the component has nothing else and is left out:"
    };
    if options.without_manifests {
        Diagnostic::warning(format!("`{}`: {what} the manifest files {names}", reference.name))
            .at(first.origin)
            .hint("apply what you need of them yourself: pods that mount what they bring do not start before")
            .maybe_hint(has_chart.then(|| {
                "or unset the values that name their objects, such as `--set components.gpu-operator.values.dcgmExporter.config=null`"
                    .to_owned()
            }))
            .report(findings);
    } else {
        Diagnostic::error(format!("`{}` has manifest files, which are not supported: {names}", reference.name))
            .at(first.origin)
            .hint("`--without-manifests` deploys the recipe without them; apply what you need of them yourself")
            .report(findings);
    }
    has_chart
}
