//! Maps `rollout.ofedDriver` to `ofedDriver` of NicClusterPolicy, or of the values of charts that
//! render NicClusterPolicy themselves.

use serde_json::{Map, Value, json};

use super::{FixedValue, MappedValue};
use catalog::lookup;
use contract::settings::Mode;
use recipe::model::OfedDriverRollout;
use recipe::rules;

/// The path of the version (`rollout.ofedDriver.version`).
pub const DRIVER_VERSION: &str = "ofedDriver.version";
/// The path of the policy.
pub const POLICY: &str = "ofedDriver.upgradePolicy";
/// The path of the switch for the operator's upgrades.
pub const AUTO_UPGRADE: &str = "ofedDriver.upgradePolicy.autoUpgrade";

/// Whether a chart that renders NicClusterPolicy itself renders an OFED driver with these values.
pub fn is_rendered(values: &Map<String, Value>) -> bool {
    ["deployCR", "ofedDriver.deploy"]
        .iter()
        .all(|path| lookup(values, path) == Some(&Value::Bool(true)))
}

/// Returns the values that the mode determines.
pub(crate) fn fixed(mode: Mode) -> Vec<FixedValue> {
    match mode {
        Mode::Observe => Vec::new(),
        Mode::Assist => vec![(AUTO_UPGRADE, json!(true))],
        // Fails closed, as for the GPU driver. There is no `maxUnavailable`.
        Mode::Steer => vec![
            (AUTO_UPGRADE, json!(true)),
            ("ofedDriver.upgradePolicy.maxParallelUpgrades", json!(1)),
        ],
        Mode::Drive => vec![(AUTO_UPGRADE, json!(false))],
    }
}

/// Returns the values that the recipe sets.
pub(super) fn mapped_values(driver: &OfedDriverRollout) -> Vec<MappedValue> {
    super::mapped_values(
        driver.mode,
        (driver.version.as_ref(), DRIVER_VERSION),
        (&driver.policy, POLICY),
        &rules::ofed::POLICY,
    )
}
