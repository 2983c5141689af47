//! Hook releases: the hook chart's own values, below `rollout:`.

use serde_json::{Map, Value, json};

use super::hook_image::HookImage;
use super::mode;
use super::model::{HookReleasePlan, Release, ReleaseKind};
use super::time::TimeBudget;
use contract::driver::Driver;
use contract::settings::{DraRequired, Mode};
use contract::task::{Task, rights};
use recipe::model::{OfedDriverRollout, Recipe};

/// The component that brings the DRA driver.
pub const DRA_DRIVER: &str = "nvidia-dra-driver-gpu";
/// Ends the name of the hook release after a component.
pub const POST: &str = "-post";
/// Ends the name of the hook release before a component.
pub const PRE: &str = "-pre";

/// What the hook of one component is made from.
pub(super) struct HookParts<'a> {
    /// The recipe.
    pub(super) recipe: &'a Recipe,
    /// The component that it stands for.
    pub(super) component: &'a str,
    /// That component's version.
    pub(super) version: &'a str,
    /// The driver that it is about.
    pub(super) driver: Driver,
    /// The mode that is in force.
    pub(super) mode: Mode,
    /// What its Job does.
    pub(super) tasks: &'a [Task],
    /// B.
    pub(super) budget: TimeBudget,
    /// The releases whose values it consumes.
    pub(super) shares: Vec<String>,
    /// The release that waits for the rollout, and its B in seconds; `None`: there is none, or it is this one.
    pub(super) waits: Option<(String, u64)>,
    /// Where the operator is.
    pub(super) operator_namespace: &'a str,
    /// What the operator's Deployment is called, if its values say so.
    pub(super) operator_deployment: Option<&'a str>,
    /// Where this recipe's DRA driver is, if it has one.
    pub(super) dra_namespace: Option<&'a str>,
    /// The image, if it is not the chart's.
    pub(super) image: Option<&'a HookImage>,
}

/// The hook release's own part of the plan.
pub(super) fn plan_hook(parts: HookParts<'_>) -> HookReleasePlan {
    let manner = parts.recipe.rollout.driver(parts.driver).unwrap_or_else(|| (&OfedDriverRollout::default()).into());
    let mut settings = Map::new();
    let mut put = |key: &str, value: Value| settings.insert(key.to_owned(), value);
    if let Some(image) = parts.image {
        put("image", Value::Object(image.values()));
    }
    put("component", json!({"name": parts.component, "version": parts.version}));
    put("tasks", json!(parts.tasks));
    // The chart's own default is the GPU driver.
    if parts.driver != Driver::default() {
        put("driver", json!(parts.driver));
    }
    put("mode", json!(parts.mode));
    put("gate", json!(manner.gate));
    put("budgetSeconds", json!(parts.budget.seconds));
    put("perNodeSeconds", json!(parts.budget.per_node_seconds));
    put("quietSeconds", json!(manner.quiet.as_secs()));
    put("tolerateNotReady", json!(manner.tolerate_not_ready));
    let settle = &parts.recipe.rollout.gpu_driver.settle;
    if parts.driver == Driver::Gpu && !settle.is_default() {
        put("settle", json!(settle));
    }
    let upgrade = &parts.recipe.rollout.gpu_driver.operator_upgrade;
    if parts.driver == Driver::Gpu && parts.tasks.contains(&Task::Preflight) && !upgrade.is_default() {
        put("operatorUpgrade", json!(upgrade));
    }
    put("operatorNamespace", json!(parts.operator_namespace));
    if let Some(deployment) = parts.operator_deployment {
        put("operatorDeployment", json!(deployment));
    }
    let upgrade = mode::upgrade(&parts.recipe.rollout, parts.driver);
    if let Some(values) = mode::values(parts.mode, &upgrade) {
        put("upgrade", values);
    }
    if parts.tasks.contains(&Task::Preflight) {
        let waits = parts.waits.as_ref();
        let mut preflight = json!({
            "waits": {"release": waits.map_or("", |(release, _)| release), "budgetSeconds": waits.map_or(0, |(_, seconds)| *seconds)},
        });
        if !manner.preflight.is_empty() {
            preflight["strictness"] = json!(manner.preflight);
        }
        put("preflight", preflight);
    }
    put("dra", dra(&parts));
    if parts.tasks.contains(&Task::RestartPlugins) {
        // A bundle's releases are called as their components.
        put("devicePlugin", json!({"release": parts.component}));
    }
    let metrics = &parts.recipe.rollout.metrics;
    if !metrics.is_default() {
        put("metrics", json!(metrics));
    }
    HookReleasePlan {
        component: parts.component.to_owned(),
        version: parts.version.to_owned(),
        tasks: parts.tasks.to_vec(),
        rights: rights(parts.driver, parts.tasks).collect(),
        shares: parts.shares,
        budget: parts.budget,
        settings,
    }
}

/// All hooks' metrics are on one dashboard: the first release brings it. Grafana takes two of one name for a mistake.
pub(super) fn keep_one_dashboard(releases: &mut [Release]) {
    let hooks = releases.iter_mut().filter_map(|release| match &mut release.kind {
        ReleaseKind::Hook(hook) => Some(hook),
        ReleaseKind::Upstream(_) | ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) => None,
    });
    for hook in hooks.skip(1) {
        if let Some(Value::Object(metrics)) = hook.settings.get_mut("metrics") {
            metrics.remove("dashboard");
        }
    }
}

/// The bundle creates the DRA driver's namespace before any hook is installed, so none may be absent: the roles, and with them the
/// rights, are the same with every deployer.
///
/// Whether the driver must be there is judged after the driver's own release: the operator's hook runs before it on a first install.
fn dra(parts: &HookParts<'_>) -> Value {
    let dra = parts.recipe.rollout.dra;
    let required = if parts.component == DRA_DRIVER { dra.required } else { DraRequired::Auto };
    json!({
        "reroll": dra.reroll,
        "required": required,
        "namespaces": parts.dra_namespace.into_iter().collect::<Vec<_>>(),
        "skipAbsentNamespaces": false,
    })
}
