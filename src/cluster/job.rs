//! The hook's Job: when it started bounds every replacement pod alike; people may end it.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client};

use super::call::{CallError, call};
use super::change;

/// When the Job of this name started, if the object has this UID. RBAC: `get` on `jobs`, named.
///
/// # Errors
/// The call failed.
pub async fn started_at(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<Option<Timestamp>, CallError> {
    let job = call(Api::<Job>::namespaced(client.clone(), namespace).get(name)).await?;
    let same = job.metadata.uid.as_deref() == Some(uid);
    Ok(job.status.filter(|_| same).and_then(|status| status.start_time).map(|time| time.0))
}

/// Asks for the deletion of a Job, which goes when its pods are gone; whether there is one. RBAC: `get` and `delete` on `jobs`.
///
/// # Errors
/// The call failed.
pub async fn end(client: &Client, namespace: &str, name: &str) -> Result<bool, CallError> {
    let api: Api<Job> = Api::namespaced(client.clone(), namespace);
    let job = match call(api.get(name)).await {
        Ok(job) => job,
        Err(CallError::NotFound(_)) => return Ok(false),
        Err(error) => return Err(error),
    };
    let preconditions = Some(Preconditions { uid: job.metadata.uid, ..Preconditions::default() });
    match change::delete(api, name, &DeleteParams { preconditions, ..DeleteParams::foreground() }).await {
        Ok(()) => Ok(true),
        // Another one has come meanwhile: it begins under the pause, and waits for the Lease.
        Err(CallError::NotFound(_) | CallError::Conflict(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
