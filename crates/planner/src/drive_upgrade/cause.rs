//! What a node's upgrade fails for, and what that means for the node.

use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// A kind of failure. Attempts are counted for each.
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
    /// Pods that use the device may not be evicted under this policy.
    PodsNotEvictable,
    /// The evictions did not end in time.
    EvictionTimeout,
    /// Pods on the node may not be evicted by a drain under this policy.
    DrainBlocked,
    /// The drain did not end in time.
    DrainTimeout,
    /// Somebody takes our cordon away again and again.
    CordonContested,
    /// The driver's containers fail again and again.
    DriverFailing,
    /// The driver did not become ready in time.
    DriverTimeout,
    /// The validator did not succeed in time.
    ValidationTimeout,
    /// A plugin that stands on the driver does not serve.
    PluginNotServing,
    /// The API server refused a write before the driver was touched.
    WriteRefused,
    /// The API server refused a write, and the old driver may not run any more.
    WriteRefusedAfterRestart,
}

impl FailureCause {
    /// Every cause.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Whether the old driver still runs as it did when the node fails for this: the node is given back at once.
    pub fn is_before_restart(self) -> bool {
        matches!(
            self,
            Self::PodsNotEvictable
                | Self::EvictionTimeout
                | Self::DrainBlocked
                | Self::DrainTimeout
                | Self::CordonContested
                | Self::WriteRefused
        )
    }

    /// Whether the API server refused a write: the node is tried again by a new run, or when a person asks for it, and not in between.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::WriteRefused | Self::WriteRefusedAfterRestart)
    }

    /// The name in records and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::PodsNotEvictable => "pods that use the device cannot be evicted",
            Self::EvictionTimeout => "the evictions did not end in time",
            Self::DrainBlocked => "pods on the node cannot be drained",
            Self::DrainTimeout => "the drain did not end in time",
            Self::CordonContested => "the node is uncordoned repeatedly",
            Self::DriverFailing => "the driver's containers fail repeatedly",
            Self::DriverTimeout => "the driver did not become ready in time",
            Self::ValidationTimeout => "the validator did not succeed in time",
            Self::PluginNotServing => "a plugin that uses the driver does not serve",
            Self::WriteRefused | Self::WriteRefusedAfterRestart => "the API server refused a write",
        }
    }
}

impl fmt::Display for FailureCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

/// How long after the given failed attempt the next one comes: one minute, doubled each time, at most sixteen.
pub fn pause(attempts: u32) -> SignedDuration {
    SignedDuration::from_mins(1_i64 << attempts.saturating_sub(1).min(4))
}
