//! `--set PATH=VALUE`: the last layer.

use std::str::FromStr;

use super::parse::parse;
use super::schema::Shape;
use super::shape::check_value;
use super::unbuilt::unbuilt_key;
use crate::catalog;
use crate::text::diagnostic::Diagnostic;
use crate::text::nearest::nearest;
use crate::text::path::{Path, PathError};
use crate::text::source::{Origin, Source, SourceId, Sources};
use crate::text::tree::{Entry, Node, Value};

/// One override as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    path: Path,
    value: String,
    typed: String,
}

/// Why a text is no [`Override`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// No equals sign.
    #[error("expected PATH=VALUE, found `{0}`")]
    NoValue(String),
    /// What stands before it is no path.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl FromStr for Override {
    type Err = OverrideError;

    fn from_str(text: &str) -> Result<Self, OverrideError> {
        let (path, value) = text.split_once('=').ok_or_else(|| OverrideError::NoValue(text.to_owned()))?;
        Ok(Self { path: path.parse()?, value: value.to_owned(), typed: text.to_owned() })
    }
}

/// The layer that the overrides make on top of `merged`; `None` if there is none, or none that can be applied.
pub fn layer(overrides: &[Override], merged: &Node, sources: &mut Sources, findings: &mut Vec<Diagnostic>) -> Option<Node> {
    let mut top: Option<Node> = None;
    for each in overrides {
        let source = sources.add(Source { name: "--set".to_owned(), text: each.typed.clone() });
        let path_end = each.typed.len() - each.value.len() - 1;
        // A finding about the path shows the path alone: the value may be a secret.
        let path_alone = sources.add(Source { name: "--set".to_owned(), text: each.typed[..path_end].to_owned() });
        let typed = Typed { each, merged, key_origin: Origin { source: path_alone, start: 0, end: path_end } };
        let shape = match typed.shape() {
            Ok(shape) => shape,
            Err(finding) => {
                findings.push(finding);
                continue;
            }
        };
        let node = match typed.value(shape, source, path_end + 1, sources) {
            Ok(node) => node,
            Err(finding) => {
                findings.push(finding);
                continue;
            }
        };
        if let Some(shape) = shape {
            check_value(&each.path, &node, shape, sources, findings);
        }
        insert(top.get_or_insert_with(|| empty_map(typed.key_origin)), each.path.keys(), node, typed.key_origin, &[]);
    }
    top
}

struct Typed<'a> {
    each: &'a Override,
    merged: &'a Node,
    key_origin: Origin,
}

impl Typed<'_> {
    fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(message).at(self.key_origin)
    }

    /// The type at the path; `Ok(None)` inside a chart's values, which the linter of values judges.
    fn shape(&self) -> Result<Option<Shape>, Diagnostic> {
        let keys = self.each.path.keys();
        let mut shape = Shape::recipe();
        for (index, key) in keys.iter().enumerate() {
            if unbuilt_key(&keys[..=index]).is_some() {
                let parent: Path = keys[..=index].iter().cloned().collect();
                return Err(self.error(format!("`{parent}` is not built yet")));
            }
            if index == 0 && ["apiVersion", "kind", "extends"].contains(&key.as_str()) {
                return Err(self.error(format!("`{key}` cannot be overridden")));
            }
            if shape.takes("array") {
                self.component(key)?;
                shape = shape.items().ok_or_else(|| self.error("a list is set as a whole: `PATH=[a, b]`"))?;
                continue;
            }
            match shape.property(key) {
                Some(property) => shape = property,
                None if shape.keys().next().is_none() && shape.takes("object") => return self.inside_values().map(|()| None),
                None => return Err(self.unknown(index, shape)),
            }
        }
        if shape.takes("array") && keys.len() == 1 {
            return Err(self.error(format!("`{}` is set by component: `components.NAME.version=…`", self.each.path)));
        }
        Ok(Some(shape))
    }

    fn component(&self, name: &str) -> Result<(), Diagnostic> {
        let components = self.merged.get("components").map_or(&[][..], Node::items);
        let names: Vec<&str> = components.iter().filter_map(|component| component.get("name").and_then(Node::text)).collect();
        if names.contains(&name) {
            return Ok(());
        }
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("components go by name; the recipe has: {}", names.join(", ")),
        };
        Err(self.error(format!("the recipe has no component `{name}`")).hint(hint))
    }

    fn unknown(&self, index: usize, shape: Shape) -> Diagnostic {
        let keys = self.each.path.keys();
        let parent: Path = keys[..index].iter().cloned().collect();
        let place = if index == 0 { "a recipe".to_owned() } else { format!("`{parent}`") };
        let hint = match nearest(&keys[index], shape.keys()) {
            Some(near) => format!("did you mean `{}`?", parent.child(near)),
            None if shape.keys().next().is_none() => "this is no map: set it as a whole".to_owned(),
            None => format!("known keys: {}", shape.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")),
        };
        self.error(format!("{place} has no key `{}`", keys[index])).hint(hint)
    }

    /// Items of a list have no place of their own in a layer.
    fn inside_values(&self) -> Result<(), Diagnostic> {
        let keys = self.each.path.keys();
        for length in 4..keys.len() {
            let parent: Path = keys[..length].iter().cloned().collect();
            if let Some(Node { value: Value::List(_), .. }) = self.merged.at(&parent) {
                return Err(self
                    .error(format!("`{parent}` is a list, and a list is set as a whole"))
                    .hint(format!("`--set '{parent}=[…]'`")));
            }
        }
        Ok(())
    }

    /// The value: YAML, except that what must be a string stays exactly as it was typed.
    fn value(&self, shape: Option<Shape>, source: SourceId, start: usize, sources: &mut Sources) -> Result<Node, Diagnostic> {
        let origin = Origin { source, start, end: start + self.each.value.len() };
        let text = self.each.value.as_str();
        let is_text = match shape {
            Some(shape) => shape.takes("string") && !shape.takes("integer") && text != "null",
            None => self.chart_takes_a_string(),
        };
        if text.is_empty() || (is_text && !text.starts_with(['"', '\''])) {
            return Ok(Node { value: Value::String(text.to_owned()), origin });
        }
        // The text alone is parsed; findings about it must point into what was typed.
        let alone = sources.add(Source { name: "--set".to_owned(), text: text.to_owned() });
        let mut node = parse(sources, alone).map_err(|finding| finding.label(format!("the value of `{}`", self.each.path)))?;
        relocate(&mut node, source, start);
        Ok(node)
    }

    /// A version such as `580.10` must not become the number 580.1 where the chart has a string.
    fn chart_takes_a_string(&self) -> bool {
        if self.each.value == "null" || self.each.value.starts_with(['[', '{']) {
            return false;
        }
        if self.merged.at(&self.each.path).is_some_and(|node| node.text().is_some()) {
            return true;
        }
        let keys = self.each.path.keys();
        let Some(component) = keys.get(1).and_then(|name| catalog::component(name)) else { return false };
        let written = self.merged.at_keys(&["components", &component.name, "version"]).and_then(Node::text);
        let Some(version) = component.version(written.unwrap_or(&component.default_version)) else { return false };
        let defaults = component.defaults(Some(version));
        let default_is_text =
            catalog::lookup_keys(defaults, keys[3..].iter().map(String::as_str)).is_some_and(serde_json::Value::is_string);
        default_is_text || matches!(self.each.path.last(), Some("version" | "tag"))
    }
}

fn relocate(node: &mut Node, source: SourceId, by: usize) {
    let moved = |origin: &mut Origin| *origin = Origin { source, start: origin.start + by, end: origin.end + by };
    moved(&mut node.origin);
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| relocate(item, source, by)),
        Value::Map(entries) => {
            for entry in entries {
                moved(&mut entry.key_origin);
                relocate(&mut entry.node, source, by);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn empty_map(origin: Origin) -> Node {
    Node { value: Value::Map(Vec::new()), origin }
}

/// Puts `value` at `keys`; below `components` a list item of that name is made.
pub(super) fn insert(node: &mut Node, keys: &[String], value: Node, key_origin: Origin, above: &[String]) {
    let Some((key, rest)) = keys.split_first() else {
        *node = value;
        return;
    };
    let place = [above, std::slice::from_ref(key)].concat();
    if above == ["components"] {
        let Value::List(items) = &mut node.value else { return };
        let known = items.iter().position(|item| item.get("name").and_then(Node::text) == Some(key));
        let index = known.unwrap_or_else(|| {
            let name = Node { value: Value::String(key.clone()), origin: key_origin };
            let item = Value::Map(vec![Entry { key: "name".to_owned(), key_origin, node: name }]);
            items.push(Node { value: item, origin: key_origin });
            items.len() - 1
        });
        return insert(&mut items[index], rest, value, key_origin, &place);
    }
    if !matches!(node.value, Value::Map(_)) {
        node.value = Value::Map(Vec::new());
    }
    let Value::Map(entries) = &mut node.value else { return };
    let known = entries.iter().position(|entry| entry.key == *key);
    let index = known.unwrap_or_else(|| {
        let list = place == ["components"];
        let empty = if list { Value::List(Vec::new()) } else { Value::Map(Vec::new()) };
        entries.push(Entry { key: key.clone(), key_origin, node: Node { value: empty, origin: key_origin } });
        entries.len() - 1
    });
    insert(&mut entries[index].node, rest, value, key_origin, &place);
}
