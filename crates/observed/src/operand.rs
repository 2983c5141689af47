//! The operator's own pods, its leader, and the pods of its operands.

use std::sync::Arc;

use jiff::Timestamp;

use super::ImageSpec;

/// A pod of the operator's Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorPod {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: super::Labels,
    /// Being deleted.
    pub deleting: bool,
    /// The Ready condition is True. The operator's probe does not ask whether it leads.
    pub ready: bool,
}

/// The Lease of the operator's leader election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorLease {
    /// `spec.holderIdentity`: the pod's name, `_`, and a UUID that each start of the program draws
    /// anew.
    pub holder: String,
    /// `spec.leaseDurationSeconds`
    pub duration_seconds: u64,
    /// From `spec.acquireTime` to `spec.renewTime`, in seconds: both are the holder's clock.
    pub led_seconds: u64,
    /// When we last saw `spec.renewTime` change, on our own clock. `None`: not since we began to
    /// look.
    pub renewed: Option<Timestamp>,
}

/// How the ClusterPolicy asks for an operand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperandSpec {
    /// The operator deploys it.
    pub enabled: bool,
    /// Repository, image, version.
    pub image: ImageSpec,
}

/// A pod of an operand other than driver and container toolkit. There are several on each node, so
/// that it holds little, and shares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperandPod {
    /// UID of its DaemonSet.
    pub owner: Arc<str>,
    /// The node that it is bound to, or that its DaemonSet made it for.
    pub node: Option<Arc<str>>,
    /// The label `controller-revision-hash`.
    pub revision: Option<Arc<str>>,
    /// When the object was created.
    pub created: Timestamp,
    /// Being deleted.
    pub deleting: bool,
    /// Phase `Running` and the Ready condition True.
    pub ready: bool,
    /// The most restarts of a container, init containers included, that is not ready.
    pub restarts: i32,
    /// What is wrong with a container, or why the pod cannot be scheduled.
    pub trouble: Option<Box<str>>,
}
