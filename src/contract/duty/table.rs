//! What each duty needs to be allowed, and what for.

use super::super::driver::Driver;
use super::{Duty, Object, Right, Scope};

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

const WATCH: &[&str] = &["list", "watch"];
const PATCH: &[&str] = &["patch"];
const PREFLIGHT: Option<Duty> = Some(Duty::Preflight);
const SETTLE: Option<Duty> = Some(Duty::Settle);
const DRIVE: Option<Duty> = Some(Duty::Drive);
const REROLL: Option<Duty> = Some(Duty::Reroll);
const RESTART: Option<Duty> = Some(Duty::RestartPlugins);

/// The table. A new duty is a variant of [`Duty`] and its rows here.
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
    right(None, Scope::Default, ("", "configmaps"), WATCH, Object::Pauses, "sees which nodes people have paused"),
    right(
        Some(Duty::PrepareNetwork),
        Scope::Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        &["get", "patch"],
        Object::NicClusterPolicy,
        "annotates the NicClusterPolicy so that it stays when its chart lets go of it",
    ),
    right(PREFLIGHT, Scope::Cluster, ("", "nodes"), WATCH, Object::Any, "sees the fleet, its cordons and its versions of Kubernetes"),
    right(
        PREFLIGHT,
        Scope::Cluster,
        ("nvidia.com", "clusterpolicies"),
        WATCH,
        Object::ClusterPolicy,
        "sees which policy is in force, and whether the operator would act beside us",
    )
    .with(Driver::Gpu),
    right(PREFLIGHT, Scope::Cluster, ("nvidia.com", "nvidiadrivers"), WATCH, Object::Any, "the same in NVIDIADriver mode")
        .with(Driver::Gpu),
    right(
        PREFLIGHT,
        Scope::Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        WATCH,
        Object::NicClusterPolicy,
        "sees which policy is in force, and whether the operator would act beside us",
    )
    .with(Driver::Ofed),
    right(
        PREFLIGHT,
        Scope::Operator,
        ("apps", "daemonsets"),
        WATCH,
        Object::Any,
        "sees the driver DaemonSets that the upgrade will change",
    )
    .with(Driver::Gpu),
    right(
        PREFLIGHT,
        Scope::Operator,
        ("apps", "daemonsets"),
        WATCH,
        Object::Any,
        "sees the driver DaemonSets that the upgrade will change",
    )
    .with(Driver::Ofed),
    right(
        PREFLIGHT,
        Scope::Operator,
        ("apps", "daemonsets"),
        WATCH,
        Object::DriverDaemonSet,
        "sees the driver DaemonSets that the upgrade will change",
    )
    .with(Driver::DaemonSet),
    right(PREFLIGHT, Scope::Operator, ("", "pods"), WATCH, Object::Any, "sees on which nodes driver pods run, and whether they are ready"),
    right(
        PREFLIGHT,
        Scope::Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        Object::Any,
        "sees which nodes somebody else maintains",
    ),
    right(
        PREFLIGHT,
        Scope::Cluster,
        ("", "pods"),
        &["list"],
        Object::Any,
        "finds the pods that no eviction moves, or that nothing brings back",
    ),
    right(
        PREFLIGHT,
        Scope::Cluster,
        ("policy", "poddisruptionbudgets"),
        WATCH,
        Object::Any,
        "finds the PodDisruptionBudgets that never allow an eviction",
    ),
    right(PREFLIGHT, Scope::Cluster, ("resource.k8s.io", "resourceclaims"), WATCH, Object::Any, "sees which pods use a GPU by a claim"),
    right(
        Some(Duty::Hold),
        Scope::Cluster,
        ("", "nodes"),
        &["list", "watch", "patch"],
        Object::Any,
        "puts the skip label, and whose it is, on nodes that need the driver",
    ),
    right(
        Some(Duty::Hold),
        Scope::Operator,
        ("apps", "deployments"),
        WATCH,
        Object::OperatorDeployment,
        "sees whether the operator's version changes",
    )
    .with(Driver::Gpu),
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
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Scope::Operator,
        ("apps", "deployments"),
        WATCH,
        Object::OperatorDeployment,
        "sees that the operator itself has been rolled out",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        Scope::Operator,
        ("coordination.k8s.io", "leases"),
        WATCH,
        Object::OperatorLease,
        "sees whether the newest operator pod leads",
    )
    .with(Driver::Gpu),
    right(SETTLE, Scope::Operator, ("apps", "daemonsets"), WATCH, Object::Any, "sees whether the operator has observed the live spec")
        .with(Driver::Gpu),
    right(SETTLE, Scope::Operator, ("apps", "daemonsets"), WATCH, Object::Any, "sees whether the operator has observed the live spec")
        .with(Driver::Ofed),
    right(
        SETTLE,
        Scope::Operator,
        ("apps", "daemonsets"),
        WATCH,
        Object::DriverDaemonSet,
        "sees whether its controller has observed the newest template",
    )
    .with(Driver::DaemonSet),
    right(
        SETTLE,
        Scope::Operator,
        ("apps", "controllerrevisions"),
        WATCH,
        Object::Any,
        "knows the newest revision of the driver DaemonSets",
    ),
    right(
        SETTLE,
        Scope::Operator,
        ("", "pods"),
        WATCH,
        Object::Any,
        "sees the operator's pods, and those of driver and operands on each node",
    ),
    right(
        Some(Duty::Wake),
        Scope::Cluster,
        ("", "nodes"),
        PATCH,
        Object::Any,
        "changes a label that the vendor's controller watches, and has it try a failed node again",
    ),
    right(
        Some(Duty::Steer),
        Scope::Cluster,
        ("", "nodes"),
        PATCH,
        Object::Any,
        "takes the skip label off the node whose turn it is, cordons and uncordons it, and notes on it what is ours",
    ),
    right(
        Some(Duty::Steer),
        Scope::Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        Object::Any,
        "waits for nodes that somebody else maintains",
    ),
    right(DRIVE, Scope::Cluster, ("", "nodes"), PATCH, Object::Any, "cordons and uncordons, and notes on the node how far its upgrade is"),
    right(DRIVE, Scope::Cluster, ("", "pods"), WATCH, Object::Any, "sees the pods that use the device, and the jobs that are waited for"),
    right(DRIVE, Scope::Cluster, ("", "pods/eviction"), &["create"], Object::Any, "evicts the pods that the policy names"),
    right(
        DRIVE,
        Scope::Cluster,
        ("policy", "poddisruptionbudgets"),
        WATCH,
        Object::Any,
        "says which PodDisruptionBudget an eviction waits for",
    ),
    right(DRIVE, Scope::Cluster, ("resource.k8s.io", "resourceclaims"), WATCH, Object::Any, "sees which pods use a GPU by a claim"),
    right(
        DRIVE,
        Scope::Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        Object::Any,
        "waits for nodes that somebody else maintains",
    ),
    right(DRIVE, Scope::Operator, ("", "pods"), &["delete"], Object::Any, "restarts the driver pod of a node that is empty"),
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
