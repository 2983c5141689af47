//! Objects that may block the upgrade of a node: its pods, PodDisruptionBudgets, ResourceClaims,
//! and maintenance by others.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use contract::selector::Selector;

use super::{Labels, OptionalApi};

/// What is seen of workloads. Pods are only known on nodes in focus (`Decision::focus` of the
/// planner): all pods of a large cluster would not fit into a hook Job's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workloads {
    /// All pods of each node in focus. A node that is missing here has not been listed yet.
    pub pods: BTreeMap<String, Vec<Workload>>,
    /// Nodes that are being listed: they have one of the places (`FOCUS_LIMIT` of the planner), as
    /// those in `pods` do.
    pub listing: BTreeSet<String>,
    /// The pods that `waitForCompletion.podSelector` selects, of all nodes. Absent: the policy
    /// waits for none.
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
    /// All containers ended well.
    Succeeded,
    /// All containers ended, one of them badly.
    Failed,
    /// The node cannot be asked.
    Unknown,
}

impl PodPhase {
    /// Running or Pending: what `waitForCompletion` waits for.
    pub fn is_busy(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// Succeeded or Failed.
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
    /// When its deletion was asked for to end (`metadata.deletionTimestamp`), if it is being
    /// deleted.
    pub deleted_at: Option<Timestamp>,
    /// Finalizers that hold the object.
    pub finalizers: Vec<String>,
    /// `spec.terminationGracePeriodSeconds`
    pub grace_seconds: u64,
    /// The controller that owns it.
    pub controller: Option<PodController>,
    /// A static pod: the annotation `kubernetes.io/config.mirror` is there.
    pub mirror: bool,
    /// It has an emptyDir on disk.
    pub empty_dir: bool,
    /// It has an emptyDir in memory (`medium: Memory`, usually /dev/shm).
    pub memory_dir: bool,
    /// Extended resources that its containers (not init or ephemeral ones) name in requests or
    /// limits.
    pub resources: BTreeSet<String>,
    /// Extended resources of its init containers that go on running beside the others
    /// (`restartPolicy: Always`).
    pub sidecar_resources: BTreeSet<String>,
    /// Names of the ResourceClaims that it uses, in its namespace. `None`: a claim whose name is
    /// not known yet.
    pub claims: Vec<Option<String>>,
    /// It is on a secondary network (annotation `k8s.v1.cni.cncf.io/networks`).
    pub secondary_network: bool,
    /// `spec.runtimeClassName`
    pub runtime_class: Option<String>,
    /// It reaches the devices past the kubelet: a hostPath below `/dev/nvidia`, or a privileged
    /// container with `/dev`.
    pub host_devices: bool,
}

/// Who controls a pod.
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
    /// Its phase: Running and Pending are waited for.
    pub phase: PodPhase,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which pods of its namespace it protects. `None`: none.
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
    /// The controller has seen the newest spec.
    pub observed: bool,
}

/// A ResourceClaim, as far as NVIDIA's GPUs are concerned.
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
    /// Who asked.
    pub requestor: String,
    /// Who joined.
    pub additional: Vec<String>,
    /// Reason of the condition `Ready`.
    pub state: Option<String>,
    /// Being deleted.
    pub deleting: bool,
}
