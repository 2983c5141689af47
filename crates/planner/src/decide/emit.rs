//! Assembles a decision: actions, waits, outcomes, memory and memo.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::action::PodEviction;
use crate::memory::{PodRequest, RunMemory};
use crate::note::DecisionNote;
use crate::pods::eviction_retry::{self, EvictionHistory};
use crate::reason::Reason;
use contract::record::{NodeOutcome, NodeRecord};
use observed::ObservedNode;
use observed::named::Named;

use super::fleet::FleetDraft;
use super::inputs::FleetInputs;
use super::kept_nodes::{KeptNodes, KnownNode};
use super::memo::{LastDecision, Memo, thin};
use super::modes::drive::release_all_unchanged;
use super::modes::observe::{self, ControllerMemo};
use super::node_draft::{NodeDraft, NodeEffects};
use super::run_nodes::{Census, RunNode, RunNodes, all_listed};
use super::schedule::replacements::AwayPlugins;
use super::schedule::starts::StartQueue;
use super::{Action, Decision};
use contract::task::Task;

mod listed_waits;
pub(super) mod outcome;
mod test_pods;
mod verdict;

use outcome::NodeEnding;
use test_pods::TestPods;
use verdict::RunState;

/// The effects of a decision on all nodes.
#[derive(Default)]
struct FleetEffects {
    replacements: Vec<Action>,
    actions: Vec<Action>,
    starts: Vec<Action>,
    evictions: Vec<(PodEviction, Option<EvictionHistory>)>,
    focus: BTreeSet<String>,
    is_releasing: bool,
    /// Notes about nodes.
    notes: Vec<DecisionNote>,
}

impl FleetEffects {
    /// Takes over the effects and the memory of a node.
    fn take(&mut self, fleet: &mut FleetDraft<'_>, draft: NodeDraft<'_>) {
        let (node, keeps_focus) = (draft.node, draft.keeps_focus);
        let (before, memory, effects, alarm) = draft.into_parts();
        memory.put(&before, &mut fleet.memory, node);
        fleet.alarm.set(alarm.at);
        let NodeEffects {
            replacements,
            actions,
            starts,
            evictions,
            issued,
            unasked,
            notes,
            focus,
            tested,
            released_unchanged,
            depends_on_others: _,
        } = effects;
        for uid in issued {
            let request = PodRequest { node: node.name.clone(), at: fleet.now };
            fleet.memory.issued.insert(uid, request);
        }
        for uid in unasked {
            fleet.memory.evictions.remove(&uid);
        }
        if let Some(proof) = fleet.memory.proof.as_mut().filter(|_| tested)
            && proof.canaries.contains(&node.name)
        {
            // The record with this is written before the node takes workloads.
            Arc::make_mut(proof).tested.insert(node.name.clone());
        }
        if released_unchanged {
            fleet.memory.released_unchanged.insert(node.name.clone());
            self.is_releasing = true;
        }
        if focus || keeps_focus {
            self.focus.insert(node.name.clone());
        }
        self.replacements.extend(replacements);
        self.actions.extend(actions);
        self.starts.extend(starts);
        self.evictions.extend(evictions);
        self.notes.extend(notes);
    }

    /// In mode `drive`, releases the started nodes with an unchanged driver, and starts no others,
    /// because the run is about to end.
    fn release_all_unchanged(
        &mut self,
        draft: &mut FleetDraft<'_>,
        fleet: &FleetInputs<'_>,
        nodes: Vec<&ObservedNode>,
    ) {
        if !fleet.has(Task::Drive) {
            return;
        }
        let released = release_all_unchanged(fleet, nodes.into_iter());
        let is_released = |name: &str| released.iter().any(|draft| draft.node.name == name);
        self.starts.clear();
        self.replacements.retain(|action| !is_released(action.node()));
        self.actions.retain(|action| !is_released(action.node()));
        self.evictions.retain(|(eviction, _)| !is_released(&eviction.node));
        for node in released {
            self.take(draft, node);
        }
    }

    /// Returns all actions. Evictions come last: only those that are due.
    fn into_actions(mut self, fleet: &mut FleetDraft<'_>) -> Vec<Action> {
        let mut actions = std::mem::take(&mut self.replacements);
        actions.append(&mut self.actions);
        actions.append(&mut self.starts);
        let asked = self
            .evictions
            .iter()
            .map(|(eviction, history)| (eviction.uid.as_str(), history.as_ref()));
        let turn = eviction_retry::turn(asked, fleet.memory.busy.as_ref(), fleet.now);
        if let Some(next) = turn.next {
            fleet.alarm.set(next);
        }
        let chosen: BTreeSet<&str> = turn.now.into_iter().collect();
        if !chosen.is_empty() {
            // A refusal changes no watched object: when each eviction is due again depends on the
            // answer.
            fleet.alarm.passed(fleet.now, eviction_retry::FIRST_SECONDS);
        }
        let evictions = self
            .evictions
            .iter()
            .map(|(eviction, _)| eviction)
            .filter(|eviction| chosen.contains(eviction.uid.as_str()));
        actions.extend(evictions.cloned().map(Action::Evict));
        actions
    }
}

/// Emits the decision if the whole fleet waits, and no node was assessed.
pub(super) fn of_fleet(
    mut draft: FleetDraft<'_>,
    fleet: &FleetInputs<'_>,
    census: &Census<'_>,
) -> Decision {
    let mut effects = FleetEffects::default();
    if draft.fails() || fleet.is_over() {
        effects.release_all_unchanged(&mut draft, fleet, census.all());
    }
    finish(draft, effects, &TestPods::of(fleet), None, || census.all())
}

/// Emits the decision, and what is kept of it. `last`: the last decision, if its results for nodes
/// are still valid; `of_fleet`: the reason for which the whole fleet waits.
pub(super) fn of_nodes<'a>(
    mut draft: FleetDraft<'a>,
    nodes: RunNodes<'a>,
    last: Option<LastDecision>,
    (queue, controller): (Option<StartQueue>, Option<ControllerMemo>),
    of_fleet: impl FnOnce(&mut FleetDraft<'_>) -> Option<Reason>,
) -> (Decision, Option<Memo>) {
    let mut effects = FleetEffects::default();
    draft.alarm.set(nodes.alarm.at);
    let told = notes_about_nodes(&nodes);
    if stalls_are_over(&nodes) || others_depend_on_new_outcome(&nodes, &draft.memory) {
        draft.alarm.set(draft.now);
    }
    let RunNodes { fleet, listed, others, bystanders, mut kept, .. } = nodes;
    emit_bystanders(others, bystanders, &mut kept, &mut effects, &mut draft);
    let mut examined: Vec<&Arc<str>> = Vec::with_capacity(listed.len());
    for mut node in listed {
        set_waits(&node, &mut kept);
        set(&mut kept.outcomes, node.name, node.ending.outcome);
        examined.push(node.name);
        let drafted = node.draft.take();
        let (until, keeps_focus) = match (&drafted, &node.known) {
            (Some(drafted), _) => {
                (drafted.is_settled().then_some(drafted.alarm.at), drafted.keeps_focus)
            }
            (None, Some(known)) => (Some(known.until), known.keeps_focus),
            (None, None) => (None, false),
        };
        keep(&mut kept, &node, until, keeps_focus, fleet);
        if let Some(drafted) = drafted {
            effects.take(&mut draft, *drafted);
        }
    }
    set_gone(&mut kept, &draft.memory, last.as_ref(), &examined);
    draft.notes.append(&mut effects.notes);
    draft.notes.extend(told);
    effects.focus.extend(kept.sums.focus.iter().map(ToString::to_string));
    draft.waits.nodes = kept.waits.clone();
    (draft.ended.nodes, draft.ended.deferred) = (kept.failures.clone(), kept.deferred.clone());
    let reason = of_fleet(&mut draft);
    draft.waits_for(reason);
    let is_examined = |name: &str| examined.binary_search_by(|known| (***known).cmp(name)).is_ok();
    if draft.fails() {
        let all = all_listed(fleet.observed, &kept, is_examined);
        effects.release_all_unchanged(&mut draft, fleet, all);
    }
    let pods = TestPods::of(fleet);
    let decision = finish(draft, effects, &pods, Some(kept.outcomes.clone()), || {
        all_listed(fleet.observed, &kept, is_examined)
    });
    let (settings, before) = match last {
        Some(LastDecision { settings, observed, .. }) => (settings, Some(observed)),
        None => (Arc::new(fleet.settings.clone()), None),
    };
    let memo = Memo {
        settings,
        observed: thin(fleet.observed, before),
        memory: decision.memory.clone(),
        is_over: fleet.is_over(),
        restarts: fleet.restarts,
        kept,
        queue,
        controller,
    };
    (decision, Some(memo))
}

/// Emits the effects on nodes that the decision is not about; some of them wake NVIDIA's
/// controller.
fn emit_bystanders<'a>(
    others: Vec<(&'a Arc<str>, &'a ObservedNode, bool)>,
    bystanders: BTreeMap<&'a str, NodeDraft<'a>>,
    kept: &mut KeptNodes,
    effects: &mut FleetEffects,
    draft: &mut FleetDraft<'_>,
) {
    for (name, node, needs_driver) in others {
        // The removal of a label may have to be repeated then.
        let until = bystanders.get(&**name).map_or(Timestamp::MAX, |draft| draft.alarm.at);
        let away = AwayPlugins::of_node(draft.memory.nodes.get(name), node);
        kept.keep(name, KnownNode::of_bystander(needs_driver, away, until));
    }
    for (name, bystander) in bystanders {
        if !bystander.is_settled() {
            kept.unsettle(name);
        }
        effects.take(draft, bystander);
    }
}

/// Keeps the results for an examined node. `until`: until when they are valid; `None`: another
/// decision may have other results.
fn keep(
    kept: &mut KeptNodes,
    node: &RunNode<'_>,
    until: Option<Timestamp>,
    keeps_focus: bool,
    fleet: &FleetInputs<'_>,
) {
    let Some(until) = until else {
        let throttled = node.assessment.upgrade.throttled.clone();
        kept.known.remove(node.name);
        kept.unsettled.insert(Arc::clone(node.name), throttled);
        return;
    };
    kept.keep(node.name, known_node(node, until, keeps_focus, fleet));
}

/// Sets the outcomes of nodes that are gone. `examined`: the nodes that the decision examined, in
/// addition to those that have changed.
fn set_gone(
    kept: &mut KeptNodes,
    memory: &RunMemory,
    last: Option<&LastDecision>,
    examined: &[&Arc<str>],
) {
    let is_gone = |record: &NodeRecord| record.outcome == Some(NodeOutcome::Gone);
    let Some(last) = last else {
        for (name, _) in memory.nodes.iter().filter(|(_, record)| is_gone(record)) {
            set(&mut kept.outcomes, name, Some(NodeOutcome::Gone));
        }
        return;
    };
    let examined = examined.iter().map(|name| &***name);
    for name in last.changed.iter().map(String::as_str).chain(examined) {
        if let Some((name, _)) = memory.nodes.entry(name).filter(|(_, record)| is_gone(record)) {
            set(&mut kept.outcomes, name, Some(NodeOutcome::Gone));
        }
    }
}

/// Returns the memo of a node.
fn known_node(
    node: &RunNode<'_>,
    until: Timestamp,
    keeps_focus: bool,
    fleet: &FleetInputs<'_>,
) -> KnownNode {
    // The reason of NVIDIA's controller is determined again in each decision: if kept, it would
    // name outdated nodes.
    let lasting =
        |reason: Arc<Reason>| if reason.asks_why() { Arc::new(reason.lasting()) } else { reason };
    let ending =
        NodeEnding { reason: node.ending.reason.clone().map(lasting), ..node.ending.clone() };
    let left = match &node.known {
        Some(known) if node.draft.is_none() && !node.assessment.needs.is_stale() => {
            known.left.clone()
        }
        Some(_) | None => node.assessment.needs.first(fleet),
    };
    let is_free_in_pause = ending.reason.as_ref().is_some_and(|reason| reason.asks_why())
        && observe::is_free_in_pause(node.node, fleet);
    KnownNode {
        needs_driver: node.needs_driver,
        found: Some((Arc::clone(&node.assessment), ending)),
        left,
        until,
        keeps_focus,
        // The record of a node whose results are kept was not changed.
        away: AwayPlugins::of_node(fleet.memory.nodes.get(node.name), node.node),
        is_held_by_other_mode: observe::is_held_by_other_mode(node.node, fleet),
        is_free_in_pause,
    }
}

/// Returns the notes that summarize several nodes.
fn notes_about_nodes(nodes: &RunNodes<'_>) -> Vec<DecisionNote> {
    let (listed, sums) = (|| nodes.listed.iter(), &nodes.kept.sums);
    let mut missing = sums.missing_configs.clone();
    missing.extend(listed().filter_map(|node| {
        Some((Arc::clone(node.name), node.assessment.needs.missing_config.clone()?))
    }));
    let missing: Vec<(String, String)> =
        missing.into_iter().map(|(name, key)| (name.to_string(), key)).collect();
    let own = sums.own_drivers + listed().filter(|node| node.assessment.has_own_driver).count();
    let joined =
        sums.listed - sums.members + listed().filter(|node| !node.assessment.is_member).count();
    let missing =
        (!missing.is_empty()).then_some(DecisionNote::ConfigKeyMissing { nodes: missing });
    let own = (own > 0).then_some(DecisionNote::DriverOfImage { nodes: own });
    let joined = (joined > 0)
        .then_some(DecisionNote::NodesJoined { nodes: joined, device: nodes.fleet.traits.device });
    missing.into_iter().chain(own).chain(joined).collect()
}

/// Returns whether a node that stalls an operand's update is deferred from now on: the nodes that
/// it stalls are deferred too.
fn stalls_are_over(nodes: &RunNodes<'_>) -> bool {
    let before = |name: &str| nodes.fleet.memory.nodes.get(name).and_then(|record| record.outcome);
    let is_left = |name: &str| {
        let node = nodes.place(name).map(|place| &nodes.listed[place]);
        node.is_some_and(|node| node.ending.outcome == Some(NodeOutcome::Deferred))
            && before(name) != Some(NodeOutcome::Deferred)
    };
    nodes.listed.iter().any(|node| match node.ending.reason.as_deref() {
        Some(Reason::OperandOutdated { awaited: Some(node), .. }) => {
            !node.is_ready && is_left(&node.name)
        }
        Some(_) | None => false,
    })
}

/// Returns whether an outcome changes on which the steps of other nodes depend: with a soak or a
/// proof, their starts, and the replacements of stale plugins. This decision determined them with
/// the outcomes of the previous decision.
fn others_depend_on_new_outcome(nodes: &RunNodes<'_>, memory: &RunMemory) -> bool {
    let depend = nodes.fleet.settings.upgrade.soak_seconds > 0
        || memory.proof.is_some()
        || nodes.listed.iter().any(|node| node.assessment.needs.is_stale());
    let is_new =
        |node: &RunNode<'_>| node.draft.as_ref().is_some_and(|draft| draft.changes_outcome());
    depend && nodes.listed.iter().any(is_new)
}

/// Sets the wait of a node, or the reason for which it failed or was deferred.
fn set_waits(node: &RunNode<'_>, kept: &mut KeptNodes) {
    let NodeEnding { outcome, reason, since } = &node.ending;
    let wait = reason.as_ref().zip(*since);
    let of = |wanted: Option<NodeOutcome>| wait.filter(|_| *outcome == wanted);
    kept.waits.set(node.name, of(None));
    kept.failures.set(node.name, of(Some(NodeOutcome::Failed)));
    kept.deferred.set(node.name, of(Some(NodeOutcome::Deferred)));
}

fn set(outcomes: &mut Named<NodeOutcome>, name: &Arc<str>, outcome: Option<NodeOutcome>) {
    if outcomes.get(name).copied() == outcome {
        return;
    }
    match outcome {
        Some(outcome) => outcomes.insert(Arc::clone(name), outcome),
        None => drop(outcomes.remove(name)),
    }
}

/// Completes the decision. `tests`: the pods of acceptance tests; `outcomes`: of nodes, if they
/// were assessed; `nodes`: returns the nodes of the decision.
fn finish<'n>(
    mut draft: FleetDraft<'_>,
    mut effects: FleetEffects,
    tests: &TestPods<'_>,
    outcomes: Option<Named<NodeOutcome>>,
    nodes: impl Fn() -> Vec<&'n ObservedNode>,
) -> Decision {
    let (focus, mut is_releasing) = (std::mem::take(&mut effects.focus), effects.is_releasing);
    let mut actions = effects.into_actions(&mut draft);
    // The patch that makes a pod superfluous comes first.
    actions.extend(test_pods::delete(&mut draft, &tests.left_over, false));
    // After the deadline, the verdict waits until the deletions have succeeded.
    is_releasing |=
        draft.now >= draft.memory.deadline && test_pods::are_deletable(&draft, &tests.left_over);
    let memory = &draft.memory;
    let is_empty =
        memory.evictions.is_empty() && memory.issued.is_empty() && memory.test_logs.is_empty();
    if !is_empty {
        let uids = LazyCell::new(|| -> BTreeSet<&str> {
            draft.observed.workloads.pods.values().flatten().map(|pod| pod.uid.as_str()).collect()
        });
        draft.memory.prune(|uid| uids.contains(uid), draft.now);
    }
    // Retries on a node that has failed do not keep the run from ending.
    let tried_again = |action: &Action| {
        !matches!(action, Action::PatchNode(_)) && draft.ended.nodes.contains(action.node())
    };
    let pending = actions.iter().any(|action| !tried_again(action));
    let assessed = outcomes.is_some();
    let mut state = RunState { fleet: draft, outcomes: outcomes.unwrap_or_default(), is_releasing };
    let (well, verdict) = state.judge(pending, nodes);
    let RunState { mut fleet, outcomes, .. } = state;
    if verdict.is_some() {
        // No later decision would delete them.
        for pods in [&tests.left_over, &tests.current] {
            actions.extend(test_pods::delete(&mut fleet, pods, true));
        }
    }
    Decision {
        well,
        memory: fleet.memory,
        // After the verdict, no work starts; patches that release nodes, or that record their
        // outcome, are still written.
        actions: if verdict.is_some() {
            actions.into_iter().filter(Action::is_last).collect()
        } else {
            actions
        },
        focus,
        waits: fleet.waits,
        assessed,
        outcomes,
        ended: fleet.ended,
        notes: fleet.notes,
        verdict,
        wake_at: fleet.alarm.at.min(fleet.leader_ends_at),
        wake_at_if_led: fleet.alarm.at,
    }
}
