//! Layers → one tree. Maps recurse, scalars and lists replace, `null` deletes, components go by name.
//!
//! A layer is one recipe of an `extends` graph. What a descendant sets wins over what its ancestors set; two layers of which
//! neither extends the other must agree, unless a descendant of both decides.

use std::collections::BTreeSet;

use diagnostics::path::KeyPath;
use diagnostics::source::SourceSpan;
use diagnostics::tree::{MapEntry, YamlNode, YamlValue};

/// Keys that say what a recipe *is*: never inherited.
const OWN_KEYS: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// Keys that mean nothing after merging: what was extended, and a pointer for editors.
const DROPPED_KEYS: [&str; 2] = ["extends", "$schema"];

/// One recipe of the graph, in an order in which ancestors stand before their descendants.
#[derive(Clone, Debug)]
pub(crate) struct RecipeLayer {
    /// Its text as a tree.
    pub(crate) node: YamlNode,
    /// The layers that it extends, directly or not.
    pub(crate) ancestors: BTreeSet<usize>,
    /// Whether name and kind are taken from it: the recipe that was asked for, and overrides.
    pub(crate) own: bool,
}

/// Two unrelated layers that set the same path differently.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MergeConflict {
    /// The path.
    pub(crate) path: KeyPath,
    /// Where the first one says so …
    pub(crate) first: SourceSpan,
    /// … and where the second one does.
    pub(crate) second: SourceSpan,
}

/// The merged tree.
///
/// # Errors
/// Every path about which unrelated layers disagree.
pub(crate) fn merge(layers: &[RecipeLayer]) -> Result<YamlNode, Vec<MergeConflict>> {
    let mut merger = Merger { layers, conflicts: Vec::new() };
    let contributions: Vec<_> = layers
        .iter()
        .enumerate()
        .map(|(layer, each)| LayerContribution::root(layer, &each.node))
        .collect();
    let tree = merger.merge_at(&KeyPath::default(), &contributions);
    match tree {
        Some((_, node)) if merger.conflicts.is_empty() => Ok(node),
        Some(_) | None => Err(merger.conflicts),
    }
}

/// What one layer says at a path.
#[derive(Clone, Copy)]
struct LayerContribution<'a> {
    layer: usize,
    key_origin: SourceSpan,
    node: &'a YamlNode,
}

impl<'a> LayerContribution<'a> {
    fn root(layer: usize, node: &'a YamlNode) -> Self {
        Self { layer, key_origin: node.origin, node }
    }
}

struct Merger<'a> {
    layers: &'a [RecipeLayer],
    conflicts: Vec<MergeConflict>,
}

impl Merger<'_> {
    /// The value at `path` and where its key stands; `None` if it is deleted.
    fn merge_at(
        &mut self,
        path: &KeyPath,
        contributions: &[LayerContribution<'_>],
    ) -> Option<(SourceSpan, YamlNode)> {
        let mut live: Vec<LayerContribution<'_>> = Vec::new();
        for contribution in contributions {
            let merges = mergeable(path, contribution.node);
            let ancestors = &self.layers[contribution.layer].ancestors;
            live.retain(|other| {
                !ancestors.contains(&other.layer) || (merges && mergeable(path, other.node))
            });
            live.push(*contribution);
        }
        let winner = *live.last()?;
        if live.iter().all(|contribution| mergeable(path, contribution.node)) {
            let value = if winner.node.is_map() {
                YamlValue::Map(self.merge_maps(path, &live))
            } else {
                YamlValue::List(self.merge_components(path, &live))
            };
            return Some((winner.key_origin, YamlNode { value, origin: winner.node.origin }));
        }
        if let Some(other) = live.iter().find(|other| !other.node.same(winner.node)) {
            self.conflicts.push(MergeConflict {
                path: path.clone(),
                first: place(other),
                second: place(&winner),
            });
        }
        let stays = !winner.node.is_null()
            || (is_chart_value(path) && contributions.iter().all(|each| each.node.is_null()));
        stays.then(|| (winner.key_origin, winner.node.clone()))
    }

    fn merge_maps(&mut self, path: &KeyPath, live: &[LayerContribution<'_>]) -> Vec<MapEntry> {
        let mut entries: Vec<MapEntry> = Vec::new();
        let mut seen = BTreeSet::new();
        for key in live
            .iter()
            .flat_map(|contribution| contribution.node.entries())
            .map(|entry| entry.key.as_str())
        {
            let top = path.keys().is_empty();
            if !seen.insert(key) || (top && DROPPED_KEYS.contains(&key)) {
                continue;
            }
            let own = top && OWN_KEYS.contains(&key);
            let contributions: Vec<_> = live
                .iter()
                .filter(|contribution| !own || self.layers[contribution.layer].own)
                .filter_map(|contribution| {
                    let entry = contribution.node.entry(key)?;
                    Some(LayerContribution {
                        layer: contribution.layer,
                        key_origin: entry.key_origin,
                        node: &entry.node,
                    })
                })
                .collect();
            if let Some((key_origin, node)) = self.merge_at(&path.child(key), &contributions) {
                entries.push(MapEntry { key: key.to_owned(), key_origin, node });
            }
        }
        entries
    }

    /// The parents' order, then what is new.
    fn merge_components(
        &mut self,
        path: &KeyPath,
        live: &[LayerContribution<'_>],
    ) -> Vec<YamlNode> {
        let mut merged = Vec::new();
        let mut seen = BTreeSet::new();
        for name in live
            .iter()
            .flat_map(|contribution| contribution.node.items())
            .filter_map(component_name)
        {
            if !seen.insert(name) {
                continue;
            }
            let contributions: Vec<_> = live
                .iter()
                .filter_map(|contribution| {
                    let node = contribution
                        .node
                        .items()
                        .iter()
                        .find(|item| component_name(item) == Some(name))?;
                    Some(LayerContribution {
                        layer: contribution.layer,
                        key_origin: node.origin,
                        node,
                    })
                })
                .collect();
            merged.extend(self.merge_at(&path.child(name), &contributions).map(|(_, node)| node));
        }
        merged
    }
}

/// Maps, and the list of components.
fn mergeable(path: &KeyPath, node: &YamlNode) -> bool {
    node.is_map() || node.is_collection() && path.equals(&["components"])
}

fn component_name(item: &YamlNode) -> Option<&str> {
    item.get("name").and_then(YamlNode::text)
}

/// Below `components.NAME.values`. There, a `null` that deletes nothing of the recipe stays: Helm takes it as deletion of the
/// chart's own default.
fn is_chart_value(path: &KeyPath) -> bool {
    matches!(path.keys(), [components, _, values, _, ..] if components == "components" && values == "values")
}

/// A scalar is shown with its text, a map or a list by its key.
fn place(contribution: &LayerContribution<'_>) -> SourceSpan {
    let node = contribution.node;
    if node.is_collection() || node.origin.range().is_empty() {
        contribution.key_origin
    } else {
        node.origin
    }
}

#[cfg(test)]
mod tests;
