//! The values keys that a chart reads.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::model::{CatalogComponent, ComponentVersion, NestedComponent};

/// The key whose values Helm shares with all sub-charts.
const GLOBAL: &str = "global";

/// The keys of one version of a chart as a tree.
#[derive(Clone, Debug)]
pub struct ChartKeys {
    children: BTreeMap<String, Self>,
    default: Option<&'static Value>,
    open: bool,
}

impl ChartKeys {
    /// Returns the keys that a chart's templates and those of its sub-charts read, with the chart's
    /// default values; `None` if the catalog does not have this version's keys. Builds the tree on
    /// first use, because a thousand recipes use the same few.
    pub fn of_version<'a>(
        component: &CatalogComponent,
        version: &'a ComponentVersion,
    ) -> Option<&'a Self> {
        version.chart_keys.get_or_init(|| Self::new(component, version)).as_ref()
    }

    /// Builds the tree.
    fn new(component: &CatalogComponent, version: &ComponentVersion) -> Option<Self> {
        let mut keys = Self::of_templates(component, version)?;
        for nested in &version.nested {
            keys.add_nested(nested);
        }
        keys.attach(component.defaults(Some(version)));
        Some(keys)
    }

    fn empty(open: bool) -> Self {
        Self { children: BTreeMap::new(), default: None, open }
    }

    /// Builds the tree of the chart's own templates.
    fn of_templates(component: &CatalogComponent, version: &ComponentVersion) -> Option<Self> {
        let mut keys = Self::empty(false);
        for path in component.read_keys(version)? {
            keys.insert(path);
        }
        keys.open_leaves();
        for path in &version.ineffective_keys {
            keys.remove(path);
        }
        for (path, fields) in &version.object_fields {
            if let Some(map) = keys.at_mut(path) {
                map.open = false;
                for field in fields {
                    map.insert(field).open = true;
                }
            }
        }
        for path in &version.open_keys {
            keys.insert(path).open = true;
        }
        keys.attach(component.defaults(Some(version)));
        Some(keys)
    }

    /// Adds the keys of a sub-chart, and those of Helm's condition for it. Accepts every key of a
    /// sub-chart whose version the catalog does not have.
    fn add_nested(&mut self, nested: &NestedComponent) {
        let known = super::component(&nested.component).and_then(|component| {
            Self::of_templates(component, component.version(&nested.version)?)
        });
        let sub = known.unwrap_or_else(|| {
            let children = BTreeMap::from([(GLOBAL.to_owned(), Self::empty(true))]);
            Self { children, ..Self::empty(true) }
        });
        if let Some(global) = sub.children.get(GLOBAL) {
            self.children.insert(GLOBAL.to_owned(), global.clone());
        }
        self.children.insert(nested.key.clone(), sub);
        for condition in &nested.conditions {
            self.insert(condition);
        }
    }

    /// Returns the node of a dotted path, and creates missing ones.
    fn insert(&mut self, path: &str) -> &mut Self {
        path.split('.').fold(self, |node, key| {
            node.children.entry(key.to_owned()).or_insert_with(|| Self::empty(false))
        })
    }

    fn remove(&mut self, path: &str) {
        let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
        let parent = if parents.is_empty() { Some(self) } else { self.at_mut(parents) };
        parent.map(|parent| parent.children.remove(last));
    }

    fn at_mut(&mut self, path: &str) -> Option<&mut Self> {
        path.split('.').try_fold(self, |node, key| node.children.get_mut(key))
    }

    /// Accepts every key below values that the templates read as a whole.
    fn open_leaves(&mut self) {
        self.open = self.children.is_empty();
        self.children.values_mut().for_each(Self::open_leaves);
    }

    /// Stores the defaults of the keys that the templates read.
    fn attach(&mut self, defaults: &'static Map<String, Value>) {
        for (key, value) in defaults {
            if self.open {
                self.insert(key).open = true;
            }
            let Some(child) = self.children.get_mut(key) else { continue };
            child.default = Some(value);
            if let Some(below) = value.as_object() {
                child.attach(below);
            }
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

    /// Whether the chart reads the value at this dotted path, or a part of it.
    pub fn reads(&self, path: &str) -> bool {
        let mut node = self;
        for key in path.split('.') {
            match node.child(key) {
                Some(child) => node = child,
                None => return node.open,
            }
        }
        true
    }

    /// Returns the chart's default value.
    pub fn default(&self) -> Option<&'static Value> {
        self.default
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

#[cfg(test)]
mod tests;
