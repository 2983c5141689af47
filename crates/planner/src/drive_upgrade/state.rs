//! The states of a node's upgrade: the vendor's names (k8s-operator-libs `pkg/upgrade/consts.go`), which ours go by too.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// How far a node is in an upgrade that we do. A node without one is done, or has not been started: which of both follows from its driver.
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
    /// We have let go of it: the vendor's controller has it.
    Lifted,
    /// Cordoned; jobs that are to end by themselves run on it.
    WaitForJobsRequired,
    /// The pods that use the device are being evicted.
    PodDeletionRequired,
    /// The node is being drained.
    DrainRequired,
    /// The driver pod is being replaced, and its driver started.
    PodRestartRequired,
    /// The driver runs; what stands on it is being checked.
    ValidationRequired,
    /// It did not succeed.
    UpgradeFailed,
}

impl UpgradeState {
    /// Every state, in the order in which a node goes through them.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// The value of the state label.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the node holds a slot: a failed one is unavailable and no longer in progress.
    pub fn is_in_progress(self) -> bool {
        self != Self::UpgradeFailed
    }

    /// Whether the old driver still runs as it did: the node can be given back as it was.
    pub fn is_before_restart(self) -> bool {
        matches!(self, Self::WaitForJobsRequired | Self::PodDeletionRequired | Self::DrainRequired)
    }
}

impl fmt::Display for UpgradeState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
