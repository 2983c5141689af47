//! Pods of drivers, toolkits and plugins.

use jiff::Timestamp;

use crate::{Labels, OnNode};

/// A pod.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// UID of the controller that owns it.
    pub owner: Option<String>,
    /// The node that it is bound to, or for which its DaemonSet created it.
    pub node: Option<String>,
    /// It is not bound yet.
    pub unbound: bool,
    /// The label `controller-revision-hash`.
    pub revision: Option<String>,
    /// Labels that identify its component.
    pub labels: Labels,
    /// Being deleted.
    pub deleting: bool,
    /// Phase `Running`.
    pub running: bool,
    /// The Ready condition is True.
    pub ready: bool,
    /// When the Ready condition last changed.
    pub ready_since: Option<Timestamp>,
    /// When the object was created.
    pub created: Timestamp,
    /// Why it cannot be scheduled.
    pub unschedulable: Option<String>,
    /// Its containers, without init containers.
    pub containers: Vec<ObservedContainer>,
    /// What is wrong with a container, init containers included: the waiting reason that is not
    /// part of a normal start.
    pub trouble: Option<String>,
    /// It has no owner at all, as after the deletion of a DaemonSet that keeps its pods.
    pub orphaned: bool,
    /// There are container statuses, and all of them are ready (the test of NVIDIA's controller;
    /// init containers do not count).
    pub containers_ready: bool,
    /// The most restarts of a container, init containers included, that is not ready.
    pub unready_restarts: i32,
    /// `DRIVER_CONFIG_DIGEST` of its spec.
    pub config_digest: Option<String>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedContainer {
    /// Its name.
    pub name: String,
    /// Its image as the pod's spec names it.
    pub image: String,
    /// When the running instance started.
    pub started: Option<Timestamp>,
    /// How often it was restarted.
    pub restarts: i32,
}

impl OnNode for ObservedPod {
    fn on_node(&self) -> Option<&str> {
        self.node.as_deref()
    }
}
