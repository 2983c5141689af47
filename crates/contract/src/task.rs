//! The tasks of a hook Job and the rights that each one needs: the one table that the chart's RBAC, the self-check at start
//! and the documentation are made from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr, VariantArray};

use super::driver::Driver;

mod rights;

pub use rights::RIGHTS;

/// One thing that a hook Job does.
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
    /// Keep the NicClusterPolicy when the network operator's chart lets go of it: annotations, before the upgrade.
    PrepareNetwork,
    /// Look, before the operator sees the new spec, for what would stop its upgrade: evictions that can never succeed, a second actor,
    /// a budget that is too small.
    Preflight,
    /// Put our skip label with its owner annotation on every node, before the operator sees the new spec: none goes until we let go of it.
    Hold,
    /// Wait until the operators have really finished.
    Settle,
    /// Wake the vendor's controller when something happened that it does not watch, and have failed nodes tried again within a budget.
    Wake,
    /// Decide when each node goes, by letting go of it, and when it takes workloads again.
    Steer,
    /// Do the whole upgrade ourselves, node by node.
    Drive,
    /// Replace the DRA kubelet plugins that would go on serving the old driver.
    Reroll,
    /// Restart device plugin, GPU feature discovery and MPS daemon where a changed configuration (or driver) needs it and nothing
    /// else does it. Pods are deleted, node by node; a template annotation would restart whole DaemonSets, and the operator may take it off.
    RestartPlugins,
}

impl Task {
    /// Every task, in the order in which a Job performs them.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// The task's name, as in settings and chart.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it is a single step, before the operator is installed or upgraded; the others go on until the fleet is done.
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

/// Where a right holds: which kind of role carries it and in which namespace that role is.
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
    /// A Role in each namespace that may hold a DRA driver.
    Dra,
    /// A Role in the device plugin's namespace.
    DevicePlugin,
}

impl RightScope {
    /// Every scope.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");
}

/// Which objects of a resource a right covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RightTarget {
    /// All: the names are not known beforehand, or RBAC cannot restrict the verb (`create`).
    Any,
    /// The hook's own Job.
    Job,
    /// The run record of the hook's own release.
    Record,
    /// The cluster-wide Lease, [`crate::names::LEASE_NAME`].
    Lease,
    /// People's pauses, [`crate::names::PAUSE_NAME`].
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
    /// The namespaces that may hold a DRA driver.
    DraNamespaces,
    /// The ConfigMap with the device plugin's configurations; where there is none, there is no rule.
    DevicePluginConfig,
}

/// One rule: verbs on a resource, in a scope, and what the hook does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Right {
    /// `None`: every hook Job needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// `None`: with every driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// Where the rule holds.
    pub scope: RightScope,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource in the plural; a sub-resource behind a slash, as RBAC writes it (`pods/eviction`).
    pub resource: &'static str,
    /// RBAC verbs.
    pub verbs: &'static [&'static str],
    /// Objects that the rule is restricted to.
    pub object: RightTarget,
    /// What the hook does with it.
    pub why: &'static str,
}

impl Right {
    /// The same, with one driver only.
    const fn with(self, driver: Driver) -> Self {
        Self { driver: Some(driver), ..self }
    }
}

/// The rights of a Job with these tasks about this driver, in the table's order.
pub fn rights(driver: Driver, tasks: &[Task]) -> impl Iterator<Item = &'static Right> {
    let applies = move |right: &&Right| {
        right.driver.is_none_or(|only| only == driver)
            && right.task.is_none_or(|task| tasks.contains(&task))
    };
    RIGHTS.iter().filter(applies)
}
