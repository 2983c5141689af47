//! The recipe's components as a bundle installs them: order, version, namespace, values.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::catalog::PlanCatalog;
use super::error::PlanError;
use super::{order, values};
use ::recipe::model::{self as recipe, Recipe};
use catalog::model::{CatalogComponent, ComponentHooks, ComponentVersion, SchedulingPaths};
use catalog::nested::{self, HostComponent};

/// A component of the recipe, with its entry in the catalog.
pub(super) struct ChosenComponent<'a> {
    pub(super) asked: &'a recipe::RecipeComponent,
    pub(super) known: &'a CatalogComponent,
    pub(super) version: &'a str,
    /// `None` if the catalog does not have this version.
    pub(super) details: Option<&'a ComponentVersion>,
    pub(super) namespace: &'a str,
    pub(super) values: Map<String, Value>,
}

impl<'a> ChosenComponent<'a> {
    pub(super) fn name(&self) -> &'a str {
        &self.known.name
    }

    /// Whether it has a chart, and not only manifests.
    pub(super) fn has_chart(&self) -> bool {
        !self.known.chart.is_empty()
    }

    pub(super) fn hooks(&self) -> &'a ComponentHooks {
        self.known.hooks_in(self.version)
    }

    /// Returns what its values disable in its chart; see [`CatalogComponent::off`].
    pub(super) fn off(&self) -> Vec<&'a str> {
        let known: &'a CatalogComponent = self.known;
        known.off(self.version, &self.values)
    }

    /// Returns the keys of its chart for node selectors and tolerations.
    pub(super) fn scheduling(&self) -> &'a SchedulingPaths {
        let known: &'a CatalogComponent = self.known;
        known.scheduling_in(self.version)
    }
}

/// Returns the recipe's components in deployment order.
///
/// # Errors
/// A component is not in the catalog or is in the recipe twice, or values are contradictory.
pub(super) fn choose_components<'a>(
    recipe: &'a Recipe,
    catalog: &'a impl PlanCatalog,
) -> Result<Vec<ChosenComponent<'a>>, PlanError> {
    let mut asked: BTreeMap<&str, &recipe::RecipeComponent> = BTreeMap::new();
    let mut known = Vec::new();
    for component in recipe.components.iter().filter(|component| component.enabled) {
        if asked.insert(&component.name, component).is_some() {
            return Err(PlanError::Twice(component.name.clone()));
        }
        known.push(
            catalog
                .component(&component.name)
                .ok_or_else(|| PlanError::UnknownComponent(component.name.clone()))?,
        );
    }
    if known.is_empty() {
        return Err(PlanError::Empty);
    }
    let choice = |known: &'a CatalogComponent| {
        let asked = asked[known.name.as_str()];
        let version = asked.version.as_deref().unwrap_or(&known.default_version);
        let details = known.versions.iter().find(|details| details.version == version);
        Ok(ChosenComponent {
            asked,
            known,
            version,
            details,
            namespace: asked.namespace.as_deref().unwrap_or(&known.namespace),
            values: values::component_values(
                asked,
                details,
                known.closest_version(version),
                &recipe.rollout,
            )?,
        })
    };
    let mut chosen: Vec<ChosenComponent<'a>> =
        order::sort(known)?.into_iter().map(choice).collect::<Result<_, PlanError>>()?;
    run_once(&mut chosen)?;
    for choice in &mut chosen {
        let (off, places) = (choice.off(), choice.scheduling());
        values::schedule(choice.asked, places, &off, &mut choice.values)?;
    }
    Ok(chosen)
}

/// Disables the sub-charts that would run a component twice.
fn run_once(chosen: &mut [ChosenComponent<'_>]) -> Result<(), PlanError> {
    let hosts: Vec<HostComponent<'_>> = chosen
        .iter()
        .map(|choice| HostComponent {
            component: choice.known,
            version: choice.version,
            values: &choice.values,
        })
        .collect();
    let mut switches = Vec::new();
    for extra in nested::extras(&hosts) {
        let Some(switch) = extra.nested.conditions.first() else { continue };
        if extra.is_explicit {
            return Err(PlanError::RunsTwice {
                host: extra.host.to_owned(),
                switch: switch.clone(),
                nested: extra.nested.component.clone(),
                runner: extra.runner.to_owned(),
            });
        }
        switches.push((extra.host.to_owned(), switch.clone()));
    }
    for (host, switch) in switches {
        for choice in chosen.iter_mut().filter(|choice| choice.known.name == host) {
            let no_map = |path: String| PlanError::NoMap { component: host.clone(), path };
            values::set(&mut choice.values, &switch, Value::Bool(false)).map_err(no_map)?;
        }
    }
    Ok(())
}
