//! The prediction of NVIDIA's controller: its next steps, and why it does not continue with nodes.

use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;
use std::sync::Arc;

use jiff::Timestamp;

use crate::hold::HoldPurpose;
use crate::memory::RunMemory;
use crate::note::DecisionNote;
use crate::reason::Reason;
use crate::watched::watched;
use contract::driver::Driver;
use contract::task::Task;
use nvidia_upgrade::controller_generation::ControllerGeneration;
use nvidia_upgrade::explain::{ControllerWait, explain_pass};
use nvidia_upgrade::operator::policies;
use nvidia_upgrade::pass::PassOptions;
use nvidia_upgrade::predict::PredictedMove;
use nvidia_upgrade::snapshot::{SnapshotCache, SnapshotInputs};
use nvidia_upgrade::state::ControllerState;

use crate::decide::inputs::FleetInputs;
use crate::decide::memo::Unchanged;
use crate::decide::modes::assist;
use crate::decide::paused_nodes::paused;
use crate::decide::run_nodes::{RunNode, RunNodes};

/// Adds the reasons of NVIDIA's controller, wakes it, and retries nodes.
pub(in crate::decide) fn ask_controller(
    nodes: &mut RunNodes<'_>,
    memory: &mut RunMemory,
    told: &mut Vec<DecisionNote>,
    unchanged: Option<&Unchanged<'_>>,
) -> Option<ControllerView> {
    let fleet = nodes.fleet;
    let wakes = fleet.has(Task::Wake) || fleet.has(Task::Steer);
    if !wakes {
        told.extend(held_by_other_mode(nodes));
        told.extend(pause_not_held(nodes));
    }
    let Some(generation) = fleet.generation else {
        told.extend(wakes.then_some(DecisionNote::OperatorVersionUnknown));
        return None;
    };
    let view = ControllerView::new(fleet, unchanged);
    let asleep_since = asleep_since(memory, &view, fleet.now);
    let outlook = foresee(fleet, generation, &view.cache, asleep_since);
    if wakes {
        assist::clean_bystanders(nodes);
        assist::wake(memory, nodes, generation, &outlook.moves);
    }
    let mut whys = outlook.whys();
    for node in &mut nodes.listed {
        node.reason = whys.with_why(node.name, node.reason.take());
    }
    if wakes {
        assist::retry_failed(nodes);
    }
    drop(outlook);
    Some(view)
}

/// Returns a note about holds that this hook must not release: mode `observe` does not write to
/// nodes.
fn held_by_other_mode(nodes: &RunNodes<'_>) -> Option<DecisionNote> {
    let settings = nodes.fleet.settings;
    let is_theirs = |purpose: HoldPurpose| purpose != HoldPurpose::Pause;
    let held = nodes
        .listed
        .iter()
        .filter(|node| HoldPurpose::from_node(node.node, settings.driver).is_some_and(is_theirs))
        .count();
    (held > 0).then(|| DecisionNote::HeldByOtherMode { nodes: held, mode: settings.mode.name() })
}

/// Names paused nodes that NVIDIA's controller may start all the same: it knows only its skip label.
fn pause_not_held(nodes: &RunNodes<'_>) -> Option<DecisionNote> {
    let fleet = nodes.fleet;
    let is_free = |node: &&RunNode<'_>| {
        let is_pending = node.reason.as_ref().is_some_and(|reason| reason.asks_why());
        is_pending
            && !node.node.labels.has(fleet.traits.skip_label, "true")
            && paused(fleet.observed, node.node).is_some()
    };
    let mut free = nodes.listed.iter().filter(is_free);
    let node = Arc::clone(free.next()?.name);
    Some(DecisionNote::PauseNotHeld {
        node,
        others: free.count(),
        label: fleet.traits.skip_label,
        mode: fleet.settings.mode.name(),
    })
}

/// The prediction over all passes of the controller.
#[derive(Default)]
struct ControllerOutlook<'r> {
    /// The nodes that it would continue with now.
    moves: Vec<PredictedMove>,
    /// The waits of nodes that were predicted one by one, by name.
    own: BTreeMap<String, ControllerWait>,
    /// Nodes that wait only for a slot, sorted by name, each with the index of its wait in
    /// `common`.
    line: Vec<(&'r str, usize)>,
    /// The waits of those nodes.
    common: Vec<ControllerWait>,
    /// The wait of every node, if the controller is off because of the workload type of the fleet.
    off: Option<ControllerWait>,
}

/// Adds the controller's waits to reasons. The nodes must be in the order of their names.
struct ControllerReasons<'o> {
    own: Peekable<btree_map::Iter<'o, String, ControllerWait>>,
    line: Peekable<std::slice::Iter<'o, (&'o str, usize)>>,
    common: &'o [ControllerWait],
    off: Option<&'o ControllerWait>,
    /// The reason of the last such node, without and with the controller's wait: the next node
    /// mostly has the same.
    last: Option<(usize, Arc<Reason>, Arc<Reason>)>,
}

impl ControllerOutlook<'_> {
    fn whys(&self) -> ControllerReasons<'_> {
        let (own, line) = (self.own.iter().peekable(), self.line.iter().peekable());
        ControllerReasons { own, line, common: &self.common, off: self.off.as_ref(), last: None }
    }
}

impl ControllerReasons<'_> {
    /// Returns the reason of the node, with the controller's wait.
    fn with_why(&mut self, node: &str, reason: Option<Arc<Reason>>) -> Option<Arc<Reason>> {
        while self.own.next_if(|(name, _)| name.as_str() < node).is_some() {}
        while self.line.next_if(|(name, _)| *name < node).is_some() {}
        let own = self.own.next_if(|(name, _)| *name == node).map(|(_, wait)| wait).or(self.off);
        let line = self.line.next_if(|(name, _)| *name == node).map(|(_, place)| *place);
        let reason = reason?;
        if !reason.asks_why() {
            return Some(reason);
        }
        let Some(place) = line.filter(|_| own.is_none()) else {
            return Some(own.map_or_else(
                || Arc::clone(&reason),
                |wait| Arc::new(Reason::clone(&reason).with_why(Some(wait))),
            ));
        };
        if let Some((known, without, with)) = &self.last
            && *known == place
            && *without == reason
        {
            return Some(Arc::clone(with));
        }
        let with = Arc::new(Reason::clone(&reason).with_why(self.common.get(place)));
        self.last = Some((place, reason, Arc::clone(&with)));
        Some(with)
    }
}

/// The controller's view.
pub(in crate::decide) struct ControllerView {
    /// Its view of the nodes.
    pub(in crate::decide) cache: SnapshotCache,
    /// A hash over the objects that wake it ([`watched`]).
    watched: u64,
}

impl ControllerView {
    fn new(fleet: &FleetInputs<'_>, unchanged: Option<&Unchanged<'_>>) -> Self {
        let (observed, driver) = (fleet.observed, fleet.settings.driver);
        let inputs = SnapshotInputs::from_observed(observed, driver);
        let known =
            unchanged.and_then(|unchanged| Some((unchanged.memo.controller.as_ref()?, unchanged)));
        let Some((before, unchanged)) = known else {
            return Self {
                cache: SnapshotCache::new(observed, &inputs),
                watched: watched(observed, driver, None),
            };
        };
        let mut cache = before.cache.clone();
        cache.update(observed, &inputs, unchanged.changed.iter().map(String::as_str));
        let since = (before.watched, &unchanged.memo.observed, &unchanged.changed);
        Self { cache, watched: watched(observed, driver, Some(since)) }
    }
}

/// Predicts the next steps of the controller, and the waits of the other nodes. `asleep_since`:
/// since when no event has woken it; `None` if unknown.
fn foresee<'r>(
    fleet: &FleetInputs<'r>,
    generation: ControllerGeneration,
    cache: &'r SnapshotCache,
    asleep_since: Option<Timestamp>,
) -> ControllerOutlook<'r> {
    let (observed, driver) = (fleet.observed, fleet.settings.driver);
    let inputs = SnapshotInputs::from_observed(observed, driver);
    let passes = policies(observed, driver, generation);
    let is_sandboxed =
        observed.live_cluster_policy().is_some_and(|policy| policy.sandbox_workloads);
    let off = (passes.is_empty() && driver == Driver::Gpu && is_sandboxed)
        .then_some(ControllerWait::SandboxWorkloads);
    let mut outlook = ControllerOutlook { off, ..ControllerOutlook::default() };
    for (owner, rules) in passes {
        let snapshot = cache.snapshot(observed, &inputs, owner, &rules.policy);
        let options = PassOptions::new(generation, fleet.now).seen_from_outside(&snapshot);
        // If the jobs are not watched, it is unknown whether they have ended.
        let blind = rules.policy.wait_for_completion.is_some();
        let may =
            |one: &PredictedMove| !(blind && one.from == ControllerState::WaitForJobsRequired);
        let found = explain_pass(&snapshot, &rules, &options, asleep_since);
        outlook.moves.extend(found.moves.into_iter().filter(may));
        outlook.own.extend(found.waits.into_iter().map(|waiting| (waiting.node, waiting.wait)));
        if let Some(wait) = found.pending_wait {
            let place = outlook.common.len();
            outlook
                .line
                .extend(snapshot.counted.pending_nodes.into_iter().map(|name| (name, place)));
            outlook.common.push(wait);
        }
    }
    outlook.line.sort_unstable();
    outlook
}

/// Records the hash over the objects that every release of the controller watches, and returns
/// since when it has been unchanged. `None` in the first decision of a process: the controller may
/// have been asleep for long, and each command would report the time of its own start.
fn asleep_since(
    memory: &mut RunMemory,
    view: &ControllerView,
    now: Timestamp,
) -> Option<Timestamp> {
    match memory.vendor_seen {
        Some((before, since)) if before == view.watched => Some(since),
        before => {
            memory.vendor_seen = Some((view.watched, now));
            before.is_some().then_some(now)
        }
    }
}
