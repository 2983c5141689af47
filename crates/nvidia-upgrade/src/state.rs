//! The states of a node in NVIDIA's upgrade (k8s-operator-libs `pkg/upgrade/consts.go`).

use std::fmt;

use contract::driver::DriverTraits;
use observed::ObservedNode;

/// A value of the driver's state label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerState {
    /// No label, or an empty one: the two are the same.
    #[default]
    Unknown,
    /// Out of date, and waiting to start.
    UpgradeRequired,
    /// Started, to be cordoned.
    CordonRequired,
    /// Cordoned; jobs may still run.
    WaitForJobsRequired,
    /// The pods that use the device are evicted.
    PodDeletionRequired,
    /// The node is drained.
    DrainRequired,
    /// NVIDIA's maintenance-operator takes the node out of service.
    NodeMaintenanceRequired,
    /// Reserved: nothing sets it, nothing reads it.
    PostMaintenanceRequired,
    /// The driver pod is replaced.
    PodRestartRequired,
    /// The new driver is validated.
    ValidationRequired,
    /// Only the uncordon is left.
    UncordonRequired,
    /// Nothing to do.
    Done,
    /// Failed, until its driver pod works.
    Failed,
    /// A value that the controller does not know: it never continues with such a node.
    Unrecognized,
}

impl ControllerState {
    /// Every state that has a label value.
    pub const ALL: [Self; 13] = [
        Self::Unknown,
        Self::UpgradeRequired,
        Self::CordonRequired,
        Self::WaitForJobsRequired,
        Self::PodDeletionRequired,
        Self::DrainRequired,
        Self::NodeMaintenanceRequired,
        Self::PostMaintenanceRequired,
        Self::PodRestartRequired,
        Self::ValidationRequired,
        Self::UncordonRequired,
        Self::Done,
        Self::Failed,
    ];

    /// Returns the state of a label value.
    pub fn from_label(label: Option<&str>) -> Self {
        let label = label.unwrap_or_default();
        Self::ALL.into_iter().find(|state| state.label() == label).unwrap_or(Self::Unrecognized)
    }

    /// Returns the state of a node's label.
    pub fn of_node(node: &ObservedNode, traits: &DriverTraits) -> Self {
        Self::from_label(node.labels.text(traits.state_label))
    }

    /// Returns the label's value; `""` means that the node has no label. An unrecognized value has
    /// none, and is never written.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::UpgradeRequired => "upgrade-required",
            Self::CordonRequired => "cordon-required",
            Self::WaitForJobsRequired => "wait-for-jobs-required",
            Self::PodDeletionRequired => "pod-deletion-required",
            Self::DrainRequired => "drain-required",
            Self::NodeMaintenanceRequired => "node-maintenance-required",
            Self::PostMaintenanceRequired => "post-maintenance-required",
            Self::PodRestartRequired => "pod-restart-required",
            Self::ValidationRequired => "validation-required",
            Self::UncordonRequired => "uncordon-required",
            Self::Done => "upgrade-done",
            Self::Failed => "upgrade-failed",
            Self::Unrecognized => "unrecognized",
        }
    }

    /// Returns what happens to a node in this state, for people: the label's value reads as an
    /// order.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Unknown => "not started",
            Self::UpgradeRequired => "waiting to start",
            Self::CordonRequired => "cordoning",
            Self::WaitForJobsRequired => "waiting for jobs",
            Self::PodDeletionRequired => "evicting pods",
            Self::DrainRequired => "draining",
            Self::NodeMaintenanceRequired => "handed to the maintenance-operator",
            Self::PostMaintenanceRequired => "after maintenance",
            Self::PodRestartRequired => "replacing the driver",
            Self::ValidationRequired => "validating the driver",
            Self::UncordonRequired => "uncordoning",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Unrecognized => "unknown to the controller",
        }
    }

    /// Returns whether nodes in it belong to the fleet that percentages refer to.
    pub fn is_managed(self) -> bool {
        !matches!(
            self,
            Self::NodeMaintenanceRequired | Self::PostMaintenanceRequired | Self::Unrecognized
        )
    }

    /// Returns whether the controller has not started a node in this state, or is done with it. The
    /// label of an unknown state counts as started.
    pub fn is_idle(self) -> bool {
        matches!(self, Self::Unknown | Self::UpgradeRequired | Self::Done)
    }

    /// Returns whether nodes in it occupy one of the parallel slots; failed ones do.
    pub fn is_in_progress(self) -> bool {
        self.is_managed() && !self.is_idle()
    }

    /// Returns whether the controller is working on such a node: a failed node occupies a slot, but
    /// the controller does nothing with it.
    pub fn is_busy(self) -> bool {
        self.is_in_progress() && self != Self::Failed
    }
}

/// A state label's value in a message, with its meaning: `` `drain-required` (draining)``.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedState<'a>(pub &'a str);

impl fmt::Display for ExplainedState<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = ControllerState::from_label(Some(self.0)).meaning();
        write!(formatter, "`{}` ({meaning})", self.0)
    }
}

impl fmt::Display for ControllerState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if *self == Self::Unknown { "unknown" } else { self.label() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_read_as_written() {
        for state in ControllerState::ALL {
            assert_eq!(ControllerState::from_label(Some(state.label())), state);
        }
        assert_eq!(ControllerState::from_label(None), ControllerState::Unknown);
        assert_eq!(
            ControllerState::from_label(Some("Upgrade-Done")),
            ControllerState::Unrecognized
        );
        assert_eq!(
            ControllerState::from_label(Some("unrecognized")),
            ControllerState::Unrecognized
        );
    }
}
