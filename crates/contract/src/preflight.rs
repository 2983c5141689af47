//! What a preflight knows about the release that follows it: the hook chart reads it from the
//! component's values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::check::CheckStrictness;

/// The contents of the values of the release that is about to be deployed. `None`: the values do
/// not specify the key, and the live setting stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ComingValues {
    /// GPU: `driver.enabled`. OFED: whether the NicClusterPolicy has an `ofedDriver`.
    pub driver: Option<bool>,
    /// `driver.usePrecompiled`
    pub precompiled: Option<bool>,
    /// `driver.nvidiaDriverCRD.enabled`
    pub nvidia_drivers: Option<bool>,
    /// `operator.use_ocp_driver_toolkit`, which has an effect only on OpenShift.
    pub driver_toolkit: Option<bool>,
    /// `autoUpgrade` of the upgrade policy.
    pub auto_upgrade: Option<bool>,
    /// `driver.manager.env`
    pub manager_environment: Option<BTreeMap<String, String>>,
}

/// The settings of a preflight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PreflightSettings {
    /// The values that are about to be deployed.
    pub coming: ComingValues,
    /// The Job that waits for the rollout, if it is not this one; `None` if it is not known.
    pub waits: Option<WaitingJob>,
    /// Which findings block.
    pub strictness: CheckStrictness,
}

/// The Job that waits for a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitingJob {
    /// Its release.
    pub release: String,
    /// Its time budget B in seconds.
    pub budget_seconds: u64,
}
