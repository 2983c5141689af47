//! Objects that may block the upgrade of a node: its pods, PodDisruptionBudgets, ResourceClaims and
//! NodeMaintenances.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use contract::selector::Selector;

use super::{Labels, OptionalApi};

/// The observed workloads. They contain the pods of watched nodes only (`Decision::focus` of the
/// planner), because all pods of a large cluster do not fit into a hook Job's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workloads {
    /// All pods of each watched node. The pods of a node that is missing here are not listed yet.
    pub pods: BTreeMap<String, Vec<Workload>>,
    /// Nodes whose pods are being listed. Like the nodes in `pods`, they count against
    /// `FOCUS_LIMIT` of the planner.
    pub listing: BTreeSet<String>,
    /// The pods that `waitForCompletion.podSelector` selects, of all nodes. Empty if the
    /// policy does not wait for pods.
    pub jobs: Vec<AwaitedPod>,
    /// All PodDisruptionBudgets.
    pub budgets: Vec<DisruptionBudget>,
    /// All ResourceClaims.
    pub claims: OptionalApi<Vec<DeviceClaim>>,
    /// The NodeMaintenance objects of NVIDIA's maintenance-operator.
    pub maintenances: OptionalApi<Vec<NodeMaintenance>>,
}

/// A pod's phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// Not all containers have been started.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers exited with code 0.
    Succeeded,
    /// All containers ended, at least one of them with an error.
    Failed,
    /// The node does not report.
    Unknown,
}

impl PodPhase {
    /// Returns whether `waitForCompletion` waits for the phase: Running or Pending.
    pub fn is_busy(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// Returns whether the phase is Succeeded or Failed.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Any pod on a node.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// The node that it is bound to.
    pub node: String,
    /// Its labels.
    pub labels: Labels,
    /// Its phase.
    pub phase: PodPhase,
    /// The Ready condition is True.
    pub ready: bool,
    /// When the object was created.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp`: the requested end of its deletion, if it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Finalizers that keep the object.
    pub finalizers: Vec<String>,
    /// `spec.terminationGracePeriodSeconds`
    pub grace_seconds: u64,
    /// The controller that owns it.
    pub controller: Option<PodController>,
    /// A static pod: it has the annotation `kubernetes.io/config.mirror`.
    pub mirror: bool,
    /// It has an emptyDir on disk.
    pub empty_dir: bool,
    /// It has an emptyDir in memory (`medium: Memory`, usually /dev/shm).
    pub memory_dir: bool,
    /// Extended resources that its containers (not init or ephemeral ones) name in requests or
    /// limits.
    pub resources: BTreeSet<String>,
    /// Extended resources of its sidecar containers (init containers with `restartPolicy: Always`).
    pub sidecar_resources: BTreeSet<String>,
    /// Names of the ResourceClaims that it uses, in its namespace. `None`: a claim whose name is
    /// not known yet.
    pub claims: Vec<Option<String>>,
    /// It is on a secondary network (annotation `k8s.v1.cni.cncf.io/networks`).
    pub secondary_network: bool,
    /// `spec.runtimeClassName`
    pub runtime_class: Option<String>,
    /// It accesses devices without the kubelet: a hostPath below `/dev/nvidia`, or a privileged
    /// container with `/dev`.
    pub host_devices: bool,
}

/// The controller of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodController {
    /// API group and version, such as `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// A pod that `waitForCompletion` waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwaitedPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node that it is bound to.
    pub node: String,
    /// Its phase; the hook waits while it is Running or Pending.
    pub phase: PodPhase,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The pods of its namespace that it protects. `None`: it protects no pods.
    pub selector: Option<Selector>,
    /// `spec.minAvailable`, as written.
    pub min_available: Option<String>,
    /// `spec.maxUnavailable`, as written.
    pub max_unavailable: Option<String>,
    /// `status.disruptionsAllowed`
    pub allowed: i32,
    /// `status.currentHealthy`
    pub healthy: i32,
    /// `status.desiredHealthy`
    pub desired: i32,
    /// `status.expectedPods`
    pub expected: i32,
    /// `spec.unhealthyPodEvictionPolicy: AlwaysAllow`
    pub evicts_unhealthy: bool,
    /// The controller has observed the newest spec.
    pub observed: bool,
}

/// The part of a ResourceClaim that concerns NVIDIA GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceClaim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// DRA drivers of its allocation, without results that only have admin access.
    pub drivers: BTreeSet<String>,
    /// The node of its allocation, if it names one.
    pub node: Option<String>,
    /// UIDs of the pods that it is reserved for.
    pub reserved_for: Vec<String>,
    /// Since when it is being deleted.
    pub deleting: Option<Timestamp>,
}

/// A NodeMaintenance (`maintenance.nvidia.com/v1alpha1`): another user or controller asks NVIDIA's
/// maintenance-operator to take a node out of service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMaintenance {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node.
    pub node: String,
    /// The requestor.
    pub requestor: String,
    /// Additional requestors.
    pub additional: Vec<String>,
    /// Reason of the condition `Ready`.
    pub state: Option<String>,
    /// Being deleted.
    pub deleting: bool,
}
