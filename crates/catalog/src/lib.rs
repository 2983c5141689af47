//! The catalog: components and recipes from `bundles/`, embedded in the binary. Contains data, no
//! decisions.

use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value};

use model::{CatalogComponent, ComponentVersion, CustomResource, NestedComponent};

pub mod compatibility_table;
mod embedded;
pub mod hook_chart;
pub mod keys;
pub mod model;
pub mod nested;
pub mod versions;

/// Returns the text of an embedded file, by its path below `bundles/`.
pub fn file(path: &str) -> Option<&'static str> {
    embedded::file(path)
}

/// Returns the text of a recipe of the library.
pub fn recipe(name: &str) -> Option<&'static str> {
    file(&format!("recipes/{name}.yaml"))
}

/// Returns the names of the library's recipes, sorted.
pub fn recipe_names() -> impl Iterator<Item = &'static str> {
    embedded::paths().filter_map(|path| path.strip_prefix("recipes/")?.strip_suffix(".yaml"))
}

/// Returns the names of the components, sorted.
pub fn component_names() -> impl Iterator<Item = &'static str> {
    embedded::paths()
        .filter_map(|path| path.strip_prefix("components/")?.strip_suffix("/component.json"))
}

/// Returns the component with this name. Parses it on first use, because a render needs only a few
/// components.
///
/// # Panics
/// Never: a test reads every embedded component.
pub fn component(name: &str) -> Option<&'static CatalogComponent> {
    static READ: [OnceLock<CatalogComponent>; SLOTS] = [const { OnceLock::new() }; SLOTS];
    let slot = component_names().position(|known| known == name)?;
    let path = format!("components/{name}/component.json");
    let read = || serde_json::from_str(file(&path)?).ok();
    Some(READ.get(slot)?.get_or_init(|| {
        read().expect("embedded components are read by the test `every_component_is_readable`")
    }))
}

/// The maximum number of components. A test fails before it is exceeded.
const SLOTS: usize = 32;

/// A CRD file of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogCrd<'a> {
    /// The component that owns it.
    pub owner: &'a str,
    /// The file's name.
    pub name: &'a str,
    /// Its text: one or more CustomResourceDefinitions.
    pub text: &'a str,
}

impl CatalogComponent {
    /// Returns the version of the chart, if the catalog has it.
    pub fn version(&self, version: &str) -> Option<&ComponentVersion> {
        self.versions.iter().find(|known| known.version == version)
    }

    /// Returns the chart's default values.
    pub fn default_values(
        &self,
        version: &ComponentVersion,
    ) -> Option<&'static Map<String, Value>> {
        embedded::json(&format!("components/{}/{}/values.json", self.name, version.version))?
            .as_object()
    }

    /// Returns the paths of the values that the chart's templates read, as they follow `.Values.`.
    /// Returns `None` if the catalog does not have them.
    pub fn read_keys(
        &self,
        version: &ComponentVersion,
    ) -> Option<impl Iterator<Item = &'static str> + use<>> {
        let path = format!("components/{}/{}/keys.json", self.name, version.version);
        Some(embedded::json(&path)?.as_array()?.iter().filter_map(Value::as_str))
    }

    /// Returns the chart's default values; empty if the catalog does not have the version or its
    /// values.
    pub fn defaults(&self, version: Option<&ComponentVersion>) -> &'static Map<String, Value> {
        static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
        version.and_then(|version| self.default_values(version)).unwrap_or(&NONE)
    }

    /// Returns the OpenAPI schema of a custom resource's `spec`.
    ///
    /// # Panics
    /// Never: a test reads all embedded schemas.
    pub fn schema(&self, version: &ComponentVersion, resource: &CustomResource) -> Option<Value> {
        let text = file(&format!(
            "components/{}/{}/schemas/{}.json",
            self.name, version.version, resource.kind
        ))?;
        Some(
            serde_json::from_str(text)
                .expect("embedded schemas are read by the test `schemas_are_fresh`"),
        )
    }

    /// Returns the components inside the chart of `version` that these values enable.
    pub fn nested<'a>(
        &self,
        version: &'a ComponentVersion,
        values: &Map<String, Value>,
    ) -> Vec<&'a NestedComponent> {
        if version.nested.is_empty() {
            return Vec::new();
        }
        let defaults = self.defaults(Some(version));
        let is_on = |path: &String| is_on(values, defaults, path);
        version
            .nested
            .iter()
            .filter(|nested| nested.conditions.iter().find_map(is_on).unwrap_or(true))
            .collect()
    }

    /// Returns the CRD files that a bundle deploys for this component with these values: its own,
    /// and those of other components that it needs, unless their owner is among the recipe's
    /// components `present`.
    pub fn crds(
        &'static self,
        version: &'static ComponentVersion,
        values: &Map<String, Value>,
        present: &[&str],
    ) -> Vec<CatalogCrd<'static>> {
        let mut crds = self.files(version, &version.crds);
        if version.optional_crds.is_empty() && version.shared_crds.is_empty() {
            return crds;
        }
        let defaults = self.defaults(Some(version));
        let is_on = |path: &String| is_on(values, defaults, path);
        for optional in
            version.optional_crds.iter().filter(|optional| is_on(&optional.condition) == Some(true))
        {
            crds.extend(self.files(version, &optional.crds));
        }
        for shared in &version.shared_crds {
            if !present.contains(&shared.component.as_str())
                && shared.conditions.iter().find_map(is_on) == Some(true)
                && let Some(owner) = component(&shared.component)
                && let Some(version) = owner.version(&shared.version)
            {
                crds.extend(owner.files(version, &version.crds));
            }
        }
        crds
    }

    /// Returns CRD files in the folder of `version`.
    fn files(
        &'static self,
        version: &'static ComponentVersion,
        paths: &'static [String],
    ) -> Vec<CatalogCrd<'static>> {
        let read = |path: &'static String| {
            let text = file(&format!("components/{}/{}/{path}", self.name, version.version))?;
            Some(CatalogCrd {
                owner: &self.name,
                name: path.rsplit('/').next().unwrap_or(path),
                text,
            })
        };
        paths.iter().filter_map(read).collect()
    }
}

/// Returns a boolean value, if it is set.
fn is_on(values: &Map<String, Value>, defaults: &Map<String, Value>, path: &str) -> Option<bool> {
    lookup(values, path).or_else(|| lookup(defaults, path)).and_then(Value::as_bool)
}

/// Returns the value at a dotted path.
pub fn lookup<'a>(values: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    lookup_keys(values, path.split('.'))
}

/// Returns the value below these keys.
pub fn lookup_keys<'a, 'k>(
    values: &'a Map<String, Value>,
    keys: impl IntoIterator<Item = &'k str>,
) -> Option<&'a Value> {
    let mut keys = keys.into_iter();
    let first = values.get(keys.next()?)?;
    keys.try_fold(first, |value, key| value.get(key))
}

#[cfg(test)]
mod tests;
