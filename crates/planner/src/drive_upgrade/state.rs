//! The states of a node's upgrade, with NVIDIA's names (k8s-operator-libs `pkg/upgrade/consts.go`).

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// The state of a node in an upgrade by the hook. A node without a state is done, or has not been
/// started; its driver shows which.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    EnumCount,
    VariantArray,
    IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum UpgradeState {
    /// The hook has released its hold: NVIDIA's controller upgrades the node.
    Lifted,
    /// Cordoned; the hook waits for jobs that end on their own.
    WaitForJobsRequired,
    /// The pods that use the device are being evicted.
    PodDeletionRequired,
    /// The node is being drained.
    DrainRequired,
    /// The driver pod is being replaced, and the new driver starts.
    PodRestartRequired,
    /// The driver runs; the components that use it are being checked.
    ValidationRequired,
    /// The upgrade failed.
    UpgradeFailed,
}

impl UpgradeState {
    /// Every state, in the order in which a node enters them.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Returns the value of the state label.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether the node occupies a slot: a failed node is unavailable, but no longer in
    /// progress.
    pub fn is_in_progress(self) -> bool {
        self != Self::UpgradeFailed
    }

    /// Returns whether the old driver is unchanged: the node can be released unchanged.
    pub fn is_before_restart(self) -> bool {
        matches!(self, Self::WaitForJobsRequired | Self::PodDeletionRequired | Self::DrainRequired)
    }
}

impl fmt::Display for UpgradeState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
