//! Reads and writes pauses: one ConfigMap in `default`, with one data key per pause.

use std::collections::BTreeMap;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::json;

use super::call::{CallError, call, optional};
use super::object_writes::{create, delete, merge};
use contract::names::{LEASE_NAMESPACE, PAUSE_NAME, PROGRAM};
use contract::pause::Pause;

/// How often a removal is tried that conflicts with another change.
const ATTEMPTS: u32 = 5;

fn api(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), LEASE_NAMESPACE)
}

/// Reads the texts of the pauses by data key. RBAC: `get` on the ConfigMap.
///
/// # Errors
/// The call failed.
pub async fn read(client: &Client) -> Result<BTreeMap<String, String>, CallError> {
    let object = optional(call(api(client).get(PAUSE_NAME)).await)?;
    Ok(object.and_then(|object| object.data).unwrap_or_default())
}

/// Writes a pause, which replaces the pause with the same key. RBAC: `patch` on the ConfigMap,
/// `create` on `configmaps` in `default`.
///
/// # Errors
/// A call failed. The write may have been applied anyway.
pub async fn write(client: &Client, key: &str, pause: &Pause) -> Result<(), CallError> {
    // Plain fields with string keys always have a JSON form.
    let text = serde_json::to_string(pause).unwrap_or_default();
    let data = json!({"data": {key: text}});
    match merge(api(client), PAUSE_NAME, data.clone()).await {
        Err(CallError::NotFound(_)) => {}
        answer => return answer,
    }
    let labels = [("app.kubernetes.io/name", PROGRAM), ("app.kubernetes.io/component", "pause")];
    let object = ConfigMap {
        metadata: ObjectMeta {
            name: Some(PAUSE_NAME.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        data: Some([(key.to_owned(), text)].into()),
        ..ConfigMap::default()
    };
    match create(api(client), &object).await {
        // Another process has just created it.
        Err(CallError::Conflict(_)) => merge(api(client), PAUSE_NAME, data).await,
        answer => answer,
    }
}

/// Removes the pauses with these keys, and the ConfigMap with the last pause. RBAC: `get`, `patch`
/// and `delete` on the ConfigMap.
///
/// # Errors
/// A call failed. The write may have been applied anyway.
pub async fn remove(client: &Client, keys: &[String]) -> Result<(), CallError> {
    let mut attempt = 1;
    loop {
        let Some(object) = optional(call(api(client).get(PAUSE_NAME)).await)? else {
            return Ok(());
        };
        let left = object.data.iter().flatten().any(|(key, _)| !keys.contains(key));
        let version = object.metadata.resource_version;
        let answer = if left {
            let data: BTreeMap<&str, Option<&str>> =
                keys.iter().map(|key| (key.as_str(), None)).collect();
            merge(
                api(client),
                PAUSE_NAME,
                json!({"metadata": {"resourceVersion": version}, "data": data}),
            )
            .await
        } else {
            let preconditions =
                Some(Preconditions { resource_version: version, uid: object.metadata.uid });
            delete(
                api(client),
                PAUSE_NAME,
                &DeleteParams { preconditions, ..DeleteParams::default() },
            )
            .await
        };
        match answer {
            Err(CallError::Conflict(_)) if attempt < ATTEMPTS => attempt += 1,
            Err(CallError::NotFound(_)) => return Ok(()),
            answer => return answer,
        }
    }
}

/// Returns this client's user name in the API server. Every authenticated user may ask
/// (`system:basic-user`).
///
/// # Errors
/// The call failed; servers before 1.28 do not support it.
pub async fn who(client: &Client) -> Result<Option<String>, CallError> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let answer = call(api.create(&PostParams::default(), &SelfSubjectReview::default())).await?;
    Ok(answer.status.and_then(|status| status.user_info?.username))
}
