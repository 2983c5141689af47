//! `recipe explain`: shows which layers set a value, and which one wins.

use std::fmt::Write as _;

use super::load::ValidRecipe;
use super::schema::TypeShape;
use diagnostics::nearest::nearest;
use diagnostics::path::KeyPath;
use diagnostics::tree::YamlNode;

mod defaults;

use defaults::{DefaultValue, default};

/// Why a path cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no recipe sets `{path}`, and it has no default")]
pub struct UnexplainedPath {
    /// The path.
    pub path: KeyPath,
    /// A hint: a similar path, or what to do.
    pub hint: Option<String>,
}

/// Describes each layer that sets the path or a value below it, first to last, and the winner.
///
/// # Errors
/// No layer sets the path, and it has no default.
pub fn explain(loaded: &ValidRecipe, path: &KeyPath) -> Result<String, UnexplainedPath> {
    let mut text = String::new();
    for leaf in leaves(loaded, path) {
        explain_leaf(loaded, &leaf, &mut text);
    }
    if !text.is_empty() {
        return Ok(text);
    }
    match default(loaded, path) {
        Some(DefaultValue { source, value, unused_in }) => {
            let unused = unused_in
                .map(|mode| format!("; mode `{}` does not use it", mode.name()))
                .unwrap_or_default();
            Ok(format!("{path}: {value}\n  {source}: {value}  ← wins, no recipe sets it{unused}\n"))
        }
        None => Err(UnexplainedPath { path: path.clone(), hint: hint(loaded, path) }),
    }
}

/// Returns the paths of all single values at or below `path`, in any layer.
fn leaves(loaded: &ValidRecipe, path: &KeyPath) -> Vec<KeyPath> {
    let mut found = Vec::new();
    for layer in &loaded.layers {
        if let Some(node) = layer.get_path(path) {
            collect(path, node, &mut found);
        }
    }
    // A parent that one layer replaces as a whole is shown at every value below it.
    let is_parent = |path: &KeyPath| {
        found.iter().any(|other| {
            other.keys().len() > path.keys().len() && other.keys().starts_with(path.keys())
        })
    };
    let parents: Vec<bool> = found.iter().map(is_parent).collect();
    found
        .into_iter()
        .zip(parents)
        .filter_map(|(path, is_parent)| (!is_parent).then_some(path))
        .collect()
}

fn collect(path: &KeyPath, node: &YamlNode, found: &mut Vec<KeyPath>) {
    if !node.entries().is_empty() {
        for entry in node.entries() {
            collect(&path.child(&entry.key), &entry.node, found);
        }
    } else if node.list().is_some() && path.equals(&["components"]) {
        for item in node.items() {
            if let Some(name) = item.get("name").and_then(YamlNode::text) {
                collect(&path.child(name), item, found);
            }
        }
    } else if !found.contains(path) {
        found.push(path.clone());
    }
}

fn explain_leaf(loaded: &ValidRecipe, path: &KeyPath, text: &mut String) {
    let settings: Vec<&YamlNode> =
        loaded.layers.iter().filter_map(|layer| setting(layer, path)).collect();
    let merged = loaded.tree.get_path(path);
    let shown = merged.map_or_else(|| "(deleted)".to_owned(), one_line);
    let winner = settings
        .iter()
        .rposition(|setting| merged.is_none_or(|merged| merged.origin == setting.origin));
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{path}: {shown}");
    for (index, setting) in settings.iter().enumerate() {
        let mark = match merged {
            _ if Some(index) != winner => "",
            // Not deleted by a `null`: an imported AICR key without effect.
            None if !setting.is_null() => "  ← omitted",
            Some(_) | None => "  ← wins",
        };
        let _ = writeln!(
            text,
            "  {}: {}{mark}",
            loaded.warnings.sources.place(setting.origin),
            one_line(setting)
        );
    }
}

/// Returns the value of a layer at the path, or at a parent that it replaces as a whole.
fn setting<'a>(layer: &'a YamlNode, path: &KeyPath) -> Option<&'a YamlNode> {
    let mut parents = (1..path.keys().len())
        .rev()
        .map(|length| path.keys()[..length].iter().collect::<KeyPath>());
    let replaced =
        || parents.find_map(|parent| layer.get_path(&parent)).filter(|replaced| replaced.is_null());
    layer.get_path(path).or_else(replaced)
}

fn hint(loaded: &ValidRecipe, path: &KeyPath) -> Option<String> {
    let mut shape = TypeShape::recipe();
    for (index, key) in path.keys().iter().enumerate() {
        let parent: KeyPath = path.keys()[..index].iter().collect();
        if shape.takes("array") {
            let recipe = &loaded.recipe;
            let (what, names): (_, Vec<&str>) = if parent.equals(&["rollout", "acceptance"]) {
                let tests = recipe.rollout.acceptance.iter();
                ("tests", tests.map(|test| test.name.as_str()).collect())
            } else {
                let components = recipe.components.iter();
                ("components", components.map(|component| component.name.as_str()).collect())
            };
            if !names.contains(&key.as_str()) {
                return Some(match nearest(key, names.iter().copied()) {
                    Some(near) => format!("did you mean `{}`?", parent.child(near)),
                    None => format!("{what} of this recipe: {}", names.join(", ")),
                });
            }
            shape = shape.items()?;
            continue;
        }
        match shape.property(key) {
            Some(property) => shape = property,
            None => {
                return nearest(key, shape.keys())
                    .map(|near| format!("did you mean `{}`?", parent.child(near)));
            }
        }
    }
    Some("set it in the recipe, or leave it to the chart".to_owned())
}

fn one_line(node: &YamlNode) -> String {
    node.to_json().to_string()
}
