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
    /// The Ready condition is True. The operator's probe does not check whether the pod is the
    /// leader.
    pub ready: bool,
}

/// The Lease of the operator's leader election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorLease {
    /// `spec.holderIdentity`: the pod's name, `_`, and a UUID that is new at each start of the
    /// program.
    pub holder: String,
    /// `spec.leaseDurationSeconds`
    pub duration_seconds: u64,
    /// Seconds from `spec.acquireTime` to `spec.renewTime`, both by the holder's clock.
    pub led_seconds: u64,
    /// `spec.renewTime`, by the holder's clock.
    pub renew_time: Timestamp,
    /// When gpu-rollout last observed a change of `spec.renewTime`, by its own clock. `None`: not
    /// since it started to watch.
    pub renewed: Option<Timestamp>,
}

/// The settings of an operand in the ClusterPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperandSpec {
    /// The operator deploys it.
    pub enabled: bool,
    /// Repository, image, version.
    pub image: ImageSpec,
}

/// A pod of an operand other than driver and container toolkit. There are several on each node, so
/// the view contains few fields and shares their texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperandPod {
    /// UID of its DaemonSet.
    pub owner: Arc<str>,
    /// The node that it is bound to, or for which its DaemonSet created it.
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
