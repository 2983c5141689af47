//! Hints for a driver DaemonSet without an operator.

use crate::reason::Reason;

impl Reason {
    /// Returns the hint; `None` if it is the same as for the GPU driver.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only different hints are listed")]
    pub(super) fn daemon_set_advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::PolicyApiMissing { .. }
            | Self::OperatorMissing { .. }
            | Self::OperatorNotReady { .. } => {
                "set rollout.driver to the driver that this hook upgrades; use `daemonset` only for a driver DaemonSet that no operator installs"
            }
            Self::PolicyMissing { .. } => {
                "create the DaemonSet, or set rollout.daemonSet.namespace and rollout.daemonSet.name to an existing one"
            }
            Self::Precondition { .. } => {
                "set the DaemonSet's update strategy to OnDelete: with RollingUpdate, the DaemonSet controller replaces the pods while workloads run"
            }
            Self::SpecNotObserved { .. } => {
                "check whether kube-controller-manager runs: its DaemonSet controller has not acted on the newest template"
            }
            Self::DaemonSetMissing { .. } | Self::NodeWithoutDaemonSet => {
                "compare the node selector and affinity of the DaemonSet with the labels of the node"
            }
            Self::NodeTainted { .. } => {
                "remove the taint, or add a toleration for it to the DaemonSet"
            }
            Self::DriverOutOfDate { .. } => {
                concat!(
                    "use mode drive, because in mode observe the hook replaces no driver pod; or upgrade by hand: ",
                    contract::manual_upgrade_steps!(),
                )
            }
            Self::DriverNotReady { .. } => "check the log of the DaemonSet's pod on the node",
            Self::Skipped { .. } => {
                "remove the label gpu-rollout.dev/daemonset-driver-upgrade.skip to have the node upgraded"
            }
            _ => return None,
        })
    }
}
