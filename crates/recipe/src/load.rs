//! Loads a recipe from an argument of the command line: reads, checks, merges and checks again.

use std::collections::BTreeSet;

use super::aicr;
pub use super::extends::file_argument;
use super::extends::{NamedLayer, RecipeReference, read_all};
use super::merge::{MergeConflict, RecipeLayer, merge};
use super::model::Recipe;
use super::overrides::{self, ValueOverride};
use super::read::TextReader;
use super::{rules, shape};
use diagnostics::diagnostic::{Diagnostic, Diagnostics, Severity};
use diagnostics::source::SourceTexts;
use diagnostics::tree::YamlNode;

/// A valid recipe, with the layers that it was merged from.
#[derive(Clone, Debug)]
pub struct ValidRecipe {
    /// The merged recipe, with defaults, and without disabled components.
    pub recipe: Recipe,
    /// The merged tree with origins, before defaults.
    pub tree: YamlNode,
    /// The layers that it was merged from: ancestors, the recipe itself, then overrides.
    pub layers: Vec<YamlNode>,
    /// The warnings; empty for a clean recipe.
    pub warnings: Diagnostics,
}

/// Loads a recipe: a file, a name of the library or `-`, with overrides on top.
///
/// # Errors
/// All findings, warnings included, in reading order.
pub fn load(
    argument: &str,
    overrides: &[ValueOverride],
    reader: &mut dyn TextReader,
) -> Result<ValidRecipe, Diagnostics> {
    load_with(argument, overrides, &aicr::AicrOptions::default(), reader)
}

/// Loads a recipe as [`load`] does, with options for recipes of AICR.
///
/// # Errors
/// As for [`load`].
pub fn load_with(
    argument: &str,
    overrides: &[ValueOverride],
    options: &aicr::AicrOptions,
    reader: &mut dyn TextReader,
) -> Result<ValidRecipe, Diagnostics> {
    let mut sources = SourceTexts::default();
    let mut findings = Vec::new();
    let named = read_all(
        &RecipeReference::from_argument(argument),
        options,
        reader,
        &mut sources,
        &mut findings,
    );
    if has_errors(&findings) {
        return Err(failed(sources, findings));
    }
    let mut layers: Vec<RecipeLayer> =
        named.into_iter().map(|NamedLayer { layer, .. }| layer).collect();
    let mut tree = match merge(&layers) {
        Ok(tree) => tree,
        Err(conflicts) => {
            return Err(failed(sources, conflicts.iter().map(explain_conflict).collect()));
        }
    };
    if let Some(node) = overrides::layer(overrides, &tree, &mut sources, &mut findings) {
        let ancestors: BTreeSet<usize> = (0..layers.len()).collect();
        layers.push(RecipeLayer { node, ancestors, own: true });
        match merge(&layers) {
            Ok(merged) => tree = merged,
            Err(conflicts) => findings.extend(conflicts.iter().map(explain_conflict)),
        }
    }
    if sources.has_foreign() {
        let aicr::AdaptedValues { tree: adapted, moved } =
            aicr::adapt_values(tree, &sources, options, &mut findings);
        tree = adapted;
        layers.extend(moved.map(|node| RecipeLayer {
            node,
            ancestors: BTreeSet::new(),
            own: false,
        }));
    }
    validated(tree, layers, sources, findings)
}

/// Converts a merged tree into a recipe, and checks it.
fn validated(
    tree: YamlNode,
    layers: Vec<RecipeLayer>,
    sources: SourceTexts,
    mut findings: Vec<Diagnostic>,
) -> Result<ValidRecipe, Diagnostics> {
    if sources.has_foreign() && tree.at_keys(&["cluster", "gpuNodes"]).is_none() {
        findings.push(aicr::nodes_missing(&tree));
    } else {
        findings.extend(missing_keys(&tree));
    }
    if has_errors(&findings) {
        return Err(failed(sources, findings));
    }
    let recipe = match typed(&tree) {
        Ok(recipe) => recipe,
        Err(finding) => return Err(failed(sources, vec![finding])),
    };
    rules::check(&tree, &recipe, &sources, &mut findings);
    findings.sort_by_key(|finding| finding.place.map(|place| (place.source, place.start)));
    let diagnostics = Diagnostics { sources, list: findings };
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    let layers = layers.into_iter().map(|layer| layer.node).collect();
    Ok(ValidRecipe { recipe, tree, layers, warnings: diagnostics })
}

/// Returns the findings about missing keys. A key that the mode does not use is reported instead of
/// the keys that are missing in it: the user would add them, and then have to remove all of them.
fn missing_keys(tree: &YamlNode) -> Vec<Diagnostic> {
    let mut missing = Vec::new();
    shape::check_complete(tree, &mut missing);
    if missing.is_empty() {
        // The rules report keys that the mode does not use, in reading order with all others.
        return missing;
    }
    let mut unused = Vec::new();
    rules::modes::unused_keys(tree, &mut unused);
    missing.retain(|finding| unused.iter().all(|key| key.place != finding.place));
    missing.extend(unused);
    missing
}

fn has_errors(findings: &[Diagnostic]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Error)
}

fn failed(sources: SourceTexts, list: Vec<Diagnostic>) -> Diagnostics {
    Diagnostics { sources, list }
}

fn explain_conflict(conflict: &MergeConflict) -> Diagnostic {
    Diagnostic::error(format!(
        "two recipes set `{}` differently, and neither extends the other",
        conflict.path
    ))
    .at(conflict.second)
    .label("set here")
    .related(conflict.first, "and here")
    .hint(format!("set `{}` in the recipe that extends both", conflict.path))
}

/// Converts the tree into types. Removes disabled components, and adds versions and namespaces from
/// the catalog.
fn typed(tree: &YamlNode) -> Result<Recipe, Diagnostic> {
    let mut recipe: Recipe = serde_json::from_value(tree.to_json()).map_err(|error| {
        Diagnostic::error(format!("the recipe does not fit its format: {error}")).at(tree.origin)
    })?;
    recipe.components.retain(|component| component.enabled);
    for component in &mut recipe.components {
        if let Some(entry) = catalog::component(&component.name) {
            component.version.get_or_insert_with(|| entry.default_version.clone());
            component.namespace.get_or_insert_with(|| entry.namespace.clone());
        }
    }
    Ok(recipe)
}
