//! Acceptance tests on the API server: their PodTemplates, and their pods. The templates are JSON,
//! so that fields that are newer than this program stay as they are.

use k8s_openapi::api::core::v1::{Pod, PodTemplate};
use kube::api::{DeleteParams, GetParams, PostParams};
use kube::core::Request;
use kube::{Api, Client, Resource};
use serde::de::IgnoredAny;
use serde_json::Value;

use contract::acceptance::ACCEPTANCE_NAMESPACE;

use super::api_collection::{ApiCollection, ResourceName};
use super::call::{CallError, call, optional};
use super::list::list_pages;
use super::list_watch::ObjectSelection;
use super::object_writes::delete;

const POD_TEMPLATES: ResourceName<'static> = ("v1", "podtemplates");

/// Lists the PodTemplates of acceptance tests; there are none if the namespace does not exist.
/// RBAC: `list` on `podtemplates` in [`ACCEPTANCE_NAMESPACE`].
///
/// # Errors
/// A call failed.
pub async fn list_templates(client: &Client) -> Result<Vec<Value>, CallError> {
    let collection = ApiCollection::new(client, POD_TEMPLATES, Some(ACCEPTANCE_NAMESPACE));
    let mut templates = Vec::new();
    let each = |template: Value| templates.push(template);
    list_pages(&collection, &ObjectSelection::default(), each).await?;
    Ok(templates)
}

/// Reads the PodTemplate of an acceptance test. RBAC: `get` on `podtemplates` in
/// [`ACCEPTANCE_NAMESPACE`].
///
/// # Errors
/// The call failed. [`CallError::Denied`]: there is no such PodTemplate.
pub async fn read_template(client: &Client, test: &str) -> Result<Value, CallError> {
    let request = Request::new(PodTemplate::url_path(&(), Some(ACCEPTANCE_NAMESPACE)))
        .get(test, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    call(client.request(request)).await.map_err(without_object)
}

/// Creates the pod of an acceptance test. RBAC: `create` on `pods` in [`ACCEPTANCE_NAMESPACE`].
///
/// # Errors
/// The call failed. The pod may exist anyway. [`CallError::Denied`]: the API server denies the pod,
/// or the namespace does not exist.
pub async fn create_pod(client: &Client, pod: &Value) -> Result<(), CallError> {
    let body = serde_json::to_vec(pod).map_err(kube::Error::SerdeError)?;
    let request = Request::new(Pod::url_path(&(), Some(ACCEPTANCE_NAMESPACE)))
        .create(&PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    let answer = call(client.request::<IgnoredAny>(request)).await;
    answer.map(drop).map_err(without_object)
}

/// Reads the pod of an acceptance test. `None`: it does not exist. RBAC: `get` on `pods` in
/// [`ACCEPTANCE_NAMESPACE`].
///
/// # Errors
/// The call failed.
pub async fn read_pod(client: &Client, name: &str) -> Result<Option<Pod>, CallError> {
    call(pods(client).get_opt(name)).await
}

/// Deletes the pod of an acceptance test that a user runs by hand: its name is unique. Returns
/// whether it existed; it may take some time to end. RBAC: `delete` on `pods` in
/// [`ACCEPTANCE_NAMESPACE`].
///
/// # Errors
/// The call failed.
pub async fn delete_pod(client: &Client, name: &str) -> Result<bool, CallError> {
    let answer = optional(delete(pods(client), name, &DeleteParams::default()).await)?;
    Ok(answer.is_some())
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), ACCEPTANCE_NAMESPACE)
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
