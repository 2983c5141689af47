//! The phase of a hook release's run: whether a hook is running now, and otherwise why not.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::record::RunRecord;
use contract::user_request::RequestCommand;
use kube_io::lease::LeaseHolder;
use kube_io::record::StoredRecord;
use kube_io::releases::{HookJob, JobEnd};

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunPhase {
    /// The release has no Job, and no run is recorded.
    Never,
    /// The Job has no pod yet, or its pod has not taken the Lease yet.
    Starting,
    /// A pod of the Job holds the Lease, or has held it and takes it again in a moment. While the
    /// whole fleet waits, the hook yields the Lease to other hooks for seconds.
    Running,
    /// Another hook, or an abort, holds the Lease.
    WaitsForLease,
    /// The Job's pod has ended without a verdict. The Job starts the next one after its back-off.
    BetweenPods,
    /// The run has a verdict.
    Ended,
    /// A user ended the run with `gpu-rollout abort`.
    Aborted,
    /// The Job ended without a verdict.
    Lost,
    /// The Job was deleted before the run had a verdict. A deployer that waited for the Job may
    /// count that as a success.
    JobDeleted,
}

impl RunPhase {
    /// Derives the phase. A Lease that is not renewed in time counts as free.
    pub fn new(
        job: Option<&HookJob>,
        record: &StoredRecord,
        holder: Option<&LeaseHolder>,
        now: Timestamp,
    ) -> Self {
        let run = record.run.as_ref();
        let has_verdict = |run: &RunRecord| run.verdict.is_some();
        let Some(job) = job.filter(|job| job.end.is_none()) else {
            // A Job that finds nothing to do succeeds and leaves the record of the previous run.
            return match (job, run) {
                (None, None) => Self::Never,
                (Some(job), _) if job.end == Some(JobEnd::Complete) => Self::Ended,
                (job, Some(run))
                    if has_verdict(run) && job.is_none_or(|job| job.uid == run.job) =>
                {
                    Self::Ended
                }
                _ if is_aborted(job, record) => Self::Aborted,
                (None, Some(_)) => Self::JobDeleted,
                _ => Self::Lost,
            };
        };
        // The record of the previous run is still there while the next Job starts.
        let own = run.filter(|run| run.job == job.uid);
        let holder = holder.filter(|holder| holder.until.is_none_or(|until| until > now));
        let is_own_pod = |holder: &LeaseHolder| holder.name.starts_with(&format!("{}-", job.name));
        match holder {
            _ if own.is_some_and(has_verdict) => Self::Ended,
            _ if !job.has_pod && is_aborted(Some(job), record) => Self::Aborted,
            _ if !job.has_pod && job.has_failed_pod => Self::BetweenPods,
            _ if !job.has_pod => Self::Starting,
            Some(holder) if !is_own_pod(holder) => Self::WaitsForLease,
            Some(holder) if is_alive(job, holder) => Self::Running,
            // The pod that held the Lease is dead, or has yielded the Lease.
            _ if own.is_some_and(|run| has_taken_over(job, run)) => Self::Running,
            _ => Self::Starting,
        }
    }

    /// Returns whether a pod of the hook watches the rollout, or will soon.
    pub fn has_job(self) -> bool {
        match self {
            Self::Starting | Self::Running | Self::WaitsForLease | Self::BetweenPods => true,
            Self::Never | Self::Ended | Self::Aborted | Self::Lost | Self::JobDeleted => false,
        }
    }
}

/// Returns whether the holder is a pod of the Job that has not ended. It counts as such if the pods
/// are unknown.
fn is_alive(job: &HookJob, holder: &LeaseHolder) -> bool {
    job.pods.as_ref().is_none_or(|pods| pods.iter().any(|pod| pod.name == holder.name))
}

/// Returns whether a pod of the Job that has not ended has held the Lease: it was there when the run
/// was last taken over.
fn has_taken_over(job: &HookJob, run: &RunRecord) -> bool {
    let mut pods = job.pods.iter().flatten();
    // A hook yields the Lease only while its whole fleet waits.
    run.fleet_wait.is_some()
        && run.taken_over_at.is_some_and(|at| pods.any(|pod| pod.created <= at))
}

/// Returns whether a user aborted the run of the Job. Without a Job, it is the run of the record.
fn is_aborted(job: Option<&HookJob>, record: &StoredRecord) -> bool {
    let started = match job {
        // A Job that has not started yet is newer than all requests.
        Some(job) if job.started.is_none() && job.end.is_none() => return false,
        Some(job) => job.started,
        None => record.run.as_ref().map(|run| run.started_at),
    };
    record.requests.iter().any(|request| {
        request.command == RequestCommand::Abort
            && started.is_none_or(|started| request.at >= started)
    })
}

#[cfg(test)]
mod tests {
    use contract::exit::ExitCode;
    use contract::record::{RecordedFleetWait, Verdict};
    use contract::user_request::UserRequest;
    use kube_io::releases::HookPod;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    const LATER: Timestamp = Timestamp::MAX;
    const BEFORE: Timestamp = Timestamp::MIN;

    fn job() -> HookJob {
        HookJob {
            name: "gpu-operator-post".into(),
            uid: "job-1".into(),
            started: Some(NOW),
            end: None,
            has_pod: true,
            has_failed_pod: false,
            pods: Some(vec![pod("gpu-operator-post-x7x2p", NOW)]),
        }
    }

    fn pod(name: &str, created: Timestamp) -> HookPod {
        HookPod { name: name.to_owned(), created }
    }

    fn request(command: RequestCommand, at: Timestamp) -> UserRequest {
        let request = serde_json::json!({"command": command, "by": "alice", "at": at});
        serde_json::from_value(request).unwrap()
    }

    fn run(job: &str, code: Option<ExitCode>) -> RunRecord {
        let run =
            serde_json::json!({"formatVersion": 2, "digest": "d", "job": job, "startedAt": NOW});
        let verdict = code.map(|code| Verdict {
            code,
            message: String::new(),
            reasons: Vec::new(),
            at: NOW,
            hint: None,
        });
        RunRecord { verdict, ..serde_json::from_value(run).unwrap() }
    }

    /// `status` said "at work" after the verdict was written, and for half a minute after the
    /// hook's pod was killed.
    #[test]
    fn hook_runs_only_with_pod_and_lease() {
        let holder =
            |name: &str, until| Some(LeaseHolder { name: name.to_owned(), until: Some(until) });
        let ours = || holder("gpu-operator-post-x7x2p", LATER);
        let ended = Some(HookJob { end: Some(JobEnd::Failed), ..job() });
        let dead = HookJob { has_pod: false, has_failed_pod: true, pods: None, ..job() };
        let replaced = HookJob {
            has_failed_pod: true,
            pods: Some(vec![pod("gpu-operator-post-b2k4d", LATER)]),
            ..job()
        };
        let unlisted = HookJob { pods: None, ..job() };
        let taken_over = || Some(RunRecord { taken_over_at: Some(NOW), ..run("job-1", None) });
        let waiting = || {
            let wait = RecordedFleetWait {
                reason: "OperatorNotReady".into(),
                since: NOW,
                nodes_assessed: false,
            };
            taken_over().map(|run| RunRecord { fleet_wait: Some(wait), ..run })
        };
        let success = Some(ExitCode::Success);
        for (case, job, run, holder, phase) in vec![
            ("nothing was deployed", None, None, None, RunPhase::Never),
            (
                "the Job has no pod yet",
                Some(HookJob { has_pod: false, ..job() }),
                None,
                None,
                RunPhase::Starting,
            ),
            (
                "the pod reads the cluster",
                Some(job()),
                Some(run("job-0", success)),
                None,
                RunPhase::Starting,
            ),
            (
                "the pod has the Lease",
                Some(job()),
                Some(run("job-1", None)),
                ours(),
                RunPhase::Running,
            ),
            (
                "its Lease is not renewed",
                Some(job()),
                Some(run("job-1", None)),
                holder("gpu-operator-post-x7x2p", NOW),
                RunPhase::Starting,
            ),
            (
                "the pods are unknown",
                Some(unlisted),
                Some(run("job-1", None)),
                ours(),
                RunPhase::Running,
            ),
            (
                "the Lease is that of a dead pod",
                Some(replaced.clone()),
                taken_over(),
                ours(),
                RunPhase::Starting,
            ),
            (
                "the pod after it has not taken over",
                Some(replaced),
                waiting(),
                None,
                RunPhase::Starting,
            ),
            ("the pod yields the Lease", Some(job()), waiting(), None, RunPhase::Running),
            ("the pod lost the Lease", Some(job()), taken_over(), None, RunPhase::Starting),
            (
                "another hook has the Lease",
                Some(job()),
                None,
                holder("network-operator-post-a", LATER),
                RunPhase::WaitsForLease,
            ),
            (
                "the pod was killed",
                Some(dead),
                Some(run("job-1", None)),
                ours(),
                RunPhase::BetweenPods,
            ),
            (
                "the verdict is written",
                Some(job()),
                Some(run("job-1", success)),
                ours(),
                RunPhase::Ended,
            ),
            (
                "the Job has ended",
                ended.clone(),
                Some(run("job-1", success)),
                None,
                RunPhase::Ended,
            ),
            (
                "the Job had nothing to do",
                ended.clone().map(|job| HookJob { end: Some(JobEnd::Complete), ..job }),
                Some(run("job-0", success)),
                None,
                RunPhase::Ended,
            ),
            (
                "the Job ended before its verdict",
                ended,
                Some(run("job-0", success)),
                None,
                RunPhase::Lost,
            ),
            (
                "the Job was deleted after its verdict",
                None,
                Some(run("job-1", success)),
                None,
                RunPhase::Ended,
            ),
            ("the Job was deleted", None, Some(run("job-1", None)), None, RunPhase::JobDeleted),
        ] {
            let record = StoredRecord { run, ..StoredRecord::default() };
            assert_eq!(RunPhase::new(job.as_ref(), &record, holder.as_ref(), NOW), phase, "{case}");
        }
    }

    /// After an abort, `status` said that the Job was deleted or that all its pods failed.
    #[test]
    fn aborted_run_is_called_aborted() {
        let failed = || Some(HookJob { end: Some(JobEnd::Failed), ..job() });
        let between_pods = || Some(HookJob { has_pod: false, has_failed_pod: true, ..job() });
        for (case, job, command, at, phase) in [
            ("the Job failed", failed(), RequestCommand::Abort, LATER, RunPhase::Aborted),
            ("the Job was deleted", None, RequestCommand::Abort, LATER, RunPhase::Aborted),
            ("another command", failed(), RequestCommand::Pause, LATER, RunPhase::Lost),
            ("an earlier run was aborted", failed(), RequestCommand::Abort, BEFORE, RunPhase::Lost),
            ("the Job still runs", Some(job()), RequestCommand::Abort, LATER, RunPhase::Starting),
            ("its pod was ended", between_pods(), RequestCommand::Abort, LATER, RunPhase::Aborted),
            ("killed", between_pods(), RequestCommand::Pause, LATER, RunPhase::BetweenPods),
        ] {
            let record = StoredRecord {
                run: Some(run("job-1", None)),
                requests: vec![request(command, at)],
                ..StoredRecord::default()
            };
            assert_eq!(RunPhase::new(job.as_ref(), &record, None, NOW), phase, "{case}");
        }
    }
}
