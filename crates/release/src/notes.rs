//! Notes about a plan that are not errors.

use serde_json::Value;

use super::chosen::ChosenComponent;
use super::values::gpu::{self, DRIVER_VERSION};
use catalog::lookup;
use contract::names::{DRA_DRIVER, GPU_OPERATOR};
use contract::settings::Mode;
use recipe::model::{Recipe, RecipeUpgradePolicy};

/// Returns the notes, in the order of the components.
pub(super) fn release_notes(recipe: &Recipe, chosen: &[ChosenComponent<'_>]) -> Vec<String> {
    let mut notes: Vec<String> = chosen.iter().filter_map(crds).collect();
    let has = |name: &str| chosen.iter().any(|choice| choice.name() == name);
    let driver = &recipe.rollout.gpu_driver;
    if !has(GPU_OPERATOR)
        && (driver.version.is_some() || driver.policy != RecipeUpgradePolicy::default())
    {
        notes.push(
            "`rollout.gpuDriver` has no effect: the recipe has no component gpu-operator"
                .to_owned(),
        );
    }
    if has(GPU_OPERATOR) && !has(DRA_DRIVER) {
        notes.push(format!(
            "the recipe has no {DRA_DRIVER}, so the hooks of the bundle do not replace DRA plugins (no task `reroll`): the plugins of a DRA driver that is installed separately stay stale after an upgrade"
        ));
    }
    let is_driven = |choice: &ChosenComponent<'_>| {
        choice.name() == GPU_OPERATOR && gpu::mode(driver, &choice.values) == Mode::Drive
    };
    if chosen.iter().any(is_driven) {
        notes.push(
            "mode `drive`: if the GPU driver was in another mode before, its template changes, and every driver pod is replaced once, node by node"
                .to_owned(),
        );
    }
    for choice in chosen {
        let has_driver = lookup(&choice.values, "driver.enabled") != Some(&Value::Bool(false));
        if choice.name() == GPU_OPERATOR
            && has_driver
            && lookup(&choice.values, DRIVER_VERSION).is_none()
        {
            notes.push(format!(
                "no driver version is set, so every new {GPU_OPERATOR} chart upgrades the driver on all nodes; set `rollout.gpuDriver.version`"
            ));
        }
        if choice.asked.version.is_none() && choice.has_chart() {
            notes.push(format!(
                "{} has the catalog's version {}, which may differ in a newer gpu-rollout",
                choice.name(),
                choice.version
            ));
        }
    }
    notes
}

/// Returns the note for a component whose CRDs no release of the bundle owns.
fn crds(choice: &ChosenComponent<'_>) -> Option<String> {
    let (name, version) = (choice.name(), choice.version);
    let Some(details) = choice.details else {
        let like = choice.known.closest_version(version);
        return Some(format!(
            "{name} {version} is not in the catalog: it is treated like {}, and its CRDs stay with the vendor's chart, so Helm installs them once and never upgrades them",
            like.version
        ));
    };
    (details.crds.is_empty() && !details.custom_resources.is_empty())
        .then(|| format!("the catalog does not have the CRDs of {name} {version}, so they stay with the vendor's chart and its own hook"))
}
