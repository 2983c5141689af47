//! Deletion of pods.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client};

use crate::call::CallError;
use crate::object_writes::delete;

use super::ActionResult;

/// Deletes a pod if it still has this UID. RBAC: `delete` on `pods` in its namespace.
///
/// # Errors
/// The call failed for another reason; the loop tries again.
pub async fn delete_pod(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<ActionResult, CallError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match delete(api, name, &parameters).await {
        Ok(()) => Ok(ActionResult::Now),
        Err(CallError::NotFound(_) | CallError::Conflict(_)) => Ok(ActionResult::Already),
        Err(error) => Err(error),
    }
}
