//! The policy of driver upgrades: the part that both NVIDIA operators share (k8s-operator-libs
//! `api/upgrade/v1alpha1`, `DriverUpgradePolicySpec`), and gpu-rollout's additions for the modes in
//! which the hook decides.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::FleetPace;
use super::count::Count;
use super::window::{self, MaintenanceWindow};

/// NVIDIA's upgrade policy, with its defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    /// How many nodes are upgraded at once; 0 is unlimited.
    pub max_parallel_upgrades: u32,
    /// How many nodes may be unavailable. `None`: all (the Network Operator has no such limit). If
    /// the key is absent, the default applies.
    pub max_unavailable: Option<Count>,
    /// Jobs that must end before a node is changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_completion: Option<CompletionPolicy>,
    /// Eviction of the pods that use the device. `None`: there is no such step, and `drain` removes
    /// the pods. If the key is absent, the default applies.
    pub pod_deletion: Option<PodDeletionPolicy>,
    /// Drain of the whole node. `None`: no drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainPolicy>,
}

impl Default for Policy {
    /// The gpu-operator chart's defaults.
    fn default() -> Self {
        Self {
            max_parallel_upgrades: 1,
            max_unavailable: Some(Count::Percent(25)),
            wait_for_completion: None,
            pod_deletion: Some(PodDeletionPolicy::default()),
            drain: None,
        }
    }
}

impl Policy {
    /// Returns whether the policy removes pods from a node.
    pub fn evicts(&self) -> bool {
        self.pod_deletion.is_some() || self.drain.is_some()
    }
}

/// Jobs that must end first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompletionPolicy {
    /// Label selector of the pods, in all namespaces. Never empty.
    pub pod_selector: String,
    /// Seconds after which the wait for jobs ends; 0 is unlimited.
    #[serde(default)]
    pub timeout_seconds: u64,
}

/// How the pods that use the device are evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PodDeletionPolicy {
    /// Also evict pods that no controller would recreate.
    pub force: bool,
    /// Seconds that the evictions of one node may take; 0 is unlimited.
    pub timeout_seconds: u64,
    /// Also evict pods whose emptyDir is lost by the eviction.
    pub delete_empty_dir: bool,
}

impl Default for PodDeletionPolicy {
    fn default() -> Self {
        Self { force: false, timeout_seconds: 300, delete_empty_dir: false }
    }
}

/// How a node is drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DrainPolicy {
    /// Also evict pods that no controller would recreate.
    pub force: bool,
    /// Label selector of the pods; empty for all. Pods with the driver's drain-skip label always
    /// stay.
    pub pod_selector: String,
    /// Seconds that the drain of one node may take; 0 is unlimited.
    pub timeout_seconds: u64,
    /// Also evict pods whose emptyDir is lost by the eviction.
    pub delete_empty_dir: bool,
}

impl Default for DrainPolicy {
    fn default() -> Self {
        Self {
            force: false,
            pod_selector: String::new(),
            timeout_seconds: 300,
            delete_empty_dir: false,
        }
    }
}

/// The policy of a hook that decides when a node starts ([`super::settings::Mode::Steer`],
/// [`super::settings::Mode::Drive`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UpgradeSettings {
    /// The recipe's policy.
    pub policy: Policy,
    /// How many nodes may fail. If more fail, no more nodes start.
    pub failure_budget: Count,
    /// How many attempts a node gets for one cause under one trigger digest.
    pub attempts: u32,
    /// Seconds between the end of one node and the start of the next.
    pub soak_seconds: u64,
    /// When nodes may be started; empty: always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<MaintenanceWindow>,
    /// The limit for nodes with the same value of a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyLimit>,
    /// How the hook treats nodes with a foreign cordon.
    pub foreign_cordon: ForeignCordon,
    /// Label selectors of pods that use the device without requesting it. They are evicted with the
    /// others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_consumers: Vec<String>,
    /// Seconds within which a driver pod must become ready.
    pub start_seconds: u64,
    /// Seconds within which the operator's validator must succeed after the driver is ready.
    pub validation_seconds: u64,
}

impl Default for UpgradeSettings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            failure_budget: Count::Number(1),
            attempts: 2,
            soak_seconds: 0,
            windows: Vec::new(),
            topology: None,
            foreign_cordon: ForeignCordon::Skip,
            extra_consumers: Vec::new(),
            // The chart's startup probe gives the driver 21 minutes (60 s, then 120 times 10 s).
            start_seconds: 1800,
            // k8s-operator-libs `validationTimeoutSeconds`.
            validation_seconds: 600,
        }
    }
}

impl UpgradeSettings {
    /// Returns the inputs of the time budget for a number of nodes. Failed nodes stay unavailable,
    /// so the failure budget is subtracted from the limits. Limits of topology groups are ignored,
    /// because the groups are not known in advance.
    pub fn fleet(&self, nodes: usize, per_node_seconds: u64) -> FleetPace {
        let unavailable = self.policy.max_unavailable.map_or(nodes, |count| count.resolve(nodes));
        let failed = self.failure_budget.resolve(nodes);
        let left = u32::try_from(unavailable.saturating_sub(failed)).unwrap_or(u32::MAX);
        let pace = FleetPace {
            nodes,
            max_parallel: self.policy.max_parallel_upgrades,
            max_unavailable: Count::Number(left),
            per_node_seconds,
            soak_seconds: self.soak_seconds,
            closed_seconds: 0,
        };
        let cycle = per_node_seconds.saturating_add(self.soak_seconds);
        let closed_seconds = window::closed_seconds(&self.windows, pace.waves(), cycle);
        FleetPace { closed_seconds, ..pace }
    }
}

/// A limit for groups of nodes, such as the nodes of one NVLink domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TopologyLimit {
    /// The node label whose value names the group. Nodes without it belong to no group.
    #[schemars(extend("x-grammar" = "labelKey"))]
    pub label: String,
    /// How many nodes of a group may be unavailable.
    pub max_unavailable: Count,
}

/// How the hook treats nodes with a foreign cordon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ForeignCordon {
    /// The hook does not upgrade them, and reports them.
    #[default]
    Skip,
    /// The hook upgrades them, and they stay cordoned.
    Include,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disabled_checks_stay_so_when_read_again() {
        let policy = Policy { max_unavailable: None, pod_deletion: None, ..Policy::default() };
        let text = serde_json::to_string(&policy).expect("a policy can be written");
        assert_eq!(serde_json::from_str::<Policy>(&text).expect("and read"), policy, "{text}");
        assert_eq!(serde_json::from_str::<Policy>("{}").expect("defaults"), Policy::default());
    }

    #[test]
    fn nodes_that_failed_leave_less_to_be_unavailable() {
        let policy = Policy {
            max_parallel_upgrades: 4,
            max_unavailable: Some(Count::Percent(25)),
            ..Policy::default()
        };
        let upgrade = UpgradeSettings { policy, ..UpgradeSettings::default() };
        let parallel = |failures| {
            UpgradeSettings { failure_budget: failures, ..upgrade.clone() }.fleet(16, 60).parallel()
        };
        assert_eq!(
            parallel(Count::Number(1)),
            3,
            "one may fail, and the rollout goes on without it"
        );
        assert_eq!(parallel(Count::Number(2)), 2);
        assert_eq!(parallel(Count::Percent(100)), 1, "never none");
    }
}
