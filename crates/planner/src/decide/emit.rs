//! Assembles a decision: actions, waits, outcomes, memory and memo.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::action::PodEviction;
use crate::note::DecisionNote;
use crate::pods::eviction_retry::{self, EvictionHistory};
use crate::reason::{Reason, Wait};
use contract::record::NodeOutcome;
use observed::ObservedNode;
use observed::named::Named;

use super::fleet::FleetDraft;
use super::inputs::FleetInputs;
use super::memo::{KnownNode, Memo, Unchanged, thin};
use super::modes::drive::release_all_unchanged;
use super::modes::observe::ControllerView;
use super::node_draft::{NodeDraft, NodeEffects};
use super::run_nodes::{Census, RunNode, RunNodes};
use super::{Action, Decision};
use contract::task::Task;

pub(super) mod outcome;
mod verdict;

use outcome::NodeEnding;
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
        let node = draft.node;
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
            released_unchanged,
            depends_on_others: _,
        } = effects;
        fleet.memory.issued.extend(issued.into_iter().map(|uid| (uid, fleet.now)));
        for uid in unasked {
            fleet.memory.evictions.remove(&uid);
        }
        if released_unchanged {
            fleet.memory.released_unchanged.insert(node.name.clone());
            self.is_releasing = true;
        }
        if focus {
            self.focus.insert(node.name.clone());
        }
        self.replacements.extend(replacements);
        self.actions.extend(actions);
        self.starts.extend(starts);
        self.evictions.extend(evictions);
        self.notes.extend(notes);
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
    if fleet.has(Task::Drive) && fleet.is_over() {
        for node in release_all_unchanged(fleet, census.nodes()) {
            effects.take(&mut draft, node);
        }
    }
    finish(draft, effects, None, Vec::new(), &census.nodes())
}

/// Emits the decision, and what is kept of it. `of_fleet`: the reason for which the whole fleet
/// waits.
pub(super) fn of_nodes<'a>(
    mut draft: FleetDraft<'a>,
    nodes: RunNodes<'a>,
    unchanged: Option<&Unchanged<'_>>,
    controller: Option<ControllerView>,
    of_fleet: impl FnOnce(&mut FleetDraft<'_>) -> Option<Reason>,
) -> (Decision, Option<Memo>) {
    let fleet = nodes.fleet;
    let mut kept = unchanged.map(|unchanged| Kept::new(unchanged, fleet)).unwrap_or_default();
    let mut effects = FleetEffects::default();
    draft.alarm.set(nodes.alarm.at);
    let told = notes_about_nodes(&nodes);
    if stalls_are_over(&nodes) {
        draft.alarm.set(draft.now);
    }
    let mut deferred = Vec::new();
    let listed: Vec<&ObservedNode> = nodes.listed.iter().map(|node| node.node).collect();
    emit_bystanders(nodes.others, nodes.bystanders, &mut kept, &mut effects, &mut draft);
    let Kept { mut known, mut outcomes } = kept;
    for mut node in nodes.listed {
        waits(&node, &mut draft, &mut deferred);
        set(&mut outcomes, node.name, node.ending.outcome);
        if let Some(drafted) = node.draft.take() {
            let settled = drafted.is_settled().then_some(drafted.alarm.at);
            keep(&mut known, node.name, settled.map(|until| known_node(&node, until, fleet)));
            effects.take(&mut draft, drafted);
        }
    }
    for (name, _) in
        draft.memory.nodes.iter().filter(|(_, record)| record.outcome == Some(NodeOutcome::Gone))
    {
        set(&mut outcomes, name, Some(NodeOutcome::Gone));
    }
    draft.notes.append(&mut effects.notes);
    draft.notes.extend(told);
    let reason = of_fleet(&mut draft);
    draft.waits_for(reason);
    let decision = finish(draft, effects, Some(outcomes), deferred, &listed.into_iter());
    let settings = unchanged.map_or_else(
        || Arc::new(fleet.settings.clone()),
        |unchanged| Arc::clone(&unchanged.memo.settings),
    );
    let memo = Memo {
        settings,
        observed: thin(fleet.observed),
        memory: decision.memory.clone(),
        is_over: fleet.is_over(),
        restarts: fleet.restarts,
        nodes: known,
        outcomes: decision.outcomes.clone(),
        controller,
    };
    (decision, Some(memo))
}

/// The memo for the next decision.
#[derive(Default)]
struct Kept {
    known: Named<KnownNode>,
    outcomes: Named<NodeOutcome>,
}

impl Kept {
    /// Returns the memo of the last decision, without the nodes that no longer exist.
    fn new(unchanged: &Unchanged<'_>, fleet: &FleetInputs<'_>) -> Self {
        let (mut known, mut outcomes) =
            (unchanged.memo.nodes.clone(), unchanged.memo.outcomes.clone());
        for name in unchanged.changed.iter().filter(|name| !fleet.observed.nodes.contains_key(name))
        {
            known.remove(name);
            outcomes.remove(name);
        }
        Self { known, outcomes }
    }
}

/// Emits the effects on nodes that the decision is not about; some of them wake NVIDIA's
/// controller.
fn emit_bystanders<'a>(
    others: Vec<(&'a Arc<str>, &'a ObservedNode, bool)>,
    bystanders: BTreeMap<&'a str, NodeDraft<'a>>,
    kept: &mut Kept,
    effects: &mut FleetEffects,
    draft: &mut FleetDraft<'_>,
) {
    for (name, _, needs_driver) in others {
        // The removal of a label may have to be repeated then.
        let until = bystanders.get(&**name).map_or(Timestamp::MAX, |draft| draft.alarm.at);
        keep(
            &mut kept.known,
            name,
            Some(KnownNode { needs_driver, found: None, left: None, until }),
        );
        set(&mut kept.outcomes, name, None);
    }
    for (name, bystander) in bystanders {
        if !bystander.is_settled() {
            kept.known.remove(name);
        }
        effects.take(draft, bystander);
    }
}

/// Returns the memo of a node.
fn known_node(node: &RunNode<'_>, until: Timestamp, fleet: &FleetInputs<'_>) -> KnownNode {
    // The reason of NVIDIA's controller is determined again in each decision: if kept, it would
    // name outdated nodes.
    let lasting =
        |reason: Arc<Reason>| if reason.asks_why() { Arc::new(reason.lasting()) } else { reason };
    let ending =
        NodeEnding { reason: node.ending.reason.clone().map(lasting), ..node.ending.clone() };
    let left = node.assessment.needs.first(fleet);
    KnownNode {
        needs_driver: node.needs_driver,
        found: Some((Arc::clone(&node.assessment), ending)),
        left,
        until,
    }
}

/// Returns the notes that summarize several nodes.
fn notes_about_nodes(nodes: &RunNodes<'_>) -> Vec<DecisionNote> {
    let listed = || nodes.listed.iter();
    let missing: Vec<(String, String)> = listed()
        .filter_map(|node| {
            Some((node.node.name.clone(), node.assessment.needs.missing_config.clone()?))
        })
        .collect();
    let own = listed().filter(|node| node.assessment.has_own_driver).count();
    let joined = listed().filter(|node| !node.assessment.is_member).count();
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

/// Adds the waits and failures of a node.
fn waits(node: &RunNode<'_>, draft: &mut FleetDraft<'_>, deferred: &mut Vec<Wait>) {
    let NodeEnding { outcome, reason: Some(reason), since: Some(since) } = &node.ending else {
        return;
    };
    let wait =
        Wait { node: Some(Arc::clone(node.name)), reason: Arc::clone(reason), since: *since };
    match outcome {
        None => draft.waits.push(wait),
        Some(NodeOutcome::Failed) => draft.failures.push(wait),
        Some(NodeOutcome::Deferred) => deferred.push(wait),
        Some(NodeOutcome::Done | NodeOutcome::Gone) => {}
    }
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

fn keep(known: &mut Named<KnownNode>, name: &Arc<str>, node: Option<KnownNode>) {
    match node {
        Some(node) => known.insert(Arc::clone(name), node),
        None => drop(known.remove(name)),
    }
}

/// Completes the decision. `outcomes`: of nodes, if they were assessed.
fn finish<'n>(
    mut draft: FleetDraft<'_>,
    mut effects: FleetEffects,
    outcomes: Option<Named<NodeOutcome>>,
    deferred: Vec<Wait>,
    nodes: &(impl Iterator<Item = &'n ObservedNode> + Clone),
) -> Decision {
    let (focus, is_releasing) = (std::mem::take(&mut effects.focus), effects.is_releasing);
    let actions = effects.into_actions(&mut draft);
    if !draft.memory.evictions.is_empty() || !draft.memory.issued.is_empty() {
        let pods: BTreeSet<&str> =
            draft.observed.workloads.pods.values().flatten().map(|pod| pod.uid.as_str()).collect();
        draft.memory.prune(|uid| pods.contains(uid), draft.now);
    }
    // Retries on a node that has failed do not keep the run from ending.
    let failed: BTreeSet<&str> =
        draft.failures.iter().filter_map(|failure| failure.node.as_deref()).collect();
    let tried_again =
        |action: &Action| !matches!(action, Action::PatchNode(_)) && failed.contains(action.node());
    let pending = actions.iter().any(|action| !tried_again(action));
    let assessed = outcomes.is_some();
    let mut state = RunState { fleet: draft, outcomes: outcomes.unwrap_or_default(), is_releasing };
    let (well, verdict) = state.judge(pending, nodes);
    let RunState { fleet, outcomes, .. } = state;
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
        ended: fleet.failures.into_iter().chain(deferred).collect(),
        notes: fleet.notes,
        verdict,
        wake_at: fleet.alarm.at,
    }
}
