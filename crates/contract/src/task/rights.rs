//! What each task needs to be allowed, and what for.

use super::super::driver::Driver;
use super::RightScope::{Cluster, DevicePlugin, Dra, Operator, Release};
use super::RightTarget::{
    Any, ClusterPolicy, DevicePluginConfig, DraNamespaces, DriverDaemonSet, Job, Lease,
    NicClusterPolicy, OperatorDeployment, OperatorLease, Pauses, Record,
};
use super::{Right, RightScope, RightTarget, Task};

/// Short form of the rows below.
const fn right(
    task: Option<Task>,
    scope: RightScope,
    (group, resource): (&'static str, &'static str),
    verbs: &'static [&'static str],
    object: RightTarget,
    why: &'static str,
) -> Right {
    Right { task, driver: None, scope, group, resource, verbs, object, why }
}

const WATCH: &[&str] = &["list", "watch"];
const PATCH: &[&str] = &["patch"];
const PREFLIGHT: Option<Task> = Some(Task::Preflight);
const SETTLE: Option<Task> = Some(Task::Settle);
const DRIVE: Option<Task> = Some(Task::Drive);
const REROLL: Option<Task> = Some(Task::Reroll);
const RESTART: Option<Task> = Some(Task::RestartPlugins);

/// The table. A new task is a variant of [`Task`] and its rows here.
pub const RIGHTS: &[Right] = &[
    right(
        None,
        Release,
        ("batch", "jobs"),
        &["get"],
        Job,
        "reads when its own Job started, so that a replacement pod keeps the same deadline",
    ),
    right(None, Release, ("", "configmaps"), &["get", "patch"], Record, "keeps the run record"),
    right(
        None,
        Release,
        ("events.k8s.io", "events"),
        &["create"],
        Any,
        "says on the Job what the run does",
    ),
    right(
        None,
        RightScope::Default,
        ("events.k8s.io", "events"),
        &["create"],
        Any,
        "says on a node what happens to it",
    ),
    right(
        None,
        RightScope::Default,
        ("coordination.k8s.io", "leases"),
        &["create"],
        Any,
        "creates the Lease once in the life of a cluster",
    ),
    right(
        None,
        RightScope::Default,
        ("coordination.k8s.io", "leases"),
        &["get", "list", "watch", "update"],
        Lease,
        "waits for the Lease and holds it, so that one hook Job acts at a time",
    ),
    right(
        None,
        RightScope::Default,
        ("", "configmaps"),
        WATCH,
        Pauses,
        "sees which nodes people have paused",
    ),
    right(
        Some(Task::PrepareNetwork),
        Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        &["get", "patch"],
        NicClusterPolicy,
        "annotates the NicClusterPolicy so that it stays when its chart lets go of it",
    ),
    right(
        PREFLIGHT,
        Cluster,
        ("", "nodes"),
        WATCH,
        Any,
        "sees the fleet, its cordons and its versions of Kubernetes",
    ),
    right(
        PREFLIGHT,
        Cluster,
        ("nvidia.com", "clusterpolicies"),
        WATCH,
        ClusterPolicy,
        "sees which policy is in force, and whether the operator would act beside us",
    )
    .with(Driver::Gpu),
    right(
        PREFLIGHT,
        Cluster,
        ("nvidia.com", "nvidiadrivers"),
        WATCH,
        Any,
        "the same in NVIDIADriver mode",
    )
    .with(Driver::Gpu),
    right(
        PREFLIGHT,
        Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        WATCH,
        NicClusterPolicy,
        "sees which policy is in force, and whether the operator would act beside us",
    )
    .with(Driver::Ofed),
    right(
        PREFLIGHT,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        Any,
        "sees the driver DaemonSets that the upgrade will change",
    )
    .with(Driver::Gpu),
    right(
        PREFLIGHT,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        Any,
        "sees the driver DaemonSets that the upgrade will change",
    )
    .with(Driver::Ofed),
    right(
        PREFLIGHT,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        DriverDaemonSet,
        "sees the driver DaemonSets that the upgrade will change",
    )
    .with(Driver::DaemonSet),
    right(
        PREFLIGHT,
        Operator,
        ("", "pods"),
        WATCH,
        Any,
        "sees on which nodes driver pods run, and whether they are ready",
    ),
    right(
        PREFLIGHT,
        Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        Any,
        "sees which nodes somebody else maintains",
    ),
    right(
        PREFLIGHT,
        Cluster,
        ("", "pods"),
        &["list"],
        Any,
        "finds the pods that no eviction moves, or that nothing brings back",
    ),
    right(
        PREFLIGHT,
        Cluster,
        ("policy", "poddisruptionbudgets"),
        WATCH,
        Any,
        "finds the PodDisruptionBudgets that never allow an eviction",
    ),
    right(
        PREFLIGHT,
        Cluster,
        ("resource.k8s.io", "resourceclaims"),
        WATCH,
        Any,
        "sees which pods use a GPU by a claim",
    ),
    right(
        Some(Task::Hold),
        Cluster,
        ("", "nodes"),
        &["list", "watch", "patch"],
        Any,
        "puts the skip label, and whose it is, on nodes that need the driver",
    ),
    right(
        Some(Task::Hold),
        Operator,
        ("apps", "deployments"),
        WATCH,
        OperatorDeployment,
        "sees whether the operator's version changes",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Cluster,
        ("", "nodes"),
        WATCH,
        Any,
        "sees nodes that need the driver, their labels and the vendor's upgrade states",
    ),
    right(
        SETTLE,
        Cluster,
        ("nvidia.com", "clusterpolicies"),
        WATCH,
        ClusterPolicy,
        "sees what the operator is asked for",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Cluster,
        ("nvidia.com", "nvidiadrivers"),
        WATCH,
        Any,
        "the same in NVIDIADriver mode",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        WATCH,
        NicClusterPolicy,
        "sees what the network operator is asked for",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        Operator,
        ("apps", "deployments"),
        WATCH,
        OperatorDeployment,
        "sees that the operator itself has been rolled out",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Operator,
        ("apps", "deployments"),
        WATCH,
        OperatorDeployment,
        "sees that the operator itself has been rolled out",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        Operator,
        ("coordination.k8s.io", "leases"),
        WATCH,
        OperatorLease,
        "sees whether the newest operator pod leads",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        Any,
        "sees whether the operator has observed the live spec",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        Any,
        "sees whether the operator has observed the live spec",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        DriverDaemonSet,
        "sees whether its controller has observed the newest template",
    )
    .with(Driver::DaemonSet),
    right(
        SETTLE,
        Operator,
        ("apps", "controllerrevisions"),
        WATCH,
        Any,
        "knows the newest revision of the driver DaemonSets",
    ),
    right(
        SETTLE,
        Operator,
        ("", "pods"),
        WATCH,
        Any,
        "sees the operator's pods, and those of driver and operands on each node",
    ),
    right(
        Some(Task::Wake),
        Cluster,
        ("", "nodes"),
        PATCH,
        Any,
        "changes a label that the vendor's controller watches, and has it try a failed node again",
    ),
    right(
        Some(Task::Steer),
        Cluster,
        ("", "nodes"),
        PATCH,
        Any,
        "takes the skip label off the node whose turn it is, cordons and uncordons it, and notes on it what is ours",
    ),
    right(
        Some(Task::Steer),
        Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        Any,
        "waits for nodes that somebody else maintains",
    ),
    right(
        DRIVE,
        Cluster,
        ("", "nodes"),
        PATCH,
        Any,
        "cordons and uncordons, and notes on the node how far its upgrade is",
    ),
    right(
        DRIVE,
        Cluster,
        ("", "pods"),
        WATCH,
        Any,
        "sees the pods that use the device, and the jobs that are waited for",
    ),
    right(
        DRIVE,
        Cluster,
        ("", "pods/eviction"),
        &["create"],
        Any,
        "evicts the pods that the policy names",
    ),
    right(
        DRIVE,
        Cluster,
        ("policy", "poddisruptionbudgets"),
        WATCH,
        Any,
        "says which PodDisruptionBudget an eviction waits for",
    ),
    right(
        DRIVE,
        Cluster,
        ("resource.k8s.io", "resourceclaims"),
        WATCH,
        Any,
        "sees which pods use a GPU by a claim",
    ),
    right(
        DRIVE,
        Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        Any,
        "waits for nodes that somebody else maintains",
    ),
    right(
        DRIVE,
        Operator,
        ("", "pods"),
        &["delete"],
        Any,
        "restarts the driver pod of a node that is empty",
    ),
    right(
        REROLL,
        Cluster,
        ("", "namespaces"),
        &["get"],
        DraNamespaces,
        "tells an absent DRA driver from a missing right",
    ),
    right(
        REROLL,
        Cluster,
        ("resource.k8s.io", "resourceslices"),
        WATCH,
        Any,
        "sees which driver version the plugin serves on each node",
    ),
    right(REROLL, Dra, ("apps", "daemonsets"), WATCH, Any, "recognizes the DRA kubelet plugin"),
    right(
        REROLL,
        Dra,
        ("", "pods"),
        &["list", "watch", "delete"],
        Any,
        "sees and replaces the plugin pod of one node",
    ),
    right(
        RESTART,
        Cluster,
        ("", "nodes"),
        WATCH,
        Any,
        "sees which configuration a node's label asks for, and whether it is ready",
    ),
    right(
        RESTART,
        DevicePlugin,
        ("", "configmaps"),
        WATCH,
        DevicePluginConfig,
        "sees whether the configurations are those of the values",
    ),
    right(
        RESTART,
        DevicePlugin,
        ("apps", "daemonsets"),
        WATCH,
        Any,
        "recognizes device plugin, GPU feature discovery and MPS daemon",
    ),
    right(
        RESTART,
        DevicePlugin,
        ("apps", "controllerrevisions"),
        WATCH,
        Any,
        "knows which pods their DaemonSet replaces by itself",
    ),
    right(
        RESTART,
        DevicePlugin,
        ("", "pods"),
        &["list", "watch", "delete"],
        Any,
        "sees and restarts the pods of one node",
    ),
];
