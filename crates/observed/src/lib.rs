//! What is seen in the cluster: thin views that hold only what decisions need. Filled by `cluster/`, compared and judged here.

use std::collections::BTreeMap;

use jiff::Timestamp;

use contract::count::Count;
use contract::names;
use contract::operand::Operand;
use contract::policy::{CompletionPolicy, DrainPolicy, PodDeletionPolicy};

use crate::named::Named;
use crate::pause::ObservedPause;

mod conditions;
pub mod intern;
mod labels;
pub mod named;
pub mod object;
mod operand;
pub mod pause;
pub mod project;
mod taint;
pub mod version;
mod views;
pub mod workload;

pub use conditions::{PolicyCondition, PolicyConditions};
pub use labels::{Label, Labels, selects};
pub use operand::{OperandPod, OperandSpec, OperatorLease, OperatorPod};
pub use taint::{ObservedTaint, ObservedToleration, tolerates, untolerated_taint};
pub use views::{OnNode, Views};

/// An API that a server may not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OptionalApi<T> {
    /// The server does not serve it (CustomResourceDefinition missing, group not enabled).
    #[default]
    Absent,
    /// What it holds.
    Served(T),
}

impl<T> OptionalApi<T> {
    /// What it holds, if it is served.
    pub fn served(&self) -> Option<&T> {
        match self {
            Self::Absent => None,
            Self::Served(content) => Some(content),
        }
    }
}

/// Everything at one moment, from caches that are all in step with the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// All nodes by name.
    pub nodes: Named<ObservedNode>,
    /// The operator's Deployment.
    pub operator: Option<ObservedDeployment>,
    /// Pods of the operator's Deployment.
    pub operator_pods: Vec<OperatorPod>,
    /// The Lease by which the operator's pods elect their leader.
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
    /// Pods of driver (and toolkit) in the operator's namespace.
    pub pods: Views<ObservedPod>,
    /// Pods of the other operands in the operator's namespace.
    pub operand_pods: Views<OperandPod>,
    /// The DRA driver.
    pub dra: ObservedDra,
    /// The device plugin.
    pub device_plugin: ObservedDevicePlugin,
    /// Pods of the operator's validator, in its namespace.
    pub validators: Views<ObservedPod>,
    /// Workloads, where a task moves them.
    pub workloads: workload::Workloads,
    /// What people have paused.
    pub pauses: Vec<ObservedPause>,
}

impl Observed {
    /// Returns the ClusterPolicy, if its API is served and the object is there.
    pub fn live_cluster_policy(&self) -> Option<&ClusterPolicy> {
        self.cluster_policy.served()?.as_ref()
    }

    /// Returns the NicClusterPolicy, if its API is served and the object is there.
    pub fn live_nic_cluster_policy(&self) -> Option<&NicClusterPolicy> {
        self.nic_cluster_policy.served()?.as_ref()
    }

    /// Returns the NVIDIADrivers: none where their API is not served.
    pub fn live_nvidia_drivers(&self) -> impl Iterator<Item = &NvidiaDriver> {
        self.nvidia_drivers.served().into_iter().flatten()
    }

    /// Returns whether drivers come from NVIDIADrivers: the ClusterPolicy says so, or there is none.
    pub fn uses_nvidia_drivers(&self) -> bool {
        self.live_cluster_policy().is_none_or(|policy| policy.uses_nvidia_drivers)
    }

    /// Returns the version of the operator's program.
    pub fn operator_version(&self) -> Option<&str> {
        self.operator.as_ref()?.version.as_deref()
    }
}

/// What is seen of device plugin, GPU feature discovery and MPS daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDevicePlugin {
    /// The ConfigMap that the settings name.
    pub config: Option<ObservedConfigMap>,
    /// DaemonSets in their namespace.
    pub daemon_sets: Vec<ObservedDaemonSet>,
    /// ControllerRevisions in it.
    pub revisions: Vec<ObservedRevision>,
    /// Pods in it.
    pub pods: Views<ObservedPod>,
}

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedConfigMap {
    /// SHA-256 of each text, by key.
    pub digests: BTreeMap<String, String>,
    /// When the object was created.
    pub created: Timestamp,
    /// When its data last changed, at the latest, if the server tells.
    pub changed: Option<Timestamp>,
}

/// What is seen of the DRA driver.
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
    /// Since when it is what it is.
    pub ready_since: Option<Timestamp>,
    /// Cordoned.
    pub unschedulable: bool,
    /// All its labels: node selectors of DaemonSets may name any.
    pub labels: Labels,
    /// Annotations of NVIDIA's upgrades and our own.
    pub annotations: Labels,
    /// `metadata.resourceVersion`, where a task writes to nodes: a write that does not know of the newest change is refused.
    pub version: String,
    /// `status.nodeInfo.kubeletVersion`
    pub kubelet: String,
    /// Taints that keep pods away.
    pub taints: Vec<ObservedTaint>,
    /// GPUs in `status.allocatable`, by resource.
    pub gpus_allocatable: Labels,
    /// GPUs in `status.capacity`, by resource. The kubelet keeps them for minutes while the device plugin restarts.
    pub gpus_capacity: Labels,
}

impl ObservedNode {
    /// Returns the NVIDIADriver that owns the node, by its label.
    pub fn driver_owner(&self) -> Option<&str> {
        self.labels.text(names::DRIVER_OWNER_LABEL).filter(|owner| !owner.is_empty())
    }
}

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDeployment {
    /// Wanted replicas.
    pub replicas: i32,
    /// Replicas that there are, of whatever template.
    pub current: i32,
    /// Replicas of the newest template.
    pub updated: i32,
    /// Replicas that are available.
    pub available: i32,
    /// The controller has seen the newest spec.
    pub observed: bool,
    /// The version of its program: the label `app.kubernetes.io/version`, or the image's tag.
    pub version: Option<String>,
    /// The label `helm.sh/chart`: name and version of the chart that it is from, where it is from one.
    pub chart: Option<String>,
    /// Labels of its pods (`spec.selector.matchLabels`).
    pub selector: Labels,
}

impl ObservedDeployment {
    /// All replicas are of the newest template and available, and none of an older one is left.
    pub fn rolled_out(&self) -> bool {
        self.observed
            && self.replicas > 0
            && self.updated >= self.replicas
            && self.current <= self.updated
            && self.available >= self.replicas
    }
}

/// An image as an operator's custom resource names it, in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSpec {
    /// Registry and path.
    pub repository: Option<String>,
    /// Name.
    pub image: Option<String>,
    /// Tag (drivers: without the operating system's suffix) or digest.
    pub version: Option<String>,
}

/// What a ClusterPolicy asks for and says.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPolicy {
    /// UID of the object.
    pub uid: String,
    /// `metadata.generation`: counts the edits of the spec.
    pub generation: i64,
    /// `spec.driver.enabled` (absent: true).
    pub driver_enabled: bool,
    /// `spec.driver.useNvidiaDriverCRD`
    pub uses_nvidia_drivers: bool,
    /// `spec.sandboxWorkloads.enabled`: GPUs for virtual machines. Drivers are not upgraded then.
    pub sandbox_workloads: bool,
    /// `spec.driver`: repository, image, version.
    pub driver: ImageSpec,
    /// `spec.driver.manager`
    pub driver_manager: ImageSpec,
    /// `spec.toolkit.enabled` (absent: true).
    pub toolkit_enabled: bool,
    /// `spec.toolkit`
    pub toolkit: ImageSpec,
    /// The operands of the table, as the spec asks for them.
    pub operands: BTreeMap<Operand, OperandSpec>,
    /// `spec.daemonsets.labels`: the operator puts them on every pod template.
    pub labels: Labels,
    /// `spec.driver.upgradePolicy`: what the live budget is estimated from.
    pub upgrade_policy: LiveUpgradePolicy,
    /// `status.state`
    pub state: Option<String>,
    /// Reason of the condition `Ready`.
    pub ready_reason: Option<String>,
    /// `status.conditions`
    pub conditions: PolicyConditions,
    /// Who owns which field: the manager that last set `spec.driver`.
    pub driver_field_manager: Option<String>,
}

/// What a NicClusterPolicy asks for and says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicClusterPolicy {
    /// UID of the object.
    pub uid: String,
    /// `metadata.generation`: counts the edits of the spec.
    pub generation: i64,
    /// The generation that the condition `Ready` is about, where the operator tells (26.7 and later).
    pub observed_generation: Option<i64>,
    /// `spec.ofedDriver`; `None`: the nodes' own drivers are used. Registry and version may come from `spec.global`.
    pub ofed: Option<ImageSpec>,
    /// There is a `spec.nodeAffinity`: not every node with a NIC is the operator's.
    pub node_affinity: bool,
    /// `spec.ofedDriver.upgradePolicy`
    pub upgrade_policy: LiveUpgradePolicy,
    /// The manager that last set `spec.ofedDriver`.
    pub driver_field_manager: Option<String>,
}

/// The upgrade policy of a live object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveUpgradePolicy {
    /// There is one.
    pub stated: bool,
    /// `autoUpgrade`
    pub auto_upgrade: bool,
    /// `maxParallelUpgrades`
    pub max_parallel: Option<u32>,
    /// `maxUnavailable`, as written; a number in quotes, which the operators refuse, has its quotes.
    pub max_unavailable: Option<String>,
    /// `waitForCompletion`; without a selector it is not there.
    pub wait_for_completion: Option<CompletionPolicy>,
    /// `podDeletion`
    pub pod_deletion: Option<PodDeletionPolicy>,
    /// `drain`, if it is enabled.
    pub drain: Option<DrainPolicy>,
    /// There is no `drain` in it at all.
    pub lacks_drain: bool,
}

/// What an NVIDIADriver asks for and reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvidiaDriver {
    /// Its name.
    pub name: String,
    /// UID: the owner of its DaemonSets.
    pub uid: String,
    /// `metadata.generation`: counts the edits of the spec.
    pub generation: i64,
    /// Being deleted.
    pub deleting: bool,
    /// `spec.default` (v26.7 and later): it owns the GPU nodes that no other NVIDIADriver selects.
    pub is_default: bool,
    /// `spec.nodeSelector`; empty: every GPU node.
    pub node_selector: Labels,
    /// `spec`: repository, image, version.
    pub driver: ImageSpec,
    /// `status.conditions`
    pub conditions: PolicyConditions,
    /// The manager that last set the spec.
    pub field_manager: Option<String>,
    /// `spec.upgradePolicy`; where it is absent upgrades are on.
    pub upgrade_policy: LiveUpgradePolicy,
}

/// A DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDaemonSet {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// UID of the controller that owns it.
    pub owner: Option<String>,
    /// `metadata.generation`
    pub generation: i64,
    /// The operator's mark of what it has rendered ([`contract::names::LAST_APPLIED_HASH_ANNOTATION`]).
    pub applied_hash: Option<String>,
    /// The controller has seen the newest spec.
    pub observed: bool,
    /// `updateStrategy: OnDelete`.
    pub on_delete: bool,
    /// `updateStrategy.rollingUpdate.maxUnavailable`
    pub max_unavailable: Option<Count>,
    /// Being deleted.
    pub deleting: bool,
    /// Pods wanted (`status.desiredNumberScheduled`).
    pub desired: i32,
    /// Nodes that have a pod and should not (`status.numberMisscheduled`).
    pub misscheduled: i32,
    /// The label `helm.sh/chart`: name and version of the chart that it is from, where it is from one.
    pub chart: Option<String>,
    /// Labels of the pod template.
    pub template_labels: Labels,
    /// Node selector of the pod template.
    pub node_selector: Labels,
    /// Taints that the pod template tolerates.
    pub tolerations: Vec<ObservedToleration>,
    /// Images of the template by container name, init containers too.
    pub images: BTreeMap<String, String>,
    /// ConfigMaps that the template mounts.
    pub config_maps: Vec<String>,
    /// `DRIVER_CONFIG_DIGEST` of the template (gpu-operator v26.3 and later): the same digest means that the driver need not be installed anew.
    pub config_digest: Option<String>,
    /// Environment of the container `k8s-driver-manager` in the template, as far as it is written there.
    pub manager_environment: Labels,
}

/// A ControllerRevision of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedRevision {
    /// UID of its DaemonSet.
    pub owner: String,
    /// Its number; the highest is the newest.
    pub revision: i64,
    /// The hash that pods of this revision carry as label.
    pub hash: String,
}

/// The hash of each DaemonSet's newest revision, by UID of the DaemonSet.
pub fn newest(revisions: &[ObservedRevision]) -> BTreeMap<&str, &str> {
    let mut newest: BTreeMap<&str, &ObservedRevision> = BTreeMap::new();
    for revision in revisions {
        let known = newest.entry(&revision.owner).or_insert(revision);
        if revision.revision > known.revision {
            *known = revision;
        }
    }
    newest.into_iter().map(|(owner, revision)| (owner, revision.hash.as_str())).collect()
}

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
    /// The node that it is bound to, or that its DaemonSet made it for.
    pub node: Option<String>,
    /// It is not bound yet.
    pub unbound: bool,
    /// The label `controller-revision-hash`.
    pub revision: Option<String>,
    /// Labels that tell what it is.
    pub labels: Labels,
    /// Being deleted.
    pub deleting: bool,
    /// Phase `Running`.
    pub running: bool,
    /// The Ready condition is True.
    pub ready: bool,
    /// Since when it is what it is.
    pub ready_since: Option<Timestamp>,
    /// When the object was created.
    pub created: Timestamp,
    /// Why it cannot be scheduled.
    pub unschedulable: Option<String>,
    /// Its containers, without init containers.
    pub containers: Vec<ObservedContainer>,
    /// What is wrong with a container, init containers included: the waiting reason that is not part of a normal start.
    pub trouble: Option<String>,
    /// It has no owner at all: what is left when a DaemonSet is deleted and its pods are kept.
    pub orphaned: bool,
    /// There are container statuses, and all of them are ready (the vendor's test; init containers do not count).
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

/// A ResourceSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedSlice {
    /// The DRA driver that published it.
    pub driver: String,
    /// The node that it is about.
    pub node: String,
    /// The attribute `driverVersion` of its devices, if all have the same.
    pub driver_version: Option<String>,
    /// How many devices it holds.
    pub devices: usize,
    /// Taints that the driver has put on its devices: `gpu-3 gpu.nvidia.com/xid=48:NoSchedule`.
    pub taints: Vec<String>,
}

impl OnNode for ObservedPod {
    fn on_node(&self) -> Option<&str> {
        self.node.as_deref()
    }
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
