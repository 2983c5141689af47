//! The loop under the Lease: it waits for a change, decides, writes the record and acts.

use std::fmt::Display;
use std::time::Duration;

use jiff::Timestamp;

use contract::task::Task;
use kube_io::lease::{HeldLease, LeaseCandidate};
use kube_io::record::RecordError;
use kube_io::repeated_warning::RepeatedWarning;
use kube_io::watches::CacheState;
use observed::Observed;
use planner::decide::{Decision, Planner};
use planner::gather::{self, gather_time};
use planner::memory::RunMemory;

use super::clock::later;
use super::metrics::FleetSnapshot;
use super::run_caches::{HISTORY_WENT_BACK, RunCaches};
use super::start::{StartedRun, record_refused};
use super::{EndReason, HookProcess, RunEnd};

mod action_performer;
mod ended_halt;
mod lease_yielding;
mod network_preparation;
mod node_hold;
mod preflight;
mod record_writer;
mod refused_request_timers;
mod reporter;
mod write_results;

use action_performer::ActionPerformer;
use lease_yielding::{YieldableLease, without_verdict, yield_at};
use network_preparation::NetworkPreparation;
use node_hold::NodeHold;
use preflight::run_preflight;
use record_writer::RecordWriter;
use refused_request_timers::{RefusedRequestTimers, RequestKind, refused};
use reporter::RunReporter;
use write_results::WriteResults;

pub(super) use ended_halt::EndedHalt;
pub use lease_yielding::WAITING_FOR_LEASE;

/// The log message while the caches are not in step with the API server.
pub const CANNOT_BE_READ: &str =
    "cannot read the API server; the hook makes no decisions until it can";
/// The pause before a failed write is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// How a single-step task ends without success.
enum StepEnd {
    /// The Lease was lost, or the API server went back to an older state. The step starts again
    /// when the Lease is held again.
    LeaseLost,
    /// The run ends. Its verdict is recorded and reported.
    Verdict(RunEnd),
    /// The process ends without a verdict.
    Abort(RunEnd),
}

impl From<RunEnd> for StepEnd {
    fn from(ended: RunEnd) -> Self {
        Self::Abort(ended)
    }
}

fn interrupted() -> RunEnd {
    let message = "ended by a signal; a replacement pod continues where this one stopped";
    tracing::info!(message);
    RunEnd::new(EndReason::SignalReceived, message)
}

/// A run in progress.
pub(super) struct RunLoop<'a> {
    hook: &'a HookProcess,
    caches: RunCaches<'a>,
    lease: YieldableLease<'a>,
    writer: RecordWriter,
    reporter: RunReporter<'a>,
    refusals: RefusedRequestTimers,
    memory: RunMemory,
    planner: Planner,
    /// How long the loop gathers changes, from the size of the last observed fleet.
    gather: Duration,
    unreadable: RepeatedWarning,
    unwritten: RepeatedWarning,
}

impl<'a> RunLoop<'a> {
    pub(super) fn new(
        hook: &'a HookProcess,
        leases: &'a LeaseCandidate,
        start: StartedRun<'a>,
    ) -> Self {
        Self {
            hook,
            caches: start.caches,
            lease: YieldableLease::new(hook, leases, start.free),
            writer: RecordWriter::new(hook, start.store),
            reporter: RunReporter::new(hook),
            refusals: RefusedRequestTimers::new(&hook.settings.release),
            memory: RunMemory::new(hook.clock.now(), start.deadline),
            planner: Planner::default(),
            gather: gather::LONGEST,
            unreadable: RepeatedWarning::new(CANNOT_BE_READ, "the API server is readable again"),
            unwritten: RepeatedWarning::new(
                "cannot write the run record; retrying",
                "the run record is writable again",
            ),
        }
    }

    fn now(&self) -> Timestamp {
        self.hook.clock.now()
    }

    fn last_attempt(&self) -> Timestamp {
        self.hook.last_attempt(self.memory.deadline)
    }

    /// Performs the tasks under the Lease until the run ends. Acquires the Lease again after it was
    /// lost or yielded.
    pub(super) async fn run(mut self) -> RunEnd {
        let hook = self.hook;
        loop {
            let mut held =
                match self.lease.acquire(self.last_attempt(), || self.caches.own_nodes()).await {
                    Ok(held) => held,
                    Err(ended) => return ended,
                };
            hook.metrics.set_lease_held(true);
            let uninterrupted = self.lease.is_uninterrupted(&held);
            let yielded_at = self.lease.yielded_at.take();
            let resumed = tokio::select! {
                resumed = self.resume(uninterrupted, yielded_at) => Some(resumed),
                () = held.lost() => None,
                () = hook.shutdown.requested() => Some(Err(interrupted())),
            };
            let ended = match resumed {
                // The single-step tasks were done when the Lease was first held.
                Some(Ok(())) if yielded_at.is_some() => self.decide_until_end(&mut held).await,
                Some(Ok(())) => self.perform_tasks(&mut held).await,
                Some(Err(ended)) => Some(ended),
                None => None,
            };
            hook.metrics.set_lease_held(false);
            if let Some(ended) = ended {
                held.release().await;
                return ended;
            }
            if self.lease.yielded_at.is_some() {
                self.lease.yield_to_others(held).await;
            } else if !held.is_valid() {
                tracing::warn!("lost the Lease; waiting for it again");
            }
        }
    }

    /// Resumes the run under the Lease. If another hook has held the Lease in between, and the mode
    /// decides about nodes, the caches are restarted. The other hook may have started nodes until
    /// it released the Lease, and the caches may not show them yet. Without them, the limits would
    /// be exceeded.
    async fn resume(
        &mut self,
        uninterrupted: bool,
        yielded_at: Option<Timestamp>,
    ) -> Result<(), RunEnd> {
        if uninterrupted && yielded_at.is_some() {
            return Ok(());
        }
        let decides = self.hook.settings.mode.decides();
        if !uninterrupted && (decides || matches!(self.caches.watches.sync(), CacheState::Past(_)))
        {
            self.caches.restart(self.last_attempt()).await?;
        }
        let waiting = self.memory.fleet_waiting;
        // The hook observes the operator without the Lease too.
        let operator = self.memory.operator.take();
        self.load(yielded_at.is_some()).await?;
        self.memory.operator = operator;
        if let Some(at) = yielded_at {
            // The wait continues, but the time in which another hook had the Lease does not count:
            // the awaited object may itself have waited for that hook.
            let meanwhile = self.now().duration_since(at);
            self.memory.fleet_waiting = waiting
                .map(|(name, since)| (name, since.saturating_add(meanwhile).unwrap_or(since)));
        }
        Ok(())
    }

    /// Continues the run of the record, or starts a new one. `yielded`: the hook has only yielded
    /// the Lease, so the start is not reported again.
    async fn load(&mut self, yielded: bool) -> Result<(), RunEnd> {
        let (memory, again) = self.writer.load(self.hook, self.memory.deadline).await?;
        self.lease.has_started = true;
        self.memory = memory;
        self.memory
            .own
            .names
            .insert((self.hook.settings.namespace.clone(), self.hook.identity.pod.clone()));
        if !yielded {
            let events = &self.reporter.events;
            events.run_started(&self.hook.settings.digest, again).await;
            let ahead = self.hook.clock.correction();
            if !ahead.is_zero() {
                events.clock_skew(ahead).await;
            }
        }
        if let Some(ended) = self.writer.ended_halt.take() {
            self.reporter.events.halt_ended(&ended).await;
        }
        Ok(())
    }

    /// Performs all tasks in their order. `None`: the Lease was lost, or is to be yielded.
    async fn perform_tasks(&mut self, held: &mut HeldLease) -> Option<RunEnd> {
        match self.perform_steps(held).await {
            Ok(_) if self.hook.settings.watches() => self.decide_until_end(held).await,
            Ok(steps) => Some(self.conclude(RunEnd::joined(steps)).await),
            Err(StepEnd::LeaseLost) => None,
            Err(StepEnd::Verdict(ended)) => Some(self.conclude(ended).await),
            Err(StepEnd::Abort(ended)) => Some(ended),
        }
    }

    /// Performs the single-step tasks.
    async fn perform_steps(&mut self, held: &HeldLease) -> Result<Vec<RunEnd>, StepEnd> {
        let (hook, events, deadline) = (self.hook, &self.reporter.events, self.memory.deadline);
        let mut steps = Vec::new();
        if hook.settings.has(Task::PrepareNetwork) {
            steps.push(
                NetworkPreparation { hook, held, events, refusals: &mut self.refusals, deadline }
                    .run()
                    .await?,
            );
        }
        if hook.settings.has(Task::Preflight) {
            steps.push(run_preflight(hook, &self.caches, &self.memory, events).await?);
        }
        if hook.settings.has(Task::Hold) {
            let results =
                WriteResults { hook, memory: &mut self.memory, refusals: &mut self.refusals };
            steps.push(
                NodeHold { hook, held, caches: &self.caches, results, deadline }.run().await?,
            );
        }
        Ok(steps)
    }

    /// Ends a run without a loop: records and reports its verdict.
    async fn conclude(&mut self, ended: RunEnd) -> RunEnd {
        let verdict = ended.into_verdict(self.now());
        self.writer.write_verdict(&self.memory, &verdict).await;
        self.reporter.events.run_ended(&verdict).await;
        verdict.into()
    }

    /// Decides whenever something has changed or is due. `None`: the Lease was lost, or is to be
    /// yielded.
    async fn decide_until_end(&mut self, held: &mut HeldLease) -> Option<RunEnd> {
        let held_since = self.now();
        loop {
            let wake_at = match self.caches.sync() {
                CacheState::InStep => {
                    self.unreadable.end();
                    self.refusals.clear(RequestKind::Watch);
                    let wake_at = match self.take_turn(held).await {
                        Ok(wake_at) => wake_at,
                        Err(ended) => return Some(ended),
                    };
                    let yield_at = yield_at(&self.memory, held_since, self.now(), || {
                        !self.caches.own_nodes().is_empty()
                    });
                    if yield_at.is_some_and(|at| at <= self.now()) {
                        self.lease.yielded_at = Some(self.now());
                        return None;
                    }
                    wake_at.min(yield_at.unwrap_or(Timestamp::MAX))
                }
                CacheState::Behind(why) => {
                    if self.now() >= self.last_attempt() {
                        let message = format!(
                            "the time budget is over and the hook cannot read the API server: {why}"
                        );
                        return Some(without_verdict(
                            EndReason::ApiServerUnreachable,
                            &message,
                            &self.caches.own_nodes(),
                        ));
                    }
                    self.unreadable.note(why);
                    self.last_attempt()
                }
                CacheState::Past(why) => {
                    // Start again as a new process would: the older state may also name another
                    // holder of the Lease.
                    tracing::warn!(why, "{HISTORY_WENT_BACK}");
                    self.writer.schedule.due = Some(self.now());
                    return None;
                }
                CacheState::Forbidden(message) => {
                    let until = self.refusals.deadline(RequestKind::Watch, self.now());
                    if self.now() >= until {
                        return Some(refused(&message));
                    }
                    until
                }
            };
            tokio::select! {
                biased;
                () = self.hook.shutdown.requested() => {
                    self.writer.flush(&self.memory).await;
                    return Some(interrupted());
                }
                () = held.lost() => return None,
                () = self.changes_gathered() => {}
                () = tokio::time::sleep_until(self.hook.clock.instant(wake_at)) => {}
            }
        }
    }

    /// Waits for a change, and then for those that follow closely.
    async fn changes_gathered(&self) {
        self.caches.watches.changed().await;
        tokio::time::sleep(self.gather).await;
    }

    /// Decides once and performs the decision. Returns the latest time for the next decision.
    async fn take_turn(&mut self, held: &HeldLease) -> Result<Timestamp, RunEnd> {
        let now = self.now();
        let hook = self.hook;
        let observed = self.caches.watches.observed(now);
        self.gather = gather_time(observed.nodes.len(), hook.settings.mode);
        let decision = self.planner.decide(&observed, &hook.settings, &self.memory, now);
        hook.metrics.observe_decision(self.now().duration_since(now).unsigned_abs());
        hook.metrics.keep_snapshot(|| FleetSnapshot::new(observed.clone(), &decision, now));
        if !held.is_valid() {
            return Ok(now);
        }
        if let Some(again) = self.write_record(&observed, &decision, now).await? {
            return Ok(again);
        }
        self.reporter.check_budget(&observed, &decision).await;
        self.reporter.log_waits(&decision, self.memory.deadline, self.now());
        let before = std::mem::replace(&mut self.memory, decision.memory);
        self.reporter.report_nodes(&before, &self.memory).await;
        self.reporter.report_halt(&before, &self.memory).await;
        // Before the actions, so that listing the pods of some nodes overlaps with writing to
        // others.
        self.caches.watches.focus(&decision.focus);
        let decided = self.memory.nodes.clone();
        let results = WriteResults { hook, memory: &mut self.memory, refusals: &mut self.refusals };
        let refused = ActionPerformer { hook, events: &self.reporter.events, results }
            .perform(&decision.actions, held)
            .await?;
        self.writer.schedule.gather(&decided, &self.memory, self.hook.clock.now());
        if let Some(verdict) = decision.verdict {
            self.reporter.report_verdict(&verdict, &decision.waits).await;
            return Err(verdict.into());
        }
        if refused {
            // The next decision handles the refused write at once.
            self.writer.schedule.due = Some(self.now());
            return Ok(self.now());
        }
        if decision.actions.iter().any(|action| self.memory.has_read(action)) {
            // No watch shows that a log has been read.
            return Ok(self.now());
        }
        Ok(decision
            .wake_at
            .min(self.reporter.progress_at)
            .min(self.writer.schedule.due.unwrap_or(Timestamp::MAX)))
    }

    /// Writes the record of a decision if it is due, before the decision's actions. `Some`: the
    /// write failed; the time of the next decision.
    async fn write_record(
        &mut self,
        observed: &Observed,
        decision: &Decision,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, RunEnd> {
        if !self.writer.schedule.is_due(&self.memory, decision, now) {
            return Ok(None);
        }
        let Err(error) = self.writer.write(observed, decision, &self.hook.settings).await else {
            self.unwritten.end();
            self.refusals.clear(RequestKind::Record);
            return Ok(None);
        };
        // A decision without its record is not performed: a later pod could replace a plugin a
        // second time.
        let why: &dyn Display = match &error {
            RecordError::Call(cause, _) => cause,
            RecordError::Refused(_) | RecordError::Newer { .. } => &error,
        };
        self.unwritten.note(why);
        self.hook.metrics.count_failed_write(RequestKind::Record.name());
        match &error {
            RecordError::Refused(refusal) => return Err(record_refused(refusal)),
            RecordError::Call(error, _) => {
                self.refusals.note(RequestKind::Record, error, self.now()).map_or(Ok(()), Err)?;
            }
            RecordError::Newer { .. } => {}
        }
        let is_final = decision.verdict.is_some() && now >= self.memory.deadline;
        Ok((!is_final).then(|| later(self.now(), RETRY)))
    }
}
