//! Plans hook releases: the hook chart's own values, below `rollout:`.

use serde_json::{Value, json};

use super::hook_image::HookImage;
use super::model::{HookReleasePlan, Release, ReleaseKind};
use super::time::TimeBudget;
use super::{acceptance, mode};
use contract::check::CheckStrictness;
use contract::driver::Driver;
use contract::names::DRA_DRIVER;
use contract::settings::{DraRequired, DraSettings, Mode, Settings};
use contract::task::{Task, rights};
use recipe::model::{OfedDriverRollout, Recipe, RecipeAdmissionPolicy, RecipeMetrics};

/// Suffix of the name of the hook release after a component.
pub const POST: &str = "-post";
/// Suffix of the name of the hook release before a component.
pub const PRE: &str = "-pre";

/// The input for the hook release of one component.
pub(super) struct HookParts<'a> {
    /// The recipe.
    pub(super) recipe: &'a Recipe,
    /// The component that it belongs to.
    pub(super) component: &'a str,
    /// That component's version.
    pub(super) version: &'a str,
    /// The driver that it rolls out.
    pub(super) driver: Driver,
    /// The effective mode.
    pub(super) mode: Mode,
    /// The tasks of its Job.
    pub(super) tasks: &'a [Task],
    /// The time budget (B).
    pub(super) budget: TimeBudget,
    /// The releases whose values it consumes.
    pub(super) shares: Vec<String>,
    /// The release that waits for the rollout, and its time budget in seconds; `None` if there is
    /// none or it is this one.
    pub(super) waits: Option<(&'a str, u64)>,
    /// The operator's namespace.
    pub(super) operator_namespace: &'a str,
    /// The name of the operator's Deployment, if its values set it.
    pub(super) operator_deployment: Option<String>,
    /// The namespace of the recipe's DRA driver, if it has one.
    pub(super) dra_namespace: Option<&'a str>,
    /// The image, if it is not the chart's default.
    pub(super) image: Option<&'a HookImage>,
}

/// Returns the hook-specific part of the plan of a hook release.
pub(super) fn plan_hook(parts: HookParts<'_>) -> HookReleasePlan {
    let rollout = &parts.recipe.rollout;
    let manner =
        rollout.driver(parts.driver).unwrap_or_else(|| (&OfedDriverRollout::default()).into());
    let (settle, operator_upgrade) =
        (&rollout.gpu_driver.settle, &rollout.gpu_driver.operator_upgrade);
    let is_gpu = parts.driver == Driver::Gpu;
    let has = |task: Task| parts.tasks.contains(&task);
    let mut upgrade = mode::upgrade(rollout, parts.driver);
    let decides = has(Task::Steer) || has(Task::Drive);
    // The preflight computes the time budget of the Job that runs the tests.
    if !(decides || has(Task::Preflight)) {
        upgrade.acceptance.clear();
    }
    let mut upgrade_values = mode::values(parts.mode, &upgrade);
    if let Some(values) = upgrade_values.as_mut().filter(|_| decides) {
        acceptance::add_templates(values, &rollout.acceptance);
    }
    // The settings that decide about rights.
    let facts = Settings {
        driver: parts.driver,
        mode: parts.mode,
        tasks: parts.tasks.to_vec(),
        operator_upgrade: *operator_upgrade,
        dra: DraSettings { reroll: rollout.dra.reroll, ..DraSettings::default() },
        upgrade: upgrade.clone(),
        admission_policy: rollout.admission_policy.enabled,
        ..Settings::default()
    };
    let settings = [
        ("image", parts.image.map(|image| Value::Object(image.values()))),
        ("component", Some(json!({"name": parts.component, "version": parts.version}))),
        ("tasks", Some(json!(parts.tasks))),
        // The chart's default is the GPU driver.
        ("driver", (parts.driver != Driver::default()).then(|| json!(parts.driver))),
        ("mode", Some(json!(parts.mode))),
        ("gate", Some(json!(manner.gate))),
        ("budgetSeconds", Some(json!(parts.budget.seconds))),
        ("perNodeSeconds", Some(json!(parts.budget.per_node_seconds))),
        ("quietSeconds", Some(json!(manner.quiet.as_secs()))),
        ("tolerateNotReady", Some(json!(manner.tolerate_not_ready))),
        ("settle", (is_gpu && !settle.is_default()).then(|| json!(settle))),
        (
            "operatorUpgrade",
            (is_gpu && has(Task::Preflight) && !operator_upgrade.is_default())
                .then(|| json!(operator_upgrade)),
        ),
        ("operatorNamespace", Some(json!(parts.operator_namespace))),
        ("operatorDeployment", parts.operator_deployment.as_ref().map(|name| json!(name))),
        ("upgrade", upgrade_values),
        ("preflight", has(Task::Preflight).then(|| preflight(&parts, &manner.preflight))),
        ("dra", Some(dra(&parts))),
        // In a bundle, a release has the name of its component.
        ("devicePlugin", has(Task::RestartPlugins).then(|| json!({"release": parts.component}))),
        (
            "admissionPolicy",
            (rollout.admission_policy != RecipeAdmissionPolicy::default())
                .then(|| json!(rollout.admission_policy)),
        ),
        ("metrics", (rollout.metrics != RecipeMetrics::default()).then(|| json!(rollout.metrics))),
    ];
    HookReleasePlan {
        component: parts.component.to_owned(),
        version: parts.version.to_owned(),
        tasks: parts.tasks.to_vec(),
        rights: rights(&facts).collect(),
        settings: settings
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect(),
        shares: parts.shares,
        budget: parts.budget,
    }
}

/// Returns the preflight's values: the release that waits for the rollout, and the strictness.
fn preflight(parts: &HookParts<'_>, strictness: &CheckStrictness) -> Value {
    let (release, seconds) = parts.waits.unwrap_or_default();
    let mut preflight = json!({"waits": {"release": release, "budgetSeconds": seconds}});
    if !strictness.is_empty() {
        preflight["strictness"] = json!(strictness);
    }
    preflight
}

/// Keeps the dashboard only in the first hook release. It shows the metrics of all hooks, and
/// Grafana refuses two dashboards with one name.
pub(super) fn keep_one_dashboard(releases: &mut [Release]) {
    let hooks = releases.iter_mut().filter_map(|release| {
        if let ReleaseKind::Hook(hook) = &mut release.kind { Some(hook) } else { None }
    });
    for hook in hooks.skip(1) {
        if let Some(Value::Object(metrics)) = hook.settings.get_mut("metrics") {
            metrics.remove("dashboard");
        }
    }
}

/// Returns the values for the DRA driver. The bundle creates the driver's namespace before any hook
/// is installed, so no namespace may be absent, and the Roles are the same with every deployer.
///
/// Only the hook after the driver's own release checks that the driver exists. On a first install,
/// the operator's hook runs before that release.
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
