//! What can be said of each wait: whether it ends by itself, and what to do.

use super::super::state::ControllerState;
use super::{ControllerWait, SlotHolder};

impl ControllerWait {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.row().0
    }

    /// Whether it can end without anybody doing something about it.
    pub fn can_resolve(&self) -> bool {
        self.row().1
    }

    /// What to do.
    pub fn advice(&self) -> &'static str {
        self.row().2
    }

    /// Whether it keeps every node alike, whatever the policy lets go on.
    pub fn stops_all(&self) -> bool {
        matches!(self, Self::SandboxWorkloads | Self::Blocked { .. } | Self::PassEnds { .. })
    }

    fn row(&self) -> (&'static str, bool, &'static str) {
        match self {
            Self::SandboxWorkloads => (
                "SandboxWorkloads",
                false,
                "delete the driver pods yourself, one node after the other when it is cordoned and empty, or take mode drive",
            ),
            Self::Off => ("Off", false, "switch upgrades on: upgradePolicy.autoUpgrade"),
            Self::Blocked { .. } => (
                "Blocked",
                true,
                "see why the DaemonSet has other pods than it wants: a node that is NotReady, or has a taint that the DaemonSet does not tolerate, keeps its pod until the pod is deleted (by force, if the node is gone)",
            ),
            Self::PassEnds { .. } => (
                "PassEnds",
                false,
                "repair what the error names: it keeps every other node waiting too",
            ),
            Self::Asleep { .. } => (
                "Asleep",
                true,
                "nothing; to hurry, change the node's skip label to a value other than true",
            ),
            Self::Skipped { .. } => {
                ("Skipped", false, "remove the label when the node may be upgraded")
            }
            Self::Parallel { holders, ahead, .. } => (
                "Parallel",
                !ahead.is_empty() || holders.iter().any(SlotHolder::can_resolve),
                if holders.iter().any(|holder| holder.failed) {
                    "failed nodes take slots: repair them, or raise maxParallelUpgrades"
                } else {
                    "wait: its turn comes when another node is done; maxParallelUpgrades is the limit"
                },
            ),
            Self::Unavailable { holders, ahead, .. } => (
                "Unavailable",
                !ahead.is_empty() || holders.iter().any(SlotHolder::can_resolve),
                "uncordon or repair the nodes that are unavailable, or raise maxUnavailable",
            ),
            Self::Jobs { .. } => {
                ("Jobs", true, "let the jobs end, or set waitForCompletion.timeoutSeconds")
            }
            Self::Evicting { .. } => {
                ("Evicting", true, "see which PodDisruptionBudget or finalizer holds the pods")
            }
            Self::Draining { .. } => {
                ("Draining", true, "see which PodDisruptionBudget or finalizer holds the pods")
            }
            Self::Maintenance { .. } => {
                ("Maintenance", true, "look at the NodeMaintenance and the maintenance-operator")
            }
            Self::MaintenanceOff => (
                "MaintenanceOff",
                false,
                "switch the maintenance-operator's mode on again, or remove the requestor-mode annotation and set the state to upgrade-required",
            ),
            Self::Terminating { .. } => {
                ("Terminating", true, "if it stays, look at the node's kubelet")
            }
            Self::DriverStarting { .. } => (
                "DriverStarting",
                true,
                "look at the pod's log; one that hangs without restarts is never given up",
            ),
            Self::NoValidator => (
                "NoValidator",
                true,
                "see why the validator's DaemonSet has no pod on the node; no time runs",
            ),
            Self::Validating { .. } => ("Validating", true, "look at the validator's log"),
            Self::FailedBefore => (
                "FailedBefore",
                false,
                "remove what could not be evicted, then set the state label to upgrade-required",
            ),
            Self::FailedDriver { .. } => (
                "FailedDriver",
                true,
                "look at the driver pod's log; it goes on as soon as the pod is ready",
            ),
            Self::UnknownState { .. } => {
                ("UnknownState", false, "remove the state label, or set it to upgrade-required")
            }
        }
    }
}

impl SlotHolder {
    /// Whether the node gives its place back without anybody doing something about it.
    pub fn can_resolve(&self) -> bool {
        (self.state.is_in_progress() && self.state != ControllerState::Failed)
            || (self.not_ready && !self.cordoned && !self.failed)
    }
}
