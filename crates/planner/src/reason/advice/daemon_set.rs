//! What people can do where the driver is a DaemonSet without an operator.

use crate::reason::Reason;

impl Reason {
    /// `None`: the same as for the GPU driver.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only what is said otherwise stands here")]
    pub(super) fn daemon_set_advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::PolicyMissing { .. } => {
                "create the DaemonSet, or set rollout.daemonSet.namespace and rollout.daemonSet.name to the one that is there"
            }
            Self::Precondition { .. } => {
                "set the DaemonSet's update strategy to OnDelete: with RollingUpdate its controller replaces the pods by itself, whatever runs there"
            }
            Self::SpecNotObserved { .. } => {
                "the DaemonSet controller has not acted on the newest template: see whether kube-controller-manager runs"
            }
            Self::DriverOutOfDate { .. } => {
                "in mode observe nobody replaces the pod: delete it yourself when the node is empty, or take mode drive"
            }
            Self::DriverNotReady { .. } => "look at the log of the DaemonSet's pod on the node",
            Self::Skipped { .. } => {
                "remove the label gpu-rollout.dev/daemonset-driver-upgrade.skip to let the node be upgraded"
            }
            _ => return None,
        })
    }
}
