//! The kinds of states that a report distinguishes. The states of NVIDIA's controller are too many
//! for a chart.

use schemars::JsonSchema;
use serde::Serialize;

use nvidia_upgrade::state::ControllerState as VendorState;
use planner::drive_upgrade::state::UpgradeState;

/// What a node is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SpanKind {
    /// The node's upgrade has not started.
    Queued,
    /// The node waits for jobs.
    Jobs,
    /// Pods leave the node.
    Evicting,
    /// The driver is replaced.
    Driver,
    /// The driver is validated, and the node is released.
    Checking,
    /// The node has failed.
    Failed,
}

impl SpanKind {
    /// Every kind, in the order of an upgrade.
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Jobs, Self::Evicting, Self::Driver, Self::Checking, Self::Failed];

    /// Returns the text for a legend.
    pub fn text(self) -> &'static str {
        match self {
            Self::Queued => "waits for its start",
            Self::Jobs => "waits for jobs",
            Self::Evicting => "pods leave",
            Self::Driver => "driver is replaced",
            Self::Checking => "driver is validated",
            Self::Failed => "failed",
        }
    }

    /// Returns the character for timelines in text.
    pub fn sign(self) -> char {
        match self {
            Self::Queued => '.',
            Self::Jobs => 'w',
            Self::Evicting => 'e',
            Self::Driver => 'd',
            Self::Checking => 'c',
            Self::Failed => 'F',
        }
    }

    /// Returns the kind of a state by its name, which is the hook's or NVIDIA's. Returns `None` if
    /// the node is done.
    pub(crate) fn from_state(state: &str) -> Option<Self> {
        if let Some(own) = UpgradeState::ALL.into_iter().find(|own| own.name() == state) {
            return Some(match own {
                UpgradeState::Lifted => Self::Queued,
                UpgradeState::WaitForJobsRequired => Self::Jobs,
                UpgradeState::PodDeletionRequired | UpgradeState::DrainRequired => Self::Evicting,
                UpgradeState::PodRestartRequired => Self::Driver,
                UpgradeState::ValidationRequired => Self::Checking,
                UpgradeState::UpgradeFailed => Self::Failed,
            });
        }
        match VendorState::from_label(Some(state)) {
            VendorState::Unknown | VendorState::Done => None,
            VendorState::UpgradeRequired | VendorState::CordonRequired => Some(Self::Queued),
            VendorState::WaitForJobsRequired => Some(Self::Jobs),
            VendorState::PodDeletionRequired
            | VendorState::DrainRequired
            | VendorState::NodeMaintenanceRequired
            | VendorState::PostMaintenanceRequired => Some(Self::Evicting),
            VendorState::PodRestartRequired => Some(Self::Driver),
            VendorState::ValidationRequired | VendorState::UncordonRequired => Some(Self::Checking),
            VendorState::Failed | VendorState::Unrecognized => Some(Self::Failed),
        }
    }
}
