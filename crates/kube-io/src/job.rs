//! The hook's Job: its start time, from which the time of all its pods is counted, and its
//! end.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use kube::{Api, Client};
use serde_json::json;

use super::call::{CallError, call, optional};
use super::object_writes;
use super::server_time::get_dated;

/// `activeDeadlineSeconds` of a Job that is to end.
const DEADLINE: i64 = 1;

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

/// Ends a Job: sets its deadline to one second, so that the Job controller ends its pods and marks
/// the Job as failed. A deployer that waits for the Job sees that; for a deleted Job, Helm waits
/// until its own timeout. Returns whether pods of the Job may still run. RBAC: `get` and `patch` on
/// `jobs`.
///
/// # Errors
/// A call failed.
pub async fn end(client: &Client, namespace: &str, name: &str) -> Result<bool, CallError> {
    let api: Api<Job> = Api::namespaced(client.clone(), namespace);
    let Some(job) = optional(call(api.get(name)).await)? else { return Ok(false) };
    let (spec, status) = (job.spec.unwrap_or_default(), job.status.unwrap_or_default());
    let has_pods = [status.active, status.terminating].into_iter().flatten().any(|pods| pods > 0);
    let is_end = |condition: &JobCondition| {
        matches!(&*condition.type_, "Complete" | "Failed") && condition.status == "True"
    };
    if status.conditions.iter().flatten().any(is_end) {
        return Ok(has_pods);
    }
    if job.metadata.deletion_timestamp.is_some() || spec.active_deadline_seconds == Some(DEADLINE) {
        // The deadline of a suspended Job counts from the time at which it is resumed.
        return Ok(has_pods || spec.suspend != Some(true));
    }
    let deadline = json!({
        "metadata": {"resourceVersion": job.metadata.resource_version},
        "spec": {"activeDeadlineSeconds": DEADLINE},
    });
    match object_writes::merge(api, name, deadline).await {
        // The Job controller, or another Job of this name, came first: the next call sees it.
        Ok(()) | Err(CallError::Conflict(_)) => Ok(true),
        Err(CallError::NotFound(_)) => Ok(false),
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
