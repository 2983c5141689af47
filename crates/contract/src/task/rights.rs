//! What each task needs to be allowed, and what for.

use super::super::driver::Driver;
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
        RightScope::Release,
        ("batch", "jobs"),
        &["get"],
        RightTarget::Job,
        "reads when its own Job started, so that a replacement pod keeps the same deadline",
    ),
    right(None, RightScope::Release, ("", "configmaps"), &["get", "patch"], RightTarget::Record, "keeps the run record"),
    right(None, RightScope::Release, ("events.k8s.io", "events"), &["create"], RightTarget::Any, "says on the Job what the run does"),
    right(None, RightScope::Default, ("events.k8s.io", "events"), &["create"], RightTarget::Any, "says on a node what happens to it"),
    right(
        None,
        RightScope::Default,
        ("coordination.k8s.io", "leases"),
        &["create"],
        RightTarget::Any,
        "creates the Lease once in the life of a cluster",
    ),
    right(
        None,
        RightScope::Default,
        ("coordination.k8s.io", "leases"),
        &["get", "list", "watch", "update"],
        RightTarget::Lease,
        "waits for the Lease and holds it, so that one hook Job acts at a time",
    ),
    right(None, RightScope::Default, ("", "configmaps"), WATCH, RightTarget::Pauses, "sees which nodes people have paused"),
    right(
        Some(Task::PrepareNetwork),
        RightScope::Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        &["get", "patch"],
        RightTarget::NicClusterPolicy,
        "annotates the NicClusterPolicy so that it stays when its chart lets go of it",
    ),
    right(
        PREFLIGHT,
        RightScope::Cluster,
        ("", "nodes"),
        WATCH,
        RightTarget::Any,
        "sees the fleet, its cordons and its versions of Kubernetes",
    ),
    right(
        PREFLIGHT,
        RightScope::Cluster,
        ("nvidia.com", "clusterpolicies"),
        WATCH,
        RightTarget::ClusterPolicy,
        "sees which policy is in force, and whether the operator would act beside us",
    )
    .with(Driver::Gpu),
    right(PREFLIGHT, RightScope::Cluster, ("nvidia.com", "nvidiadrivers"), WATCH, RightTarget::Any, "the same in NVIDIADriver mode")
        .with(Driver::Gpu),
    right(
        PREFLIGHT,
        RightScope::Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        WATCH,
        RightTarget::NicClusterPolicy,
        "sees which policy is in force, and whether the operator would act beside us",
    )
    .with(Driver::Ofed),
    right(
        PREFLIGHT,
        RightScope::Operator,
        ("apps", "daemonsets"),
        WATCH,
        RightTarget::Any,
        "sees the driver DaemonSets that the upgrade will change",
    )
    .with(Driver::Gpu),
    right(
        PREFLIGHT,
        RightScope::Operator,
        ("apps", "daemonsets"),
        WATCH,
        RightTarget::Any,
        "sees the driver DaemonSets that the upgrade will change",
    )
    .with(Driver::Ofed),
    right(
        PREFLIGHT,
        RightScope::Operator,
        ("apps", "daemonsets"),
        WATCH,
        RightTarget::DriverDaemonSet,
        "sees the driver DaemonSets that the upgrade will change",
    )
    .with(Driver::DaemonSet),
    right(
        PREFLIGHT,
        RightScope::Operator,
        ("", "pods"),
        WATCH,
        RightTarget::Any,
        "sees on which nodes driver pods run, and whether they are ready",
    ),
    right(
        PREFLIGHT,
        RightScope::Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        RightTarget::Any,
        "sees which nodes somebody else maintains",
    ),
    right(
        PREFLIGHT,
        RightScope::Cluster,
        ("", "pods"),
        &["list"],
        RightTarget::Any,
        "finds the pods that no eviction moves, or that nothing brings back",
    ),
    right(
        PREFLIGHT,
        RightScope::Cluster,
        ("policy", "poddisruptionbudgets"),
        WATCH,
        RightTarget::Any,
        "finds the PodDisruptionBudgets that never allow an eviction",
    ),
    right(
        PREFLIGHT,
        RightScope::Cluster,
        ("resource.k8s.io", "resourceclaims"),
        WATCH,
        RightTarget::Any,
        "sees which pods use a GPU by a claim",
    ),
    right(
        Some(Task::Hold),
        RightScope::Cluster,
        ("", "nodes"),
        &["list", "watch", "patch"],
        RightTarget::Any,
        "puts the skip label, and whose it is, on nodes that need the driver",
    ),
    right(
        Some(Task::Hold),
        RightScope::Operator,
        ("apps", "deployments"),
        WATCH,
        RightTarget::OperatorDeployment,
        "sees whether the operator's version changes",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        RightScope::Cluster,
        ("", "nodes"),
        WATCH,
        RightTarget::Any,
        "sees nodes that need the driver, their labels and the vendor's upgrade states",
    ),
    right(
        SETTLE,
        RightScope::Cluster,
        ("nvidia.com", "clusterpolicies"),
        WATCH,
        RightTarget::ClusterPolicy,
        "sees what the operator is asked for",
    )
    .with(Driver::Gpu),
    right(SETTLE, RightScope::Cluster, ("nvidia.com", "nvidiadrivers"), WATCH, RightTarget::Any, "the same in NVIDIADriver mode")
        .with(Driver::Gpu),
    right(
        SETTLE,
        RightScope::Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        WATCH,
        RightTarget::NicClusterPolicy,
        "sees what the network operator is asked for",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        RightScope::Operator,
        ("apps", "deployments"),
        WATCH,
        RightTarget::OperatorDeployment,
        "sees that the operator itself has been rolled out",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        RightScope::Operator,
        ("apps", "deployments"),
        WATCH,
        RightTarget::OperatorDeployment,
        "sees that the operator itself has been rolled out",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        RightScope::Operator,
        ("coordination.k8s.io", "leases"),
        WATCH,
        RightTarget::OperatorLease,
        "sees whether the newest operator pod leads",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        RightScope::Operator,
        ("apps", "daemonsets"),
        WATCH,
        RightTarget::Any,
        "sees whether the operator has observed the live spec",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        RightScope::Operator,
        ("apps", "daemonsets"),
        WATCH,
        RightTarget::Any,
        "sees whether the operator has observed the live spec",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        RightScope::Operator,
        ("apps", "daemonsets"),
        WATCH,
        RightTarget::DriverDaemonSet,
        "sees whether its controller has observed the newest template",
    )
    .with(Driver::DaemonSet),
    right(
        SETTLE,
        RightScope::Operator,
        ("apps", "controllerrevisions"),
        WATCH,
        RightTarget::Any,
        "knows the newest revision of the driver DaemonSets",
    ),
    right(
        SETTLE,
        RightScope::Operator,
        ("", "pods"),
        WATCH,
        RightTarget::Any,
        "sees the operator's pods, and those of driver and operands on each node",
    ),
    right(
        Some(Task::Wake),
        RightScope::Cluster,
        ("", "nodes"),
        PATCH,
        RightTarget::Any,
        "changes a label that the vendor's controller watches, and has it try a failed node again",
    ),
    right(
        Some(Task::Steer),
        RightScope::Cluster,
        ("", "nodes"),
        PATCH,
        RightTarget::Any,
        "takes the skip label off the node whose turn it is, cordons and uncordons it, and notes on it what is ours",
    ),
    right(
        Some(Task::Steer),
        RightScope::Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        RightTarget::Any,
        "waits for nodes that somebody else maintains",
    ),
    right(
        DRIVE,
        RightScope::Cluster,
        ("", "nodes"),
        PATCH,
        RightTarget::Any,
        "cordons and uncordons, and notes on the node how far its upgrade is",
    ),
    right(
        DRIVE,
        RightScope::Cluster,
        ("", "pods"),
        WATCH,
        RightTarget::Any,
        "sees the pods that use the device, and the jobs that are waited for",
    ),
    right(DRIVE, RightScope::Cluster, ("", "pods/eviction"), &["create"], RightTarget::Any, "evicts the pods that the policy names"),
    right(
        DRIVE,
        RightScope::Cluster,
        ("policy", "poddisruptionbudgets"),
        WATCH,
        RightTarget::Any,
        "says which PodDisruptionBudget an eviction waits for",
    ),
    right(
        DRIVE,
        RightScope::Cluster,
        ("resource.k8s.io", "resourceclaims"),
        WATCH,
        RightTarget::Any,
        "sees which pods use a GPU by a claim",
    ),
    right(
        DRIVE,
        RightScope::Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        RightTarget::Any,
        "waits for nodes that somebody else maintains",
    ),
    right(DRIVE, RightScope::Operator, ("", "pods"), &["delete"], RightTarget::Any, "restarts the driver pod of a node that is empty"),
    right(
        REROLL,
        RightScope::Cluster,
        ("", "namespaces"),
        &["get"],
        RightTarget::DraNamespaces,
        "tells an absent DRA driver from a missing right",
    ),
    right(
        REROLL,
        RightScope::Cluster,
        ("resource.k8s.io", "resourceslices"),
        WATCH,
        RightTarget::Any,
        "sees which driver version the plugin serves on each node",
    ),
    right(REROLL, RightScope::Dra, ("apps", "daemonsets"), WATCH, RightTarget::Any, "recognizes the DRA kubelet plugin"),
    right(
        REROLL,
        RightScope::Dra,
        ("", "pods"),
        &["list", "watch", "delete"],
        RightTarget::Any,
        "sees and replaces the plugin pod of one node",
    ),
    right(
        RESTART,
        RightScope::Cluster,
        ("", "nodes"),
        WATCH,
        RightTarget::Any,
        "sees which configuration a node's label asks for, and whether it is ready",
    ),
    right(
        RESTART,
        RightScope::DevicePlugin,
        ("", "configmaps"),
        WATCH,
        RightTarget::DevicePluginConfig,
        "sees whether the configurations are those of the values",
    ),
    right(
        RESTART,
        RightScope::DevicePlugin,
        ("apps", "daemonsets"),
        WATCH,
        RightTarget::Any,
        "recognizes device plugin, GPU feature discovery and MPS daemon",
    ),
    right(
        RESTART,
        RightScope::DevicePlugin,
        ("apps", "controllerrevisions"),
        WATCH,
        RightTarget::Any,
        "knows which pods their DaemonSet replaces by itself",
    ),
    right(
        RESTART,
        RightScope::DevicePlugin,
        ("", "pods"),
        &["list", "watch", "delete"],
        RightTarget::Any,
        "sees and restarts the pods of one node",
    ),
];
