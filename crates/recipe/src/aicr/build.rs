//! Builds layers of a recipe from AICR's documents. Keys and values keep their source positions.

use super::kustomizations;
use super::manifest_files::ManifestFile;
use super::order::OrderedComponent;
use super::values::ComponentFiles;
use crate::model::{API_VERSION, KIND, ManifestTime};
use catalog::model::CatalogComponent;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::source::SourceSpan;
use diagnostics::tree::{MapEntry, YamlNode, YamlValue};

/// AICR's constraint that becomes `cluster.kubernetes`.
pub(super) const KUBERNETES: &str = "K8s.server.version";

/// Returns the layers, ancestors first: general values files, named values files, the recipe.
pub(super) fn layers(
    result: &YamlNode,
    name: &str,
    ordered: &[OrderedComponent<'_>],
    mut read: Vec<ComponentFiles>,
    findings: &mut Vec<Diagnostic>,
) -> Vec<YamlNode> {
    let (base, named): (Vec<_>, Vec<_>) =
        read.iter_mut().map(|read| (read.base.take(), read.named.take())).unzip();
    let mut layers: Vec<YamlNode> = [base, named]
        .into_iter()
        .filter_map(|values| of_values(result.origin, ordered, values))
        .collect();
    layers.push(recipe(result, name, ordered, read, findings));
    layers
}

/// Returns a layer with only values. It contains every component, because the first layer
/// determines the order of the recipe.
fn of_values(
    origin: SourceSpan,
    ordered: &[OrderedComponent<'_>],
    values: Vec<Option<YamlNode>>,
) -> Option<YamlNode> {
    if values.iter().all(Option::is_none) {
        return None;
    }
    let items = ordered.iter().zip(values).map(|(ordered, values)| {
        let place = ordered.reference.place;
        let values = values.map(|values| entry("values", values.origin, values));
        map(
            place,
            [entry("name", place, text(ordered.reference.name, place))]
                .into_iter()
                .chain(values)
                .collect(),
        )
    });
    let components = YamlNode { value: YamlValue::List(items.collect()), origin };
    Some(map(origin, vec![entry("components", origin, components)]))
}

/// Returns the layer of the recipe itself.
fn recipe(
    result: &YamlNode,
    name: &str,
    ordered: &[OrderedComponent<'_>],
    read: Vec<ComponentFiles>,
    findings: &mut Vec<Diagnostic>,
) -> YamlNode {
    let at = |key: &str| result.get(key).map_or(result.origin, |node| node.origin);
    let key = |key: &str| result.entry(key).map_or(result.origin, |entry| entry.key_origin);
    let metadata = map(
        at("metadata"),
        vec![
            entry("name", key("metadata"), text(name, key("metadata"))),
            entry("description", key("metadata"), text(&description(result), key("metadata"))),
        ],
    );
    let mut entries = vec![
        entry("apiVersion", key("apiVersion"), text(API_VERSION, at("apiVersion"))),
        entry("kind", key("kind"), text(KIND, at("kind"))),
        entry("metadata", key("metadata"), metadata),
    ];
    let constraints = result.get("constraints").map_or(&[][..], YamlNode::items);
    if let Some(version) = constraints
        .iter()
        .find(|item| item.get("name").and_then(YamlNode::text) == Some(KUBERNETES))
        .and_then(|item| item.get("value"))
    {
        entries.push(entry(
            "cluster",
            version.origin,
            map(version.origin, vec![entry("kubernetes", version.origin, version.clone())]),
        ));
    }
    let items = ordered.iter().zip(read);
    let items = items.map(|(ordered, read)| component(ordered, read, findings)).collect();
    let components = YamlNode { value: YamlValue::List(items), origin: at("componentRefs") };
    entries.push(entry("components", key("componentRefs"), components));
    map(result.origin, entries)
}

/// Returns a description such as `RecipeResult of NVIDIA AICR: eks, h100, training`.
fn description(result: &YamlNode) -> String {
    let criteria = result.get("criteria").map_or(&[][..], YamlNode::entries);
    let words: Vec<&str> = criteria
        .iter()
        .filter_map(|entry| entry.node.text())
        .filter(|word| !word.is_empty() && *word != "any")
        .collect();
    if words.is_empty() {
        "RecipeResult of NVIDIA AICR".to_owned()
    } else {
        format!("RecipeResult of NVIDIA AICR: {}", words.join(", "))
    }
}

fn component(
    ordered: &OrderedComponent<'_>,
    files: ComponentFiles,
    findings: &mut Vec<Diagnostic>,
) -> YamlNode {
    let reference = &ordered.reference;
    let known = catalog::component(reference.name);
    let mut entries = vec![entry("name", reference.place, text(reference.name, reference.place))];
    if let Some(version) =
        reference.node.entry("version").filter(|entry| entry.node.text() != Some(""))
    {
        let spelled =
            version.node.text().zip(known).map(|(written, known)| spelling(known, written));
        let node = spelled
            .map_or_else(|| version.node.clone(), |spelled| text(&spelled, version.node.origin));
        entries.push(entry("version", version.key_origin, node));
    }
    if let Some(namespace) = reference.get("namespace").cloned().or(files.namespace) {
        entries.push(entry("namespace", namespace.origin, namespace));
    }
    match known {
        // The rules say that the catalog has a chart.
        Some(_) if reference.is_kustomization() => {
            entries.push(kustomizations::source(reference));
        }
        Some(known) => {
            let version = reference
                .text("version")
                .map_or_else(|| known.default_version.clone(), |written| spelling(known, written));
            same_chart(ordered, known, &version, findings);
        }
        None if reference.is_kustomization() => entries.push(kustomizations::source(reference)),
        None if !reference.has_chart() && !files.manifests.is_empty() => {}
        None => entries.extend(described(ordered, findings)),
    }
    if let Some(first) = files.manifests.first() {
        let origin = first.origin;
        let manifests = files.manifests.into_iter().map(|file| manifest(&file)).collect();
        entries.push(entry("manifests", origin, map(origin, manifests)));
    }
    let after: Vec<YamlNode> = ordered
        .after
        .iter()
        .filter(|(name, _)| {
            !known.is_some_and(|known| known.after.iter().any(|earlier| earlier == name))
        })
        .map(|(name, origin)| text(name, *origin))
        .collect();
    if let Some(first) = after.first() {
        let origin = first.origin;
        entries.push(entry("after", origin, YamlNode { value: YamlValue::List(after), origin }));
    }
    let overrides = reference.node.entry("overrides").filter(|entry| !entry.node.is_null());
    // Those of a kustomization only enable or disable it.
    if let Some(overrides) = overrides.filter(|_| !reference.is_kustomization()) {
        entries.push(entry("values", overrides.key_origin, overrides.node.clone()));
    }
    map(reference.place, entries)
}

/// Returns a manifest of the component.
fn manifest(file: &ManifestFile) -> MapEntry {
    let origin = file.origin;
    let time = match file.time {
        ManifestTime::Before => "before",
        ManifestTime::After => "after",
    };
    let entries = vec![
        entry("when", origin, text(time, origin)),
        entry("template", origin, text(&file.text, origin)),
    ];
    entry(&file.name, origin, map(origin, entries))
}

/// Returns the version as written in the chart's repository. AICR writes it with or without `v`.
fn spelling(known: &CatalogComponent, written: &str) -> String {
    let bare = written.strip_prefix('v').unwrap_or(written);
    let same = |version: &&str| version.strip_prefix('v').unwrap_or(version) == bare;
    match known.versions.iter().map(|version| version.version.as_str()).find(same) {
        Some(version) => version.to_owned(),
        None if known.default_version.starts_with('v') => format!("v{bare}"),
        None => bare.to_owned(),
    }
}

/// Checks chart and repository against the catalog, which determines them.
fn same_chart(
    ordered: &OrderedComponent<'_>,
    known: &CatalogComponent,
    version: &str,
    findings: &mut Vec<Diagnostic>,
) {
    let reference = &ordered.reference;
    let (expected, repository) = (known.chart_in(version), known.repository_in(version));
    if let Some(chart) =
        reference.get("chart").filter(|chart| chart.text().is_some_and(|text| text != expected))
    {
        Diagnostic::error(format!(
            "`{} {version}` is the chart `{expected}` in the catalog, and a different one here",
            known.name
        ))
        .at(chart.origin)
        .hint(format!("write `chart: {expected}`, or give the component another name"))
        .report(findings);
    }
    let url = repository.url.trim_end_matches('/');
    if let Some(source) = reference
        .get("source")
        .filter(|source| source.text().is_some_and(|text| text.trim_end_matches('/') != url))
    {
        let written = source.text().unwrap_or_default();
        Diagnostic::warning(format!(
            "the bundle takes the chart of `{}` from {url}, not from this source",
            known.name
        ))
        .at(source.origin)
        .hint(format!(
            "`bundle render --chart-repository {}={written}` takes it from this source",
            repository.name
        ))
        .report(findings);
    }
}

/// Returns the `chart` of a component that is not in the catalog, which must set everything itself.
fn described(ordered: &OrderedComponent<'_>, findings: &mut Vec<Diagnostic>) -> Option<MapEntry> {
    let reference = &ordered.reference;
    let missing: Vec<String> = ["chart", "source", "version", "namespace"]
        .into_iter()
        .filter(|key| reference.get(key).is_none())
        .map(|key| format!("`{key}`"))
        .collect();
    if !missing.is_empty() {
        Diagnostic::error(format!(
            "the catalog has no component `{}`, and the recipe does not describe its chart: it has no {}",
            reference.name,
            missing.join(", ")
        ))
        .at(reference.place)
        .hint(format!(
            "add the missing keys; the catalog has: {}",
            catalog::component_names().collect::<Vec<_>>().join(", ")
        ))
        .report(findings);
        return None;
    }
    let (name, source) = (reference.get("chart")?, reference.get("source")?);
    let chart = map(
        name.origin,
        vec![
            entry("repository", source.origin, source.clone()),
            entry("name", name.origin, name.clone()),
        ],
    );
    Some(entry("chart", name.origin, chart))
}

/// Returns an entry of a map.
pub(super) fn entry(key: &str, key_origin: SourceSpan, node: YamlNode) -> MapEntry {
    MapEntry { key: key.to_owned(), key_origin, node }
}

fn text(text: &str, origin: SourceSpan) -> YamlNode {
    YamlNode { value: YamlValue::String(text.to_owned()), origin }
}

/// Returns a map. Its position has no end, like that of a parsed map.
pub(super) fn map(origin: SourceSpan, entries: Vec<MapEntry>) -> YamlNode {
    YamlNode { value: YamlValue::Map(entries), origin: SourceSpan { end: origin.start, ..origin } }
}
