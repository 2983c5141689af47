//! `rollout.gpuDriver` in the terms of the gpu-operator chart: `driver.version`, `driver.upgradePolicy`.

use serde_json::{Value, json};

use super::Row;
use crate::recipe::model::GpuDriver;

/// Chart key of `rollout.gpuDriver.version`.
pub const DRIVER_VERSION: &str = "driver.version";
/// Where the policy stands.
pub const POLICY: &str = "driver.upgradePolicy";

/// What the recipe sets: path below `rollout.gpuDriver`, path in the chart's values, value. Names and types are the chart's:
/// eviction is `gpuPodDeletion` in values (`podDeletion` only in the custom resource), times are whole seconds.
pub(super) fn rows(driver: &GpuDriver) -> Vec<Row> {
    let policy = &driver.policy;
    let mut rows = Vec::new();
    let mut row = |rollout, path, value: Option<Value>| rows.extend(value.map(|value| (rollout, path, value)));
    row("version", DRIVER_VERSION, driver.version.as_ref().map(|version| json!(version)));
    row("policy.maxParallelUpgrades", "driver.upgradePolicy.maxParallelUpgrades", policy.max_parallel_upgrades.map(|number| json!(number)));
    row("policy.maxUnavailable", "driver.upgradePolicy.maxUnavailable", policy.max_unavailable.map(|count| json!(count)));
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
