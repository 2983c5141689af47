//! The inverse of [`super::plan()`]: converts a deployed stack into a recipe that plans the same
//! stack.

use serde_json::{Map, Value};

use super::catalog::PlanCatalog;
use super::values::{gpu, ofed};
use catalog::lookup;
use contract::check::CheckStrictness;
use contract::count::Count;
use contract::driver::Driver;
use contract::duration::Duration;
use contract::names::{DRA_DRIVER, GPU_OPERATOR, NETWORK_OPERATOR};
use contract::policy::UpgradeSettings;
use contract::settings::{DraRequired, Mode, OperatorUpgradeSettings, Settings, SettleSettings};
use contract::task::Task;
use recipe::model::{
    API_VERSION, AcceptancePodSecurity, ClusterFacts, DraRollout, GpuDriverRollout, KIND,
    OfedDriverRollout, Recipe, RecipeAdmissionPolicy, RecipeComponent, RecipeCriteria,
    RecipeMetadata, RecipeMetrics, RecipeRollout, RecipeUpgradePolicy,
};
use recipe::rules;

mod policy;
mod removal;
#[cfg(test)]
mod tests;
mod unmapped_settings;
mod without_defaults;

use removal::{remove_fixed, remove_if, remove_manager_switches};
pub use unmapped_settings::unmapped_settings;
pub use without_defaults::without_defaults;

/// The name of a recipe without a name.
const NAME: &str = "deployed";

/// A deployed stack.
pub struct DeployedStack<'a> {
    /// Facts about the cluster.
    pub cluster: ClusterFacts,
    /// The components, each with its deployed values and custom resources.
    pub components: Vec<RecipeComponent>,
    /// The settings of the deployed hooks. Hooks of other components are ignored.
    pub hooks: &'a [&'a Settings],
    /// Monitoring, from the values of the hooks' releases. Settings do not contain it.
    pub metrics: RecipeMetrics,
    /// The admission policies, from the values of the hooks' releases. Settings say only whether
    /// they are enabled.
    pub admission_policy: RecipeAdmissionPolicy,
}

/// Returns the recipe. Its `rollout` comes from values, custom resources and hooks.
pub fn recipe(deployed: DeployedStack<'_>, catalog: &impl PlanCatalog) -> Recipe {
    let DeployedStack { cluster, mut components, hooks, metrics, admission_policy } = deployed;
    let hooks: Vec<&Settings> = hooks
        .iter()
        .copied()
        .filter(|hook| components.iter().any(|one| one.name == hook.component))
        .collect();
    let rollout = RecipeRollout {
        gpu_driver: gpu_driver(components.iter_mut().find(|one| one.name == GPU_OPERATOR), &hooks),
        ofed_driver: components
            .iter_mut()
            .find(|one| one.name == NETWORK_OPERATOR)
            .and_then(|operator| ofed_driver(operator, &hooks)),
        dra: dra(&components, &hooks),
        // A hook's settings do not contain the pods of its tests.
        acceptance: Vec::new(),
        acceptance_pod_security: AcceptancePodSecurity::default(),
        metrics,
        admission_policy: RecipeAdmissionPolicy {
            enabled: hooks.iter().any(|hook| hook.admission_policy),
            ..admission_policy
        },
    };
    for component in &mut components {
        let Some(known) = catalog.component(&component.name) else { continue };
        let Some(version) = component.version.as_deref() else { continue };
        // A bundle sets these values again, but only for versions that the catalog has.
        let fixed = known.version(version).into_iter().flat_map(|exactly| &exactly.bundle_values);
        for (path, value) in fixed.chain(&known.closest_version(version).kept_names) {
            remove_fixed(&mut component.values, path, value);
        }
    }
    let metadata = RecipeMetadata {
        name: NAME.to_owned(),
        description: None,
        criteria: RecipeCriteria::default(),
    };
    let (api_version, kind) = (API_VERSION.to_owned(), KIND.to_owned());
    Recipe { api_version, kind, metadata, extends: Vec::new(), cluster, rollout, components }
}

/// The settings of a driver's rollout that both drivers have in a recipe.
struct DeployedDriverRollout {
    mode: Mode,
    /// The driver's version in the hook's settings.
    version: Option<String>,
    /// `None` if no hook has an upgrade policy.
    upgrade: Option<UpgradeSettings>,
    /// Without the tests.
    per_node_seconds: Option<u64>,
    quiet: Option<Duration>,
    tolerate_not_ready: Option<Count>,
    settle: Option<SettleSettings>,
    operator_upgrade: OperatorUpgradeSettings,
    preflight: CheckStrictness,
}

impl DeployedDriverRollout {
    /// Returns the settings of the driver's hooks; without hooks, those of NVIDIA's controllers
    /// alone.
    fn from_settings(hooks: &[&Settings], driver: Driver) -> Self {
        let mut own = hooks
            .iter()
            .filter(|hook| hook.driver == driver && hook.component == driver.traits().component);
        let settles = own.clone().find(|hook| hook.has(Task::Settle));
        let before = own.find(|hook| hook.has(Task::Preflight));
        let preflight = before.map(|hook| hook.preflight.strictness.clone());
        Self {
            mode: settles.map_or(Mode::Observe, |hook| hook.mode),
            version: settles.and_then(|hook| hook.expected.driver_version.clone()),
            upgrade: settles.map(|hook| hook.upgrade.clone()),
            per_node_seconds: settles.map(|hook| {
                let tests = hook.upgrade.every_node_test_seconds();
                hook.per_node_seconds.checked_sub(tests).unwrap_or(hook.per_node_seconds)
            }),
            // A recipe cannot set less.
            quiet: settles.map(|hook| Duration::from_secs(hook.quiet_seconds.max(1))),
            tolerate_not_ready: settles.map(|hook| hook.tolerate_not_ready),
            settle: settles.map(|hook| hook.settle),
            operator_upgrade: before.map(|hook| hook.operator_upgrade).unwrap_or_default(),
            preflight: preflight.unwrap_or_default(),
        }
    }
}

/// Returns a node's time without the wait for its jobs, which a hook's settings include.
fn per_node(seconds: u64, policy: &RecipeUpgradePolicy) -> Duration {
    let waits = policy
        .wait_for_completion
        .as_ref()
        .and_then(|wait| wait.timeout)
        .map_or(0, Duration::as_secs);
    Duration::from_secs(seconds.checked_sub(waits).filter(|left| *left > 0).unwrap_or(seconds))
}

fn gpu_driver(operator: Option<&mut RecipeComponent>, hooks: &[&Settings]) -> GpuDriverRollout {
    let usual = GpuDriverRollout::default();
    let manner = DeployedDriverRollout::from_settings(hooks, Driver::Gpu);
    let mut nothing = Map::new();
    let values = operator.map_or(&mut nothing, |operator| &mut operator.values);
    let is_managed = lookup(values, "driver.enabled") != Some(&Value::Bool(false));
    // The policy does not apply to a preinstalled driver.
    let said =
        Some(policy::of_values(values, Driver::Gpu)).filter(|_| is_managed).unwrap_or_default();
    for (path, value) in gpu::fixed(manner.mode) {
        remove_fixed(values, path, &value);
    }
    if manner.mode == Mode::Drive {
        remove_manager_switches(values);
    }
    let is_precompiled = lookup(values, "driver.usePrecompiled") == Some(&Value::Bool(true));
    let is_version = |text: &str| {
        rules::rollout::is_version(text) || is_precompiled && rules::rollout::is_branch(text)
    };
    let version =
        if is_managed { remove_version(values, gpu::DRIVER_VERSION, is_version) } else { None };
    // If values cannot be read, the hook's settings have this one.
    let told = manner.version.filter(|told| is_managed && version.is_none() && is_version(told));
    let told = told.filter(|_| lookup(values, gpu::DRIVER_VERSION).is_none());
    let policy = policy::in_mode(manner.mode, said, manner.upgrade.as_ref(), Driver::Gpu);
    GpuDriverRollout {
        mode: manner.mode,
        version: version.or(told),
        per_node: manner
            .per_node_seconds
            .map_or(usual.per_node, |seconds| per_node(seconds, &policy)),
        policy,
        gate: usual.gate,
        quiet: manner.quiet.unwrap_or(usual.quiet),
        tolerate_not_ready: manner.tolerate_not_ready.unwrap_or(usual.tolerate_not_ready),
        settle: manner.settle.unwrap_or_default(),
        operator_upgrade: manner.operator_upgrade,
        preflight: manner.preflight,
    }
}

/// Returns the OFED driver's rollout; `None` if only the custom resource or the values set it,
/// where it can stay.
fn ofed_driver(operator: &mut RecipeComponent, hooks: &[&Settings]) -> Option<OfedDriverRollout> {
    let usual = OfedDriverRollout::default();
    let manner = DeployedDriverRollout::from_settings(hooks, Driver::Ofed);
    let resource = operator
        .custom_resources
        .values_mut()
        .filter_map(Value::as_object_mut)
        .find(|spec| spec.contains_key("ofedDriver"));
    let is_resource = resource.is_some();
    let values = resource.unwrap_or(&mut operator.values);
    let said = policy::of_values(values, Driver::Ofed);
    for (path, value) in ofed::fixed(manner.mode) {
        remove_fixed(values, path, &value);
    }
    let safe_load = policy::safe_load(values);
    let policy = policy::in_mode(manner.mode, said, manner.upgrade.as_ref(), Driver::Ofed);
    let mut driver = OfedDriverRollout {
        mode: manner.mode,
        version: None,
        per_node: manner
            .per_node_seconds
            .map_or(usual.per_node, |seconds| per_node(seconds, &policy)),
        policy: policy::ofed(policy, safe_load),
        gate: usual.gate,
        quiet: manner.quiet.unwrap_or(usual.quiet),
        tolerate_not_ready: manner.tolerate_not_ready.unwrap_or(usual.tolerate_not_ready),
        preflight: manner.preflight,
    };
    if driver == (OfedDriverRollout { mode: Mode::Observe, ..usual }) {
        return None;
    }
    driver.version = remove_version(values, ofed::DRIVER_VERSION, rules::ofed::is_version);
    if is_resource && driver.mode == Mode::Observe && lookup(values, ofed::AUTO_UPGRADE).is_none() {
        // A bundle would enable it. By the operator's CRD, the value is a map or absent.
        let _ = super::values::set(values, ofed::AUTO_UPGRADE, Value::Bool(false));
    }
    Some(driver)
}

fn dra(components: &[RecipeComponent], hooks: &[&Settings]) -> DraRollout {
    let usual = DraRollout::default();
    let (settles, judges) = (
        |hook: &&&Settings| hook.driver == Driver::Gpu,
        |hook: &&&Settings| hook.component == DRA_DRIVER,
    );
    // In a bundle, the driver's own hook checks the DRA driver. A stand-alone hook checks it
    // itself, and its setting counts only if there is something to check.
    let alone = hooks.iter().find(settles).map(|hook| hook.dra.required);
    let alone = alone.filter(|required| {
        *required != DraRequired::True || components.iter().any(|one| one.name == DRA_DRIVER)
    });
    DraRollout {
        reroll: hooks.iter().find(settles).map_or(usual.reroll, |hook| hook.dra.reroll),
        required: hooks
            .iter()
            .find(judges)
            .map(|hook| hook.dra.required)
            .or(alone)
            .unwrap_or(usual.required),
    }
}

fn remove_version(
    values: &mut Map<String, Value>,
    path: &str,
    is_version: impl Fn(&str) -> bool,
) -> Option<String> {
    let taken = remove_if(values, path, |value| {
        value.as_str().is_some_and(|version| version.is_empty() || is_version(version))
    })?;
    taken.as_str().filter(|version| !version.is_empty()).map(str::to_owned)
}
