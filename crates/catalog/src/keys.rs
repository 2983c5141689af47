//! Which values keys a chart knows.

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
    /// The tree: what the default values name, what else the templates read, and where anything goes. `None` if the catalog has
    /// no default values of this version.
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

    /// An empty map in the default values is a place for the user's own keys.
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

    /// The key's own tree.
    pub fn child(&self, key: &str) -> Option<&Self> {
        self.children.get(key)
    }

    /// Names of the keys directly below.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.children.keys().map(String::as_str)
    }

    /// Whether the chart takes anything below this key.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The chart's default value.
    pub fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Where a key of this name exists, however deep; the shallowest first.
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
