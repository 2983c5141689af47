//! The way back from [`super::plan()`]: what is deployed, as a recipe that comes to the same.

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
    API_VERSION, ClusterFacts, DraRollout, GpuDriverRollout, KIND, OfedDriverRollout, Recipe,
    RecipeComponent, RecipeMetadata, RecipeMetrics, RecipeRollout, RecipeUpgradePolicy,
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

/// What a recipe is called that nobody has named.
const NAME: &str = "deployed";

/// What is deployed.
pub struct DeployedStack<'a> {
    /// What is known of the cluster.
    pub cluster: ClusterFacts,
    /// The components, each with its values and custom resources as they are.
    pub components: Vec<RecipeComponent>,
    /// What the hooks that are there go by. Those of other components are passed over.
    pub hooks: &'a [&'a Settings],
    /// What the hooks' releases say of monitoring: it is not in their settings.
    pub metrics: RecipeMetrics,
}

/// The recipe: below `rollout` is what values, custom resources and hooks say of drivers.
pub fn recipe(deployed: DeployedStack<'_>, catalog: &impl PlanCatalog) -> Recipe {
    let DeployedStack { cluster, mut components, hooks, metrics } = deployed;
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
        metrics,
    };
    for component in &mut components {
        let Some(known) = catalog.component(&component.name) else { continue };
        let Some(version) = component.version.as_deref() else { continue };
        // A bundle sets them again: these only for versions that the catalog knows.
        let fixed = known.version(version).into_iter().flat_map(|exactly| &exactly.bundle_values);
        for (path, value) in fixed.chain(&known.closest_version(version).kept_names) {
            remove_fixed(&mut component.values, path, value);
        }
    }
    let metadata = RecipeMetadata { name: NAME.to_owned(), description: None };
    let (api_version, kind) = (API_VERSION.to_owned(), KIND.to_owned());
    Recipe { api_version, kind, metadata, extends: Vec::new(), cluster, rollout, components }
}

/// How a driver is rolled out, as far as both drivers' recipes have the same words for it.
struct DeployedDriverRollout {
    mode: Mode,
    /// The driver's version that the hook was told of.
    version: Option<String>,
    /// `None`: no hook says.
    upgrade: Option<UpgradeSettings>,
    per_node_seconds: Option<u64>,
    quiet: Option<Duration>,
    tolerate_not_ready: Option<Count>,
    settle: Option<SettleSettings>,
    operator_upgrade: OperatorUpgradeSettings,
    preflight: CheckStrictness,
}

impl DeployedDriverRollout {
    /// As the driver's hooks do it, and where none is as NVIDIA's controllers do it alone.
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
            per_node_seconds: settles.map(|hook| hook.per_node_seconds),
            // A recipe knows no less.
            quiet: settles.map(|hook| Duration::from_secs(hook.quiet_seconds.max(1))),
            tolerate_not_ready: settles.map(|hook| hook.tolerate_not_ready),
            settle: settles.map(|hook| hook.settle),
            operator_upgrade: before.map(|hook| hook.operator_upgrade).unwrap_or_default(),
            preflight: preflight.unwrap_or_default(),
        }
    }
}

/// A node's time without the wait for its jobs, which a hook's settings have in it.
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
    // Of a driver that is on the nodes already the policy upgrades nothing.
    let said =
        Some(policy::of_values(values, Driver::Gpu)).filter(|_| is_managed).unwrap_or_default();
    for (path, value) in gpu::fixed(manner.mode) {
        remove_fixed(values, path, &value);
    }
    if manner.mode == Mode::Drive {
        remove_manager_switches(values);
    }
    let version = if is_managed {
        remove_version(values, gpu::DRIVER_VERSION, rules::rollout::is_version)
    } else {
        None
    };
    // Where values cannot be read, the hook has read this one.
    let told = manner
        .version
        .filter(|told| is_managed && version.is_none() && rules::rollout::is_version(told));
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

/// `None`: nothing is said of it but in the custom resource or the values, where it may stay.
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
        // A bundle would switch it on. What is there is a map, or nothing: the operator's CRD says so.
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
    // In a bundle the driver's own hook judges; a hook that stands alone judges itself, and may only be believed if there is something to judge.
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
