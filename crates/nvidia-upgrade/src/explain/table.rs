//! The properties of each wait: its name, whether it can end without manual action, and the hint.

use super::{ControllerWait, HolderCause, SlotHolder};

/// What to do while pods leave a node.
const PODS_LEAVE: &str = "wait: the pods have their grace periods; if they stay, find out which PodDisruptionBudget or finalizer keeps them";

impl ControllerWait {
    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.row().0
    }

    /// Returns whether it can end without manual action.
    pub fn can_resolve(&self) -> bool {
        self.row().1
    }

    /// Returns the hint.
    pub fn advice(&self) -> &'static str {
        self.row().2
    }

    /// Returns whether it blocks every node, whatever the policy allows.
    pub fn stops_all(&self) -> bool {
        matches!(self, Self::SandboxWorkloads | Self::Blocked { .. } | Self::PassEnds { .. })
    }

    fn row(&self) -> (&'static str, bool, &'static str) {
        match self {
            Self::SandboxWorkloads => (
                "SandboxWorkloads",
                false,
                concat!("use mode drive; or upgrade by hand: ", contract::manual_upgrade_steps!(),),
            ),
            Self::Off => (
                "Off",
                false,
                concat!(
                    "set autoUpgrade to true (in driver.upgradePolicy; for the OFED driver, in ofedDriver.upgradePolicy) and deploy again; or upgrade by hand: ",
                    contract::manual_upgrade_steps!(),
                ),
            ),
            Self::Blocked { error } => (
                "Blocked",
                !error.has_surplus(),
                "find out why the pods of the DaemonSet do not match its nodes: an extra pod can remain on a node that is NotReady, or that has a taint that the DaemonSet does not tolerate: repair that node, or delete that pod (with --force if the node is gone); if a pod has no node, delete the pod",
            ),
            Self::PassEnds { .. } => (
                "PassEnds",
                false,
                "fix the problem that the message names: it blocks all other nodes too",
            ),
            Self::Asleep { .. } => (
                "Asleep",
                true,
                "wait: NVIDIA's controller checks its nodes at least every two minutes; in modes assist and steer, the hook makes it check them sooner",
            ),
            Self::Skipped { .. } => {
                ("Skipped", false, "remove the label to have the node upgraded")
            }
            Self::Parallel { holders, ahead, .. } => (
                "Parallel",
                !ahead.is_empty() || holders.iter().any(SlotHolder::can_resolve),
                if holders.iter().any(|holder| holder.cause == HolderCause::Failed) {
                    "repair the failed nodes, which keep their slots, or raise maxParallelUpgrades"
                } else {
                    "wait: the node's upgrade starts when another node is done"
                },
            ),
            Self::Unavailable { holders, ahead, .. } => (
                "Unavailable",
                !ahead.is_empty() || holders.iter().any(SlotHolder::can_resolve),
                "uncordon or repair the unavailable nodes, or raise maxUnavailable",
            ),
            Self::Jobs { .. } => (
                "Jobs",
                true,
                "wait until the jobs end, or limit the wait with waitForCompletion.timeoutSeconds",
            ),
            Self::Evicting { .. } => ("Evicting", true, PODS_LEAVE),
            Self::Draining { .. } => ("Draining", true, PODS_LEAVE),
            Self::Maintenance { .. } => {
                ("Maintenance", true, "check the NodeMaintenance and the maintenance-operator")
            }
            Self::MaintenanceOff => (
                "MaintenanceOff",
                false,
                "enable requestor mode again; or remove the node's annotation nvidia.com/gpu-driver-upgrade-requestor-mode, and set its label nvidia.com/gpu-driver-upgrade-state to upgrade-required (for the OFED driver, both with `ofed` instead of `gpu`)",
            ),
            Self::Terminating { .. } => {
                ("Terminating", true, "if the pod does not end, check the kubelet of the node")
            }
            Self::DriverStarting { .. } => (
                "DriverStarting",
                true,
                "check the pod's log; if the pod hangs without restarts, NVIDIA's controller waits for it indefinitely",
            ),
            Self::NoValidator => (
                "NoValidator",
                true,
                "find out why the validator's DaemonSet has no pod on the node; NVIDIA's controller waits for the pod indefinitely",
            ),
            Self::Validating { .. } => ("Validating", true, "check the validator's log"),
            Self::FailedBefore => (
                "FailedBefore",
                false,
                "remove the pods that could not be evicted (gpu-rollout why NODE lists them), then retry the node",
            ),
            Self::FailedDriver { .. } => (
                "FailedDriver",
                true,
                "check the driver pod's log; the upgrade continues as soon as the pod is ready",
            ),
            Self::UnknownState { .. } => (
                "UnknownState",
                false,
                "retry the node: this removes the label with the state, and NVIDIA's controller determines the state again",
            ),
        }
    }
}

impl SlotHolder {
    /// Returns whether the node frees its slot without manual action.
    pub fn can_resolve(&self) -> bool {
        match self.cause {
            HolderCause::InProgress => true,
            HolderCause::Failed => false,
            HolderCause::Unavailable { cordoned, not_ready } => not_ready && !cordoned,
        }
    }
}
