//! Import of NVIDIA AICR's recipes: turns a `RecipeResult` and its values files into layers of a
//! recipe. Every value keeps its source position. A setting that a bundle cannot apply becomes an
//! error or a warning.

use super::read::TextReader;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::source::{SourceId, SourceTexts};
use diagnostics::tree::YamlNode;

mod adapt;
mod build;
mod components;
mod facts;
mod kustomizations;
mod manifest_files;
mod order;
mod replaced_keys;
mod values;

pub use adapt::{AdaptedValues, adapt_values};

/// The kind of AICR's recipes.
const KIND: &str = "RecipeResult";
/// The API groups of AICR: the one until 2026, and the one since then.
const GROUPS: [&str; 2] = ["aicr.nvidia.com/", "aicr.run/"];
/// The supported formats. The second has the keys of the first, and `preManifestFiles`.
const API_VERSIONS: [&str; 2] = ["aicr.nvidia.com/v1alpha1", "aicr.run/v1alpha2"];

/// Options for the import of a `RecipeResult`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AicrOptions {
    /// AICR's data directory, which contains `components/`. The files that a recipe names are
    /// relative to it.
    pub data: Option<String>,
    /// Set the keys that obsolete keys were meant to set.
    pub fix_dead_keys: bool,
    /// Omit manifest files, and components that have nothing else.
    pub without_manifests: bool,
}

/// Returns whether a text starts like an `apiVersion` of AICR.
pub(crate) fn is_api_version(text: &str) -> bool {
    GROUPS.iter().any(|group| text.starts_with(group))
}

/// Whether the document is one of AICR's, of any kind and version.
pub fn is_foreign(node: &YamlNode) -> bool {
    is_api_version(node.get("apiVersion").and_then(YamlNode::text).unwrap_or_default())
        || node.get("kind").and_then(YamlNode::text) == Some(KIND)
}

/// Converts a document of AICR into layers of a recipe called `name`: AICR's general values of each
/// component, the values files that the recipe names, and the recipe itself. Returns `None` if the
/// document cannot be converted.
pub fn layers(
    (source, node): (SourceId, &YamlNode),
    name: &str,
    options: &AicrOptions,
    reader: &mut dyn TextReader,
    sources: &mut SourceTexts,
    findings: &mut Vec<Diagnostic>,
) -> Option<Vec<YamlNode>> {
    sources.mark_foreign(source);
    if !is_known(node, findings) {
        return None;
    }
    let before = errors(findings);
    facts::unknown_keys(node, findings);
    let references = components::read(node, options, findings);
    let ordered = order::sort(node, &references, findings);
    facts::not_taken_over(node, &references, findings);
    let mut files = values::DataReader { options, reader, sources, findings, is_told: false };
    let read: Vec<values::ComponentFiles> =
        ordered.iter().map(|ordered| files.read_component(&ordered.reference)).collect();
    let layers = build::layers(node, name, &ordered, read, findings);
    (errors(findings) == before).then_some(layers)
}

/// Returns the finding for a missing number of nodes.
pub fn nodes_missing(tree: &YamlNode) -> Diagnostic {
    Diagnostic::error(
        "`cluster.gpuNodes` is missing: recipes of AICR do not contain the number of GPU nodes, and time budgets derive from it",
    )
    .at(tree.origin)
    .hint("add `--set cluster.gpuNodes=16`, with the largest number of GPU nodes that you expect")
    .hint("or write a recipe that sets it and `extends` this file")
}

fn errors(findings: &[Diagnostic]) -> usize {
    findings
        .iter()
        .filter(|finding| finding.severity == diagnostics::diagnostic::Severity::Error)
        .count()
}

fn is_known(node: &YamlNode, findings: &mut Vec<Diagnostic>) -> bool {
    let kind = node.entry("kind").map(|entry| &entry.node);
    if kind.and_then(YamlNode::text) != Some(KIND) {
        Diagnostic::error(format!(
            "of AICR's documents, only a `{KIND}` can be deployed, and this is a different one"
        ))
        .at(kind.map_or(node.origin, |kind| kind.origin))
        .hint("use the output of `aicr recipe`, which creates one from criteria or a snapshot")
        .report(findings);
        return false;
    }
    let api_version = node.entry("apiVersion").map(|entry| &entry.node);
    if !api_version.and_then(YamlNode::text).is_some_and(|text| API_VERSIONS.contains(&text)) {
        Diagnostic::error("this version of AICR's format is not supported")
            .at(api_version.map_or(node.origin, |version| version.origin))
            .hint(format!(
                "supported versions: {}",
                API_VERSIONS.map(|known| format!("`{known}`")).join(" and ")
            ))
            .report(findings);
        return false;
    }
    true
}
