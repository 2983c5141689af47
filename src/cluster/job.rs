//! The hook's own Job: when it started bounds every replacement pod alike.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::{Api, Client};

use super::call::{CallError, call};

/// When the Job of this name started, if the object has this UID. RBAC: `get` on `jobs`, named.
///
/// # Errors
/// The call failed.
pub async fn started_at(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<Option<Timestamp>, CallError> {
    let job = call(Api::<Job>::namespaced(client.clone(), namespace).get(name)).await?;
    let same = job.metadata.uid.as_deref() == Some(uid);
    Ok(job.status.filter(|_| same).and_then(|status| status.start_time).map(|time| time.0))
}
