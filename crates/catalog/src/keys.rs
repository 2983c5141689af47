//! The values keys that a chart reads.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::model::ComponentVersion;

/// The keys of one version of a chart as a tree.
#[derive(Clone, Debug, Default)]
pub struct ChartKeys {
    children: BTreeMap<String, Self>,
    default: Option<Value>,
    open: bool,
}

impl ChartKeys {
    /// Builds the tree from the default values, further keys that the templates read, and open
    /// keys. Returns `None` if the catalog does not have this version's default values.
    pub fn from_version(version: &ComponentVersion, defaults: &Map<String, Value>) -> Option<Self> {
        if defaults.is_empty() {
            return None;
        }
        let children =
            defaults.iter().map(|(key, value)| (key.clone(), Self::from_default(value))).collect();
        let mut keys = Self { children, default: None, open: false };
        for path in version.further_keys.iter().chain(&version.open_keys) {
            path.split('.')
                .fold(&mut keys, |node, key| node.children.entry(key.to_owned()).or_default())
                .open = true;
        }
        Some(keys)
    }

    /// Builds the tree of a default value. An empty map accepts the user's own keys.
    fn from_default(value: &Value) -> Self {
        let children: BTreeMap<_, _> = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), Self::from_default(value)))
            .collect();
        Self {
            open: value.as_object().is_some_and(Map::is_empty),
            children,
            default: Some(value.clone()),
        }
    }

    /// Returns the tree below a key.
    pub fn child(&self, key: &str) -> Option<&Self> {
        self.children.get(key)
    }

    /// Returns the names of the keys directly below.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.children.keys().map(String::as_str)
    }

    /// Whether the chart accepts any key below this one.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the chart's default value.
    pub fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Returns all paths with a key of this name, shallowest first.
    pub fn places_of(&self, name: &str) -> Vec<Vec<String>> {
        let mut places = Vec::new();
        self.collect(name, &mut Vec::new(), &mut places);
        places.sort_by_key(Vec::len);
        places
    }

    fn collect(&self, name: &str, above: &mut Vec<String>, places: &mut Vec<Vec<String>>) {
        for (key, child) in &self.children {
            above.push(key.clone());
            if key == name {
                places.push(above.clone());
            }
            child.collect(name, above, places);
            above.pop();
        }
    }
}
