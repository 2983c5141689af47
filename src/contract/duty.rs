//! The duties of a hook Job and the rights that each one needs: the one table that the chart's RBAC, the self-check at start
//! and the documentation are made from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::driver::Driver;

/// One thing that a hook Job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Duty {
    /// Keep the NicClusterPolicy when the network operator's chart lets go of it: one annotation, before the upgrade.
    PrepareNetwork,
    /// Wait until the operators have really finished.
    Settle,
    /// Replace the DRA kubelet plugins that would go on serving the old driver.
    Reroll,
    /// Restart device plugin, GPU feature discovery and MPS daemon where a changed configuration (or driver) needs it and nothing
    /// else does it. Pods are deleted, node by node; a template annotation would restart whole DaemonSets, and the operator may take it off.
    RestartPlugins,
}

impl Duty {
    /// Every duty, in the order in which a Job performs them.
    pub const ALL: [Self; 4] = [Self::PrepareNetwork, Self::Settle, Self::Reroll, Self::RestartPlugins];

    /// The duty's name, as in settings and chart.
    pub fn name(self) -> &'static str {
        match self {
            Self::PrepareNetwork => "prepare-network",
            Self::Settle => "settle",
            Self::Reroll => "reroll",
            Self::RestartPlugins => "restart-plugins",
        }
    }
}

/// Where a right holds: which kind of role carries it and in which namespace that role stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
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

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 6] = [Self::Cluster, Self::Release, Self::Default, Self::Operator, Self::Dra, Self::DevicePlugin];
}

/// Which objects of a resource a right covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// All: the names are not known beforehand, or RBAC cannot restrict the verb (`create`).
    Any,
    /// The hook's own Job.
    Job,
    /// The run record of the hook's own release.
    Record,
    /// The cluster-wide Lease, [`crate::contract::names::LEASE_NAME`].
    Lease,
    /// The operator's Deployment that the settings name.
    OperatorDeployment,
    /// The ClusterPolicy that the settings name.
    ClusterPolicy,
    /// The one NicClusterPolicy, [`crate::contract::names::NIC_CLUSTER_POLICY`].
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
    pub duty: Option<Duty>,
    /// `None`: with every driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// Where the rule holds.
    pub scope: Scope,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource in the plural.
    pub resource: &'static str,
    /// RBAC verbs.
    pub verbs: &'static [&'static str],
    /// Objects that the rule is restricted to.
    pub object: Object,
    /// What the hook does with it.
    pub why: &'static str,
}

/// Short form of the rows below.
const fn right(
    duty: Option<Duty>,
    scope: Scope,
    (group, resource): (&'static str, &'static str),
    verbs: &'static [&'static str],
    object: Object,
    why: &'static str,
) -> Right {
    Right { duty, driver: None, scope, group, resource, verbs, object, why }
}

impl Right {
    /// The same, with one driver only.
    const fn with(self, driver: Driver) -> Self {
        Self { driver: Some(driver), ..self }
    }
}

const WATCH: &[&str] = &["list", "watch"];
const SETTLE: Option<Duty> = Some(Duty::Settle);
const REROLL: Option<Duty> = Some(Duty::Reroll);
const RESTART: Option<Duty> = Some(Duty::RestartPlugins);

/// The table. A new duty is a variant above and its rows here.
pub const RIGHTS: &[Right] = &[
    right(
        None,
        Scope::Release,
        ("batch", "jobs"),
        &["get"],
        Object::Job,
        "reads when its own Job started, so that a replacement pod keeps the same deadline",
    ),
    right(None, Scope::Release, ("", "configmaps"), &["get", "patch"], Object::Record, "keeps the run record"),
    right(None, Scope::Release, ("events.k8s.io", "events"), &["create"], Object::Any, "says on the Job what the run does"),
    right(None, Scope::Default, ("events.k8s.io", "events"), &["create"], Object::Any, "says on a node what happens to it"),
    right(
        None,
        Scope::Default,
        ("coordination.k8s.io", "leases"),
        &["create"],
        Object::Any,
        "creates the Lease once in the life of a cluster",
    ),
    right(
        None,
        Scope::Default,
        ("coordination.k8s.io", "leases"),
        &["get", "list", "watch", "update"],
        Object::Lease,
        "waits for the Lease and holds it, so that one hook Job acts at a time",
    ),
    right(
        Some(Duty::PrepareNetwork),
        Scope::Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        &["get", "patch"],
        Object::NicClusterPolicy,
        "annotates the NicClusterPolicy so that it stays when its chart lets go of it",
    ),
    right(
        SETTLE,
        Scope::Cluster,
        ("", "nodes"),
        WATCH,
        Object::Any,
        "sees nodes that need the driver, their labels and the vendor's upgrade states",
    ),
    right(SETTLE, Scope::Cluster, ("nvidia.com", "clusterpolicies"), WATCH, Object::ClusterPolicy, "sees what the operator is asked for")
        .with(Driver::Gpu),
    right(SETTLE, Scope::Cluster, ("nvidia.com", "nvidiadrivers"), WATCH, Object::Any, "the same in NVIDIADriver mode").with(Driver::Gpu),
    right(
        SETTLE,
        Scope::Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        WATCH,
        Object::NicClusterPolicy,
        "sees what the network operator is asked for",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        Scope::Operator,
        ("apps", "deployments"),
        WATCH,
        Object::OperatorDeployment,
        "sees that the operator itself has been rolled out",
    ),
    right(SETTLE, Scope::Operator, ("apps", "daemonsets"), WATCH, Object::Any, "sees whether the operator has observed the live spec"),
    right(
        SETTLE,
        Scope::Operator,
        ("apps", "controllerrevisions"),
        WATCH,
        Object::Any,
        "knows the newest revision of the driver DaemonSets",
    ),
    right(SETTLE, Scope::Operator, ("", "pods"), WATCH, Object::Any, "sees driver (and toolkit) pods on each node"),
    right(REROLL, Scope::Cluster, ("", "namespaces"), &["get"], Object::DraNamespaces, "tells an absent DRA driver from a missing right"),
    right(
        REROLL,
        Scope::Cluster,
        ("resource.k8s.io", "resourceslices"),
        WATCH,
        Object::Any,
        "sees which driver version the plugin serves on each node",
    ),
    right(REROLL, Scope::Dra, ("apps", "daemonsets"), WATCH, Object::Any, "recognizes the DRA kubelet plugin"),
    right(REROLL, Scope::Dra, ("", "pods"), &["list", "watch", "delete"], Object::Any, "sees and replaces the plugin pod of one node"),
    right(
        RESTART,
        Scope::Cluster,
        ("", "nodes"),
        WATCH,
        Object::Any,
        "sees which configuration a node's label asks for, and whether it is ready",
    ),
    right(
        RESTART,
        Scope::DevicePlugin,
        ("", "configmaps"),
        WATCH,
        Object::DevicePluginConfig,
        "sees whether the configurations are those of the values",
    ),
    right(
        RESTART,
        Scope::DevicePlugin,
        ("apps", "daemonsets"),
        WATCH,
        Object::Any,
        "recognizes device plugin, GPU feature discovery and MPS daemon",
    ),
    right(
        RESTART,
        Scope::DevicePlugin,
        ("apps", "controllerrevisions"),
        WATCH,
        Object::Any,
        "knows which pods their DaemonSet replaces by itself",
    ),
    right(RESTART, Scope::DevicePlugin, ("", "pods"), &["list", "watch", "delete"], Object::Any, "sees and restarts the pods of one node"),
];

/// The rights of a Job with these duties about this driver, in the table's order.
pub fn rights(driver: Driver, duties: &[Duty]) -> impl Iterator<Item = &'static Right> {
    let applies =
        move |right: &&Right| right.driver.is_none_or(|only| only == driver) && right.duty.is_none_or(|duty| duties.contains(&duty));
    RIGHTS.iter().filter(applies)
}
