//! The prediction of NVIDIA's controller: its next steps, and why it does not continue with nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::hold::HoldPurpose;
use crate::memory::{RunMemory, WatchedObjects};
use crate::note::DecisionNote;
use crate::reason::Reason;
use contract::driver::Driver;
use contract::task::Task;
use nvidia_upgrade::controller_generation::ControllerGeneration;
use nvidia_upgrade::explain::{ControllerWait, explain_pass};
use nvidia_upgrade::operator::policies;
use nvidia_upgrade::pass::PassOptions;
use nvidia_upgrade::pass_time::pass_time;
use nvidia_upgrade::predict::PredictedMove;
use nvidia_upgrade::snapshot::{EntryClass, SnapshotCache, SnapshotInputs, SnapshotTables};
use nvidia_upgrade::state::ControllerState;
use nvidia_upgrade::watched::watched;
use observed::ObservedNode;

use crate::decide::inputs::FleetInputs;
use crate::decide::kept_nodes::{KeptNodes, KnownNode};
use crate::decide::memo::LastDecision;
use crate::decide::modes::assist;
use crate::decide::paused_nodes::paused;
use crate::decide::run_nodes::{ListedNode, RunNode, RunNodes};

/// Adds the reasons of NVIDIA's controller, wakes it, and retries nodes. `forecast`: `None` if the
/// version of the operator is unknown.
pub(in crate::decide) fn ask_controller(
    nodes: &mut RunNodes<'_>,
    memory: &mut RunMemory,
    told: &mut Vec<DecisionNote>,
    forecast: Option<&ControllerForecast>,
) {
    let fleet = nodes.fleet;
    let wakes = wakes(fleet);
    if !wakes {
        told.extend(held_by_other_mode(nodes));
        told.extend(pause_not_held(nodes));
    }
    let Some(forecast) = forecast else {
        told.extend(wakes.then_some(DecisionNote::OperatorVersionUnknown));
        return;
    };
    // A pass then moves the node on, or fails it.
    let times = forecast.own.values().filter_map(ControllerWait::times_out_at);
    times.filter(|at| *at > fleet.now).for_each(|at| nodes.alarm.set(at));
    if wakes {
        assist::clean_bystanders(nodes);
        assist::wake(memory, nodes, forecast);
    }
    let mut last = None;
    for node in &mut nodes.listed {
        node.reason = forecast.with_why(node.name, node.reason.take(), &mut last);
    }
    if wakes {
        assist::retry_failed(nodes);
    }
}

fn wakes(fleet: &FleetInputs<'_>) -> bool {
    fleet.has(Task::Wake) || fleet.has(Task::Steer)
}

/// Returns whether the node has a hold that this hook must not release: mode `observe` does not
/// write to nodes.
pub(in crate::decide) fn is_held_by_other_mode(
    node: &ObservedNode,
    fleet: &FleetInputs<'_>,
) -> bool {
    let is_theirs = |purpose: HoldPurpose| purpose != HoldPurpose::Pause;
    !fleet.has(Task::Drive)
        && !wakes(fleet)
        && HoldPurpose::from_node(node, fleet.settings.driver).is_some_and(is_theirs)
}

/// Returns a note about nodes that other modes hold.
fn held_by_other_mode(nodes: &RunNodes<'_>) -> Option<DecisionNote> {
    let fleet = nodes.fleet;
    let examined =
        nodes.listed.iter().filter(|node| is_held_by_other_mode(node.node, fleet)).count();
    let held = nodes.kept.sums.held_by_other_mode + examined;
    (held > 0)
        .then(|| DecisionNote::HeldByOtherMode { nodes: held, mode: fleet.settings.mode.name() })
}

/// Returns whether NVIDIA's controller may start the node if it waits for the controller, although
/// it is paused: the controller knows only its skip label.
pub(in crate::decide) fn is_free_in_pause(node: &ObservedNode, fleet: &FleetInputs<'_>) -> bool {
    !fleet.has(Task::Drive)
        && !wakes(fleet)
        && !node.labels.has(fleet.traits.skip_label, "true")
        && paused(fleet, node).is_some()
}

/// Names paused nodes that NVIDIA's controller may start all the same.
fn pause_not_held(nodes: &RunNodes<'_>) -> Option<DecisionNote> {
    let fleet = nodes.fleet;
    let is_free = |node: &&RunNode<'_>| {
        let is_pending = node.reason.as_ref().is_some_and(|reason| reason.asks_why());
        is_pending && is_free_in_pause(node.node, fleet)
    };
    let examined = || nodes.listed.iter().filter(is_free).map(|node| node.name);
    let known = &nodes.kept.sums.free_in_pause;
    let node = Arc::clone(examined().next().into_iter().chain(known.first()).min()?);
    Some(DecisionNote::PauseNotHeld {
        node,
        others: examined().count() + known.len() - 1,
        label: fleet.traits.skip_label,
        mode: fleet.settings.mode.name(),
    })
}

/// The wait of all nodes that wait only for a slot, or only because of the skip label.
#[derive(Clone, PartialEq)]
struct CommonWait {
    class: EntryClass,
    /// The NVIDIADriver of the nodes; `None`: of all.
    owner: Option<String>,
    wait: ControllerWait,
}

/// The controller's view, and the prediction over all its passes.
pub(in crate::decide) struct ControllerForecast {
    view: ControllerView,
    pub(in crate::decide) generation: ControllerGeneration,
    /// The nodes that it would continue with now.
    pub(in crate::decide) moves: Vec<PredictedMove>,
    /// The waits of nodes that were predicted one by one.
    own: BTreeMap<String, ControllerWait>,
    common: Vec<CommonWait>,
    /// The wait of every node, if the controller is off because of the workload type of the fleet.
    off: Option<ControllerWait>,
    /// The nodes whose own wait has changed since the last decision.
    concerned: BTreeSet<String>,
    is_common_wait_new: bool,
}

/// The parts of the forecast that the next decision needs.
#[derive(Clone)]
pub(in crate::decide) struct ControllerMemo {
    view: ControllerView,
    own: BTreeMap<String, ControllerWait>,
    common: Vec<CommonWait>,
}

/// The last reason with a wait of the controller.
struct LastWhy<'f> {
    wait: &'f ControllerWait,
    is_own: bool,
    without: Arc<Reason>,
    with: Arc<Reason>,
}

impl ControllerForecast {
    /// Predicts the next steps of the controller, and the waits of the other nodes. `None`: the hook
    /// itself upgrades the nodes, or the version of the operator is unknown.
    pub(in crate::decide) fn new(
        fleet: &FleetInputs<'_>,
        memory: &mut RunMemory,
        last: Option<&LastDecision>,
        before: Option<ControllerMemo>,
    ) -> Option<Self> {
        if fleet.has(Task::Drive) {
            return None;
        }
        let generation = fleet.generation?;
        let (observed, driver) = (fleet.observed, fleet.settings.driver);
        let tables =
            SnapshotTables::new(observed, &SnapshotInputs::from_observed(observed, driver));
        let (view, own_before, known) = match (before, last) {
            // No memo outlives a change of the operator's version.
            (Some(ControllerMemo { view, own, common }), Some(last)) => {
                (view.updated(fleet, &tables, generation, last), own, Some(common))
            }
            _ => (ControllerView::new(fleet, &tables, generation), BTreeMap::new(), None),
        };
        let asleep_since = asleep_since(memory, &view, fleet.now);
        let passes = policies(observed, driver, generation);
        let is_sandboxed =
            observed.live_cluster_policy().is_some_and(|policy| policy.sandbox_workloads);
        let off = (passes.is_empty() && driver == Driver::Gpu && is_sandboxed)
            .then_some(ControllerWait::SandboxWorkloads);
        let (mut moves, mut own, mut common) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (owner, rules) in passes {
            let snapshot = view.cache.snapshot(observed, &tables, owner, &rules.policy);
            let options = PassOptions::new(generation, fleet.now).seen_from_outside(&snapshot);
            // If the jobs are not watched, it is unknown whether they have ended.
            let blind = rules.policy.wait_for_completion.is_some();
            let may =
                |one: &PredictedMove| !(blind && one.from == ControllerState::WaitForJobsRequired);
            let found = explain_pass(&snapshot, &rules, &options, asleep_since);
            moves.extend(found.moves.into_iter().filter(may));
            own.extend(found.waits.into_iter().map(|waiting| (waiting.node, waiting.wait)));
            let owner = owner.map(str::to_owned);
            let waits = [
                (EntryClass::Pending, found.pending_wait),
                (EntryClass::Skipped, found.skipped_wait),
            ];
            common.extend(waits.into_iter().filter_map(|(class, wait)| {
                Some(CommonWait { class, owner: owner.clone(), wait: wait? })
            }));
        }
        let concerned = if own == own_before {
            BTreeSet::new()
        } else {
            let is_new = |name: &&String| own.get(*name) != own_before.get(*name);
            own.keys().chain(own_before.keys()).filter(is_new).cloned().collect()
        };
        let is_common_wait_new = known.as_ref() != Some(&common);
        Some(Self { view, generation, moves, own, common, off, concerned, is_common_wait_new })
    }

    /// Returns the time of a pass of the controller without writes. `nodes`: the number of all nodes
    /// of the cluster.
    pub(in crate::decide) fn pass_time(&self, nodes: usize) -> Duration {
        pass_time(self.view.cache.reads(), nodes, &[])
    }

    /// Returns the nodes whose own wait has changed since the last decision.
    pub(in crate::decide) fn concerned(&self) -> &BTreeSet<String> {
        &self.concerned
    }

    /// Sets the reasons of nodes that are not examined, if nodes that wait only for a slot wait for
    /// something else than in the last decision. Returns the nodes that must be examined.
    pub(in crate::decide) fn describe_common_wait(
        &self,
        kept: &mut KeptNodes,
        examined: &[ListedNode<'_>],
    ) -> Vec<Arc<str>> {
        if !self.is_common_wait_new {
            return Vec::new();
        }
        let KeptNodes { known, sums, waits, .. } = kept;
        let mut last = None;
        // The waits of nodes that are examined because of this are set later, too.
        let apart = sums.asking_apart.iter().map(|name| &**name);
        // They share their reasons with few others.
        let own = self.own.keys().map(String::as_str).filter(|name| sums.asking.contains(*name));
        let set_later: Vec<&str> = examined.iter().map(|node| &**node.name).chain(apart).collect();
        waits.replace_for(
            Reason::asks_why,
            &set_later,
            own.chain(sums.asking.iter().map(|name| &**name)),
            |name| {
                let left = known.get(name).and_then(KnownNode::only_left)?;
                self.with_why(name, Some(Arc::clone(left)), &mut last)
            },
        );
        sums.asking_apart.iter().cloned().collect()
    }

    /// Returns what the next decision needs.
    pub(in crate::decide) fn into_memo(self) -> ControllerMemo {
        ControllerMemo { view: self.view, own: self.own, common: self.common }
    }

    /// Returns the common wait of a node.
    fn common_wait(&self, node: &str) -> Option<&ControllerWait> {
        let (class, owner) = self.view.cache.counted_class(node)?;
        let is_of = |common: &&CommonWait| {
            common.class == class && (common.owner.is_none() || common.owner.as_deref() == owner)
        };
        self.common.iter().find(is_of).map(|common| &common.wait)
    }

    /// Returns the reason of the node, with the controller's wait. `last`: the last such reason; the
    /// next node mostly has the same.
    fn with_why<'f>(
        &'f self,
        node: &str,
        reason: Option<Arc<Reason>>,
        last: &mut Option<LastWhy<'f>>,
    ) -> Option<Arc<Reason>> {
        let reason = reason?;
        if !reason.asks_why() {
            return Some(reason);
        }
        let own = self.own.get(node).or(self.off.as_ref());
        let is_own = own.is_some();
        let Some(wait) = own.or_else(|| self.common_wait(node)) else { return Some(reason) };
        // Nodes of different NVIDIADrivers must not share a reason: it is replaced for all of them
        // when the common wait of one changes.
        let has_same_origin = |last: &&LastWhy<'_>| {
            std::ptr::eq(last.wait, wait) || is_own && last.is_own && last.wait == wait
        };
        if let Some(last) = last.as_ref().filter(has_same_origin)
            && last.without == reason
        {
            return Some(Arc::clone(&last.with));
        }
        let with = Arc::new(Reason::clone(&reason).with_why(Some(wait)));
        *last = Some(LastWhy { wait, is_own, without: reason, with: Arc::clone(&with) });
        Some(with)
    }
}

/// The controller's view.
#[derive(Clone)]
struct ControllerView {
    /// Its view of the nodes.
    cache: SnapshotCache,
    /// A hash over the objects that wake it ([`watched`]).
    watched: u64,
}

impl ControllerView {
    fn new(
        fleet: &FleetInputs<'_>,
        tables: &SnapshotTables<'_>,
        generation: ControllerGeneration,
    ) -> Self {
        let (observed, driver) = (fleet.observed, fleet.settings.driver);
        Self {
            cache: SnapshotCache::new(observed, tables),
            watched: watched(observed, driver, generation, None),
        }
    }

    /// Returns the view after some nodes have changed.
    fn updated(
        mut self,
        fleet: &FleetInputs<'_>,
        tables: &SnapshotTables<'_>,
        generation: ControllerGeneration,
        last: &LastDecision,
    ) -> Self {
        let (observed, driver) = (fleet.observed, fleet.settings.driver);
        self.cache.update(observed, tables, last.changed.iter().map(String::as_str));
        let since = (self.watched, &last.observed, &last.changed);
        self.watched = watched(observed, driver, generation, Some(since));
        self
    }
}

/// Records the hash over the objects that the controller watches, and returns
/// since when it has been unchanged. `None` in the first decision of a process: the controller may
/// have been asleep for long, and each command would report the time of its own start.
fn asleep_since(
    memory: &mut RunMemory,
    view: &ControllerView,
    now: Timestamp,
) -> Option<Timestamp> {
    match memory.vendor_seen {
        Some(seen) if seen.hash == view.watched => Some(seen.since),
        before => {
            let has_changed = before.is_some();
            memory.vendor_seen =
                Some(WatchedObjects { hash: view.watched, since: now, has_changed });
            has_changed.then_some(now)
        }
    }
}
