//! Maps `rollout.gpuDriver` to the values of the gpu-operator chart: `driver.version`,
//! `driver.upgradePolicy`, `driver.manager.env`.

use serde_json::{Map, Value, json};

use super::{FixedValue, MappedValue};
use catalog::lookup;
use contract::preflight::ComingValues;
use contract::settings::Mode;
use recipe::model::GpuDriverRollout;
use recipe::rules;

/// Chart key of `rollout.gpuDriver.version`.
pub const DRIVER_VERSION: &str = "driver.version";
/// The path of the policy.
pub const POLICY: &str = "driver.upgradePolicy";
/// The path of the switch for the operator's upgrades.
pub const AUTO_UPGRADE: &str = "driver.upgradePolicy.autoUpgrade";
/// The environment of the driver pod's init container (k8s-driver-manager).
pub const MANAGER_ENV: &str = "driver.manager.env";

/// Returns the recipe's mode if the operator manages the driver. With `sandboxWorkloads`, the
/// operator's upgrade controller is disabled, so the hook cannot wake or steer it.
pub fn mode(driver: &GpuDriverRollout, values: &Map<String, Value>) -> Mode {
    let is = |path: &str, wanted: bool| lookup(values, path) == Some(&Value::Bool(wanted));
    let is_idle = is("driver.enabled", false)
        || is("sandboxWorkloads.enabled", true) && driver.mode != Mode::Drive;
    if is_idle { Mode::Observe } else { driver.mode }
}

/// Returns the values that the mode determines.
pub(crate) fn fixed(mode: Mode) -> Vec<FixedValue> {
    match mode {
        Mode::Observe => Vec::new(),
        Mode::Assist => vec![(AUTO_UPGRADE, json!(true))],
        // Fails closed: nodes that the hook releases bypass these limits, because the hook has
        // cordoned them. Without the hook, NVIDIA's controller upgrades only one node at a time.
        Mode::Steer => vec![
            (AUTO_UPGRADE, json!(true)),
            ("driver.upgradePolicy.maxParallelUpgrades", json!(1)),
            ("driver.upgradePolicy.maxUnavailable", json!("25%")),
        ],
        Mode::Drive => vec![(AUTO_UPGRADE, json!(false))],
    }
}

/// Returns the values that the recipe sets in this mode. Eviction is `gpuPodDeletion` in values;
/// only the custom resource has `podDeletion`.
pub(super) fn mapped_values(driver: &GpuDriverRollout, mode: Mode) -> Vec<MappedValue> {
    super::mapped_values(
        mode,
        (driver.version.as_ref(), DRIVER_VERSION),
        (&driver.policy, POLICY),
        &rules::rollout::POLICY,
    )
}

/// Returns the operator's values for the preflight, over the chart's defaults, like the hook chart
/// (`gpu-rollout.coming` in its `_settings.tpl`).
pub fn coming(values: &Map<String, Value>) -> ComingValues {
    // Without values for the driver, the live ones stay unchanged.
    if !values.get("driver").is_some_and(Value::is_object) {
        return ComingValues::default();
    }
    let flag = |path: &str, default: bool| {
        Some(lookup(values, path).and_then(Value::as_bool).unwrap_or(default))
    };
    let environment = lookup(values, MANAGER_ENV).and_then(Value::as_array).into_iter().flatten();
    let pair = |one: &Value| {
        Some((
            one["name"].as_str()?.to_owned(),
            one["value"].as_str().unwrap_or_default().to_owned(),
        ))
    };
    ComingValues {
        driver: flag("driver.enabled", true),
        precompiled: flag("driver.usePrecompiled", false),
        nvidia_drivers: flag("driver.nvidiaDriverCRD.enabled", false),
        driver_toolkit: flag("operator.use_ocp_driver_toolkit", false),
        auto_upgrade: flag(AUTO_UPGRADE, true),
        manager_environment: Some(environment.filter_map(pair).collect()),
    }
}
