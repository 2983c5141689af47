//! The reconcile loop of NVIDIA's upgrade controller: its caches, what wakes it, and its passes.

use std::time::Duration;

use contract::driver::Driver;
use contract::selector::Selector;
use nvidia_upgrade::controller::{Reconciliation, UpgradeController};
use nvidia_upgrade::controller_generation::ControllerGeneration;
use nvidia_upgrade::operator::work;
use nvidia_upgrade::pass::PassWrite;
use observed::Observed;

use super::caches::{ClusterCaches, WorldChange};
use super::event::WorldEvent;
use super::event_queue::EventQueue;
use super::objects::{milliseconds, timestamp};
use super::operator_objects::{self, OperatorObjects};
use super::setup::SimulationSetup;

/// Milliseconds from a change to the pass that it starts.
const NOTICE: u64 = 20;
/// What a write of the controller takes, one after another: the operators' client makes 20 requests a second, and a write is two, the patch and the
/// event. It is what the traces show (`tests/data/traces`).
pub const WRITE: Duration = Duration::from_millis(100);

/// The controller with its caches, which have no lag.
pub(super) struct ControllerLoop {
    controller: UpgradeController,
    pub(super) generation: ControllerGeneration,
    /// Counts the appointments.
    appointment: u64,
    runs_at: Option<u64>,
    /// When its last pass ends.
    busy_until: u64,
    /// The operator's objects at the last notice.
    operator: OperatorObjects,
    caches: ClusterCaches,
}

impl ControllerLoop {
    /// The loop of the setup's operator, if it does the upgrades.
    pub(super) fn new(setup: &SimulationSetup) -> Option<Self> {
        let generation =
            ControllerGeneration::from_version(Driver::Gpu, setup.operator.as_deref())?;
        let jobs = operator_objects::policy(setup)
            .wait_for_completion
            .and_then(|wait| wait.pod_selector.parse().ok());
        Some(Self {
            controller: UpgradeController::new(Driver::Gpu, generation, None, timestamp(0)),
            generation,
            appointment: 0,
            runs_at: None,
            busy_until: 0,
            operator: OperatorObjects::new(setup),
            caches: ClusterCaches::new(jobs),
        })
    }

    pub(super) fn job_selector(&self) -> Option<Selector> {
        self.caches.job_selector.clone()
    }

    /// Takes a change into the caches. Returns the node before and after, if it is the change of a node.
    pub(super) fn apply(
        &mut self,
        change: &WorldChange,
        version: u64,
        setup: &SimulationSetup,
    ) -> Option<(Observed, Observed)> {
        let name = if let WorldChange::Node(name, _) = change { Some(name) } else { None };
        let before = name.map(|name| self.observe_node(name));
        self.caches.apply(change.clone(), version, setup);
        before.zip(name.map(|name| self.observe_node(name)))
    }

    /// One node of the caches alone.
    fn observe_node(&self, name: &str) -> Observed {
        let mut observed = Observed::default();
        if let Some(node) = self.caches.observed.nodes.get(name) {
            observed.nodes.insert(name.to_owned(), node.clone());
        }
        observed
    }

    /// Wakes the loop if it watches what differs.
    pub(super) fn notice(&mut self, before: &Observed, after: &Observed, queue: &mut EventQueue) {
        self.controller.notice(before, after, timestamp(queue.now() + NOTICE));
        self.schedule(queue);
    }

    /// Wakes the loop if it watches what differs in the operator's objects since the last notice.
    pub(super) fn notice_operator(
        &mut self,
        operator: &OperatorObjects,
        setup: &SimulationSetup,
        queue: &mut EventQueue,
    ) {
        let (mut before, mut after) = (Observed::default(), Observed::default());
        operator_objects::write_operator_objects(&mut before, &self.operator, setup);
        operator_objects::write_operator_objects(&mut after, operator, setup);
        self.operator = operator.clone();
        self.notice(&before, &after, queue);
    }

    /// A new process with these caches: it knows nothing of evictions and drains that were started.
    pub(super) fn restart(&mut self, caches: ClusterCaches, queue: &mut EventQueue) {
        self.caches = caches;
        self.controller =
            UpgradeController::new(Driver::Gpu, self.generation, None, timestamp(queue.now()));
        self.runs_at = None;
        self.busy_until = queue.now();
        self.schedule(queue);
    }

    /// Schedules the next pass, unless one that is as early is scheduled.
    pub(super) fn schedule(&mut self, queue: &mut EventQueue) {
        let Some(due) = self
            .controller
            .due()
            .map(|due| milliseconds(due).max(queue.now()).max(self.busy_until))
        else {
            return;
        };
        if self.runs_at.is_none_or(|known| known > due) {
            self.appointment += 1;
            self.runs_at = Some(due);
            queue.schedule_at(due, WorldEvent::ControllerPass(self.appointment));
        }
    }

    pub(super) fn is_current(&self, appointment: u64) -> bool {
        self.appointment == appointment
    }

    /// Whether the caches, kept in step change by change, equal those of a new start.
    pub(super) fn is_in_step(&self, listed: &ClusterCaches) -> bool {
        let [kept, listed] = [&self.caches, listed]
            .map(|caches| work(&caches.observed, Driver::Gpu, self.generation, None));
        kept == listed
    }

    /// Makes a pass. Its writes take effect at once; the pass lasts as long as they take one after another.
    pub(super) fn run(&mut self, now: u64) -> (Vec<PassWrite>, Reconciliation) {
        self.runs_at = None;
        let mut writes = Vec::new();
        let done = self.controller.run(&self.caches.observed, timestamp(now), &mut |write| {
            writes.push(write.clone());
            true
        });
        let pass = WRITE * u32::try_from(writes.len()).unwrap_or(u32::MAX);
        self.busy_until = now + u64::try_from(pass.as_millis()).unwrap_or(u64::MAX);
        (writes, done)
    }

    /// An eviction or a drain of the node has ended.
    pub(super) fn task_ended(&mut self, node: &str) {
        self.controller.ended(node);
    }
}
