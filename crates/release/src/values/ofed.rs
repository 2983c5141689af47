//! `rollout.ofedDriver` in the terms of the network operator: `ofedDriver` of NicClusterPolicy, or of the values of the charts that
//! still render NicClusterPolicy themselves.

use serde_json::{Map, Value, json};

use super::{FixedValue, MappedValue};
use catalog::lookup;
use contract::settings::Mode;
use recipe::model::OfedDriverRollout;

/// Where the policy stands.
pub const POLICY: &str = "ofedDriver.upgradePolicy";
/// Whether the operator upgrades anything by itself.
pub const AUTO_UPGRADE: &str = "ofedDriver.upgradePolicy.autoUpgrade";

/// Whether a chart that renders NicClusterPolicy itself renders an OFED driver with these values.
pub fn is_rendered(values: &Map<String, Value>) -> bool {
    ["deployCR", "ofedDriver.deploy"].iter().all(|path| lookup(values, path) == Some(&Value::Bool(true)))
}

/// What the mode itself sets.
pub(crate) fn fixed(mode: Mode) -> Vec<FixedValue> {
    match mode {
        Mode::Observe => Vec::new(),
        Mode::Assist => vec![(AUTO_UPGRADE, json!(true))],
        // It fails closed, as for the GPU driver. There is no `maxUnavailable`.
        Mode::Steer => vec![(AUTO_UPGRADE, json!(true)), ("ofedDriver.upgradePolicy.maxParallelUpgrades", json!(1))],
        Mode::Drive => vec![(AUTO_UPGRADE, json!(false))],
    }
}

/// What the recipe sets: path below `rollout.ofedDriver`, path in NicClusterPolicy's spec, value. Times are whole seconds.
pub(super) fn rows(driver: &OfedDriverRollout) -> Vec<MappedValue> {
    let policy = &driver.policy;
    let mut rows = Vec::new();
    let mut row = |rollout, path, value: Option<Value>| rows.extend(value.map(|value| (rollout, path, value)));
    row("version", "ofedDriver.version", driver.version.as_ref().map(|version| json!(version)));
    if driver.mode == Mode::Drive {
        return rows;
    }
    if !driver.mode.decides() {
        let number = policy.max_parallel_upgrades.map(|number| json!(number));
        row("policy.maxParallelUpgrades", "ofedDriver.upgradePolicy.maxParallelUpgrades", number);
    }
    row("policy.safeLoad", "ofedDriver.upgradePolicy.safeLoad", policy.safe_load.map(Value::Bool));
    if let Some(wait) = &policy.wait_for_completion {
        row(
            "policy.waitForCompletion.podSelector",
            "ofedDriver.upgradePolicy.waitForCompletion.podSelector",
            Some(json!(wait.pod_selector)),
        );
        row(
            "policy.waitForCompletion.timeout",
            "ofedDriver.upgradePolicy.waitForCompletion.timeoutSeconds",
            wait.timeout.map(|timeout| json!(timeout.as_secs())),
        );
    }
    if let Some(drain) = &policy.drain {
        row("policy.drain.enable", "ofedDriver.upgradePolicy.drain.enable", drain.enable.map(Value::Bool));
        row("policy.drain.force", "ofedDriver.upgradePolicy.drain.force", drain.force.map(Value::Bool));
        row("policy.drain.podSelector", "ofedDriver.upgradePolicy.drain.podSelector", drain.pod_selector.as_ref().map(|text| json!(text)));
        row("policy.drain.timeout", "ofedDriver.upgradePolicy.drain.timeoutSeconds", drain.timeout.map(|timeout| json!(timeout.as_secs())));
        row("policy.drain.deleteEmptyDir", "ofedDriver.upgradePolicy.drain.deleteEmptyDir", drain.delete_empty_dir.map(Value::Bool));
    }
    rows
}
