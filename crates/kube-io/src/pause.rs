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
use observed::pause::ObservedPause;

/// How often a write is tried that conflicts with another change.
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

/// Returns the text with which a pause is stored.
pub fn text(pause: &Pause) -> String {
    // Plain fields with string keys always have a JSON form.
    serde_json::to_string(pause).unwrap_or_default()
}

/// Writes a pause under the data key that `key` chooses from the texts of the existing pauses by
/// key. It replaces the pause with this key, and removes those that have ended by themselves. If
/// the pauses change between reading and writing, `key` chooses again: two users who pause at the
/// same time must not replace each other's pause. RBAC: `get` and `patch` on the ConfigMap,
/// `create` on `configmaps` in `default`.
///
/// # Errors
/// A call failed. The write may have been applied anyway.
pub async fn write(
    client: &Client,
    pause: &Pause,
    key: impl Fn(&BTreeMap<String, String>) -> String,
) -> Result<(), CallError> {
    let mut attempt = 1;
    loop {
        let found = optional(call(api(client).get(PAUSE_NAME)).await)?;
        let answer = if let Some(object) = found {
            let version = object.metadata.resource_version;
            let found = object.data.unwrap_or_default();
            let ended = found
                .iter()
                .filter(|(key, text)| ObservedPause::read(key, text).has_ended(pause.at));
            let mut data: BTreeMap<String, Option<String>> =
                ended.map(|(key, _)| (key.clone(), None)).collect();
            data.insert(key(&found), Some(text(pause)));
            let body = json!({"metadata": {"resourceVersion": version}, "data": data});
            merge(api(client), PAUSE_NAME, body).await
        } else {
            let object = first_object(key(&BTreeMap::new()), text(pause));
            create(api(client), &object).await
        };
        match answer {
            // Another process has changed, created or removed it since.
            Err(CallError::Conflict(_) | CallError::NotFound(_)) if attempt < ATTEMPTS => {
                attempt += 1;
            }
            answer => return answer,
        }
    }
}

/// Returns the ConfigMap with its first pause.
fn first_object(key: String, text: String) -> ConfigMap {
    let labels = [("app.kubernetes.io/name", PROGRAM), ("app.kubernetes.io/component", "pause")];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(PAUSE_NAME.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        data: Some([(key, text)].into()),
        ..ConfigMap::default()
    }
}

/// Removes pauses, given by their texts by data key, and the ConfigMap with the last pause. If
/// another text has the key by now, another pause has replaced the given one, and stays. RBAC:
/// `get`, `patch` and `delete` on the ConfigMap.
///
/// # Errors
/// A call failed. The write may have been applied anyway.
pub async fn remove(client: &Client, given: &BTreeMap<String, String>) -> Result<(), CallError> {
    let mut attempt = 1;
    loop {
        let Some(object) = optional(call(api(client).get(PAUSE_NAME)).await)? else {
            return Ok(());
        };
        let found = object.data.unwrap_or_default();
        let gone: BTreeMap<&str, Option<&str>> = found
            .iter()
            .filter(|(key, text)| given.get(key.as_str()) == Some(*text))
            .map(|(key, _)| (key.as_str(), None))
            .collect();
        let version = object.metadata.resource_version;
        let answer = if gone.len() == found.len() {
            let preconditions =
                Some(Preconditions { resource_version: version, uid: object.metadata.uid });
            delete(
                api(client),
                PAUSE_NAME,
                &DeleteParams { preconditions, ..DeleteParams::default() },
            )
            .await
        } else if gone.is_empty() {
            return Ok(());
        } else {
            merge(
                api(client),
                PAUSE_NAME,
                json!({"metadata": {"resourceVersion": version}, "data": gone}),
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
