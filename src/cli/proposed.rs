//! What a recipe's GPU operator and its hook would do: what a prediction needs to know of them.

use serde_json::{Map, Value};

use catalog::lookup;
use contract::count::Count;
use contract::driver::Driver;
use contract::policy::UpgradeSettings;
use contract::preflight::PreflightSettings;
use contract::settings::{DraSettings, Expected, Mode, Settings};
use contract::task::Task;
use contract::{names, settings};
use nvidia_upgrade::generation::ControllerGeneration;
use ops::plan::ProposedDeployment;
use recipe::model::Recipe;
use release::values::gpu;
use release::{EmbeddedCatalog, PlanOptions, ReleaseKind, plan};

/// What comes with a recipe.
pub(super) struct ProposedRecipe {
    /// The operator and its hook.
    pub(super) proposed: ProposedDeployment,
    /// There is a DRA driver.
    pub(super) dra: bool,
}

/// The version of the operator whose controller does the upgrades. Its limits are those of the values, where they say something.
fn operator(
    mode: Mode,
    version: &str,
    values: &Map<String, Value>,
    upgrade: &mut UpgradeSettings,
) -> Result<String, (String, Option<String>)> {
    let hint = || Some("see how our own engine would do it: --set rollout.gpuDriver.mode=drive".to_owned());
    if lookup(values, gpu::AUTO_UPGRADE) == Some(&Value::Bool(false)) {
        return Err((format!("{} is false: in mode `{}` nobody upgrades a driver", gpu::AUTO_UPGRADE, mode.name()), hint()));
    }
    if ControllerGeneration::from_version(Driver::Gpu, Some(version)).is_none() {
        return Err((format!("gpu-operator {version}: it is not known how its upgrade controller behaves"), hint()));
    }
    if !mode.decides() {
        let at = |key: &str| lookup(values, &format!("{}.{key}", gpu::POLICY)).cloned();
        let policy = &mut upgrade.policy;
        policy.max_parallel_upgrades =
            at("maxParallelUpgrades").and_then(|value| u32::try_from(value.as_u64()?).ok()).unwrap_or(policy.max_parallel_upgrades);
        let limit = at("maxUnavailable").and_then(|value| serde_json::from_value::<Count>(value).ok());
        policy.max_unavailable = limit.or(policy.max_unavailable);
    }
    Ok(version.to_owned())
}

/// What the recipe's hook would do, as far as the model knows it.
///
/// # Errors
/// What there is not to be predicted, and what to do.
pub(super) fn proposed(recipe: &Recipe) -> Result<ProposedRecipe, (String, Option<String>)> {
    let planned = plan(recipe, &EmbeddedCatalog, &PlanOptions::default()).map_err(|error| (error.to_string(), error.hint()))?;
    let hook = planned.releases.iter().find_map(|release| match &release.kind {
        ReleaseKind::Hook(hook) if hook.component == names::OPERATOR_DEPLOYMENT && hook.tasks.contains(&Task::Settle) => Some(hook),
        ReleaseKind::Upstream(_) | ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) | ReleaseKind::Hook(_) => None,
    });
    let hook = hook.ok_or_else(|| ("the recipe has no gpu-operator: there is no upgrade to simulate".to_owned(), None))?;
    let values = planned.releases.iter().find_map(|release| match &release.kind {
        ReleaseKind::Upstream(upstream) if release.name == hook.component => Some(upstream.values.clone()),
        ReleaseKind::Upstream(_) | ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) | ReleaseKind::Hook(_) => None,
    });
    let values = values.unwrap_or_default();
    let mode = gpu::mode(&recipe.rollout.gpu_driver, &values);
    let mut upgrade = release::upgrade(&recipe.rollout, Driver::Gpu);
    let operator = match mode {
        Mode::Drive => None,
        Mode::Observe | Mode::Assist | Mode::Steer => Some(operator(mode, &hook.version, &values, &mut upgrade)?),
    };
    let dra = recipe.components.iter().any(|component| component.enabled && component.name == names::DRA_NAMESPACES[0]);
    let rollout = &recipe.rollout;
    let before = [Task::Preflight, Task::Hold];
    let of_mode = mode.tasks().iter().copied().filter(|task| !before.contains(task));
    let tasks = std::iter::once(Task::Settle).chain(of_mode).chain(dra.then_some(Task::Reroll)).collect();
    let settings = Settings {
        format_version: settings::FORMAT_VERSION,
        digest: String::new(),
        release: format!("{}-post", hook.component),
        namespace: hook.component.clone(),
        record: format!("{}-post-record", hook.component),
        component: hook.component.clone(),
        component_version: Some(hook.version.clone()),
        tasks,
        driver: Driver::Gpu,
        mode,
        gate: rollout.gpu_driver.gate,
        budget_seconds: hook.budget.seconds,
        per_node_seconds: hook.budget.per_node_seconds,
        quiet_seconds: rollout.gpu_driver.quiet.as_secs(),
        grace_seconds: 300,
        operator_namespace: hook.component.clone(),
        operator_deployment: None,
        daemon_set: None,
        cluster_policy: names::CLUSTER_POLICY.to_owned(),
        tolerate_not_ready: rollout.gpu_driver.tolerate_not_ready,
        upgrade,
        settle: rollout.gpu_driver.settle,
        operator_upgrade: rollout.gpu_driver.operator_upgrade,
        dra: DraSettings {
            reroll: rollout.dra.reroll,
            required: rollout.dra.required,
            namespaces: vec![names::DRA_NAMESPACES[0].to_owned()],
            max_unavailable: release::time::DRA_MAX_UNAVAILABLE,
            replacement_seconds: release::time::REPLACEMENT_SECONDS,
        },
        device_plugin: settings::DevicePluginSettings::default(),
        expected: Expected::default(),
        preflight: PreflightSettings { coming: gpu::coming(&values), waits: None, strictness: rollout.gpu_driver.preflight.clone() },
    };
    let proposed = ProposedDeployment { settings, driver: rollout.gpu_driver.version.clone(), chart: Some(hook.version.clone()), operator };
    Ok(ProposedRecipe { proposed, dra })
}
