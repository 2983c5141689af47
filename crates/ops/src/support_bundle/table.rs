//! The objects of the cluster in a support bundle: one table, by scope.

use kube_io::raw::RawKind;

const fn kind(api_version: &'static str, kind: &'static str, plural: &'static str) -> RawKind {
    RawKind { api_version, kind, plural }
}

/// Cluster-scoped objects, and objects of all namespaces.
pub(super) const CLUSTER: [RawKind; 6] = [
    kind("v1", "Node", "nodes"),
    kind("nvidia.com/v1", "ClusterPolicy", "clusterpolicies"),
    kind("nvidia.com/v1alpha1", "NVIDIADriver", "nvidiadrivers"),
    kind("nvidia.com/v1alpha1", "GPUCluster", "gpuclusters"),
    kind("mellanox.com/v1alpha1", "NicClusterPolicy", "nicclusterpolicies"),
    kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
];

/// Objects of the whole cluster that are read in the newest version that the server has.
pub(super) const DRA: [[RawKind; 3]; 2] =
    [versions("ResourceSlice", "resourceslices"), versions("ResourceClaim", "resourceclaims")];

const fn versions(name: &'static str, plural: &'static str) -> [RawKind; 3] {
    [
        kind("resource.k8s.io/v1", name, plural),
        kind("resource.k8s.io/v1beta2", name, plural),
        kind("resource.k8s.io/v1beta1", name, plural),
    ]
}

/// The Lease of the hooks in `default`, and that of the GPU Operator's leader. Other Leases are not
/// read, because their purpose is unknown.
pub(super) const LEASE: RawKind = kind("coordination.k8s.io/v1", "Lease", "leases");

/// Objects of hook releases, selected by their label in all namespaces.
pub(super) const OURS: [RawKind; 2] =
    [kind("v1", "ConfigMap", "configmaps"), kind("batch/v1", "Job", "jobs")];

/// Objects in the namespaces of hooks, operators and plugins.
pub(super) const THEIRS: [RawKind; 3] = [
    kind("apps/v1", "Deployment", "deployments"),
    kind("apps/v1", "DaemonSet", "daemonsets"),
    kind("apps/v1", "ControllerRevision", "controllerrevisions"),
];

/// Pods in these namespaces. Pods of workloads in other namespaces are private.
pub(super) const PODS: RawKind = kind("v1", "Pod", "pods");

/// Events in these namespaces and in `default`, which contains the events of nodes.
pub(super) const EVENTS: RawKind = kind("v1", "Event", "events");
