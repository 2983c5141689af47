//! Merges layers into one tree. Maps merge recursively, scalars and lists replace, `null` deletes,
//! and components merge by name.
//!
//! A layer is one recipe of an `extends` graph. A descendant overrides its ancestors. Two layers of
//! which neither extends the other must agree, unless a descendant of both sets the value.

use std::collections::BTreeSet;

use diagnostics::path::KeyPath;
use diagnostics::source::SourceSpan;
use diagnostics::tree::{MapEntry, YamlNode, YamlValue};

/// Keys that identify a recipe. They are never inherited.
const OWN_KEYS: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// Keys without a meaning after merging: the extended recipes, and the schema for editors.
const DROPPED_KEYS: [&str; 2] = ["extends", "$schema"];

/// One recipe of the graph. Layers are ordered so that ancestors come before their descendants.
#[derive(Clone, Debug)]
pub(crate) struct RecipeLayer {
    /// The recipe as a tree.
    pub(crate) node: YamlNode,
    /// The layers that it extends, directly or indirectly.
    pub(crate) ancestors: BTreeSet<usize>,
    /// Whether the merged recipe gets name and kind from it: the requested recipe, and overrides.
    pub(crate) own: bool,
}

/// Two unrelated layers that set the same path differently.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MergeConflict {
    /// The path.
    pub(crate) path: KeyPath,
    /// Where the first layer sets it.
    pub(crate) first: SourceSpan,
    /// Where the second layer sets it.
    pub(crate) second: SourceSpan,
}

/// Merges the layers into one tree.
///
/// # Errors
/// Every path that unrelated layers set differently.
pub(crate) fn merge(layers: &[RecipeLayer]) -> Result<YamlNode, Vec<MergeConflict>> {
    let mut merger = Merger { layers, conflicts: Vec::new() };
    let contributions: Vec<_> = layers
        .iter()
        .enumerate()
        .map(|(layer, each)| LayerContribution::root(layer, &each.node))
        .collect();
    let tree = merger.merge_at(&mut KeyPath::default(), &contributions);
    match tree {
        Some((_, node)) if merger.conflicts.is_empty() => Ok(node),
        Some(_) | None => Err(merger.conflicts),
    }
}

/// The value of one layer at a path.
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
    /// Returns the value at `path` and the position of its key; `None` if it is deleted.
    fn merge_at(
        &mut self,
        path: &mut KeyPath,
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

    fn merge_maps(&mut self, path: &mut KeyPath, live: &[LayerContribution<'_>]) -> Vec<MapEntry> {
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
            let merged = path.within(key, |inner| self.merge_at(inner, &contributions));
            entries.extend(merged.map(|(key_origin, node)| MapEntry {
                key: key.to_owned(),
                key_origin,
                node,
            }));
        }
        entries
    }

    /// Merges the lists of components: the parents' order first, then new components.
    fn merge_components(
        &mut self,
        path: &mut KeyPath,
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
            let component = path.within(name, |inner| self.merge_at(inner, &contributions));
            merged.extend(component.map(|(_, node)| node));
        }
        merged
    }
}

/// Whether a node merges instead of replacing: maps, and the list of components.
fn mergeable(path: &KeyPath, node: &YamlNode) -> bool {
    node.is_map() || node.is_collection() && path.equals(&["components"])
}

fn component_name(item: &YamlNode) -> Option<&str> {
    item.get("name").and_then(YamlNode::text)
}

/// Whether a path is below `components.NAME.values`. A `null` there that deletes nothing in the
/// recipe stays, because Helm deletes the chart's own default for it.
fn is_chart_value(path: &KeyPath) -> bool {
    matches!(path.keys(), [components, _, values, _, ..] if components == "components" && values == "values")
}

/// The position for messages: a scalar's text, or the key of a map or a list.
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
