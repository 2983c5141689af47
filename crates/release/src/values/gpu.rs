//! `rollout.gpuDriver` in the terms of the gpu-operator chart: `driver.version`, `driver.upgradePolicy`, `driver.manager.env`.

use serde_json::{Map, Value, json};

use super::{FixedValue, MappedValue};
use catalog::lookup;
use contract::preflight::ComingValues;
use contract::settings::Mode;
use recipe::model::GpuDriverRollout;

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
    let is_idle = is("driver.enabled", false) || is("sandboxWorkloads.enabled", true) && driver.mode != Mode::Drive;
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

/// What the recipe sets in this mode: path below `rollout.gpuDriver`, path in the chart's values, value. Names and types are the chart's:
/// eviction is `gpuPodDeletion` in values (`podDeletion` only in the custom resource), times are whole seconds.
pub(super) fn rows(driver: &GpuDriverRollout, mode: Mode) -> Vec<MappedValue> {
    let policy = &driver.policy;
    let mut rows = Vec::new();
    let mut row = |rollout, path, value: Option<Value>| rows.extend(value.map(|value| (rollout, path, value)));
    row("version", DRIVER_VERSION, driver.version.as_ref().map(|version| json!(version)));
    if mode == Mode::Drive {
        return rows;
    }
    if !mode.decides() {
        let number = policy.max_parallel_upgrades.map(|number| json!(number));
        row("policy.maxParallelUpgrades", "driver.upgradePolicy.maxParallelUpgrades", number);
        row("policy.maxUnavailable", "driver.upgradePolicy.maxUnavailable", policy.max_unavailable.map(|count| json!(count)));
    }
    if let Some(wait) = &policy.wait_for_completion {
        row("policy.waitForCompletion.podSelector", "driver.upgradePolicy.waitForCompletion.podSelector", Some(json!(wait.pod_selector)));
        row(
            "policy.waitForCompletion.timeout",
            "driver.upgradePolicy.waitForCompletion.timeoutSeconds",
            wait.timeout.map(|timeout| json!(timeout.as_secs())),
        );
    }
    if let Some(deletion) = &policy.pod_deletion {
        row("policy.podDeletion.force", "driver.upgradePolicy.gpuPodDeletion.force", deletion.force.map(Value::Bool));
        row(
            "policy.podDeletion.timeout",
            "driver.upgradePolicy.gpuPodDeletion.timeoutSeconds",
            deletion.timeout.map(|timeout| json!(timeout.as_secs())),
        );
        row(
            "policy.podDeletion.deleteEmptyDir",
            "driver.upgradePolicy.gpuPodDeletion.deleteEmptyDir",
            deletion.delete_empty_dir.map(Value::Bool),
        );
    }
    if let Some(drain) = &policy.drain {
        row("policy.drain.enable", "driver.upgradePolicy.drain.enable", drain.enable.map(Value::Bool));
        row("policy.drain.force", "driver.upgradePolicy.drain.force", drain.force.map(Value::Bool));
        row("policy.drain.podSelector", "driver.upgradePolicy.drain.podSelector", drain.pod_selector.as_ref().map(|text| json!(text)));
        row("policy.drain.timeout", "driver.upgradePolicy.drain.timeoutSeconds", drain.timeout.map(|timeout| json!(timeout.as_secs())));
        row("policy.drain.deleteEmptyDir", "driver.upgradePolicy.drain.deleteEmptyDir", drain.delete_empty_dir.map(Value::Bool));
    }
    rows
}

/// What a preflight is told of the operator's values, over the chart's defaults: as the hook chart reads them (`gpu-rollout.coming` in its
/// `_settings.tpl`).
pub fn coming(values: &Map<String, Value>) -> ComingValues {
    // Without a word about the driver, what is live stays as it is.
    if !values.get("driver").is_some_and(Value::is_object) {
        return ComingValues::default();
    }
    let flag = |path: &str, default: bool| Some(lookup(values, path).and_then(Value::as_bool).unwrap_or(default));
    let environment = lookup(values, MANAGER_ENV).and_then(Value::as_array).into_iter().flatten();
    let pair = |one: &Value| Some((one["name"].as_str()?.to_owned(), one["value"].as_str().unwrap_or_default().to_owned()));
    ComingValues {
        driver: flag("driver.enabled", true),
        precompiled: flag("driver.usePrecompiled", false),
        nvidia_drivers: flag("driver.nvidiaDriverCRD.enabled", false),
        driver_toolkit: flag("operator.use_ocp_driver_toolkit", false),
        auto_upgrade: flag(AUTO_UPGRADE, true),
        manager_environment: Some(environment.filter_map(pair).collect()),
    }
}
