//! Writes to nodes and pods, so precise that whoever performs them decides nothing.

use std::collections::BTreeMap;

/// A change of one node's labels, annotations and cordon. It is refused if the node is no longer what was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePatch {
    /// The node.
    pub node: String,
    /// UID of the object that was observed.
    pub uid: String,
    /// Its `metadata.resourceVersion`.
    pub version: String,
    /// Labels to set; `None` removes one.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set; `None` removes one.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Cordon (`true`) or uncordon (`false`) it. `None`: it stays as it is.
    pub unschedulable: Option<bool>,
}

/// The eviction of one pod, with the pod's own grace period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID: another pod of that name stays.
    pub uid: String,
    /// The node that it is on.
    pub node: String,
}

/// The deletion of one pod, past all PodDisruptionBudgets: for pods of drivers, which their DaemonSet makes anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDeletion {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID: another pod of that name stays.
    pub uid: String,
    /// The node that it is on.
    pub node: String,
}
