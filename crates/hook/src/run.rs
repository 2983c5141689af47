//! The loop under the Lease: wait for a change, decide, write the record, act.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use contract::exit::ExitCode;
use contract::record::{RECORD_FORMAT_VERSION, RecordedReason, RunRecord};
use contract::task::Task;
use kube_io::call::{CallError, REFUSAL};
use kube_io::events::EventRecorder;
use kube_io::lease::{FreeLease, HeldLease, LeaseCandidate};
use kube_io::record::{RecordError, RecordStore};
use kube_io::watches::{CacheState, Watches};
use observed::Observed;
use planner::decide::{Action, Decision, Planner};
use planner::estimate;
use planner::hold::operator_version;
use planner::memory::RunMemory;
use planner::spec::fingerprint;

use super::metrics::Seen;
use super::occurrence::Occurrence;
use super::start::{HISTORY_WENT_BACK, StartedRun, last_moment, read, record_missing, record_refused};
use super::{EndReason, HookProcess, RunEnd};

mod act;
mod hold;
pub(super) mod lease;
mod network;
mod preflight;
mod report;

/// Changes that come together are looked at together. The more nodes there are, the more changes come and the more a snapshot and a decision
/// cost: changes are gathered for longer, so that their time does not grow faster than the fleet; and where there are few, nobody waits for it.
const GATHER_PER_NODE: Duration = Duration::from_millis(2);
/// At least: an object often changes twice in a row.
const SHORTEST_GATHER: Duration = Duration::from_millis(20);
/// At most.
const LONGEST_GATHER: Duration = Duration::from_millis(150);
/// How long the stories of nodes are gathered that the nodes themselves carry too.
const GATHER_RECORD: Duration = Duration::from_secs(30);
/// The log says so while the caches are not in step with the API server.
pub const CANNOT_BE_READ: &str = "the API server cannot be read; nothing is decided meanwhile";
/// How soon a failed write is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How many nodes that were waited for in vain get an event: the record has them all.
const TOLD_NODES: usize = 50;

/// A run under way.
struct RunLoop<'a> {
    hook: &'a HookProcess,
    watches: Watches,
    /// The version at which the Lease was free before the caches were begun, until it has been looked at.
    free: Option<FreeLease>,
    namespaces: Vec<String>,
    version: Option<&'static str>,
    store: RecordStore,
    recorder: EventRecorder,
    run: RunRecord,
    memory: RunMemory,
    planner: Planner,
    /// The kinds of wait that were last told, the fleet's first, then by node.
    told: Vec<(Option<Arc<str>>, &'static str)>,
    /// Since when the server has been refusing to be watched.
    unwatched_since: Option<Timestamp>,
    /// Since when it has been refusing writes, by what was to be written.
    unwritten_since: BTreeMap<LoopWrite, Timestamp>,
    progress_at: Timestamp,
    /// How long changes are gathered, as the fleet was last seen.
    gather: Duration,
    /// When what was gathered for the record is written.
    record_due: Option<Timestamp>,
    /// Whether the budget has been held against the live fleet.
    estimated: bool,
    /// Whether this process has had the Lease, and taken the run up.
    began: bool,
    /// The holder that was last named as the one that is waited for: two that give way to each other need not say so each time.
    told_holder: RefCell<Option<String>>,
    /// When the Lease was given up for others to have it, until it is held again.
    gave_way: Option<Timestamp>,
}

pub(super) async fn drive(hook: &HookProcess, leases: &LeaseCandidate, start: StartedRun) -> RunEnd {
    let mut drive = RunLoop::new(hook, start);
    loop {
        let mut held = match drive.acquire(leases).await {
            Ok(held) => held,
            Err(ended) => return ended,
        };
        hook.metrics.holds(true);
        // Nobody has had it since before the caches were begun, or since it was given up for a moment.
        let uninterrupted = drive.free.take().is_some_and(|free| held.follows(&free));
        let gave_way = drive.gave_way.take();
        let loaded = tokio::select! {
            loaded = async {
                if uninterrupted && gave_way.is_some() {
                    return Ok(());
                }
                if !uninterrupted {
                    drive.look_anew().await?;
                }
                drive.load_after(gave_way).await
            } => Some(loaded),
            () = held.lost() => None,
            () = hook.shutdown.requested() => Some(Err(interrupted())),
        };
        let ended = match loaded {
            // The single steps before the loop were done when it was held first.
            Some(Ok(())) if gave_way.is_some() => drive.under_lease(&mut held).await,
            Some(Ok(())) => drive.tasks(&mut held).await,
            Some(Err(ended)) => Some(ended),
            None => None,
        };
        hook.metrics.holds(false);
        if let Some(ended) = ended {
            held.release().await;
            return ended;
        }
        if drive.gave_way.is_some() {
            drive.free = held.release().await;
            drive.leave().await;
        } else if !held.is_valid() {
            tracing::warn!("the Lease was lost; waiting for it again");
        }
    }
}

/// What the loop writes beside events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LoopWrite {
    /// The run record.
    Record,
    /// Deletions of plugin and driver pods.
    Deletion,
    /// Nodes.
    Node,
    /// Evictions.
    Eviction,
    /// Annotations of the NicClusterPolicy.
    Annotation,
}

impl LoopWrite {
    /// The value of the label `what` of the metric of failed writes.
    fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Deletion => "deletion",
            Self::Node => "node",
            Self::Eviction => "eviction",
            Self::Annotation => "annotation",
        }
    }
}

fn refused(message: &str) -> RunEnd {
    RunEnd::new(EndReason::RequestRefused, format!("the API server refuses what it allowed before: {message}"))
}

fn interrupted() -> RunEnd {
    let message = "ended by a signal; a replacement pod goes on where this one stopped";
    tracing::info!(message);
    RunEnd::new(EndReason::SignalReceived, message)
}

/// How long changes of a fleet of so many nodes are gathered.
fn gather(nodes: usize) -> Duration {
    GATHER_PER_NODE.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX)).clamp(SHORTEST_GATHER, LONGEST_GATHER)
}

fn after(at: Timestamp, wait: Duration) -> Timestamp {
    at.saturating_add(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX)
}

impl<'a> RunLoop<'a> {
    fn new(hook: &'a HookProcess, start: StartedRun) -> Self {
        let settings = &hook.settings;
        let now = hook.clock.now();
        Self {
            hook,
            watches: start.watches,
            free: start.free,
            namespaces: start.namespaces,
            version: start.version,
            store: start.store,
            recorder: EventRecorder::new(&hook.client, &settings.namespace, &settings.release, &hook.identity.job, &hook.identity.pod),
            run: RunRecord {
                format_version: RECORD_FORMAT_VERSION,
                digest: settings.digest.clone(),
                job: hook.identity.job.clone(),
                started_at: now,
                specs: String::new(),
                configs: BTreeMap::new(),
                cohort_nodes: None,
                cohort: None,
                operator_version: None,
                baseline_nodes: None,
                baseline: None,
                verdict: None,
            },
            memory: RunMemory::new(now, start.deadline),
            planner: Planner::default(),
            told: Vec::new(),
            unwatched_since: None,
            unwritten_since: BTreeMap::new(),
            progress_at: now,
            gather: LONGEST_GATHER,
            record_due: Some(now),
            estimated: false,
            began: false,
            told_holder: RefCell::default(),
            gave_way: None,
        }
    }

    fn now(&self) -> Timestamp {
        self.hook.clock.now()
    }

    async fn record(&self, occurrence: Occurrence<'_>) {
        occurrence.record(&self.recorder, self.now()).await;
    }

    /// Until when it is worth trying: nodes that were not touched are given back after the deadline.
    fn last_moment(&self) -> Timestamp {
        last_moment(self.hook, self.memory.deadline)
    }

    /// Takes the run up where its record says, or begins a new one. What was replaced before stays remembered. `gave_way`: only a moment ago
    /// this process let others go first, which is not worth a word.
    async fn load(&mut self, gave_way: bool) -> Result<(), RunEnd> {
        let last = self.last_moment();
        let record = read(self.hook, &mut self.store, last).await?;
        self.began = true;
        let deadline = self.memory.deadline;
        let again = record.run.as_ref().is_some_and(|run| run.job == self.run.job);
        let configs = record.run.as_ref().map(|run| run.configs.clone()).unwrap_or_default();
        self.run.operator_version = record.run.as_ref().and_then(|run| run.operator_version.clone());
        if again && let Some(run) = record.run {
            if let Some(verdict) = run.verdict {
                return Err(verdict.into());
            }
            // Without a cohort the process before has looked at no node: what it left is the baseline of the run before.
            let (baseline, earlier_baseline) = if run.cohort.is_some() { (run.baseline, None) } else { (None, run.baseline) };
            let begun = RunMemory::new(run.started_at, deadline);
            self.memory = RunMemory { nodes: record.nodes, cohort: run.cohort, baseline, earlier_baseline, ..begun };
            self.run.started_at = run.started_at;
        } else {
            self.memory = RunMemory::following(&record.nodes, self.now(), deadline);
            self.run.started_at = self.memory.started_at;
            let succeeded = |run: &RunRecord| run.verdict.as_ref().is_some_and(|verdict| verdict.code == ExitCode::Success);
            // What a run broke that did not succeed is no excuse for the next one.
            self.memory.earlier_baseline = record.run.filter(|run| !succeeded(run)).and_then(|run| run.baseline);
        }
        self.memory.configs = configs;
        self.memory.settled_version.clone_from(&self.run.operator_version);
        self.memory.taken_up = self.now();
        self.memory.own.names.insert((self.hook.settings.namespace.clone(), self.hook.identity.pod.clone()));
        if !gave_way {
            self.record(Occurrence::Began { digest: &self.run.digest, again }).await;
            let ahead = self.hook.clock.correction();
            if !ahead.is_zero() {
                self.record(Occurrence::ClockSkew { ahead }).await;
            }
        }
        Ok(())
    }

    /// All tasks, in their order. `None`: the Lease was lost.
    async fn tasks(&mut self, held: &mut HeldLease) -> Option<RunEnd> {
        let mut steps = Vec::new();
        if self.hook.settings.has(Task::PrepareNetwork) {
            match self.prepare_network(held).await {
                Ok(step) => steps.push(step?),
                Err(ended) => return Some(ended),
            }
        }
        if self.hook.settings.has(Task::Preflight) {
            match self.preflight().await {
                Ok(step) => steps.push(step),
                Err(ended) if ended.code == ExitCode::Preflight => {
                    return Some(self.conclude(ended).await);
                }
                Err(ended) => return Some(ended),
            }
        }
        if self.hook.settings.has(Task::Hold) {
            match self.hold(held).await {
                Ok(step) => steps.push(step?),
                Err(ended) => return Some(ended),
            }
        }
        if !self.hook.settings.watches() {
            return Some(self.conclude(RunEnd::joined(steps)).await);
        }
        self.under_lease(held).await
    }

    /// The loop. `None`: the Lease was lost, or is to be given up for a moment.
    async fn under_lease(&mut self, held: &mut HeldLease) -> Option<RunEnd> {
        let held_since = self.now();
        loop {
            let sync = self.watches.sync();
            self.hook.metrics.in_step(matches!(sync, CacheState::InStep));
            let wake_at = match sync {
                CacheState::InStep => {
                    self.unwatched_since = None;
                    match self.step(held).await {
                        Ok(wake_at) => match self.gives_way_at(held_since) {
                            Some(at) if at <= self.now() => {
                                self.gave_way = Some(self.now());
                                return None;
                            }
                            Some(at) => wake_at.min(at),
                            None => wake_at,
                        },
                        Err(ended) => return Some(ended),
                    }
                }
                CacheState::Behind(why) => {
                    if self.now() >= self.last_moment() {
                        let message = format!("the time budget is over and the API server cannot be read: {why}");
                        return Some(self.ends_without_verdict(EndReason::ApiServerUnreachable, &message));
                    }
                    tracing::warn!(why, "{CANNOT_BE_READ}");
                    self.last_moment()
                }
                CacheState::Past(why) => {
                    // As another process would: whether the Lease is still ours has to be seen as well.
                    tracing::warn!(why, "{HISTORY_WENT_BACK}");
                    self.record_due = Some(self.now());
                    return None;
                }
                CacheState::Forbidden(message) => {
                    let until = after(*self.unwatched_since.get_or_insert(self.hook.clock.now()), REFUSAL);
                    if self.now() >= until {
                        return Some(refused(&message));
                    }
                    until
                }
            };
            tokio::select! {
                biased;
                () = self.hook.shutdown.requested() => {
                    self.keep_gathered().await;
                    return Some(interrupted());
                }
                () = held.lost() => return None,
                () = self.watches.changed() => tokio::time::sleep(self.gather).await,
                () = tokio::time::sleep_until(self.hook.clock.instant(wake_at)) => {}
            }
        }
    }

    /// One decision and what follows from it; answers when to decide again at the latest.
    async fn step(&mut self, held: &HeldLease) -> Result<Timestamp, RunEnd> {
        let now = self.now();
        let observed = self.watches.observed(now);
        self.gather = gather(observed.nodes.len());
        let decision = self.planner.decide(&observed, &self.hook.settings, &self.memory, now);
        let metrics = &self.hook.metrics;
        metrics.decided(self.now().duration_since(now).unsigned_abs());
        metrics.show(|| Seen::of(observed.clone(), &decision, now));
        if !held.is_valid() {
            return Ok(now);
        }
        if let Some(again) = self.keep(&observed, &decision, now).await? {
            return Ok(again);
        }
        self.estimate(&observed, &decision).await;
        self.report(&decision).await;
        let before = std::mem::replace(&mut self.memory, decision.memory);
        self.tell_nodes(&before).await;
        // Before the actions: pods of some nodes are listed while others are written.
        self.watches.focus(&decision.focus);
        let refused = self.act(&decision.actions, held).await?;
        if let Some(verdict) = decision.verdict {
            for wait in decision.waits.iter().filter(|_| verdict.code != ExitCode::Success).take(TOLD_NODES) {
                if let Some(node) = &wait.node {
                    let reason = RecordedReason::new(wait.reason.name(), &wait.reason);
                    self.record(Occurrence::NodeEnded { node, failed: true, reason: &reason }).await;
                }
            }
            self.record(Occurrence::Ended { verdict: &verdict }).await;
            return Err(verdict.into());
        }
        if refused {
            // What becomes of a refused write is judged at once.
            self.record_due = Some(self.now());
            return Ok(self.now());
        }
        Ok(decision.wake_at.min(self.progress_at).min(self.record_due.unwrap_or(Timestamp::MAX)))
    }

    /// Keeps the record of a decision, before its actions. `Some`: that failed, and it is to be decided again then.
    async fn keep(&mut self, observed: &Observed, decision: &Decision, now: Timestamp) -> Result<Option<Timestamp>, RunEnd> {
        if !self.must_keep(decision) && self.record_due.is_none_or(|due| due > now) {
            let (before, wanted) = (&self.memory, &decision.memory);
            let changed = || wanted.nodes != before.nodes || wanted.configs != before.configs || wanted.baseline != before.baseline;
            // Where the hook drives, the nodes themselves carry what must survive; their stories are gathered.
            if self.record_due.is_none() && changed() {
                self.record_due = Some(after(now, GATHER_RECORD));
            }
            return Ok(None);
        }
        let mut run = self.run_of(&decision.memory);
        run.verdict.clone_from(&decision.verdict);
        if run.verdict.is_some() {
            run.specs = fingerprint(observed);
            if run.verdict.as_ref().is_some_and(|verdict| verdict.code == ExitCode::Success) {
                run.operator_version = operator_version(observed, &self.hook.settings);
            }
        }
        if let Err(error) = self.store.write(&run, &decision.memory.nodes).await {
            // Unwritten is undecided: without its record a replacement could be done twice.
            tracing::warn!(error = &error as &dyn std::error::Error, "unable to write the run record; trying again");
            self.hook.metrics.failed_write(LoopWrite::Record.name());
            if let RecordError::Refused(refusal) = &error {
                return Err(record_refused(refusal));
            }
            if let RecordError::Call(error, _) = &error
                && let Some(ended) = self.unwritable(LoopWrite::Record, error)
            {
                return Err(ended);
            }
            if decision.verdict.is_none() || now < self.memory.deadline {
                return Ok(Some(after(self.now(), RETRY)));
            }
        } else {
            self.unwritten_since.remove(&LoopWrite::Record);
            self.record_due = None;
        }
        Ok(None)
    }

    /// The run as it is recorded with this memory.
    pub(super) fn run_of(&self, memory: &RunMemory) -> RunRecord {
        // A run that ends before it looks at nodes hands on what it found.
        let baseline = memory.baseline.as_ref().or(memory.earlier_baseline.as_ref()).cloned();
        RunRecord { configs: memory.configs.clone(), cohort: memory.cohort.clone(), baseline, ..self.run.clone() }
    }

    /// Whether a decision may only be acted on when its record is written.
    fn must_keep(&self, decision: &Decision) -> bool {
        let replaces = |action: &Action| matches!(action, Action::ReplacePlugin { .. });
        // What nodes were like before is written before any of them is touched.
        let first = self.memory.baseline.is_none() && decision.memory.baseline.is_some();
        !self.hook.settings.has(Task::Drive) || first || decision.verdict.is_some() || decision.actions.iter().any(replaces)
    }

    /// Writes what was gathered, before the process ends. What fails here is lost for the record alone.
    async fn keep_gathered(&mut self) {
        if self.record_due.take().is_none() {
            return;
        }
        let run = self.run_of(&self.memory);
        if let Err(error) = self.store.write(&run, &self.memory.nodes).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "unable to write the run record before the end");
        }
    }

    /// Notes that a write cannot succeed as things are; after a while that ends the run.
    fn unwritable(&mut self, write: LoopWrite, error: &CallError) -> Option<RunEnd> {
        let ended = match error {
            CallError::Forbidden(message) | CallError::Denied { message, .. } => refused(message),
            CallError::NotFound(message) => record_missing(self.hook, message),
            CallError::Timeout | CallError::Conflict(_) | CallError::Refused { .. } | CallError::Unreachable(_) => return None,
        };
        let since = *self.unwritten_since.entry(write).or_insert(self.hook.clock.now());
        (self.now() >= after(since, REFUSAL)).then_some(ended)
    }

    /// Once, as soon as it is known which nodes are out of date: is the budget enough for them?
    async fn estimate(&mut self, observed: &Observed, decision: &Decision) {
        if self.estimated || decision.waits.iter().all(|wait| wait.node.is_none()) {
            return;
        }
        self.estimated = true;
        let budget = self.hook.settings.budget_seconds;
        if let Some(needed) = estimate::budget_seconds(observed, &self.hook.settings).filter(|needed| *needed > budget) {
            self.record(Occurrence::BudgetTooSmall { needed, budget }).await;
        }
    }
}
