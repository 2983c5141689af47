//! A YAML document as a tree in which every key and every value knows where it was written.

use serde_json::{Map, Number};

use super::path::KeyPath;
use super::source::SourceSpan;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlNode {
    /// What it is.
    pub value: YamlValue,
    /// Where it is.
    pub origin: SourceSpan,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlValue {
    /// `null`, `~` or nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// A list.
    List(Vec<YamlNode>),
    /// A map, in the order of the text.
    Map(Vec<MapEntry>),
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct MapEntry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_origin: SourceSpan,
    /// The value.
    pub node: YamlNode,
}

impl YamlNode {
    /// The entries of a map; none of anything else.
    pub fn entries(&self) -> &[MapEntry] {
        if let YamlValue::Map(entries) = &self.value { entries } else { &[] }
    }

    /// The items of a list; none of anything else.
    pub fn items(&self) -> &[Self] {
        self.list().unwrap_or_default()
    }

    /// The items of a list; `None` for anything else.
    pub fn list(&self) -> Option<&[Self]> {
        if let YamlValue::List(items) = &self.value { Some(items) } else { None }
    }

    /// The value of a boolean.
    pub fn boolean(&self) -> Option<bool> {
        if let YamlValue::Bool(flag) = self.value { Some(flag) } else { None }
    }

    /// Whether it is a map.
    pub fn is_map(&self) -> bool {
        matches!(self.value, YamlValue::Map(_))
    }

    /// Whether it is a map or a list.
    pub fn is_collection(&self) -> bool {
        matches!(self.value, YamlValue::Map(_) | YamlValue::List(_))
    }

    /// The text of a string.
    pub fn text(&self) -> Option<&str> {
        if let YamlValue::String(text) = &self.value { Some(text) } else { None }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.value == YamlValue::Null
    }

    /// The entry with this key.
    pub fn entry(&self, key: &str) -> Option<&MapEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value with this key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// What stands at `path`; items of a list go by their `name` or, without one, by number.
    pub fn get_path(&self, path: &KeyPath) -> Option<&Self> {
        path.keys().iter().try_fold(self, |node, key| node.step(key))
    }

    /// The same for literals.
    pub fn at_keys(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |node, key| node.step(key))
    }

    fn step(&self, key: &str) -> Option<&Self> {
        match &self.value {
            YamlValue::Map(_) => self.get(key),
            YamlValue::List(items) => {
                let by_name =
                    items.iter().find(|item| item.get("name").and_then(Self::text) == Some(key));
                by_name.or_else(|| key.parse::<usize>().ok().and_then(|index| items.get(index)))
            }
            YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::String(_) => {
                None
            }
        }
    }

    /// Whether both say the same, wherever they stand and in whatever order their keys are.
    pub fn same(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            YamlValue::Null => "null",
            YamlValue::Bool(_) => "a boolean",
            YamlValue::Number(_) => "a number",
            YamlValue::String(_) => "a string",
            YamlValue::List(_) => "a list",
            YamlValue::Map(_) => "a map",
        }
    }

    /// Without origins.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            YamlValue::Null => serde_json::Value::Null,
            YamlValue::Bool(flag) => (*flag).into(),
            YamlValue::Number(number) => number.clone().into(),
            YamlValue::String(text) => text.clone().into(),
            YamlValue::List(items) => items.iter().map(Self::to_json).collect(),
            YamlValue::Map(entries) => {
                let map: Map<_, _> =
                    entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect();
                map.into()
            }
        }
    }
}
