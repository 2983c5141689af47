//! Views of the cluster's objects that hold only what decisions need, and their projections from
//! the API's objects.

use std::collections::BTreeMap;

use jiff::Timestamp;

use contract::names;

use crate::named::Named;
use crate::pause::ObservedPause;

pub mod acceptance;
mod conditions;
mod custom_resource;
mod daemon_set;
mod hash;
pub mod intern;
mod labels;
pub mod named;
pub mod object;
mod operand;
pub mod pause;
mod pod;
pub mod project;
mod taint;
pub mod text;
pub mod version;
mod views;
pub mod workload;

pub use conditions::{PolicyCondition, PolicyConditions};
pub use custom_resource::{
    ClusterPolicy, ImageSpec, LiveUpgradePolicy, NicClusterPolicy, NvidiaDriver,
};
pub use daemon_set::{ObservedDaemonSet, ObservedRevision, newest};
pub use labels::{Label, Labels, ParsedValue, selects};
pub use operand::{OperandPod, OperandSpec, OperatorLease, OperatorPod};
pub use pod::{ObservedContainer, ObservedPod};
pub use taint::{ObservedTaint, ObservedToleration, tolerates, untolerated_taint};
pub use views::{OnNode, SharedViews, Views, ViewsEdit, ViewsIter};

/// An API that a server may not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OptionalApi<T> {
    /// The server does not serve it (CustomResourceDefinition missing, group not enabled).
    #[default]
    Absent,
    /// The server serves it: its content.
    Served(T),
}

impl<T> OptionalApi<T> {
    /// Returns its content, if the server serves it.
    pub fn served(&self) -> Option<&T> {
        match self {
            Self::Absent => None,
            Self::Served(content) => Some(content),
        }
    }
}

/// A snapshot of the cluster, from caches that are all in sync with the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// All nodes by name.
    pub nodes: Named<ObservedNode>,
    /// The operator's Deployment.
    pub operator: Option<ObservedDeployment>,
    /// Pods of the operator's Deployment.
    pub operator_pods: Vec<OperatorPod>,
    /// The Lease of the leader election among the operator's pods.
    pub operator_lease: Option<OperatorLease>,
    /// The ClusterPolicy that the settings name.
    pub cluster_policy: OptionalApi<Option<ClusterPolicy>>,
    /// The one NicClusterPolicy.
    pub nic_cluster_policy: OptionalApi<Option<NicClusterPolicy>>,
    /// All NVIDIADriver objects.
    pub nvidia_drivers: OptionalApi<Vec<NvidiaDriver>>,
    /// DaemonSets in the operator's namespace.
    pub daemon_sets: Vec<ObservedDaemonSet>,
    /// ControllerRevisions in the operator's namespace.
    pub revisions: Vec<ObservedRevision>,
    /// Pods of the driver (and toolkit) in the operator's namespace.
    pub pods: Views<ObservedPod>,
    /// Pods of the other operands in the operator's namespace.
    pub operand_pods: Views<OperandPod>,
    /// The DRA driver.
    pub dra: ObservedDra,
    /// The device plugin.
    pub device_plugin: ObservedDevicePlugin,
    /// Pods of the operator's validator, in its namespace.
    pub validators: Views<ObservedPod>,
    /// Workloads, if a task evicts them.
    pub workloads: workload::Workloads,
    /// The pods of acceptance tests.
    pub acceptance: Views<acceptance::AcceptancePod>,
    /// The pauses of the ConfigMap `gpu-rollout-pause`.
    pub pauses: Vec<ObservedPause>,
}

impl Observed {
    /// Returns the ClusterPolicy, if its API is served and the object exists.
    pub fn live_cluster_policy(&self) -> Option<&ClusterPolicy> {
        self.cluster_policy.served()?.as_ref()
    }

    /// Returns the NicClusterPolicy, if its API is served and the object exists.
    pub fn live_nic_cluster_policy(&self) -> Option<&NicClusterPolicy> {
        self.nic_cluster_policy.served()?.as_ref()
    }

    /// Returns the NVIDIADrivers: none where their API is not served.
    pub fn live_nvidia_drivers(&self) -> impl Iterator<Item = &NvidiaDriver> {
        self.nvidia_drivers.served().into_iter().flatten()
    }

    /// Returns whether drivers come from NVIDIADrivers: the ClusterPolicy says so, or no
    /// ClusterPolicy exists.
    pub fn uses_nvidia_drivers(&self) -> bool {
        self.live_cluster_policy().is_none_or(|policy| policy.uses_nvidia_drivers)
    }

    /// Returns the version of the operator's program.
    pub fn operator_version(&self) -> Option<&str> {
        self.operator.as_ref()?.version.as_deref()
    }
}

/// The observed objects of device plugin, GPU feature discovery and MPS daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDevicePlugin {
    /// The ConfigMap that the settings name.
    pub config: Option<ObservedConfigMap>,
    /// DaemonSets in their namespace.
    pub daemon_sets: Vec<ObservedDaemonSet>,
    /// ControllerRevisions in their namespace.
    pub revisions: Vec<ObservedRevision>,
    /// Pods in their namespace.
    pub pods: Views<ObservedPod>,
}

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedConfigMap {
    /// SHA-256 of each text, by key.
    pub digests: BTreeMap<String, String>,
    /// When the object was created.
    pub created: Timestamp,
    /// The latest possible time of the last change of its data, if the server reports one.
    pub changed: Option<Timestamp>,
}

/// The observed objects of the DRA driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDra {
    /// The configured namespaces that exist.
    pub namespaces: Vec<String>,
    /// DaemonSets in them.
    pub daemon_sets: Vec<ObservedDaemonSet>,
    /// Pods in them.
    pub pods: Views<ObservedPod>,
    /// ResourceSlices of NVIDIA's DRA drivers.
    pub slices: OptionalApi<Views<ObservedSlice>>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedNode {
    /// Its name.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// When the object was created.
    pub created: Timestamp,
    /// The Ready condition is True.
    pub ready: bool,
    /// When the Ready condition last changed.
    pub ready_since: Option<Timestamp>,
    /// Cordoned.
    pub unschedulable: bool,
    /// All its labels: node selectors of DaemonSets may name any.
    pub labels: Labels,
    /// Annotations of NVIDIA's upgrades and our own.
    pub annotations: Labels,
    /// `metadata.resourceVersion`, if a task writes to nodes. The API server refuses a write with
    /// an older version.
    pub version: String,
    /// `status.nodeInfo.kubeletVersion`
    pub kubelet: String,
    /// Taints that keep pods away.
    pub taints: Vec<ObservedTaint>,
    /// GPUs in `status.allocatable`, by resource.
    pub gpus_allocatable: Labels,
    /// GPUs in `status.capacity`, by resource. The kubelet keeps them for minutes while the device
    /// plugin restarts.
    pub gpus_capacity: Labels,
}

impl ObservedNode {
    /// Returns the NVIDIADriver that owns the node according to its label.
    pub fn driver_owner(&self) -> Option<&str> {
        self.labels.text(names::DRIVER_OWNER_LABEL).filter(|owner| !owner.is_empty())
    }
}

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDeployment {
    /// Desired replicas.
    pub replicas: i32,
    /// Existing replicas, of any template.
    pub current: i32,
    /// Replicas of the newest template.
    pub updated: i32,
    /// Replicas that are available.
    pub available: i32,
    /// The controller has observed the newest spec.
    pub observed: bool,
    /// The version of its program: the label `app.kubernetes.io/version`, or the image's tag.
    pub version: Option<String>,
    /// The label `helm.sh/chart`: name and version of its chart, if a chart created it.
    pub chart: Option<String>,
    /// Labels of its pods (`spec.selector.matchLabels`).
    pub selector: Labels,
}

impl ObservedDeployment {
    /// Returns whether all replicas are available and of the newest template.
    pub fn rolled_out(&self) -> bool {
        self.observed
            && self.replicas > 0
            && self.updated >= self.replicas
            && self.current <= self.updated
            && self.available >= self.replicas
    }
}

/// A ResourceSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedSlice {
    /// The DRA driver that published it.
    pub driver: String,
    /// The node that it is about.
    pub node: String,
    /// The attribute `driverVersion` of its devices, if it is the same for all of them.
    pub driver_version: Option<String>,
    /// The number of its devices.
    pub devices: usize,
    /// Taints that the driver has put on its devices: `gpu-3 gpu.nvidia.com/xid=48:NoSchedule`.
    pub taints: Vec<String>,
}

impl OnNode for OperandPod {
    fn on_node(&self) -> Option<&str> {
        self.node.as_deref()
    }
}

impl OnNode for ObservedSlice {
    fn on_node(&self) -> Option<&str> {
        Some(&self.node)
    }
}
