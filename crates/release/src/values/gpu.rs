//! `rollout.gpuDriver` in the terms of the gpu-operator chart: `driver.version`, `driver.upgradePolicy`, `driver.manager.env`.

use serde_json::{Map, Value, json};

use super::{FixedValue, MappedValue};
use catalog::lookup;
use contract::preflight::ComingValues;
use contract::settings::Mode;
use recipe::model::GpuDriverRollout;
use recipe::rules;

/// Chart key of `rollout.gpuDriver.version`.
pub const DRIVER_VERSION: &str = "driver.version";
/// Where the policy stands.
pub const POLICY: &str = "driver.upgradePolicy";
/// Whether the operator upgrades anything by itself.
pub const AUTO_UPGRADE: &str = "driver.upgradePolicy.autoUpgrade";
/// The environment of the driver pod's init container (k8s-driver-manager).
pub const MANAGER_ENV: &str = "driver.manager.env";

/// The recipe's mode, where the operator manages the driver. With `sandboxWorkloads` its upgrade controller is switched off: there is
/// nothing to wake or to steer.
pub fn mode(driver: &GpuDriverRollout, values: &Map<String, Value>) -> Mode {
    let is = |path: &str, wanted: bool| lookup(values, path) == Some(&Value::Bool(wanted));
    let is_idle = is("driver.enabled", false)
        || is("sandboxWorkloads.enabled", true) && driver.mode != Mode::Drive;
    if is_idle { Mode::Observe } else { driver.mode }
}

/// What the mode itself sets.
pub(crate) fn fixed(mode: Mode) -> Vec<FixedValue> {
    match mode {
        Mode::Observe => Vec::new(),
        Mode::Assist => vec![(AUTO_UPGRADE, json!(true))],
        // It fails closed: nodes that we let go of bypass these limits, because we have cordoned them, and without us only one goes.
        Mode::Steer => vec![
            (AUTO_UPGRADE, json!(true)),
            ("driver.upgradePolicy.maxParallelUpgrades", json!(1)),
            ("driver.upgradePolicy.maxUnavailable", json!("25%")),
        ],
        Mode::Drive => vec![(AUTO_UPGRADE, json!(false))],
    }
}

/// What the recipe sets in this mode. Eviction is `gpuPodDeletion` in values (`podDeletion` only in the custom resource).
pub(super) fn mapped_values(driver: &GpuDriverRollout, mode: Mode) -> Vec<MappedValue> {
    super::mapped_values(
        mode,
        (driver.version.as_ref(), DRIVER_VERSION),
        (&driver.policy, POLICY),
        &rules::rollout::POLICY,
    )
}

/// What a preflight is told of the operator's values, over the chart's defaults: as the hook chart reads them (`gpu-rollout.coming` in its
/// `_settings.tpl`).
pub fn coming(values: &Map<String, Value>) -> ComingValues {
    // Without a word about the driver, what is live stays as it is.
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
