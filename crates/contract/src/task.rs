//! The tasks of a hook Job, and the rights that each task needs. The chart's RBAC, the self-check
//! at the start and the documentation are generated from this table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr, VariantArray};

use super::driver::Driver;
use super::settings::Settings;

mod node_changes;
mod right_condition;
mod rights;

pub use node_changes::{AllowedNodeChanges, NODE_CHANGES, NodeChange};
pub use right_condition::RightCondition;
pub use rights::RIGHTS;

/// One unit of the work of a hook Job.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    EnumCount,
    VariantArray,
    IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Retain the NicClusterPolicy when the Network Operator's chart no longer contains it: sets
    /// annotations before the upgrade.
    PrepareNetwork,
    /// Check, before the operator receives the new spec, for problems that would stop its upgrade:
    /// evictions that can never succeed, a second controller that upgrades the same nodes, a time
    /// budget that is too small.
    Preflight,
    /// Set the skip label with its hold annotation on every node, before the operator receives the
    /// new spec: no node starts until the hook releases its hold.
    Hold,
    /// Wait until the fleet is settled.
    Settle,
    /// Wake NVIDIA's controller after events that it does not watch, and retry failed nodes within
    /// a limit.
    Wake,
    /// Release the hold of one node after the other, and decide when the node takes workloads
    /// again.
    Steer,
    /// Perform the whole upgrade, node by node.
    Drive,
    /// Replace the DRA kubelet plugins that would keep serving the old driver.
    Reroll,
    /// Restart device plugin, GPU feature discovery and MPS daemon after a change of their
    /// configuration (or driver) if no other controller does. The hook deletes their pods, node by
    /// node: a template annotation would restart whole DaemonSets, and the operator may remove it.
    RestartPlugins,
}

impl Task {
    /// Every task, in the order in which a Job performs them.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Returns the task's name in settings and chart.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether the task is a single step before the operator is installed or upgraded; the
    /// other tasks run until the fleet is settled.
    pub fn is_step(self) -> bool {
        match self {
            Self::PrepareNetwork | Self::Preflight | Self::Hold => true,
            Self::Settle
            | Self::Wake
            | Self::Steer
            | Self::Drive
            | Self::Reroll
            | Self::RestartPlugins => false,
        }
    }
}

/// Where a right applies: the kind of role, and the namespace of the role.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    EnumCount,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
pub enum RightScope {
    /// A ClusterRole: cluster-scoped objects.
    Cluster,
    /// A Role in the hook's own release namespace.
    Release,
    /// A Role in `default`: the Lease, and events about nodes.
    Default,
    /// A Role in the operator's namespace.
    Operator,
    /// A Role in each namespace that may contain a DRA driver.
    Dra,
    /// A Role in the device plugin's namespace.
    DevicePlugin,
    /// A Role in the namespace of the acceptance tests,
    /// [`crate::acceptance::ACCEPTANCE_NAMESPACE`].
    Acceptance,
}

impl RightScope {
    /// Every scope.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");
}

/// The objects of a resource that a right covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RightTarget {
    /// All objects: their names are not known in advance, or RBAC cannot restrict the verb
    /// (`create`).
    Any,
    /// The hook's own Job.
    Job,
    /// The run record of the hook's own release.
    Record,
    /// The cluster-wide Lease, [`crate::names::LEASE_NAME`].
    Lease,
    /// The pauses, [`crate::names::PAUSE_NAME`].
    Pauses,
    /// The operator's Deployment that the settings name.
    OperatorDeployment,
    /// The Lease of the operator's leader, [`crate::names::OPERATOR_LEASE`].
    OperatorLease,
    /// The driver's DaemonSet that the settings name.
    DriverDaemonSet,
    /// The ClusterPolicy that the settings name.
    ClusterPolicy,
    /// The one NicClusterPolicy, [`crate::names::NIC_CLUSTER_POLICY`].
    NicClusterPolicy,
    /// The namespaces that may contain a DRA driver.
    DraNamespaces,
    /// The ConfigMap with the device plugin's configurations; without a ConfigMap, there is no
    /// rule.
    DevicePluginConfig,
}

/// One rule: verbs on a resource, in a scope, and why the hook needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Right {
    /// The task that needs the right. `None`: every hook Job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The driver for which the right is needed. `None`: every driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// What the settings must ask for. `None`: the task needs the right with all settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<RightCondition>,
    /// Where the rule applies.
    pub scope: RightScope,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource in the plural; a subresource follows a slash, as in RBAC (`pods/eviction`).
    pub resource: &'static str,
    /// RBAC verbs.
    pub verbs: &'static [&'static str],
    /// Objects that the rule is restricted to.
    pub object: RightTarget,
    /// Why the hook needs it.
    pub why: &'static str,
}

impl Right {
    /// Restricts the right to one driver.
    const fn with(self, driver: Driver) -> Self {
        Self { driver: Some(driver), ..self }
    }

    /// Restricts the right to settings that meet a condition.
    const fn when(self, condition: RightCondition) -> Self {
        Self { when: Some(condition), ..self }
    }
}

/// Returns the rights of a Job with these settings, in the order of the table.
pub fn rights(settings: &Settings) -> impl Iterator<Item = &'static Right> {
    let applies = |right: &&Right| {
        right.driver.is_none_or(|only| only == settings.driver)
            && right.task.is_none_or(|task| settings.has(task))
            && right.when.is_none_or(|condition| condition.is_met(settings))
    };
    RIGHTS.iter().filter(applies)
}
