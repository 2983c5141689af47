//! The catalog: the components and recipes that are embedded in the binary, from `bundles/`. Data, no decisions.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use model::{Component, Version};

pub mod hook_chart;
pub mod keys;
pub mod model;

/// Every embedded file: its path below `bundles/` and its text, sorted by path.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/bundles.rs"));

/// The text of an embedded file, by its path below `bundles/`.
pub fn file(path: &str) -> Option<&'static str> {
    FILES.binary_search_by(|(known, _)| (*known).cmp(path)).ok().map(|index| FILES[index].1)
}

/// The text of a recipe of the library.
pub fn recipe(name: &str) -> Option<&'static str> {
    file(&format!("recipes/{name}.yaml"))
}

/// The names of the library's recipes, sorted.
pub fn recipe_names() -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(|(path, _)| path.strip_prefix("recipes/")?.strip_suffix(".yaml"))
}

/// The names of the components, sorted.
pub fn component_names() -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(|(path, _)| path.strip_prefix("components/")?.strip_suffix("/component.yaml"))
}

/// The component with this name. Read when it is first asked for: a render needs a few of them, and every millisecond shows.
///
/// # Panics
/// Never: a test reads every embedded component.
pub fn component(name: &str) -> Option<&'static Component> {
    static READ: [OnceLock<Component>; SLOTS] = [const { OnceLock::new() }; SLOTS];
    let slot = component_names().position(|known| known == name)?;
    let text = file(&format!("components/{name}/component.yaml"))?;
    Some(READ.get(slot)?.get_or_init(|| {
        crate::contract::yaml::from_str(text).expect("embedded components are read by the test `every_component_is_readable`")
    }))
}

/// Room for components; a test fails before it runs out.
const SLOTS: usize = 32;

/// A CRD file of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crd {
    /// The component that owns it.
    pub owner: &'static str,
    /// The file's name.
    pub name: &'static str,
    /// Its text: one or more CustomResourceDefinitions.
    pub text: &'static str,
}

impl Component {
    /// The version of the chart, if the catalog knows it.
    pub fn version(&self, version: &str) -> Option<&Version> {
        self.versions.iter().find(|known| known.version == version)
    }

    /// The chart's default values.
    ///
    /// # Panics
    /// Never: a test reads all embedded values.
    pub fn default_values(&self, version: &Version) -> Option<Map<String, Value>> {
        let text = file(&format!("components/{}/{}/values.json", self.name, version.version))?;
        Some(serde_json::from_str(text).expect("embedded values are read by the test `default_values_are_fresh`"))
    }

    /// The CRD files that a bundle brings for this component with these values: its own, and those that its sub-charts need
    /// while their owner is not among the components `present` in the recipe.
    pub fn crds(&'static self, version: &'static Version, values: &Map<String, Value>, present: &[&str]) -> Vec<Crd> {
        let mut crds = self.own_crds(version);
        let defaults = self.default_values(version).unwrap_or_default();
        for shared in &version.shared_crds {
            let is_on = |values: &Map<String, Value>| lookup(values, &shared.condition).and_then(Value::as_bool);
            if present.contains(&shared.component.as_str()) || !is_on(values).or_else(|| is_on(&defaults)).unwrap_or(false) {
                continue;
            }
            if let Some(owner) = component(&shared.component)
                && let Some(version) = owner.version(&shared.version)
            {
                crds.extend(owner.own_crds(version));
            }
        }
        crds
    }

    /// The CRD files that this component owns.
    fn own_crds(&'static self, version: &'static Version) -> Vec<Crd> {
        let read = |path: &'static String| {
            let text = file(&format!("components/{}/{}/{path}", self.name, version.version))?;
            Some(Crd { owner: &self.name, name: path.rsplit('/').next().unwrap_or(path), text })
        };
        version.crds.iter().filter_map(read).collect()
    }
}

/// The value at a dotted path.
pub fn lookup<'a>(values: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    lookup_keys(values, path.split('.'))
}

/// The value below these keys.
pub fn lookup_keys<'a, 'k>(values: &'a Map<String, Value>, keys: impl IntoIterator<Item = &'k str>) -> Option<&'a Value> {
    let mut keys = keys.into_iter();
    let first = values.get(keys.next()?)?;
    keys.try_fold(first, |value, key| value.get(key))
}

#[cfg(test)]
mod tests;
