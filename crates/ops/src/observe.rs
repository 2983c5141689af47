//! Observes rollouts: fills the same caches as a hook Job, once or continuously, and lets the
//! engine decide on them. Writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use contract::count::with_noun;
use contract::exit::ExitCode;
use contract::policy::Policy;
use contract::selector::Selector;
use contract::settings::Settings;
use contract::task::Task;
use kube_io::call::CallError;
use kube_io::lease::{LeaseHolder, holder};
use kube_io::managed_field_times::{NodeTimes, of_nodes};
use kube_io::record::{RecordError, RecordStore, StoredRecord};
use kube_io::releases::{HookJob, job, living_pods};
use kube_io::watches::{CacheState, Watches, dra_namespaces, slice_version};
use observed::Observed;
use observed::workload::{AwaitedPod, Workload};
use planner::decide::{Decision, decide};
use planner::memory::RunMemory;
use planner::pods::FOCUS_LIMIT;
use planner::policies::NodePools;
use planner::preflight::policy;
use planner::progress::DecidedNodes;
use planner::reason::Wait;

use self::followed_run::{FollowedRun, LiveJob, keep_durations};
use super::run_phase::RunPhase;
use super::target::RolloutTarget;
use super::wait_start::is_telling;

mod followed_run;
#[cfg(test)]
mod simulated_worlds;

/// How long to wait for the pods of single nodes. Pods that are unknown by then are missing from
/// the snapshot, and a note says so.
const PODS: Duration = Duration::from_secs(15);

/// Why a rollout cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The API server refuses a necessary read.
    #[error("the API server refuses a read: {0}")]
    Forbidden(String),
    /// The cluster could not be read in time.
    #[error("cannot read the cluster within {0} s: {1}")]
    Late(u64, String),
    /// A call failed.
    #[error("cannot read the cluster")]
    Call(#[source] CallError),
    /// A newer version wrote the run record, or it was refused.
    #[error(transparent)]
    Record(RecordError),
}

impl ObserveError {
    /// Returns the exit code of a command that fails with this error.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Forbidden(_) => ExitCode::Rights,
            Self::Record(_) => ExitCode::NewerFormat,
            Self::Late(..)
            | Self::Call(
                CallError::Timeout | CallError::Unreachable(_) | CallError::Refused { .. },
            ) => ExitCode::ApiUnreachable,
            Self::Call(_) => ExitCode::Internal,
        }
    }

    /// Returns the hint: what to do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Forbidden(_) => {
                "get the rights get, list and watch on what docs/rights.md lists for `preflight`, `settle` and `reroll`"
            }
            Self::Record(_) => {
                "use the version of gpu-rollout that the bundle was rendered with, or a newer one"
            }
            Self::Late(..)
            | Self::Call(
                CallError::Timeout | CallError::Unreachable(_) | CallError::Refused { .. },
            ) => {
                "check that the cluster answers: `kubectl get nodes` with the same kubeconfig and context; --timeout sets a longer time limit"
            }
            Self::Call(_) => {
                "check that the cluster answers: `kubectl get nodes` with the same kubeconfig and context"
            }
        }
    }
}

impl From<CallError> for ObserveError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Forbidden(message) | CallError::Denied { message, .. } => {
                Self::Forbidden(message)
            }
            CallError::Timeout
            | CallError::NotFound(_)
            | CallError::Conflict(_)
            | CallError::Refused { .. }
            | CallError::Unreachable(_) => Self::Call(error),
        }
    }
}

/// The observed state of a rollout, and the engine's decision on it.
pub struct RolloutSnapshot {
    /// The rollout.
    pub target: RolloutTarget,
    /// The settings with which it was observed.
    pub settings: Settings,
    /// The observed state of the cluster.
    pub observed: Observed,
    /// The policy in force: the hook's, or the live one of NVIDIA's controller.
    pub policy: Policy,
    /// The policy in force for each pool of nodes that has its own.
    pub pools: NodePools,
    /// The engine's decision. Its actions are not performed.
    pub decision: Decision,
    /// The run record.
    pub record: StoredRecord,
    /// The hook's Job, if there is one.
    pub job: Option<HookJob>,
    /// The holder of the Lease.
    pub holder: Option<LeaseHolder>,
    /// Who last changed which key of each node, and when.
    pub times: BTreeMap<String, NodeTimes>,
    /// What could not be read, for people.
    pub notes: Vec<String>,
    /// The time of the snapshot.
    pub now: Timestamp,
}

impl RolloutSnapshot {
    /// Returns the phase of the release's run.
    pub fn phase(&self) -> RunPhase {
        RunPhase::new(self.job.as_ref(), &self.record, self.holder.as_ref(), self.now)
    }

    /// Returns since when the hook has been assessing nodes in its current run; `None`: no hook is
    /// running, or it has not written its record yet.
    pub(crate) fn assessed_since(&self) -> Option<Timestamp> {
        let job = self.job.as_ref().filter(|_| self.phase().has_job())?;
        let run = self.record.run.as_ref().filter(|run| run.job == job.uid)?;
        // An earlier version did not record it.
        Some(run.assessed_since.unwrap_or(run.started_at))
    }

    /// Returns what was decided about nodes.
    pub(crate) fn decided(&self) -> DecidedNodes<'_> {
        let Decision { waits, ended, outcomes, assessed, .. } = &self.decision;
        DecidedNodes { waits, ended, outcomes, records: &self.record.nodes, assessed: *assessed }
    }
}

/// Follows one rollout.
pub struct RolloutObserver {
    client: Client,
    target: RolloutTarget,
    settings: Settings,
    watches: Watches,
    memory: Option<RunMemory>,
    /// The time of the first snapshot.
    since: Option<Timestamp>,
    limit: Duration,
}

impl RolloutObserver {
    /// Starts to follow a rollout. `limit`: the time limit for reading the cluster. RBAC: `list`
    /// and `watch` as in the task table for the tasks `settle`, `preflight` and those of the
    /// release; `get` on the release's Job and run record.
    ///
    /// # Errors
    /// The discovery of the API server's resources failed.
    pub async fn begin(
        client: &Client,
        target: &RolloutTarget,
        limit: Duration,
    ) -> Result<Self, ObserveError> {
        let settings = target.observation_settings(true);
        let namespaces = dra_namespaces(client, &settings).await?;
        let version = slice_version(client, &settings).await?;
        let watches = Watches::start(client, &settings, namespaces, version);
        Ok(Self {
            client: client.clone(),
            target: target.clone(),
            settings,
            watches,
            memory: None,
            since: None,
            limit,
        })
    }

    /// Returns the client.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until something has changed.
    pub async fn changed(&self) {
        self.watches.changed().await;
    }

    /// Observes the rollout as soon as all caches are in step with the API server.
    ///
    /// # Errors
    /// The API server refuses a read or does not answer in time, or a newer version wrote the run
    /// record.
    pub async fn observe(
        &mut self,
        clock: impl Fn() -> Timestamp,
    ) -> Result<RolloutSnapshot, ObserveError> {
        self.in_step().await?;
        let mut notes = Vec::new();
        let mut job = match &self.target.release {
            Some(_) => optional(
                job(&self.client, &self.target.settings).await,
                "the hook's Job",
                &mut notes,
            )?
            .flatten(),
            None => None,
        };
        if let Some(job) = job.as_mut().filter(|job| job.end.is_none() && job.has_pod) {
            let pods = living_pods(&self.client, &self.target.settings.namespace, job).await;
            job.pods = optional(pods, "the pods of the hook's Job", &mut notes)?;
        }
        let holder = optional(holder(&self.client).await, "the Lease", &mut notes)?.flatten();
        let record = self.record(&mut notes).await?;
        let phase = RunPhase::new(job.as_ref(), &record, holder.as_ref(), clock());
        self.settings = self.target.observation_settings(phase.has_job());
        let live = job
            .as_ref()
            .filter(|_| phase.has_job())
            .map(|job| LiveJob { job, is_running: phase == RunPhase::Running });
        let (observed, decision, now) = self.judge(&record, live, &clock, &mut notes).await?;
        let times =
            optional(of_nodes(&self.client, is_telling).await, "who changed nodes", &mut notes)?;
        Ok(RolloutSnapshot {
            target: self.target.clone(),
            settings: self.settings.clone(),
            policy: policy(&observed, &self.settings),
            pools: NodePools::in_force(&observed, &self.settings),
            observed,
            decision,
            record,
            job,
            holder,
            times: times.unwrap_or_default(),
            notes,
            now,
        })
    }

    async fn record(&self, notes: &mut Vec<String>) -> Result<StoredRecord, ObserveError> {
        let settings = &self.target.settings;
        if self.target.release.is_none() {
            return Ok(StoredRecord::default());
        }
        match RecordStore::new(&self.client, &settings.namespace, &settings.record).read().await {
            Ok(record) => Ok(record),
            Err(RecordError::Call(CallError::NotFound(_), _)) => Ok(StoredRecord::default()),
            Err(RecordError::Call(CallError::Forbidden(message), _)) => {
                notes.push(format!("cannot read the run record: {message}"));
                Ok(StoredRecord::default())
            }
            Err(RecordError::Call(error, _)) => Err(error.into()),
            Err(error @ (RecordError::Newer { .. } | RecordError::Refused(_))) => {
                Err(ObserveError::Record(error))
            }
        }
    }

    async fn in_step(&self) -> Result<(), ObserveError> {
        let until = tokio::time::Instant::now() + self.limit;
        loop {
            match self.watches.sync() {
                CacheState::InStep => return Ok(()),
                CacheState::Forbidden(message) => return Err(ObserveError::Forbidden(message)),
                CacheState::Behind(why) | CacheState::Past(why) => {
                    if tokio::time::timeout_at(until, self.watches.changed()).await.is_err() {
                        return Err(ObserveError::Late(self.limit.as_secs(), why));
                    }
                }
            }
        }
    }

    /// Returns the engine's decision on the observed state, including the pods of stuck nodes.
    async fn judge(
        &mut self,
        record: &StoredRecord,
        live: Option<LiveJob<'_>>,
        clock: &impl Fn() -> Timestamp,
        notes: &mut Vec<String>,
    ) -> Result<(Observed, Decision, Timestamp), ObserveError> {
        let until = tokio::time::Instant::now() + PODS;
        loop {
            let now = clock();
            let followed = FollowedRun::new(record, live);
            let observed = self.observed(&followed, now);
            let mut memory = followed.memory(&self.settings, &observed, now);
            if let Some(before) = &self.memory {
                keep_durations(&mut memory, before);
            }
            let decision = decide(&observed, &self.settings, &memory, now);
            let wanted = stuck(&decision);
            self.watches.focus(&wanted);
            let missing =
                wanted.iter().filter(|node| !observed.workloads.pods.contains_key(*node)).count();
            let late = missing > 0
                && tokio::time::timeout_at(until, self.watches.changed()).await.is_err();
            if late {
                notes.push(format!(
                    "cannot list the pods of {} within {} s",
                    with_noun(missing, "node"),
                    PODS.as_secs()
                ));
            }
            if missing == 0 || late {
                self.memory = Some(decision.memory.clone());
                return Ok((observed, decision, now));
            }
            self.in_step().await?;
        }
    }

    /// Returns the content of the caches. Finds the jobs that NVIDIA's controller waits for among
    /// the pods of the nodes that it is upgrading.
    fn observed(&mut self, followed: &FollowedRun<'_>, now: Timestamp) -> Observed {
        let since = *self.since.get_or_insert(now);
        let mut observed = self.watches.observed(now);
        if let Some(lease) = &mut observed.operator_lease {
            lease.renewed = lease.renewed.or_else(|| followed.assumed_renewal(lease, since, now));
        }
        if !self.settings.has(Task::Drive)
            && let Some(wait) = policy(&observed, &self.settings).wait_for_completion
            && let Ok(selector) = wait.pod_selector.parse::<Selector>()
        {
            let pods = observed
                .workloads
                .pods
                .values()
                .flatten()
                .filter(|pod| selector.matches(&pod.labels));
            observed.workloads.jobs = pods.map(as_job).collect();
        }
        observed
    }
}

/// Returns the answer to an optional read. A refusal becomes a note.
fn optional<T>(
    answer: Result<T, CallError>,
    name: &str,
    notes: &mut Vec<String>,
) -> Result<Option<T>, ObserveError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(CallError::Forbidden(message)) => {
            notes.push(format!("cannot read {name}: {message}"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn as_job(pod: &Workload) -> AwaitedPod {
    AwaitedPod {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        node: pod.node.clone(),
        phase: pod.phase,
    }
}

/// Returns the nodes whose pods may explain the wait: those that wait for something of their own.
fn stuck(decision: &Decision) -> BTreeSet<String> {
    let own = |wait: &Wait| !wait.reason.waits_for_others();
    let nodes = decision
        .waits
        .iter()
        .chain(decision.ended.iter())
        .filter(own)
        .filter_map(|wait| wait.node.map(|node| node.to_string()));
    decision.focus.iter().cloned().chain(nodes).take(FOCUS_LIMIT).collect()
}
