//! Hints that differ for the Network Operator.

use crate::reason::Reason;

impl Reason {
    /// Returns the hint for the OFED driver; `None` if it is the common one.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only different hints are listed")]
    pub(super) fn ofed_advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::PolicyApiMissing { .. } => {
                "install the CustomResourceDefinitions of the Network Operator first (in a bundle, the *-crds release)"
            }
            Self::OperatorMissing { .. } => {
                "install the Network Operator, or set rollout.operatorNamespace and rollout.operatorDeployment to its namespace and Deployment"
            }
            Self::PolicyMissing { .. } => {
                "apply the NicClusterPolicy (in a bundle, the *-resources release of the Network Operator)"
            }
            Self::DaemonSetMissing { .. } => {
                "check the operator's log, and `state-OFED` in status.appliedStates of the NicClusterPolicy"
            }
            Self::DriverOutOfDate { .. } => {
                concat!(
                    "if autoUpgrade is true, wait: NVIDIA's controller upgrades the node when ofedDriver.upgradePolicy allows; otherwise (the default), deploy a bundle in mode drive, or upgrade by hand: ",
                    contract::manual_upgrade_steps!(),
                )
            }
            Self::DriverNotReady { .. } => {
                "check the driver pod's log: kubectl logs POD -c mofed-container"
            }
            Self::UpgradeFailed { .. } => {
                "find the cause with gpu-rollout why NODE and fix it, then run gpu-rollout retry NODE; or, by hand, drain the node, delete its driver pod, and remove the annotation nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load if it is present: NVIDIA's controller continues when the new pod is ready"
            }
            Self::NodeTainted { .. } => {
                "remove the taint, or let the operands tolerate it (spec.tolerations of the NicClusterPolicy)"
            }
            Self::Skipped { .. } => {
                "remove the label nvidia.com/ofed-driver-upgrade.skip to have the node upgraded"
            }
            _ => return None,
        })
    }
}
