//! Advice that is another one for the network operator.

use crate::reason::Reason;

impl Reason {
    /// What a person can do about it where the driver is OFED; `None`: what the table of reasons says.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only what differs stands here")]
    pub(super) fn ofed_advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::PolicyApiMissing { .. } => {
                "install the CustomResourceDefinitions of the network operator (the bundle's *-crds release) first"
            }
            Self::OperatorMissing { .. } => {
                "install the network operator, or set rollout.operatorNamespace and rollout.operatorDeployment to where and what it is"
            }
            Self::OperatorNotReady { .. } => {
                "look at the pods of the operator's Deployment: kubectl describe pod -l app.kubernetes.io/name=network-operator"
            }
            Self::PolicyMissing { .. } => {
                "apply the NicClusterPolicy (in a bundle the network operator's *-resources release)"
            }
            Self::DaemonSetMissing { .. } => {
                "look at the operator's log and at `state-OFED` under status.appliedStates of the NicClusterPolicy"
            }
            Self::DriverOutOfDate { .. } => {
                "the vendor's controller takes nodes by ofedDriver.upgradePolicy; with autoUpgrade false (the default) delete the driver pod yourself"
            }
            Self::DriverNotReady { .. } => {
                "look at the driver pod's log: kubectl logs -c mofed-container"
            }
            Self::UpgradeFailed { .. } => {
                "drain the node, delete its driver pod, and remove the annotation nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load if it is there; the controller goes on when the new pod is ready"
            }
            Self::Skipped { .. } => {
                "remove the label nvidia.com/ofed-driver-upgrade.skip to let the node be upgraded"
            }
            _ => return None,
        })
    }
}
