//! Writes. The server answers with the whole changed object, but the object's watch shows the
//! change anyway. In the answer to a patch of a node, only the patched parts are compared.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::call::{CallError, call};
use contract::names::FIELD_MANAGER;

/// Changes an object with a JSON merge patch.
///
/// # Errors
/// The call failed. The write may have been applied anyway.
pub(super) async fn merge<K: Resource>(
    api: Api<K>,
    name: &str,
    body: Value,
) -> Result<(), CallError> {
    patch_for_metadata::<K, IgnoredAny>(api, name, body).await.map(drop)
}

/// Like [`merge`], but returns the decoded parts of the object as admission has left them.
///
/// # Errors
/// The call failed. The write may have been applied anyway.
pub(super) async fn patch<K: Resource, T: DeserializeOwned>(
    api: Api<K>,
    name: &str,
    body: Value,
) -> Result<T, CallError> {
    let request = Request::new(api.resource_url())
        .patch(name, &parameters(), &Patch::Merge(body))
        .map_err(kube::Error::BuildRequest)?;
    call(api.into_client().request(request)).await
}

/// Like [`patch`], but requests only the metadata of the object, because a node or the run record
/// is much larger.
///
/// # Errors
/// The call failed. The write may have been applied anyway.
pub(super) async fn patch_for_metadata<K: Resource, T: DeserializeOwned>(
    api: Api<K>,
    name: &str,
    body: Value,
) -> Result<T, CallError> {
    let request = Request::new(api.resource_url())
        .patch_metadata(name, &parameters(), &Patch::Merge(body))
        .map_err(kube::Error::BuildRequest)?;
    call(api.into_client().request(request)).await
}

/// Deletes an object.
///
/// # Errors
/// The call failed. The write may have been applied anyway.
pub(super) async fn delete<K: Resource>(
    api: Api<K>,
    name: &str,
    parameters: &DeleteParams,
) -> Result<(), CallError> {
    let request = Request::new(api.resource_url())
        .delete(name, parameters)
        .map_err(kube::Error::BuildRequest)?;
    call(api.into_client().request::<IgnoredAny>(request)).await.map(drop)
}

/// Creates an object.
///
/// # Errors
/// The call failed. The write may have been applied anyway.
pub(super) async fn create<K: Resource + Serialize>(
    api: Api<K>,
    object: &K,
) -> Result<(), CallError> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = Request::new(api.resource_url())
        .create(&PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    call(api.into_client().request::<IgnoredAny>(request)).await.map(drop)
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}
