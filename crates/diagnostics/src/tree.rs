//! A YAML document as a tree in which every key and every value has its place in the text.

use serde_json::{Map, Number};

use super::path::KeyPath;
use super::source::SourceSpan;

/// A value with its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlNode {
    /// The value.
    pub value: YamlValue,
    /// The place of the value.
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
    /// The place of the key.
    pub key_origin: SourceSpan,
    /// The value.
    pub node: YamlNode,
}

impl YamlNode {
    /// Returns the entries of a map; none for anything else.
    pub fn entries(&self) -> &[MapEntry] {
        if let YamlValue::Map(entries) = &self.value { entries } else { &[] }
    }

    /// Returns the items of a list; none for anything else.
    pub fn items(&self) -> &[Self] {
        self.list().unwrap_or_default()
    }

    /// Returns the items of a list, or `None` for anything else.
    pub fn list(&self) -> Option<&[Self]> {
        if let YamlValue::List(items) = &self.value { Some(items) } else { None }
    }

    /// Returns the value of a boolean.
    pub fn boolean(&self) -> Option<bool> {
        if let YamlValue::Bool(flag) = self.value { Some(flag) } else { None }
    }

    /// Returns whether the value is a map.
    pub fn is_map(&self) -> bool {
        matches!(self.value, YamlValue::Map(_))
    }

    /// Returns whether the value is a map or a list.
    pub fn is_collection(&self) -> bool {
        matches!(self.value, YamlValue::Map(_) | YamlValue::List(_))
    }

    /// Returns the text of a string.
    pub fn text(&self) -> Option<&str> {
        if let YamlValue::String(text) = &self.value { Some(text) } else { None }
    }

    /// Returns whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.value == YamlValue::Null
    }

    /// Returns the entry with this key.
    pub fn entry(&self, key: &str) -> Option<&MapEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Returns the value with this key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// Returns the node at `path`. Items of a list are identified by their `name`, or by their
    /// number if they have none.
    pub fn get_path(&self, path: &KeyPath) -> Option<&Self> {
        path.keys().iter().try_fold(self, |node, key| node.step(key))
    }

    /// Like [`Self::get_path`], for literals.
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

    /// Returns whether both values are equal, regardless of their places and the order of their
    /// keys.
    pub fn same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.to_json() == other.to_json()
    }

    /// Returns the type of the value with its article, for messages.
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

    /// Converts the value to JSON, without places.
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
