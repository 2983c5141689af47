//! Recipes of NVIDIA AICR: a `RecipeResult` and its values files become layers of a recipe, every value with the place where it was
//! written. What AICR says and nothing here does is an error or a warning, never silence.

use super::read::TextReader;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::source::{SourceId, SourceTexts};
use diagnostics::tree::YamlNode;

mod adapt;
mod build;
mod components;
mod facts;
mod order;
mod replaced_keys;
mod values;

pub use adapt::{AdaptedValues, adapt_values};

/// The kind of AICR's recipes.
const KIND: &str = "RecipeResult";
/// The API groups of AICR: the one until 2026, and the one from then on.
const GROUPS: [&str; 2] = ["aicr.nvidia.com/", "aicr.run/"];
/// The formats that are known. The later one has the same keys and `preManifestFiles`.
const API_VERSIONS: [&str; 2] = ["aicr.nvidia.com/v1alpha1", "aicr.run/v1alpha2"];

/// How a `RecipeResult` is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AicrOptions {
    /// AICR's data directory, which has `components/`; values files are relative to it.
    pub data: Option<String>,
    /// Set what keys without effect were meant to set.
    pub fix_dead_keys: bool,
    /// Leave out manifest files, and components that consist of nothing else.
    pub without_manifests: bool,
}

/// Whether the document is one of AICR's, of whatever kind and version.
pub fn is_foreign(node: &YamlNode) -> bool {
    let api_version = node.get("apiVersion").and_then(YamlNode::text).unwrap_or_default();
    GROUPS.iter().any(|group| api_version.starts_with(group))
        || node.get("kind").and_then(YamlNode::text) == Some(KIND)
}

/// Turns a document of AICR into layers of a recipe called `name`: values that AICR has for a component anyway, those of the values
/// file that the recipe names, and the recipe itself. `None` if it is nothing that can be turned.
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
    let mut files = values::ValuesFileReader { options, reader, sources, findings, is_told: false };
    let read: Vec<values::ComponentValues> =
        ordered.iter().map(|reference| files.read_component(reference)).collect();
    let layers = build::layers(node, name, &ordered, read, findings);
    (errors(findings) == before).then_some(layers)
}

/// What to say when nobody said how many nodes there are.
pub fn nodes_missing(tree: &YamlNode) -> Diagnostic {
    Diagnostic::error(
        "`cluster.gpuNodes` is missing: recipes of AICR do not say how many nodes have GPUs, and time budgets are made from it",
    )
    .at(tree.origin)
    .hint("add `--set cluster.gpuNodes=16`, with the largest number that you expect")
    .hint("or write a recipe that says it and `extends` this file")
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
            "of AICR's documents only a `{KIND}` says what to deploy, and this is none"
        ))
        .at(kind.map_or(node.origin, |kind| kind.origin))
        .hint("`aicr recipe` makes one from criteria or a snapshot: give its output")
        .report(findings);
        return false;
    }
    let api_version = node.entry("apiVersion").map(|entry| &entry.node);
    if !api_version.and_then(YamlNode::text).is_some_and(|text| API_VERSIONS.contains(&text)) {
        Diagnostic::error("this version of AICR's format is not known")
            .at(api_version.map_or(node.origin, |version| version.origin))
            .hint(format!(
                "known are {}",
                API_VERSIONS.map(|known| format!("`{known}`")).join(" and ")
            ))
            .report(findings);
        return false;
    }
    true
}
