//! Creation of the pods of acceptance tests.

use k8s_openapi::api::core::v1::{Pod, PodTemplate};
use kube::api::{GetParams, PostParams};
use kube::core::Request;
use kube::{Client, Resource};
use serde::de::IgnoredAny;
use serde_json::Value;

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use planner::action::AcceptanceCreation;

use crate::acceptance_pod::acceptance_pod;
use crate::call::{CallError, call};

use super::ActionResult;

/// Part of the message about an object that exists already (Kubernetes `NewAlreadyExists`). Other
/// conflicts, such as that of two writers of a quota, pass.
const EXISTS: &str = "already exists";
/// The beginning of that message if the existing object is being deleted (Kubernetes
/// `pkg/registry/generic/registry/store.go`).
const BEING_DELETED: &str = "object is being deleted";

/// Creates the pod of an acceptance test from its PodTemplate. If the pod exists, there is nothing
/// left to do, unless it is being deleted. `digest`: the trigger digest of the run. RBAC: `get` on
/// `podtemplates` and `create` on `pods` in [`ACCEPTANCE_NAMESPACE`].
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
    let pod = acceptance_pod(&template, creation, digest);
    let body = serde_json::to_vec(&pod).map_err(kube::Error::SerdeError)?;
    let request = Request::new(Pod::url_path(&(), Some(ACCEPTANCE_NAMESPACE)))
        .create(&PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    match call(client.request::<IgnoredAny>(request)).await {
        Ok(IgnoredAny) => Ok(ActionResult::Now),
        Err(CallError::Conflict(message)) if message.starts_with(BEING_DELETED) => {
            Ok(ActionResult::Superseded)
        }
        Err(CallError::Conflict(message)) if message.contains(EXISTS) => Ok(ActionResult::Already),
        Err(error) => Err(without_object(error)),
    }
}

/// Reads the PodTemplate of an acceptance test, with all its fields. RBAC: `get` on `podtemplates`
/// in [`ACCEPTANCE_NAMESPACE`].
///
/// # Errors
/// The call failed. [`CallError::Denied`]: there is no such PodTemplate.
pub async fn read_template(client: &Client, test: &str) -> Result<Value, CallError> {
    let request = Request::new(PodTemplate::url_path(&(), Some(ACCEPTANCE_NAMESPACE)))
        .get(test, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    call(client.request(request)).await.map_err(without_object)
}

/// Converts the error about a missing PodTemplate or namespace: no later attempt helps, as with a
/// pod that the API server denies.
fn without_object(error: CallError) -> CallError {
    if let CallError::NotFound(message) = error {
        let message =
            format!("{message} in namespace {ACCEPTANCE_NAMESPACE}; deploy the hook release again");
        return CallError::Denied { code: 404, message };
    }
    error
}
