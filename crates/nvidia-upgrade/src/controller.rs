//! The controller over time: when it runs, and what it keeps in memory. With it, the simulated
//! world contains NVIDIA's operator.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use contract::driver::Driver;

use super::controller_generation::ControllerGeneration;
use super::operator::{ReconciliationPlan, counted_work, work};
use super::pass::{PassError, PassOptions, PassOutcome, PassWrite, Requestor, pass_with};
use super::snapshot::{SnapshotCache, SnapshotTables};
use observed::{Observed, ObservedNode};

/// A running controller. None of its state survives its end: a new controller starts evictions and
/// drains again.
#[derive(Clone, Debug)]
pub struct UpgradeController {
    driver: Driver,
    generation: ControllerGeneration,
    requestor: Option<Requestor>,
    /// When it runs next. `None`: when an event wakes it.
    due: Option<Timestamp>,
    /// Number of consecutive failed runs.
    failures: u32,
    evicting: BTreeSet<String>,
    draining: BTreeSet<String>,
}

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// One pass, or one for each NVIDIADriver.
    pub passes: Vec<PassOutcome>,
    /// Nodes whose state label is removed.
    pub cleaned: Vec<String>,
    /// NodeMaintenance objects that are deleted.
    pub maintenances: Vec<String>,
}

impl Reconciliation {
    /// Returns the error that ended it early.
    pub fn error(&self) -> Option<&PassError> {
        self.passes.last().and_then(|pass| pass.error.as_ref())
    }
}

impl UpgradeController {
    /// Creates a controller that has just started: it runs at once.
    pub fn new(
        driver: Driver,
        generation: ControllerGeneration,
        requestor: Option<Requestor>,
        now: Timestamp,
    ) -> Self {
        Self {
            driver,
            generation,
            requestor,
            due: Some(now),
            failures: 0,
            evicting: BTreeSet::new(),
            draining: BTreeSet::new(),
        }
    }

    /// Returns when it runs next; `None` if only an event wakes it.
    pub fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Notifies it of a change; if it watches that change, it runs now.
    pub fn notice(&mut self, before: &Observed, after: &Observed, now: Timestamp) {
        self.wake(now, |generation, driver| generation.is_woken(before, after, driver));
    }

    /// [`Self::notice`] of a change of one node only. `None`: the node does not exist.
    pub fn notice_node(
        &mut self,
        before: Option<&ObservedNode>,
        after: Option<&ObservedNode>,
        now: Timestamp,
    ) {
        self.wake(now, |generation, driver| generation.is_woken_by_node(before, after, driver));
    }

    /// Lets it run now, unless it runs earlier or does not watch what changed.
    fn wake(&mut self, now: Timestamp, is_woken: impl Fn(ControllerGeneration, Driver) -> bool) {
        if self.due.is_none_or(|due| due > now) && is_woken(self.generation, self.driver) {
            self.due = Some(now);
        }
    }

    /// Runs it. `accept` performs each write, or refuses it.
    pub fn run(
        &mut self,
        observed: &Observed,
        now: Timestamp,
        accept: &mut dyn FnMut(&PassWrite) -> bool,
    ) -> Reconciliation {
        let requestor = self.requestor.clone();
        let work = work(observed, self.driver, self.generation, requestor.as_ref());
        self.perform(work, now, accept)
    }

    /// Runs it as [`Self::run`] does, on a cache that only counts most nodes, and the tables of the
    /// same state. It must not use the maintenance-operator.
    pub fn run_counted(
        &mut self,
        observed: &Observed,
        snapshot: (&SnapshotCache, &SnapshotTables<'_>),
        now: Timestamp,
        accept: &mut dyn FnMut(&PassWrite) -> bool,
    ) -> Reconciliation {
        let work = counted_work(observed, self.driver, self.generation, snapshot);
        self.perform(work, now, accept)
    }

    fn perform(
        &mut self,
        work: ReconciliationPlan<'_>,
        now: Timestamp,
        accept: &mut dyn FnMut(&PassWrite) -> bool,
    ) -> Reconciliation {
        let again = work.again();
        let mut done = Reconciliation {
            passes: Vec::new(),
            cleaned: work.cleaned,
            maintenances: work.maintenances,
        };
        for part in &work.parts {
            done.cleaned.extend_from_slice(&part.cleaned);
            // An NVIDIADriver without nodes has no pass either.
            let is_idle = part.owner.is_some()
                && part.snapshot.entries.is_empty()
                && part.snapshot.counted.is_empty()
                && part.snapshot.blocked.is_none();
            if !part.rules.auto_upgrade || is_idle {
                continue;
            }
            let mut options = PassOptions::new(self.generation, now);
            options.requestor.clone_from(&self.requestor);
            options.evicting.clone_from(&self.evicting);
            options.draining.clone_from(&self.draining);
            let outcome = pass_with(&part.snapshot, &part.rules, &options, accept);
            self.remember(&outcome);
            let failed = outcome.error.is_some();
            done.passes.push(outcome);
            // After an error for one NVIDIADriver, the later ones get no pass.
            if failed {
                break;
            }
        }
        let pause = if done.error().is_some() {
            self.failures = self.failures.saturating_add(1);
            Some(self.generation.backoff(self.failures))
        } else {
            self.failures = 0;
            again
        };
        self.due =
            pause.map(|pause: SignedDuration| now.saturating_add(pause).unwrap_or(Timestamp::MAX));
        done
    }

    /// Notifies it that a task for a node has ended; the result is in `task`.
    pub fn ended(&mut self, node: &str) {
        self.evicting.remove(node);
        self.draining.remove(node);
    }

    fn remember(&mut self, outcome: &PassOutcome) {
        for write in &outcome.writes {
            if let PassWrite::Evict { node } = write {
                self.evicting.insert(node.clone());
            } else if let PassWrite::Drain { node } = write {
                self.draining.insert(node.clone());
            }
        }
    }
}
