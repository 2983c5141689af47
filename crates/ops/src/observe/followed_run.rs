//! The run of the hook that a command follows: the memory with which the hook decides, rebuilt from
//! the run record. A command observes the cluster only now; what the hook has measured over time
//! is in the record.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use contract::budget::working_seconds;
use contract::record::{RecordedFleetWait, RunRecord};
use contract::settings::Settings;
use contract::user_request::accepted_nodes;
use kube_io::record::StoredRecord;
use kube_io::releases::HookJob;
use observed::{Observed, OperatorLease};
use planner::memory::{RecordedWaits, RunMemory};
use planner::reason::{OPERATOR_ACTING, OPERATOR_NOT_LEADING, OPERATOR_NOT_SEEN};
use planner::spec::leadership::OperatorActivity;

/// How much the clock of the operator's node may differ from the API server's. A Lease that expired
/// longer ago is not renewed.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(2);

/// The Job of a hook that has not ended.
#[derive(Clone, Copy)]
pub(super) struct LiveJob<'a> {
    pub(super) job: &'a HookJob,
    /// Whether a pod of the Job holds the Lease.
    pub(super) is_running: bool,
}

/// The run of a hook whose Job has not ended, with the run record.
pub(super) struct FollowedRun<'a> {
    record: &'a StoredRecord,
    live: Option<LiveJob<'a>>,
    /// The run of the Job; `None`: there is no Job, or it has not written its record yet.
    run: Option<&'a RunRecord>,
}

impl<'a> FollowedRun<'a> {
    pub(super) fn new(record: &'a StoredRecord, live: Option<LiveJob<'a>>) -> Self {
        // The record of the previous run is still there while the next Job starts.
        let is_own = |run: &&RunRecord| live.is_some_and(|live| live.job.uid == run.job);
        Self { record, live, run: record.run.as_ref().filter(is_own) }
    }

    /// Returns whether a pod of the hook holds the Lease.
    fn is_running(&self) -> bool {
        self.live.is_some_and(|live| live.is_running)
    }

    /// Returns the condition that blocks the whole fleet, as the hook recorded it.
    fn fleet_wait(&self) -> Option<&RecordedFleetWait> {
        self.run?.fleet_wait.as_ref()
    }

    /// Returns the memory of the running hook as far as it is recorded, or the memory with which a
    /// hook that takes over now would start.
    pub(super) fn memory(
        &self,
        settings: &Settings,
        observed: &Observed,
        now: Timestamp,
    ) -> RunMemory {
        let after = |started: Timestamp| {
            let seconds =
                i64::try_from(working_seconds(settings.budget_seconds)).unwrap_or(i64::MAX);
            started.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
        };
        let deadline = after(self.live.and_then(|live| live.job.started).unwrap_or(now));
        let mut memory = RunMemory::new(self.run.map_or(now, |run| run.started_at), deadline);
        // A pod that takes over the run starts the time limits of the driver's steps again.
        let is_running = self.is_running();
        // An earlier version did not record when.
        let taken_over_at =
            self.run.filter(|_| is_running).map(|run| run.taken_over_at.unwrap_or(run.started_at));
        memory.taken_over_at = taken_over_at.unwrap_or(now);
        if let Some(read_at) = taken_over_at {
            // The hook reads requests when it takes the run over.
            let known = self.record.requests.iter().filter(|request| request.at <= read_at);
            memory.accepted = accepted_nodes(known);
        }
        if let Some(run) = self.run {
            memory.followed = Some(RecordedWaits { fleet: run.fleet_wait.clone() });
            memory.assessed.since = run.assessed_since;
            memory.nodes.clone_from(&self.record.nodes);
            memory.cohort.clone_from(&run.cohort);
            memory.baseline.clone_from(&run.baseline);
        }
        if let Some(run) = &self.record.run {
            memory.configs.clone_from(&run.configs);
            // A halt outlasts its run.
            memory.proof = run.proof.clone().map(Arc::new);
            memory.proven_driver.clone_from(&run.proven_driver);
        }
        // What a workstation observes for the first time is not a change, unless the hook has
        // recorded one.
        memory.operator = Some(match self.fleet_wait() {
            Some(wait) if wait.reason == OPERATOR_ACTING => {
                OperatorActivity::updated(None, observed, wait.since)
            }
            Some(_) | None => OperatorActivity::settled(observed),
        });
        memory
    }

    /// Returns when the operator's Lease was last renewed, as far as a command can know that has
    /// observed no renewal since its first snapshot at `since`. The holder counts as alive until
    /// then, unless the hook has recorded that the holder does not renew, or the Lease expired long
    /// ago. `None`: no renewal is known.
    pub(super) fn assumed_renewal(
        &self,
        lease: &OperatorLease,
        since: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        // The record of a hook that is not running may be out of date.
        let recorded = self.fleet_wait().filter(|_| self.is_running());
        match recorded.map(|wait| wait.reason.as_str()) {
            Some(OPERATOR_NOT_SEEN) => return None,
            Some(OPERATOR_NOT_LEADING) => return Some(Timestamp::UNIX_EPOCH),
            Some(_) | None => {}
        }
        let valid = i64::try_from(lease.duration_seconds).unwrap_or(i64::MAX);
        let limit = SignedDuration::from_secs(valid).saturating_add(CLOCK_SKEW);
        let is_expired = now.duration_since(lease.renew_time) > limit;
        Some(if is_expired { lease.renew_time } else { since })
    }
}

/// Takes over the durations that earlier snapshots of the same command have measured.
pub(super) fn keep_durations(memory: &mut RunMemory, before: &RunMemory) {
    memory.waiting.clone_from(&before.waiting);
    memory.fleet_waiting = before.fleet_waiting;
    memory.ready.clone_from(&before.ready);
    memory.outdated.clone_from(&before.outdated);
    memory.vendor_seen = before.vendor_seen;
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: i64 = 1_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn record(fleet_wait: &str) -> StoredRecord {
        let run = serde_json::json!({
            "formatVersion": 2, "digest": "d", "job": "job-1", "startedAt": at(STARTED),
            "takenOverAt": at(STARTED + 300),
            "fleetWait": {"reason": fleet_wait, "since": at(STARTED)},
        });
        StoredRecord {
            run: Some(serde_json::from_value(run).expect("a run record")),
            ..StoredRecord::default()
        }
    }

    fn job() -> HookJob {
        HookJob {
            name: "gpu-operator-post".into(),
            uid: "job-1".into(),
            started: Some(at(STARTED)),
            end: None,
            has_pod: true,
            has_failed_pod: false,
            pods: None,
        }
    }

    /// The first snapshot counted a leader as alive that the hook had called dead, and one whose
    /// Lease had expired an hour before.
    #[test]
    fn dead_leader_is_not_assumed_alive() {
        let job = job();
        let lease = |renewed| OperatorLease {
            duration_seconds: 15,
            renew_time: at(renewed),
            ..OperatorLease::default()
        };
        for (case, recorded, renewed, since, assumed) in [
            ("alive", "Quiet", 2_000, 2_005, Some(at(2_005))),
            ("no renewal since the first snapshot", "Quiet", 2_000, 1_990, Some(at(1_990))),
            ("the hook waits for a renewal", OPERATOR_NOT_SEEN, 2_000, 2_005, None),
            ("the hook saw none", OPERATOR_NOT_LEADING, 2_000, 2_005, Some(at(0))),
            ("expired long ago", "Quiet", 1_000, 2_005, Some(at(1_000))),
            ("clocks differ", "Quiet", 1_900, 2_005, Some(at(2_005))),
        ] {
            let record = record(recorded);
            let followed = FollowedRun::new(&record, Some(LiveJob { job: &job, is_running: true }));
            assert_eq!(
                followed.assumed_renewal(&lease(renewed), at(since), at(2_005)),
                assumed,
                "{case}"
            );
        }
    }

    /// After an outage longer than `startSeconds`, `status` called a node failed whose time the
    /// hook had started again.
    #[test]
    fn time_limits_start_again_with_each_hook_process() {
        let job = job();
        let mut record = record("Quiet");
        let taken_over_at = |record: &StoredRecord, is_running| {
            let followed = FollowedRun::new(record, Some(LiveJob { job: &job, is_running }));
            let memory = followed.memory(&Settings::default(), &Observed::default(), at(2_000));
            assert_eq!(memory.started_at, at(STARTED));
            memory.taken_over_at
        };
        assert_eq!(taken_over_at(&record, true), at(STARTED + 300), "the hook is running");
        assert_eq!(taken_over_at(&record, false), at(2_000), "the next pod takes over");
        record.run.as_mut().expect("a run").taken_over_at = None;
        assert_eq!(taken_over_at(&record, true), at(STARTED), "an earlier version's record");
    }
}
