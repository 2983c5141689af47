//! Applies requests to nodes. A patch applies only to the observed version of a node; a node that
//! has changed since is observed again.

use jiff::Timestamp;

use kube_io::actions::{ActionResult, delete_pod, patch_node};

use super::node_request::{DeletedPod, NodeRequest, RequestedChange, change};
use super::node_write::NodeWriteError;
use super::observe::{ObserveError, RolloutObserver};

/// How often a node that keeps changing is observed.
const ATTEMPTS: u32 = 5;

/// The outcome of a request.
#[derive(Debug)]
pub enum RequestOutcome {
    /// The request was applied, with the meaning of the change.
    Done(String),
    /// There was nothing to change, with the reason.
    Nothing(String),
    /// The request was not applied, with the reason.
    Failed(NodeWriteError),
}

/// Applies a request to one node. RBAC: `patch` on `nodes`, and `delete` on `pods` of the
/// operator's namespace if a driver pod must be restarted.
///
/// # Errors
/// The cluster cannot be read.
pub async fn apply(
    observer: &mut RolloutObserver,
    request: NodeRequest,
    node: &str,
    clock: impl Fn() -> Timestamp,
) -> Result<RequestOutcome, ObserveError> {
    for _ in 0..ATTEMPTS {
        let snapshot = observer.observe(&clock).await?;
        let Some(object) = snapshot.observed.nodes.get(node) else {
            return Ok(RequestOutcome::Failed(NodeWriteError::Gone));
        };
        let (pod, patch, text) = match change(&snapshot, request, object) {
            RequestedChange::Nothing { text } => return Ok(RequestOutcome::Nothing(text)),
            RequestedChange::Patch { patch, text } => (None, Some(patch), text),
            RequestedChange::Restart { pod, patch, text } => (Some(pod), patch, text),
        };
        if let Some(DeletedPod { namespace, name, uid }) = pod
            && let Err(error) = delete_pod(observer.client(), &namespace, &name, &uid).await
        {
            return Ok(RequestOutcome::Failed(error.into()));
        }
        let Some(patch) = patch else { return Ok(RequestOutcome::Done(text)) };
        match patch_node(observer.client(), &patch).await {
            Ok(ActionResult::Now) => return Ok(RequestOutcome::Done(text)),
            Ok(ActionResult::Changed(missing)) => {
                return Ok(RequestOutcome::Failed(NodeWriteError::Dropped(missing)));
            }
            Ok(ActionResult::Already) => return Ok(RequestOutcome::Failed(NodeWriteError::Gone)),
            // The change will arrive in the caches.
            Ok(ActionResult::Superseded) => observer.changed().await,
            Err(error) => return Ok(RequestOutcome::Failed(error.into())),
        }
    }
    Ok(RequestOutcome::Failed(NodeWriteError::Contended))
}
