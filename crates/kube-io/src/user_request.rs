//! Writes what users ask for into run records.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::json;

use contract::user_request::{MOST_REQUESTS, REQUEST_KEY_PREFIX, UserRequest};

use super::call::{CallError, call};
use super::object_writes::merge;

/// Adds a request to the run record of this name, and drops its oldest requests beyond
/// [`MOST_REQUESTS`]. RBAC: `get` and `patch` on the ConfigMap.
///
/// # Errors
/// A call failed. [`CallError::NotFound`]: there is no such record.
pub async fn record_request(
    client: &Client,
    namespace: &str,
    record: &str,
    request: &UserRequest,
) -> Result<(), CallError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let object = call(api.get(record)).await?;
    let known = object.data.iter().flatten().map(|(key, _)| key);
    let known: Vec<&String> = known.filter(|key| key.starts_with(REQUEST_KEY_PREFIX)).collect();
    let dropped = known.iter().take((known.len() + 1).saturating_sub(MOST_REQUESTS));
    let mut data: BTreeMap<String, Option<String>> =
        dropped.map(|key| ((*key).clone(), None)).collect();
    // Plain fields with string keys always have a JSON form.
    data.insert(request.key(), Some(serde_json::to_string(request).unwrap_or_default()));
    merge(api, record, json!({ "data": data })).await
}
