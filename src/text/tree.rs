//! A YAML document as a tree in which every key and every value knows where it was written.

use serde_json::{Map, Number};

use super::path::Path;
use super::source::Origin;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it is.
    pub origin: Origin,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the text.
    Map(Vec<Entry>),
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_origin: Origin,
    /// The value.
    pub node: Node,
}

impl Node {
    /// The entries of a map; none of anything else.
    pub fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }

    /// The items of a list; none of anything else.
    pub fn items(&self) -> &[Self] {
        if let Value::List(items) = &self.value { items } else { &[] }
    }

    /// The text of a string.
    pub fn text(&self) -> Option<&str> {
        if let Value::String(text) = &self.value { Some(text) } else { None }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// The entry with this key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value with this key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// What stands at `path`; items of a list go by their `name` or, without one, by number.
    pub fn at(&self, path: &Path) -> Option<&Self> {
        path.keys().iter().try_fold(self, |node, key| node.step(key))
    }

    /// The same for literals.
    pub fn at_keys(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |node, key| node.step(key))
    }

    fn step(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(_) => self.get(key),
            Value::List(items) => {
                let by_name = items.iter().find(|item| item.get("name").and_then(Self::text) == Some(key));
                by_name.or_else(|| key.parse::<usize>().ok().and_then(|index| items.get(index)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    /// Whether both say the same, wherever they stand and in whatever order their keys are.
    pub fn same(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// Without origins.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(flag) => (*flag).into(),
            Value::Number(number) => number.clone().into(),
            Value::String(text) => text.clone().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                let map: Map<_, _> = entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect();
                map.into()
            }
        }
    }
}
