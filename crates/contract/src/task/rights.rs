//! The rights of each task, each with its purpose.

use super::super::driver::Driver;
use super::super::names::COORDINATION;
use super::RightScope::{Acceptance, Cluster, DevicePlugin, Dra, Operator, Release};
use super::RightTarget::{
    Any, ClusterPolicy, DevicePluginConfig, DraNamespaces, DriverDaemonSet, Job, Lease,
    NicClusterPolicy, OperatorDeployment, OperatorLease, Pauses, Record,
};
use super::{Right, RightCondition, RightScope, RightTarget, Task};

/// Creates a row of the table.
const fn right(
    task: Option<Task>,
    scope: RightScope,
    (group, resource): (&'static str, &'static str),
    verbs: &'static [&'static str],
    object: RightTarget,
    why: &'static str,
) -> Right {
    Right { task, driver: None, when: None, scope, group, resource, verbs, object, why }
}

/// Creates a row about the acceptance tests: RBAC cannot restrict the names of their pods.
const fn test_right(
    task: Option<Task>,
    resource: &'static str,
    verbs: &'static [&'static str],
    why: &'static str,
) -> Right {
    let row = right(task, Acceptance, ("", resource), verbs, Any, why);
    row.with(Driver::Gpu).when(RightCondition::Acceptance)
}

const WATCH: &[&str] = &["list", "watch"];
const PATCH: &[&str] = &["patch"];
const PREFLIGHT: Option<Task> = Some(Task::Preflight);
const SETTLE: Option<Task> = Some(Task::Settle);
const STEER: Option<Task> = Some(Task::Steer);
const DRIVE: Option<Task> = Some(Task::Drive);
const REROLL: Option<Task> = Some(Task::Reroll);
const RESTART: Option<Task> = Some(Task::RestartPlugins);
const TEST_PODS: &[&str] = &["list", "watch", "create", "delete"];
const READS_TEMPLATES: &str = "reads the pod templates of the acceptance tests";
const RUNS_TESTS: &str = "runs the acceptance tests, and deletes their pods";
const READS_LOGS: &str = "reads the last lines of the log of a test that did not pass";

/// The table. A new task is a variant of [`Task`] and its rows here.
pub const RIGHTS: &[Right] = &[
    right(
        None,
        Release,
        ("batch", "jobs"),
        &["get"],
        Job,
        "reads the start time of its own Job, so that a replacement pod keeps the same deadline",
    ),
    right(None, Release, ("", "configmaps"), &["get", "patch"], Record, "reads and writes the run record"),
    right(
        None,
        Release,
        ("events.k8s.io", "events"),
        &["create"],
        Any,
        "reports on the Job what the run does",
    ),
    right(
        None,
        RightScope::Default,
        ("events.k8s.io", "events"),
        &["create"],
        Any,
        "reports on a node what happens to it",
    ),
    right(
        None,
        RightScope::Default,
        ("coordination.k8s.io", "leases"),
        &["create"],
        Any,
        "creates the Lease, once per cluster",
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
        "reads which nodes are paused",
    ),
    right(
        None,
        RightScope::Default,
        (COORDINATION.group, COORDINATION.resource),
        &[COORDINATION.verb],
        Any,
        "lets the admission policies of all hook releases recognize the hook; no API server serves this resource",
    )
    .when(RightCondition::AdmissionPolicy),
    right(
        Some(Task::PrepareNetwork),
        Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        &["get", "patch"],
        NicClusterPolicy,
        "annotates the NicClusterPolicy so that it is retained when its chart no longer contains it",
    ),
    right(
        PREFLIGHT,
        Cluster,
        ("", "nodes"),
        WATCH,
        Any,
        "reads the nodes, their cordons and their Kubernetes versions",
    ),
    right(
        PREFLIGHT,
        Cluster,
        ("nvidia.com", "clusterpolicies"),
        WATCH,
        ClusterPolicy,
        "reads the live spec, and whether the operator would act at the same time as the hook",
    )
    .with(Driver::Gpu),
    right(
        PREFLIGHT,
        Cluster,
        ("nvidia.com", "nvidiadrivers"),
        WATCH,
        Any,
        "the same for NVIDIADrivers",
    )
    .with(Driver::Gpu),
    right(
        PREFLIGHT,
        Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        WATCH,
        NicClusterPolicy,
        "reads the live spec, and whether the operator would act at the same time as the hook",
    )
    .with(Driver::Ofed),
    right(
        PREFLIGHT,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        Any,
        "reads the driver DaemonSets that the upgrade changes",
    )
    .with(Driver::Gpu),
    right(
        PREFLIGHT,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        Any,
        "reads the driver DaemonSets that the upgrade changes",
    )
    .with(Driver::Ofed),
    right(
        PREFLIGHT,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        DriverDaemonSet,
        "reads the driver DaemonSets that the upgrade changes",
    )
    .with(Driver::DaemonSet),
    right(
        PREFLIGHT,
        Operator,
        ("", "pods"),
        WATCH,
        Any,
        "reads on which nodes driver pods run, and whether they are ready",
    ),
    right(
        PREFLIGHT,
        Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        Any,
        "reads which nodes others have put into maintenance",
    ),
    right(
        PREFLIGHT,
        Cluster,
        ("", "pods"),
        &["list"],
        Any,
        "finds the pods that cannot be evicted, or that would not be recreated",
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
        "reads which pods use a GPU through a claim",
    ),
    right(
        Some(Task::Hold),
        Cluster,
        ("", "nodes"),
        WATCH,
        Any,
        "reads which nodes need the driver, and which are held already",
    ),
    right(
        Some(Task::Hold),
        Cluster,
        ("", "nodes"),
        PATCH,
        Any,
        "sets the skip label and its hold annotation on nodes that need the driver",
    )
    .when(RightCondition::Hold),
    right(
        Some(Task::Hold),
        Operator,
        ("apps", "deployments"),
        WATCH,
        OperatorDeployment,
        "reads whether the operator's version changes",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Cluster,
        ("", "nodes"),
        WATCH,
        Any,
        "reads the nodes that need the driver, their labels and NVIDIA's upgrade states",
    ),
    right(
        SETTLE,
        Cluster,
        ("nvidia.com", "clusterpolicies"),
        WATCH,
        ClusterPolicy,
        "reads the spec that the operator must apply",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Cluster,
        ("nvidia.com", "nvidiadrivers"),
        WATCH,
        Any,
        "the same for NVIDIADrivers",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Cluster,
        ("mellanox.com", "nicclusterpolicies"),
        WATCH,
        NicClusterPolicy,
        "reads the spec that the Network Operator must apply",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        Operator,
        ("apps", "deployments"),
        WATCH,
        OperatorDeployment,
        "reads whether the operator itself is rolled out",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Operator,
        ("apps", "deployments"),
        WATCH,
        OperatorDeployment,
        "reads whether the operator itself is rolled out",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        Operator,
        ("coordination.k8s.io", "leases"),
        WATCH,
        OperatorLease,
        "reads whether the newest operator pod is the leader",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        Any,
        "reads whether the operator has observed the live spec",
    )
    .with(Driver::Gpu),
    right(
        SETTLE,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        Any,
        "reads whether the operator has observed the live spec",
    )
    .with(Driver::Ofed),
    right(
        SETTLE,
        Operator,
        ("apps", "daemonsets"),
        WATCH,
        DriverDaemonSet,
        "reads whether the DaemonSet controller has observed the newest template",
    )
    .with(Driver::DaemonSet),
    right(
        SETTLE,
        Operator,
        ("apps", "controllerrevisions"),
        WATCH,
        Any,
        "reads the newest revision of the driver DaemonSets",
    ),
    right(
        SETTLE,
        Operator,
        ("", "pods"),
        WATCH,
        Any,
        "reads the operator's pods, and the driver and operand pods on each node",
    ),
    right(
        Some(Task::Wake),
        Cluster,
        ("", "nodes"),
        PATCH,
        Any,
        "changes a label that NVIDIA's controller watches, and makes the controller retry a failed node",
    ),
    right(
        STEER,
        Cluster,
        ("", "nodes"),
        PATCH,
        Any,
        "removes the skip label from the next node, cordons and uncordons it, and records on it what the hook changed",
    ),
    right(
        STEER,
        Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        Any,
        "waits for nodes that others have put into maintenance",
    ),
    test_right(STEER, "podtemplates", &["get"], READS_TEMPLATES),
    test_right(STEER, "pods", TEST_PODS, RUNS_TESTS),
    test_right(STEER, "pods/log", &["get"], READS_LOGS).when(RightCondition::AcceptanceLogs),
    right(
        DRIVE,
        Cluster,
        ("", "nodes"),
        PATCH,
        Any,
        "cordons and uncordons nodes, and records the upgrade state on the node",
    ),
    right(
        DRIVE,
        Cluster,
        ("", "pods"),
        WATCH,
        Any,
        "reads the pods that use the device, and the jobs that the hook waits for",
    ),
    right(
        DRIVE,
        Cluster,
        ("", "pods/eviction"),
        &["create"],
        Any,
        "evicts the pods that the policy names",
    )
    .when(RightCondition::Eviction),
    right(
        DRIVE,
        Cluster,
        ("policy", "poddisruptionbudgets"),
        WATCH,
        Any,
        "reports which PodDisruptionBudget an eviction waits for",
    )
    .when(RightCondition::Eviction),
    right(
        DRIVE,
        Cluster,
        ("resource.k8s.io", "resourceclaims"),
        WATCH,
        Any,
        "reads which pods use a GPU through a claim",
    ),
    right(
        DRIVE,
        Cluster,
        ("maintenance.nvidia.com", "nodemaintenances"),
        WATCH,
        Any,
        "waits for nodes that others have put into maintenance",
    ),
    right(
        DRIVE,
        Operator,
        ("", "pods"),
        &["delete"],
        Any,
        "deletes the driver pod of a node, so that its DaemonSet starts a new one",
    ),
    test_right(DRIVE, "podtemplates", &["get"], READS_TEMPLATES),
    test_right(DRIVE, "pods", TEST_PODS, RUNS_TESTS),
    test_right(DRIVE, "pods/log", &["get"], READS_LOGS).when(RightCondition::AcceptanceLogs),
    right(
        REROLL,
        Cluster,
        ("", "namespaces"),
        &["get"],
        DraNamespaces,
        "distinguishes an absent DRA driver from a missing right",
    ),
    right(
        REROLL,
        Cluster,
        ("resource.k8s.io", "resourceslices"),
        WATCH,
        Any,
        "reads which driver version the plugin serves on each node",
    ),
    right(REROLL, Dra, ("apps", "daemonsets"), WATCH, Any, "recognizes the DRA kubelet plugin"),
    right(REROLL, Dra, ("", "pods"), WATCH, Any, "reads the plugin pod of each node"),
    right(REROLL, Dra, ("", "pods"), &["delete"], Any, "replaces the plugin pod of one node")
        .when(RightCondition::Reroll),
    right(
        RESTART,
        Cluster,
        ("", "nodes"),
        WATCH,
        Any,
        "reads which configuration a node's label requests, and whether the node is ready",
    ),
    right(
        RESTART,
        DevicePlugin,
        ("", "configmaps"),
        WATCH,
        DevicePluginConfig,
        "reads whether the configurations match the values",
    ),
    right(
        RESTART,
        DevicePlugin,
        ("apps", "daemonsets"),
        WATCH,
        Any,
        "recognizes the device plugin, GPU feature discovery and the MPS daemon",
    ),
    right(
        RESTART,
        DevicePlugin,
        ("apps", "controllerrevisions"),
        WATCH,
        Any,
        "reads which pods the DaemonSet controller replaces without the hook",
    ),
    right(
        RESTART,
        DevicePlugin,
        ("", "pods"),
        &["list", "watch", "delete"],
        Any,
        "reads and restarts the pods of one node",
    ),
];
