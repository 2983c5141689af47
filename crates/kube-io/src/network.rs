//! The NicClusterPolicy, read and annotated by name.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use contract::names::{FIELD_MANAGER, NIC_CLUSTER_POLICY};
use planner::retain::{KeyValues, RetainState};

use super::call::{CallError, call};

/// The API resource of NicClusterPolicies.
pub(super) fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("mellanox.com", "v1alpha1", "NicClusterPolicy"), "nicclusterpolicies")
}

fn api(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource())
}

/// The NicClusterPolicy, if there is one and an API for it. RBAC: `get` on it, named.
///
/// # Errors
/// The call failed.
pub async fn policy(client: &Client) -> Result<Option<RetainState>, CallError> {
    match call(api(client).get(NIC_CLUSTER_POLICY)).await {
        Ok(object) => Ok(Some(RetainState {
            version: object.metadata.resource_version.unwrap_or_default(),
            labels: object.metadata.labels.unwrap_or_default(),
            annotations: object.metadata.annotations.unwrap_or_default(),
            deleting: object.metadata.deletion_timestamp.is_some(),
        })),
        Err(CallError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts annotations on the NicClusterPolicy if it is still what was read. RBAC: `patch` on it, named.
///
/// # Errors
/// The call failed; [`CallError::Conflict`]: it has changed in between.
pub async fn annotate(client: &Client, policy: &RetainState, annotations: &KeyValues) -> Result<(), CallError> {
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": policy.version, "annotations": annotations}}));
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    call(api(client).patch(NIC_CLUSTER_POLICY, &parameters, &patch)).await.map(|_| ())
}
