//! `rollout.ofedDriver` in the terms of the network operator: `ofedDriver` of NicClusterPolicy, or of the values of the charts that
//! still render NicClusterPolicy themselves.

use serde_json::{Map, Value, json};

use super::{FixedValue, MappedValue};
use catalog::lookup;
use contract::settings::Mode;
use recipe::model::OfedDriverRollout;
use recipe::rules;

/// Where the version of `rollout.ofedDriver.version` stands.
pub const DRIVER_VERSION: &str = "ofedDriver.version";
/// Where the policy stands.
pub const POLICY: &str = "ofedDriver.upgradePolicy";
/// Whether the operator upgrades anything by itself.
pub const AUTO_UPGRADE: &str = "ofedDriver.upgradePolicy.autoUpgrade";

/// Whether a chart that renders NicClusterPolicy itself renders an OFED driver with these values.
pub fn is_rendered(values: &Map<String, Value>) -> bool {
    ["deployCR", "ofedDriver.deploy"]
        .iter()
        .all(|path| lookup(values, path) == Some(&Value::Bool(true)))
}

/// What the mode itself sets.
pub(crate) fn fixed(mode: Mode) -> Vec<FixedValue> {
    match mode {
        Mode::Observe => Vec::new(),
        Mode::Assist => vec![(AUTO_UPGRADE, json!(true))],
        // It fails closed, as for the GPU driver. There is no `maxUnavailable`.
        Mode::Steer => vec![
            (AUTO_UPGRADE, json!(true)),
            ("ofedDriver.upgradePolicy.maxParallelUpgrades", json!(1)),
        ],
        Mode::Drive => vec![(AUTO_UPGRADE, json!(false))],
    }
}

/// What the recipe sets.
pub(super) fn mapped_values(driver: &OfedDriverRollout) -> Vec<MappedValue> {
    super::mapped_values(
        driver.mode,
        (driver.version.as_ref(), DRIVER_VERSION),
        (&driver.policy, POLICY),
        &rules::ofed::POLICY,
    )
}
