//! What a component's values say that the live custom resources must come to say.

use serde::{Deserialize, Serialize};

/// Facts that the chart reads out of the component's values at install time. `None`: the values do not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expected {
    /// `driver.enabled`
    #[serde(default)]
    pub driver_enabled: Option<bool>,
    /// `driver.version`
    #[serde(default)]
    pub driver_version: Option<String>,
    /// `driver.nvidiaDriverCRD.enabled`: the ClusterPolicy's `spec.driver.useNvidiaDriverCRD`.
    #[serde(default)]
    pub nvidia_drivers: Option<bool>,
    /// The NVIDIADriver that the GPU operator's chart makes from `driver`, if it makes one.
    #[serde(default)]
    pub default_nvidia_driver: Option<ExpectedNvidiaDriver>,
    /// `driver.upgradePolicy`: what the chart writes into the ClusterPolicy and, from v26.7 on, into its NVIDIADriver.
    #[serde(default)]
    pub upgrade_policy: ExpectedUpgradePolicy,
    /// `toolkit.version`
    #[serde(default)]
    pub toolkit_version: Option<String>,
    /// Whether they have a NicClusterPolicy.
    #[serde(default)]
    pub nic_cluster_policy: bool,
    /// `spec.ofedDriver.version` of that NicClusterPolicy.
    #[serde(default)]
    pub ofed_driver_version: Option<String>,
}

/// The image of the chart's own NVIDIADriver ([`crate::names::DEFAULT_NVIDIA_DRIVER`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectedNvidiaDriver {
    /// `driver.repository`
    #[serde(default)]
    pub repository: Option<String>,
    /// `driver.image`
    #[serde(default)]
    pub image: Option<String>,
    /// `driver.version`
    #[serde(default)]
    pub version: Option<String>,
}

/// The part of an upgrade policy that decides who upgrades and how many nodes go at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectedUpgradePolicy {
    /// `autoUpgrade`
    #[serde(default)]
    pub auto_upgrade: Option<bool>,
    /// `maxParallelUpgrades`
    #[serde(default)]
    pub max_parallel_upgrades: Option<u32>,
    /// `maxUnavailable`, as written.
    #[serde(default)]
    pub max_unavailable: Option<String>,
}
