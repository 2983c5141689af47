//! Writes. The server answers with the whole object as it has become; what that is the object's watch tells. Of the answer to a patch of a
//! node only what was to change is compared.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::call::{CallError, call};
use contract::names::FIELD_MANAGER;

/// Changes an object by a JSON merge patch.
///
/// # Errors
/// The call failed. It may have had its effect all the same.
pub(super) async fn merge<K: Resource>(
    api: Api<K>,
    name: &str,
    body: Value,
) -> Result<(), CallError> {
    patch_for_metadata::<K, IgnoredAny>(api, name, body).await.map(drop)
}

/// Does the same and answers what of the object is decoded, as admission has left it.
///
/// # Errors
/// The call failed. It may have had its effect all the same.
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

/// Does the same and answers nothing but the metadata of the object: a node or the run record is much larger.
///
/// # Errors
/// The call failed. It may have had its effect all the same.
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
/// The call failed. It may have had its effect all the same.
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
/// The call failed. It may have had its effect all the same.
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
