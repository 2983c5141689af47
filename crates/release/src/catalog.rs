//! The catalog's interface for planning.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use catalog::CatalogCrd;
use catalog::model::{CatalogComponent, ComponentVersion};

/// A catalog that a plan can be made from.
pub trait PlanCatalog {
    /// Returns the component with this name.
    fn component(&self, name: &str) -> Option<&CatalogComponent>;
    /// Returns the names of all chart repositories, sorted, each once.
    fn repositories(&self) -> Vec<&str>;
    /// Returns the CRD files that a bundle deploys for `component` in `version` with these values,
    /// next to the components `present`.
    fn crds<'a>(
        &'a self,
        component: &'a CatalogComponent,
        version: &'a ComponentVersion,
        values: &Map<String, Value>,
        present: &[&str],
    ) -> Vec<CatalogCrd<'a>>;
}

/// The catalog that the program embeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbeddedCatalog;

impl PlanCatalog for EmbeddedCatalog {
    fn component(&self, name: &str) -> Option<&CatalogComponent> {
        catalog::component(name)
    }

    fn repositories(&self) -> Vec<&str> {
        let components = catalog::component_names().filter_map(catalog::component);
        let repositories = components.flat_map(|component| {
            let others =
                component.versions.iter().filter_map(|version| version.repository.as_ref());
            others.chain([&component.repository])
        });
        repositories
            .map(|repository| repository.name.as_str())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    fn crds<'a>(
        &'a self,
        component: &'a CatalogComponent,
        version: &'a ComponentVersion,
        values: &Map<String, Value>,
        present: &[&str],
    ) -> Vec<CatalogCrd<'a>> {
        let Some(component) = catalog::component(&component.name) else { return Vec::new() };
        let Some(version) = component.version(&version.version) else { return Vec::new() };
        component.crds(version, values, present)
    }
}
