//! The plan itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::catalog::Catalog;
use super::error::PlanError;
use super::hook::{self, DRA_DRIVER};
use super::image::Image;
use super::model::{Crd, Crds, Kind, Plan, Release, Upstream};
use super::{crds, device_plugin, namespaces, order, sources, time, values};
use crate::catalog::lookup;
use crate::catalog::model::{Component, Version};
use crate::contract::duty::Duty;
use crate::contract::settings::{Gate, Required};
use crate::recipe::model::{self as recipe, Recipe};

/// The component whose chart carries the driver's upgrade policy.
pub const GPU_OPERATOR: &str = "gpu-operator";

/// What the user says beside the recipe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Chart repositories: address by name in the catalog.
    pub chart_repositories: BTreeMap<String, String>,
    /// The hook's image.
    pub hook_image: Option<Image>,
}

/// Turns a recipe into releases.
///
/// # Errors
/// What the recipe asks for cannot be deployed, or contradicts itself; see [`PlanError`].
pub fn plan(recipe: &Recipe, catalog: &impl Catalog, options: &Options) -> Result<Plan, PlanError> {
    check(recipe)?;
    let chosen = choose(recipe, catalog)?;
    check_repositories(catalog, options)?;
    let mut planner =
        Planner { recipe, catalog, options, chosen: &chosen, owners: BTreeMap::new(), releases: Vec::new(), notes: Vec::new() };
    planner.namespaces();
    for choice in &chosen {
        planner.component(choice)?;
    }
    planner.notice();
    Ok(Plan { releases: planner.releases, notes: planner.notes })
}

/// A component of the recipe with what the catalog says of it.
struct Choice<'a> {
    asked: &'a recipe::Component,
    known: &'a Component,
    version: &'a str,
    /// `None`: the catalog does not know this version.
    details: Option<&'a Version>,
    namespace: &'a str,
    values: Map<String, Value>,
}

/// What can be said without the catalog.
fn check(recipe: &Recipe) -> Result<(), PlanError> {
    let driver = &recipe.rollout.gpu_driver;
    let Gate::Settled = driver.gate;
    if driver.policy.wait_for_completion.as_ref().is_some_and(time::is_endless) {
        return Err(PlanError::EndlessWait);
    }
    let has_dra = recipe.components.iter().any(|component| component.enabled && component.name == DRA_DRIVER);
    if recipe.rollout.dra.required == Required::True && !has_dra {
        return Err(PlanError::DraMissing);
    }
    Ok(())
}

/// The recipe's components in the order in which they are deployed.
fn choose<'a>(recipe: &'a Recipe, catalog: &'a impl Catalog) -> Result<Vec<Choice<'a>>, PlanError> {
    let mut asked: BTreeMap<&str, &recipe::Component> = BTreeMap::new();
    let mut known = Vec::new();
    for component in recipe.components.iter().filter(|component| component.enabled) {
        if asked.insert(&component.name, component).is_some() {
            return Err(PlanError::Twice(component.name.clone()));
        }
        known.push(catalog.component(&component.name).ok_or_else(|| PlanError::UnknownComponent(component.name.clone()))?);
    }
    if known.is_empty() {
        return Err(PlanError::Empty);
    }
    let choice = |known: &'a Component| {
        let asked = asked[known.name.as_str()];
        let version = asked.version.as_deref().unwrap_or(&known.default_version);
        let details = known.versions.iter().find(|details| details.version == version);
        let driver = (known.name == GPU_OPERATOR).then_some(&recipe.rollout.gpu_driver);
        Ok(Choice {
            asked,
            known,
            version,
            details,
            namespace: asked.namespace.as_deref().unwrap_or(&known.namespace),
            values: values::of(asked, details, driver)?,
        })
    };
    order::sort(known)?.into_iter().map(choice).collect()
}

/// A name that no component has is a mistake; one that no component of this recipe has is not: mirrors are the same for all recipes.
fn check_repositories(catalog: &impl Catalog, options: &Options) -> Result<(), PlanError> {
    if options.chart_repositories.is_empty() {
        return Ok(());
    }
    let known = catalog.repositories();
    match options.chart_repositories.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(PlanError::UnknownRepository { name: name.clone(), known: known.into_iter().map(str::to_owned).collect() }),
        None => Ok(()),
    }
}

/// The plan as far as it is made.
struct Planner<'a, C> {
    recipe: &'a Recipe,
    catalog: &'a C,
    options: &'a Options,
    chosen: &'a [Choice<'a>],
    /// Who owns a CRD: its text, the component, the release.
    owners: BTreeMap<String, (String, String, String)>,
    releases: Vec<Release>,
    notes: Vec<String>,
}

impl<C: Catalog> Planner<'_, C> {
    fn namespaces(&mut self) {
        let mut levels = BTreeMap::new();
        for choice in self.chosen {
            let level = levels.entry(choice.namespace.to_owned()).or_insert(choice.known.pod_security);
            *level = (*level).max(choice.known.pod_security);
        }
        self.releases.extend(namespaces::release(&levels));
    }

    fn component(&mut self, choice: &Choice<'_>) -> Result<(), PlanError> {
        let name = &choice.known.name;
        let mut needs: Vec<String> =
            self.releases.iter().filter(|release| release.name == namespaces::RELEASE).map(|release| release.name.clone()).collect();
        let config = device_plugin::release(choice.asked, choice.namespace, &needs)?;
        let crd_releases = self.crds(choice, &needs)?;
        let skip_crds = !crd_releases.is_empty();
        needs.extend(crd_releases);
        needs.extend(config.iter().map(|config| config.name.clone()));
        let shares: Vec<String> = std::iter::once(name.clone()).chain(config.iter().map(|config| config.name.clone())).collect();
        self.releases.extend(config);
        for earlier in &choice.known.after {
            needs.extend(self.last_of(earlier));
        }
        if choice.details.is_none() {
            self.notes.push(format!(
                "{name} {} is not in the catalog: its CRDs stay with the vendor's chart, which Helm installs once and never upgrades",
                choice.version
            ));
        }
        self.releases.push(Release {
            name: name.clone(),
            namespace: choice.namespace.to_owned(),
            needs,
            timeout_seconds: time::UPSTREAM_TIMEOUT_SECONDS,
            kind: Kind::Upstream(Upstream {
                chart: sources::chart(choice.known, choice.version, &self.options.chart_repositories),
                version: choice.version.to_owned(),
                values: choice.values.clone(),
                skip_crds,
            }),
        });
        self.hook(choice, shares)
    }

    /// The component's CRDs that nobody owns yet, as a release; returns all releases that own CRDs of this component.
    fn crds(&mut self, choice: &Choice<'_>, needs: &[String]) -> Result<Vec<String>, PlanError> {
        let component = &choice.known.name;
        let release = format!("{component}-crds");
        let mut needed = Vec::new();
        let mut owned: Vec<Crd> = Vec::new();
        let present: Vec<&str> = self.chosen.iter().map(|choice| choice.known.name.as_str()).collect();
        let files = choice.details.map(|details| self.catalog.crds(choice.known, details, &choice.values, &present));
        for file in files.unwrap_or_default() {
            let error = |reason: String| PlanError::CrdFile { component: component.clone(), file: file.name.to_owned(), reason };
            for crd in crds::read(file.text).map_err(error)? {
                let (known_text, first, owner_release) =
                    self.owners.entry(crd.name.clone()).or_insert_with(|| (crd.text.clone(), component.clone(), release.clone()));
                if *known_text != crd.text {
                    return Err(PlanError::CrdConflict { crd: crd.name, first: first.clone(), second: component.clone() });
                }
                needed.push(owner_release.clone());
                if first == component {
                    owned.push(crd);
                }
            }
        }
        needed.sort();
        needed.dedup();
        if !owned.is_empty() {
            owned.sort_by(|first, second| first.name.cmp(&second.name));
            owned.dedup();
            self.releases.push(Release {
                name: release,
                namespace: choice.namespace.to_owned(),
                needs: needs.to_vec(),
                timeout_seconds: time::LOCAL_TIMEOUT_SECONDS,
                kind: Kind::Crds(Crds { component: component.clone(), version: choice.version.to_owned(), crds: owned }),
            });
        }
        Ok(needed)
    }

    fn hook(&mut self, choice: &Choice<'_>, shares: Vec<String>) -> Result<(), PlanError> {
        let hooks = choice.known.hooks_in(choice.version);
        if hooks.post.is_empty() {
            return Ok(());
        }
        let name = &choice.known.name;
        let operator = self.chosen.iter().find(|choice| choice.known.name == GPU_OPERATOR);
        let dra = self.chosen.iter().find(|choice| choice.known.name == DRA_DRIVER);
        // Without a DRA driver there is nothing to re-roll, and the Job gets no rights for it.
        let duties: Vec<Duty> = hooks.post.iter().copied().filter(|duty| *duty != Duty::Reroll || dra.is_some()).collect();
        let budget = time::budget(self.recipe, operator.map(|operator| &operator.values), &duties)?;
        // The settings are those of this component, wherever the operator and the DRA driver come from.
        let operator_namespace = match operator {
            Some(operator) => operator.namespace,
            None => self.catalog.component(GPU_OPERATOR).map_or(GPU_OPERATOR, |operator| operator.namespace.as_str()),
        };
        let timeout_seconds = budget.timeout_seconds();
        let parts = hook::Parts {
            recipe: self.recipe,
            component: name,
            shares,
            version: choice.version,
            duties: &duties,
            budget,
            operator_namespace,
            dra_namespace: dra.map(|dra| dra.namespace),
            image: self.options.hook_image.as_ref(),
        };
        self.releases.push(Release {
            name: format!("{name}{}", hook::SUFFIX),
            namespace: choice.namespace.to_owned(),
            needs: vec![name.clone()],
            timeout_seconds,
            kind: Kind::Hook(Box::new(hook::of(parts))),
        });
        Ok(())
    }

    /// The release that must have succeeded before anything that comes after `component`, if the recipe has that component.
    fn last_of(&self, component: &str) -> Option<String> {
        let hook = format!("{component}{}", hook::SUFFIX);
        let find = |name: &str| self.releases.iter().find(|release| release.name == name).map(|release| release.name.clone());
        find(&hook).or_else(|| find(component))
    }

    fn notice(&mut self) {
        let has = |name: &str| self.chosen.iter().any(|choice| choice.known.name == name);
        let driver = &self.recipe.rollout.gpu_driver;
        if !has(GPU_OPERATOR) && (driver.version.is_some() || driver.policy != recipe::UpgradePolicy::default()) {
            self.notes.push("`rollout.gpuDriver` has no effect: the recipe has no gpu-operator that would upgrade a driver".to_owned());
        }
        if has(GPU_OPERATOR) && !has(DRA_DRIVER) {
            self.notes.push(format!(
                "the recipe has no {DRA_DRIVER}, so its hook has no duty `reroll`: a DRA driver that was installed by other means keeps its stale plugins"
            ));
        }
        for choice in self.chosen {
            let is_set = |path: &str| lookup(&choice.values, path).is_some();
            let has_driver = lookup(&choice.values, "driver.enabled") != Some(&Value::Bool(false));
            if choice.known.name == GPU_OPERATOR && has_driver && !is_set(values::DRIVER_VERSION) {
                self.notes.push(format!(
                    "no driver version is set: every new {GPU_OPERATOR} chart brings its own driver to all nodes; set `rollout.gpuDriver.version`"
                ));
            }
            if choice.asked.version.is_none() {
                self.notes.push(format!(
                    "{} takes the catalog's version {}; a newer gpu-rollout may take another",
                    choice.known.name, choice.version
                ));
            }
        }
    }
}
