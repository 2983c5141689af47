//! The causes for which the upgrade of a node fails, and their consequences for the node.

use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// A cause of failure. Attempts are counted per cause.
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
pub enum FailureCause {
    /// The policy does not allow the eviction of pods that use the device.
    PodsNotEvictable,
    /// The evictions did not end in time.
    EvictionTimeout,
    /// The policy does not allow a drain to evict pods on the node.
    DrainBlocked,
    /// The drain did not end in time.
    DrainTimeout,
    /// Another user or controller repeatedly removes the hook's cordon.
    CordonContested,
    /// The old driver pod did not terminate in time: the new driver was not tried.
    TerminationTimeout,
    /// The driver's containers fail repeatedly.
    DriverFailing,
    /// The driver did not become ready in time.
    DriverTimeout,
    /// The validator did not succeed in time.
    ValidationTimeout,
    /// A plugin that uses the driver does not serve.
    PluginNotServing,
    /// An acceptance test did not pass with the old driver.
    AcceptanceFailedBefore,
    /// An acceptance test did not pass with the new driver.
    AcceptanceFailed,
    /// The API server refused a write before the hook changed the driver.
    WriteRefused,
    /// The API server refused a write after the old driver may have stopped.
    WriteRefusedAfterRestart,
}

impl FailureCause {
    /// Every cause.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Returns whether the old driver is unchanged when the node fails for this cause: the node is
    /// then released at once.
    pub fn is_before_restart(self) -> bool {
        matches!(
            self,
            Self::PodsNotEvictable
                | Self::EvictionTimeout
                | Self::DrainBlocked
                | Self::DrainTimeout
                | Self::CordonContested
                | Self::AcceptanceFailedBefore
                | Self::WriteRefused
        )
    }

    /// Returns whether the cause is an acceptance test: the hook does not repeat the test until
    /// another deployment, or a request of a user.
    pub fn is_acceptance(self) -> bool {
        matches!(self, Self::AcceptanceFailedBefore | Self::AcceptanceFailed)
    }

    /// Returns whether the new driver did not start, or its checks failed. A user may take such a
    /// node as proven when the driver runs.
    pub fn is_failed_proof(self) -> bool {
        matches!(
            self,
            Self::DriverFailing
                | Self::DriverTimeout
                | Self::ValidationTimeout
                | Self::PluginNotServing
                | Self::AcceptanceFailed
        )
    }

    /// Returns whether the cause is a refused write: only a new run, or a request of a user,
    /// retries the node.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::WriteRefused | Self::WriteRefusedAfterRestart)
    }

    /// Returns the name in records and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the message.
    pub fn text(self) -> &'static str {
        match self {
            Self::PodsNotEvictable => "pods that use the device cannot be evicted",
            Self::EvictionTimeout => "the evictions did not end in time",
            Self::DrainBlocked => "pods on the node cannot be drained",
            Self::DrainTimeout => "the drain did not end in time",
            Self::CordonContested => "the node is uncordoned repeatedly",
            Self::TerminationTimeout => "the old driver pod did not terminate in time",
            Self::DriverFailing => "the driver's containers fail repeatedly",
            Self::DriverTimeout => "the driver did not become ready in time",
            Self::ValidationTimeout => "the validator did not succeed in time",
            Self::PluginNotServing => "a plugin that uses the driver does not serve its devices",
            Self::AcceptanceFailedBefore => "an acceptance test did not pass with the old driver",
            Self::AcceptanceFailed => "an acceptance test did not pass with the new driver",
            Self::WriteRefused | Self::WriteRefusedAfterRestart => "the API server refused a write",
        }
    }
}

impl fmt::Display for FailureCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

/// Returns the pause after the given number of failed attempts: one minute, doubled each time, at
/// most sixteen.
pub fn pause(attempts: u32) -> SignedDuration {
    SignedDuration::from_mins(1_i64 << attempts.saturating_sub(1).min(4))
}
