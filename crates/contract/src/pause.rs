//! Pauses: requests of users to start no more nodes. They are in one ConfigMap that no deployer
//! owns ([`super::names::PAUSE_NAME`]), so that they survive every sync. Each pause is JSON under
//! its own data key.

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
    /// Label selector of the nodes; absent for all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Who paused them.
    pub by: String,
    /// The reason for the pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Start of the pause.
    pub at: Timestamp,
}
