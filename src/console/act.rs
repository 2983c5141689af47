//! Does what people ask for. Nodes are changed only as they were looked at: one that has changed meanwhile is looked at again.

use jiff::Timestamp;

use crate::cluster::actions::{Done, delete_pod, patch_node};

use super::change::{Change, DeletedPod, Wish, change};
use super::look::{LookError, Looking};

/// How often a node that changes all the time is looked at.
const LOOKS: u32 = 5;

/// What became of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done: what that means.
    Done(String),
    /// There was nothing to do: why.
    Nothing(String),
    /// It was not done: why.
    Failed(String),
}

/// Fulfils a wish on one node. RBAC: `patch` on `nodes`, and `delete` on `pods` of the operator's namespace where a driver pod is to
/// start anew.
///
/// # Errors
/// The cluster cannot be read.
pub async fn fulfil(looking: &mut Looking, wish: Wish, node: &str, clock: impl Fn() -> Timestamp) -> Result<Outcome, LookError> {
    for _ in 0..LOOKS {
        let sight = looking.look(&clock).await?;
        let Some(object) = sight.observed.nodes.get(node) else { return Ok(Outcome::Failed("it is gone".to_owned())) };
        let (pod, patch, text) = match change(&sight, wish, object) {
            Change::Nothing { text } => return Ok(Outcome::Nothing(text)),
            Change::Patch { patch, text } => (None, Some(patch), text),
            Change::Restart { pod, patch, text } => (Some(pod), patch, text),
        };
        if let Some(DeletedPod { namespace, name, uid }) = pod
            && let Err(error) = delete_pod(looking.client(), &namespace, &name, &uid).await
        {
            return Ok(Outcome::Failed(error.to_string()));
        }
        let Some(patch) = patch else { return Ok(Outcome::Done(text)) };
        match patch_node(looking.client(), &patch).await {
            Ok(Done::Now) => return Ok(Outcome::Done(text)),
            Ok(Done::Changed(missing)) => {
                return Ok(Outcome::Failed(format!("admission drops what is written: {}", missing.join(", "))));
            }
            Ok(Done::Already) => return Ok(Outcome::Failed("it is gone".to_owned())),
            // What has changed is on its way to the caches.
            Ok(Done::Superseded) => looking.changed().await,
            Err(error) => return Ok(Outcome::Failed(error.to_string())),
        }
    }
    Ok(Outcome::Failed(format!("it has changed {LOOKS} times while it was looked at; ask again")))
}
