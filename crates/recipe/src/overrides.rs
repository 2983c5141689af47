//! Overrides (`--set PATH=VALUE`), the last layer.

use std::str::FromStr;

use super::parse::parse;
use super::schema::TypeShape;
use super::shape::check_value;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::nearest::{did_you_mean, nearest};
use diagnostics::path::{KeyPath, KeyPathError};
use diagnostics::source::{SourceId, SourceSpan, SourceText, SourceTexts};
use diagnostics::tree::{MapEntry, YamlNode, YamlValue};
use diagnostics::words::in_backticks;

/// One override, as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueOverride {
    path: KeyPath,
    value: String,
    typed: String,
}

/// Why a text is not a [`ValueOverride`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueOverrideError {
    /// The text has no equals sign.
    #[error("expected PATH=VALUE, found `{0}`")]
    NoValue(String),
    /// The text before the equals sign is not a path.
    #[error(transparent)]
    Path(#[from] KeyPathError),
}

impl FromStr for ValueOverride {
    type Err = ValueOverrideError;

    fn from_str(text: &str) -> Result<Self, ValueOverrideError> {
        let (path, value) =
            text.split_once('=').ok_or_else(|| ValueOverrideError::NoValue(text.to_owned()))?;
        Ok(Self { path: path.parse()?, value: value.to_owned(), typed: text.to_owned() })
    }
}

/// Returns the layer of the overrides on top of `merged`; `None` if there is no valid override.
pub fn layer(
    overrides: &[ValueOverride],
    merged: &YamlNode,
    sources: &mut SourceTexts,
    findings: &mut Vec<Diagnostic>,
) -> Option<YamlNode> {
    let mut top: Option<YamlNode> = None;
    for each in overrides {
        let source = sources.add(SourceText { name: "--set".to_owned(), text: each.typed.clone() });
        let path_end = each.typed.len() - each.value.len() - 1;
        // A finding about the path shows only the path, because the value may be a secret.
        let path_alone = sources
            .add(SourceText { name: "--set".to_owned(), text: each.typed[..path_end].to_owned() });
        let typed = TypedValue {
            each,
            merged,
            key_origin: SourceSpan { source: path_alone, start: 0, end: path_end },
        };
        let read = typed
            .shape()
            .and_then(|shape| Ok((shape, typed.value(shape, source, path_end + 1, sources)?)));
        let (shape, node) = match read {
            Ok(read) => read,
            Err(finding) => {
                findings.push(finding);
                continue;
            }
        };
        if let Some(shape) = shape {
            check_value(&each.path, &node, shape, sources, findings);
        }
        insert(
            top.get_or_insert_with(|| empty_map(typed.key_origin)),
            each.path.keys(),
            node,
            typed.key_origin,
            &[],
        );
    }
    top
}

struct TypedValue<'a> {
    each: &'a ValueOverride,
    merged: &'a YamlNode,
    key_origin: SourceSpan,
}

impl TypedValue<'_> {
    fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(message).at(self.key_origin)
    }

    /// Returns the type at the path; `Ok(None)` inside a chart's values, which the rules for values
    /// check.
    fn shape(&self) -> Result<Option<TypeShape>, Diagnostic> {
        let keys = self.each.path.keys();
        let mut shape = TypeShape::recipe();
        for (index, key) in keys.iter().enumerate() {
            if index == 0 && ["apiVersion", "kind", "extends"].contains(&key.as_str()) {
                return Err(self.error(format!("`{key}` cannot be overridden")));
            }
            if shape.takes("array") {
                self.component(key)?;
                shape = shape.items().ok_or_else(|| {
                    self.error("a list can only be set as a whole: `PATH=[a, b]`")
                })?;
                continue;
            }
            match shape.property(key) {
                Some(property) => shape = property,
                None if shape.keys().next().is_none() && shape.takes("object") => {
                    return self.inside_values().map(|()| None);
                }
                None => return Err(self.unknown(index, shape)),
            }
        }
        if shape.takes("array") && keys.len() == 1 {
            return Err(self.error(format!(
                "`{}` can only be set for one component: `components.NAME.version=…`",
                self.each.path
            )));
        }
        Ok(Some(shape))
    }

    fn component(&self, name: &str) -> Result<(), Diagnostic> {
        let components = self.merged.get("components").map_or(&[][..], YamlNode::items);
        let names: Vec<&str> = components
            .iter()
            .filter_map(|component| component.get("name").and_then(YamlNode::text))
            .collect();
        if names.contains(&name) {
            return Ok(());
        }
        let hint = did_you_mean(name, names.iter().copied()).unwrap_or_else(|| {
            format!(
                "write `components.NAME.…` with a component of the recipe: {}",
                names.join(", ")
            )
        });
        Err(self.error(format!("the recipe has no component `{name}`")).hint(hint))
    }

    fn unknown(&self, index: usize, shape: TypeShape) -> Diagnostic {
        let keys = self.each.path.keys();
        let parent: KeyPath = keys[..index].iter().cloned().collect();
        let place = if index == 0 { "a recipe".to_owned() } else { format!("`{parent}`") };
        let hint = match nearest(&keys[index], shape.keys()) {
            Some(near) => format!("did you mean `{}`?", parent.child(near)),
            None if shape.keys().next().is_none() => {
                "this is not a map: set it as a whole".to_owned()
            }
            None => format!("known keys: {}", in_backticks(shape.keys())),
        };
        self.error(format!("{place} has no key `{}`", keys[index])).hint(hint)
    }

    /// Refuses paths into a list, because a layer cannot set single items.
    fn inside_values(&self) -> Result<(), Diagnostic> {
        let keys = self.each.path.keys();
        for length in 4..keys.len() {
            let parent: KeyPath = keys[..length].iter().cloned().collect();
            if let Some(YamlNode { value: YamlValue::List(_), .. }) = self.merged.get_path(&parent)
            {
                return Err(self
                    .error(format!("`{parent}` is a list, and a list can only be set as a whole"))
                    .hint(format!("`--set '{parent}=[…]'`")));
            }
        }
        Ok(())
    }

    /// Parses the value as YAML. A value that must be a string stays exactly as typed.
    fn value(
        &self,
        shape: Option<TypeShape>,
        source: SourceId,
        start: usize,
        sources: &mut SourceTexts,
    ) -> Result<YamlNode, Diagnostic> {
        let origin = SourceSpan { source, start, end: start + self.each.value.len() };
        let text = self.each.value.as_str();
        let is_text = match shape {
            Some(shape) => shape.takes("string") && !shape.takes("integer") && text != "null",
            None => self.chart_takes_a_string(),
        };
        if text.is_empty() || (is_text && !text.starts_with(['"', '\''])) {
            return Ok(YamlNode { value: YamlValue::String(text.to_owned()), origin });
        }
        // Parses only the value's text. Its findings must point into the typed text.
        let alone = sources.add(SourceText { name: "--set".to_owned(), text: text.to_owned() });
        let mut node = parse(sources, alone)
            .map_err(|finding| finding.label(format!("the value of `{}`", self.each.path)))?;
        relocate(&mut node, source, start);
        Ok(node)
    }

    /// Whether the chart expects a string, so that `580.10` does not become the number 580.1.
    fn chart_takes_a_string(&self) -> bool {
        if self.each.value == "null" || self.each.value.starts_with(['[', '{']) {
            return false;
        }
        if self.merged.get_path(&self.each.path).is_some_and(|node| node.text().is_some()) {
            return true;
        }
        let keys = self.each.path.keys();
        let Some(component) = keys.get(1).and_then(|name| catalog::component(name)) else {
            return false;
        };
        let written = self
            .merged
            .at_keys(&["components", &component.name, "version"])
            .and_then(YamlNode::text);
        let Some(version) = component.version(written.unwrap_or(&component.default_version)) else {
            return false;
        };
        let defaults = component.defaults(Some(version));
        let default_is_text = catalog::lookup_keys(defaults, keys[3..].iter().map(String::as_str))
            .is_some_and(serde_json::Value::is_string);
        default_is_text || matches!(self.each.path.last(), Some("version" | "tag"))
    }
}

fn relocate(node: &mut YamlNode, source: SourceId, by: usize) {
    let moved = |origin: &mut SourceSpan| {
        *origin = SourceSpan { source, start: origin.start + by, end: origin.end + by }
    };
    moved(&mut node.origin);
    match &mut node.value {
        YamlValue::List(items) => items.iter_mut().for_each(|item| relocate(item, source, by)),
        YamlValue::Map(entries) => {
            for entry in entries {
                moved(&mut entry.key_origin);
                relocate(&mut entry.node, source, by);
            }
        }
        YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::String(_) => {}
    }
}

fn empty_map(origin: SourceSpan) -> YamlNode {
    YamlNode { value: YamlValue::Map(Vec::new()), origin }
}

/// Inserts `value` at `keys`. Below `components`, creates a list item with that name.
pub(super) fn insert(
    node: &mut YamlNode,
    keys: &[String],
    value: YamlNode,
    key_origin: SourceSpan,
    above: &[String],
) {
    let Some((key, rest)) = keys.split_first() else {
        *node = value;
        return;
    };
    let place = [above, std::slice::from_ref(key)].concat();
    if above == ["components"] {
        let YamlValue::List(items) = &mut node.value else { return };
        let known =
            items.iter().position(|item| item.get("name").and_then(YamlNode::text) == Some(key));
        let index = known.unwrap_or_else(|| {
            let name = YamlNode { value: YamlValue::String(key.clone()), origin: key_origin };
            let item =
                YamlValue::Map(vec![MapEntry { key: "name".to_owned(), key_origin, node: name }]);
            items.push(YamlNode { value: item, origin: key_origin });
            items.len() - 1
        });
        return insert(&mut items[index], rest, value, key_origin, &place);
    }
    if !node.is_map() {
        node.value = YamlValue::Map(Vec::new());
    }
    let YamlValue::Map(entries) = &mut node.value else { return };
    let known = entries.iter().position(|entry| entry.key == *key);
    let index = known.unwrap_or_else(|| {
        let list = place == ["components"];
        let empty = if list { YamlValue::List(Vec::new()) } else { YamlValue::Map(Vec::new()) };
        entries.push(MapEntry {
            key: key.clone(),
            key_origin,
            node: YamlNode { value: empty, origin: key_origin },
        });
        entries.len() - 1
    });
    insert(&mut entries[index].node, rest, value, key_origin, &place);
}
