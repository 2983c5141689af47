//! Creation of the pods of acceptance tests.

use kube::Client;

use planner::action::AcceptanceCreation;

use crate::acceptance_pod::acceptance_pod;
use crate::acceptance_tests::{create_pod, read_template};
use crate::call::CallError;

use super::ActionResult;

/// Part of the message about an object that exists already (Kubernetes `NewAlreadyExists`). Other
/// conflicts, such as that of two writers of a quota, pass.
const EXISTS: &str = "already exists";
/// The beginning of that message if the existing object is being deleted (Kubernetes
/// `pkg/registry/generic/registry/store.go`).
const BEING_DELETED: &str = "object is being deleted";

/// Creates the pod of an acceptance test from its PodTemplate. If a pod of this name exists, there
/// is nothing left to do, unless it is being deleted: the next decision observes the pod, and has
/// it deleted if it runs on another node. `digest`: the trigger digest of the run. RBAC: `get` on
/// `podtemplates` and `create` on `pods` in [`contract::acceptance::ACCEPTANCE_NAMESPACE`].
///
/// # Errors
/// A call failed. [`CallError::Denied`]: no later attempt helps, because the API server denies the
/// pod, or the PodTemplate or the namespace does not exist.
pub async fn create_acceptance_pod(
    client: &Client,
    creation: &AcceptanceCreation,
    digest: &str,
) -> Result<ActionResult, CallError> {
    let template = read_template(client, &creation.test).await?;
    match create_pod(client, &acceptance_pod(&template, creation, digest)).await {
        Ok(()) => Ok(ActionResult::Now),
        Err(CallError::Conflict(message)) if message.starts_with(BEING_DELETED) => {
            Ok(ActionResult::Superseded)
        }
        Err(CallError::Conflict(message)) if message.contains(EXISTS) => Ok(ActionResult::Already),
        Err(error) => Err(error),
    }
}
