//! Pauses: requests of people to start no node. They are in one ConfigMap that no deployer owns ([`super::names::PAUSE_NAME`]), so that
//! they survive every sync; each one under a data key of its own, as JSON.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Data key of the pause of the whole fleet.
pub const FLEET_KEY: &str = "fleet";

/// Annotation that pauses one node, for users without this program (`kubectl annotate nodes`). Its
/// value is the reason. `false` pauses nothing.
pub const ANNOTATION: &str = "gpu-rollout.dev/pause";

/// One pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Label selector of the nodes; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Who.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    pub at: Timestamp,
}
