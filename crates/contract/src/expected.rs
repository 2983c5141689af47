//! The expected contents of the live custom resources, derived from a component's values.

use serde::{Deserialize, Serialize};

/// Facts that the chart reads from the component's values at install time. `None`: the values do
/// not specify the fact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Expected {
    /// `driver.enabled`
    pub driver_enabled: Option<bool>,
    /// `driver.version`
    pub driver_version: Option<String>,
    /// `driver.nvidiaDriverCRD.enabled`: the ClusterPolicy's `spec.driver.useNvidiaDriverCRD`.
    pub nvidia_drivers: Option<bool>,
    /// The NVIDIADriver that the GPU Operator's chart creates from `driver`, if it creates one.
    pub default_nvidia_driver: Option<ExpectedNvidiaDriver>,
    /// `driver.upgradePolicy`: the chart writes it into the ClusterPolicy and, since v26.7, into
    /// its NVIDIADriver.
    pub upgrade_policy: ExpectedUpgradePolicy,
    /// `toolkit.version`
    pub toolkit_version: Option<String>,
    /// Whether the values contain a NicClusterPolicy.
    pub nic_cluster_policy: bool,
    /// `spec.ofedDriver.version` of that NicClusterPolicy.
    pub ofed_driver_version: Option<String>,
}

/// The image of the chart's own NVIDIADriver ([`crate::names::DEFAULT_NVIDIA_DRIVER`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExpectedNvidiaDriver {
    /// `driver.repository`
    pub repository: Option<String>,
    /// `driver.image`
    pub image: Option<String>,
    /// `driver.version`
    pub version: Option<String>,
}

/// The part of an upgrade policy that decides who upgrades nodes, and how many at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExpectedUpgradePolicy {
    /// `autoUpgrade`
    pub auto_upgrade: Option<bool>,
    /// `maxParallelUpgrades`
    pub max_parallel_upgrades: Option<u32>,
    /// `maxUnavailable`, as written.
    pub max_unavailable: Option<String>,
}
