//! The NicClusterPolicy, read and annotated by name.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::json;

use contract::names::NIC_CLUSTER_POLICY;
use planner::retain::{KeyValues, RetainState};

use super::api_collection::ResourceName;
use super::call::{CallError, call, optional};
use super::object_writes::patch;

/// The resource of NicClusterPolicies.
pub(super) const NIC_CLUSTER_POLICIES: ResourceName<'static> =
    ("mellanox.com/v1alpha1", "nicclusterpolicies");

fn api(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("mellanox.com", "v1alpha1", "NicClusterPolicy");
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, NIC_CLUSTER_POLICIES.1))
}

/// Reads the NicClusterPolicy, if it and its API exist. RBAC: `get` on it, named.
///
/// # Errors
/// The call failed.
pub async fn read_policy(client: &Client) -> Result<Option<RetainState>, CallError> {
    let policy = optional(call(api(client).get(NIC_CLUSTER_POLICY)).await)?;
    Ok(policy.map(|object| RetainState {
        version: object.metadata.resource_version.unwrap_or_default(),
        labels: object.metadata.labels.unwrap_or_default(),
        annotations: object.metadata.annotations.unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
    }))
}

/// Sets annotations of the NicClusterPolicy if it is still the version that was read. RBAC: `patch`
/// on it, named.
///
/// # Errors
/// The call failed. [`CallError::Conflict`]: the object has changed since.
pub async fn annotate(
    client: &Client,
    policy: &RetainState,
    annotations: &KeyValues,
) -> Result<(), CallError> {
    let body = json!({"metadata": {"resourceVersion": policy.version, "annotations": annotations}});
    patch::<_, DynamicObject>(api(client), NIC_CLUSTER_POLICY, body).await.map(drop)
}
