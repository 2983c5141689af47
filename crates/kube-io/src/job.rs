//! The hook's Job: its start time, from which the time of all its pods is counted, and its
//! deletion.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client};

use super::call::{CallError, call, optional};
use super::change;
use super::server_time::get_dated;

/// The start of a Job, by the clocks of the control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStart {
    /// When the API server created it.
    pub created: Option<Timestamp>,
    /// When the Job controller started it, by the controller's own clock; later than its creation
    /// if it was suspended.
    pub started: Option<Timestamp>,
}

impl JobStart {
    /// Returns since when the Job's time budget has been running. `now`: by the API server's clock.
    /// A start in the future or before the Job's creation shows that the Job controller's clock is
    /// wrong; then the creation time applies.
    pub fn since(self, now: Timestamp) -> Timestamp {
        let created = self.created.map_or(now, |created| created.min(now));
        let credible = |started: &Timestamp| {
            *started <= now && self.created.is_none_or(|created| *started >= created)
        };
        self.started.filter(credible).unwrap_or(created)
    }
}

/// Reads when the Job of this name started, if the object has this UID, and the server's time.
/// RBAC: `get` on `jobs`, named.
///
/// # Errors
/// The call failed; the server's time may be known anyway.
pub async fn read_start(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
) -> (Result<JobStart, CallError>, Option<Timestamp>) {
    let api = Api::<Job>::namespaced(client.clone(), namespace);
    let (job, at) = get_dated::<Job>(client, api.resource_url(), name).await;
    let start = job.map(|job| {
        let same = job.metadata.uid.as_deref() == Some(uid);
        let created = job.metadata.creation_timestamp.map(|time| time.0);
        let started = job.status.and_then(|status| status.start_time).map(|time| time.0);
        if same { JobStart { created, started } } else { JobStart::default() }
    });
    (start, at)
}

/// Requests the deletion of a Job, which disappears after its pods. Returns whether the Job exists.
/// RBAC: `get` and `delete` on `jobs`.
///
/// # Errors
/// The call failed.
pub async fn end(client: &Client, namespace: &str, name: &str) -> Result<bool, CallError> {
    let api: Api<Job> = Api::namespaced(client.clone(), namespace);
    let Some(job) = optional(call(api.get(name)).await)? else { return Ok(false) };
    let preconditions = Some(Preconditions { uid: job.metadata.uid, ..Preconditions::default() });
    match change::delete(api, name, &DeleteParams { preconditions, ..DeleteParams::foreground() })
        .await
    {
        Ok(()) => Ok(true),
        // Another Job has replaced it: it starts under the pause, and waits for the Lease.
        Err(CallError::NotFound(_) | CallError::Conflict(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_start_of_a_foreign_clock_is_replaced() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).ok();
        let since = |created, started| {
            JobStart { created, started }.since(Timestamp::from_second(600).unwrap_or_default())
        };
        assert_eq!(Some(since(at(5), at(6))), at(6));
        assert_eq!(Some(since(at(5), at(65))), at(5), "the controller is ahead");
        assert_eq!(Some(since(at(5), at(-55))), at(5), "the controller is behind");
        assert_eq!(Some(since(None, at(6))), at(6));
        assert_eq!(Some(since(at(11), None)), at(10), "nothing started in the future");
        assert_eq!(Some(since(None, None)), at(10));
    }
}
