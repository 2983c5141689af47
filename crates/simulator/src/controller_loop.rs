//! The reconcile loop of NVIDIA's upgrade controller: its caches, what wakes it, and its passes.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::driver::Driver;
use contract::selector::Selector;
use nvidia_upgrade::controller::{Reconciliation, UpgradeController};
use nvidia_upgrade::controller_generation::ControllerGeneration;
use nvidia_upgrade::operator::work;
use nvidia_upgrade::pass::PassWrite;
use nvidia_upgrade::pass_time::pass_time;
use nvidia_upgrade::snapshot::{SnapshotCache, SnapshotInputs, SnapshotTables};
use observed::{Observed, ObservedNode};

use super::caches::{ClusterCaches, WorldChange};
use super::event::WorldEvent;
use super::event_queue::EventQueue;
use super::objects::{SimulatedOperand, milliseconds, timestamp};
use super::operator_objects::{self, OperatorObjects};
use super::setup::SimulationSetup;

/// Milliseconds from a change to the pass that it starts.
const NOTICE: u64 = 20;

/// A pass with its writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ControllerPass {
    pub(super) writes: Vec<PassWrite>,
    pub(super) result: Reconciliation,
}

/// A node before and after a change. `None`: it does not exist.
pub(super) struct NodeChange {
    before: Option<Arc<ObservedNode>>,
    after: Option<Arc<ObservedNode>>,
}

/// The controller with its caches, which have no lag.
pub(super) struct ControllerLoop {
    controller: UpgradeController,
    pub(super) generation: ControllerGeneration,
    /// Number of the last scheduled pass.
    appointment: u64,
    runs_at: Option<u64>,
    /// When its last pass ends.
    busy_until: u64,
    /// The operator's objects at the last notification.
    operator: OperatorObjects,
    caches: ClusterCaches,
    /// The nodes as a pass needs them. `None`: something changed that concerns all nodes.
    snapshot: Option<SnapshotCache>,
    /// Nodes that changed since the last pass.
    changed: BTreeSet<String>,
}

impl ControllerLoop {
    /// Returns the loop of the setup's operator, if the operator performs the upgrades.
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
            snapshot: None,
            changed: BTreeSet::new(),
        })
    }

    pub(super) fn job_selector(&self) -> Option<Selector> {
        self.caches.job_selector.clone()
    }

    /// Applies a change to the caches. If a node changed, returns it before and after the change.
    pub(super) fn apply(
        &mut self,
        change: &WorldChange,
        version: u64,
        setup: &SimulationSetup,
    ) -> Option<NodeChange> {
        match change {
            WorldChange::Node(name, _)
            | WorldChange::Operand(name, SimulatedOperand::Driver, _) => {
                self.changed.insert(name.clone());
            }
            WorldChange::Operator(_) => self.snapshot = None,
            WorldChange::Operand(..)
            | WorldChange::OperandPod(..)
            | WorldChange::Slice(..)
            | WorldChange::Pod(..)
            | WorldChange::TestPod(..)
            | WorldChange::Budgets(_)
            | WorldChange::Pauses(_) => {}
        }
        let node = if let WorldChange::Node(name, after) = change {
            let before = self.caches.observed.nodes.shared(name).cloned();
            Some(NodeChange { before, after: after.clone() })
        } else {
            None
        };
        self.caches.apply(change, version, setup);
        node
    }

    /// Wakes the loop if it watches the changed field of the node.
    pub(super) fn notice_node(&mut self, change: &NodeChange, queue: &mut EventQueue) {
        let [before, after] = [&change.before, &change.after].map(Option::as_deref);
        self.controller.notice_node(before, after, timestamp(queue.now() + NOTICE));
        self.schedule(queue);
    }

    /// Wakes the loop if it watches a field of the operator's objects that changed since the last
    /// notification.
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
        self.controller.notice(&before, &after, timestamp(queue.now() + NOTICE));
        self.schedule(queue);
    }

    /// Replaces the process by a new one with these caches. The new process does not know evictions
    /// and drains that were started before.
    pub(super) fn restart(&mut self, caches: ClusterCaches, queue: &mut EventQueue) {
        self.caches = caches;
        self.snapshot = None;
        self.controller =
            UpgradeController::new(Driver::Gpu, self.generation, None, timestamp(queue.now()));
        self.runs_at = None;
        self.busy_until = queue.now();
        self.schedule(queue);
    }

    /// Schedules the next pass, unless an equally early one is scheduled.
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

    /// Whether the incrementally updated caches equal newly listed ones.
    pub(super) fn is_in_step(&self, listed: &ClusterCaches) -> bool {
        let [kept, listed] = [&self.caches, listed]
            .map(|caches| work(&caches.observed, Driver::Gpu, self.generation, None));
        kept == listed
    }

    /// Performs a pass. Its writes take effect at once; the next pass starts when the time of this
    /// one is over.
    pub(super) fn run(&mut self, now: u64) -> ControllerPass {
        self.runs_at = None;
        let observed = &self.caches.observed;
        let inputs = SnapshotInputs::from_observed(observed, Driver::Gpu);
        let tables = SnapshotTables::new(observed, &inputs);
        let changed = std::mem::take(&mut self.changed);
        let snapshot = match self.snapshot.take() {
            Some(mut snapshot) => {
                snapshot.update(observed, &tables, changed.iter().map(String::as_str));
                snapshot
            }
            None => SnapshotCache::new(observed, &tables),
        };
        let mut writes = Vec::new();
        let snapshots = (&snapshot, &tables);
        let result =
            self.controller.run_counted(observed, snapshots, timestamp(now), &mut |write| {
                writes.push(write.clone());
                true
            });
        let pass = pass_time(snapshot.reads(), observed.nodes.len(), &writes);
        self.snapshot = Some(snapshot);
        self.busy_until = now + u64::try_from(pass.as_millis()).unwrap_or(u64::MAX);
        ControllerPass { writes, result }
    }

    /// Returns the pass that the controller would perform on a snapshot in which every node has an
    /// entry.
    pub(super) fn exact_pass(&self, now: u64) -> ControllerPass {
        let mut writes = Vec::new();
        let result =
            self.controller.clone().run(&self.caches.observed, timestamp(now), &mut |write| {
                writes.push(write.clone());
                true
            });
        ControllerPass { writes, result }
    }

    /// Notes that an eviction or a drain of the node has ended.
    pub(super) fn task_ended(&mut self, node: &str) {
        self.controller.ended(node);
    }
}
