//! The nodes that are started: conditions that forbid every start, and limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::drive_upgrade::start_limits::{StartThrottle, ThrottledFleet, ThrottledNode};
use crate::memory::PendingPatch;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::record::{NodeOutcome, NodeRecord};
use contract::window::{self, WindowState};

use crate::decide::assess::UpgradeTurn;
use crate::decide::inputs::FleetInputs;
use crate::decide::node_draft::{NodeDraft, REPEAT_SECONDS};
use crate::decide::run_nodes::{RunNode, RunNodes};
use crate::time::{after, before};

use super::proof::ProofGate;
use super::unstarted;

/// The result for the candidates of a decision.
#[derive(Clone)]
pub(in crate::decide) struct StartQueue {
    /// What forbade every start.
    barrier: Option<UpgradeReason>,
    /// Which candidates proof allowed to start.
    gate: ProofGate,
    /// Whether one of them was started.
    has_started: bool,
    /// The reason of all that were refused for a common reason.
    common: Option<Arc<Reason>>,
}

/// Starts as many candidates as the limits allow, and sets the reasons of the others. `gate`: which
/// candidates proof allows to start; `ends`: whether a node ends in this decision; `last`: the
/// result of the last decision; `start`: starts a node with its number of earlier attempts.
pub(super) fn start<'a>(
    nodes: &mut RunNodes<'a>,
    (gate, ends): (ProofGate, bool),
    last: Option<StartQueue>,
    start: impl Fn(&mut NodeDraft<'a>, u32),
) -> Option<StartQueue> {
    let examined = examined_candidates(nodes);
    if examined.is_empty() && nodes.kept.sums.candidates.is_empty() {
        return None;
    }
    let barrier = barrier(nodes, &gate, ends);
    let is_same = nodes.has_same_throttled()
        && last
            .as_ref()
            .is_some_and(|last| !last.has_started && last.barrier == barrier && last.gate == gate);
    let known = last.and_then(|last| last.common);
    let Evaluation { candidates, common, is_described } =
        evaluate(nodes, (barrier.as_ref(), &gate), known.as_ref(), &examined, is_same);
    if let (true, Some(known), Some(common)) = (is_described, &known, &common) {
        nodes.describe_candidates(known, common);
    }
    let fleet = nodes.fleet;
    let cordoning = Arc::new(Reason::Upgrading(UpgradeReason::Cordoning));
    let mut has_started = false;
    let mut chosen = Vec::new();
    for ((again, name), reason) in candidates {
        has_started |= reason.is_none();
        let is_described =
            reason.as_ref().is_some_and(|reason| nodes.describe_candidate(&name, reason));
        if !is_described {
            chosen.push((again, name, reason));
        }
    }
    nodes.examine(chosen.iter().map(|(_, name, _)| &**name));
    for (again, name, reason) in chosen {
        let Some(place) = nodes.place(&name) else { continue };
        let node = &mut nodes.listed[place];
        node.reason = Some(match reason {
            Some(reason) if again > 0 && unstarted::is_final(&reason) => {
                unstarted::reason_of(fleet, node.node, &reason)
            }
            Some(reason) => reason,
            None => {
                start(node.draft(fleet), again);
                Arc::clone(&cordoning)
            }
        });
    }
    Some(StartQueue { barrier, gate, has_started, common })
}

/// A node that may be started, with its number of earlier attempts. Those with earlier attempts
/// come last: they must not delay the others.
type Candidate = (u32, Arc<str>);

fn examined_candidates(nodes: &RunNodes<'_>) -> BTreeSet<Candidate> {
    let candidate = |node: &RunNode<'_>| {
        if let UpgradeTurn::Candidate(again) = node.assessment.upgrade.turn {
            Some((again, Arc::clone(node.name)))
        } else {
            None
        }
    };
    nodes.listed.iter().filter_map(candidate).collect()
}

/// Returns the examined nodes that limits count.
fn examined_fleet(nodes: &RunNodes<'_>) -> ThrottledFleet {
    let mut examined = ThrottledFleet::default();
    for node in &nodes.listed {
        if let Some(member) = &node.assessment.upgrade.throttled {
            examined.add(node.name, member);
        }
    }
    examined
}

/// The result of the limits for candidates.
struct Evaluation {
    /// Candidates, each with the reason for which it is not started; `None`: it is started.
    candidates: Vec<(Candidate, Option<Arc<Reason>>)>,
    /// The reason of most that are refused.
    common: Option<Arc<Reason>>,
    /// Whether it is the reason of all other candidates, in place of the one of the last decision.
    is_described: bool,
}

/// Determines which candidates are started, and why the others are not. `known`: the common reason
/// of the last decision; `is_same`: whether nothing has changed that candidates wait for, so that
/// only new ones count.
fn evaluate(
    nodes: &RunNodes<'_>,
    conditions: (Option<&UpgradeReason>, &ProofGate),
    known: Option<&Arc<Reason>>,
    examined: &BTreeSet<Candidate>,
    is_same: bool,
) -> Evaluation {
    let members = examined_fleet(nodes);
    let limits = || {
        let fleets = [&nodes.kept.sums.throttled, &members];
        StartThrottle::new(&nodes.fleet.settings.upgrade, fleets)
    };
    if is_same {
        let mut queue = QueueLimits::new(nodes, conditions, limits());
        let common = queue.common_reason(known);
        let candidates = queue.reasons(examined.iter(), common.as_ref());
        if candidates.iter().all(|(_, reason)| reason.is_some()) {
            return Evaluation { candidates, common, is_described: false };
        }
    }
    let mut queue = QueueLimits::new(nodes, conditions, limits());
    // Canaries first: the others do not start before them.
    let (_, gate) = conditions;
    let candidates = || examined.union(&nodes.kept.sums.candidates);
    let canaries: Vec<&Candidate> = if gate.has_first() {
        candidates().filter(|(_, name)| gate.comes_first(name)).collect()
    } else {
        Vec::new()
    };
    let others = candidates().filter(|(_, name)| !gate.comes_first(name));
    let all = canaries.iter().copied().chain(others);
    let starts: Vec<&Candidate> =
        all.clone().take_while(|candidate| queue.reason(&candidate.1).is_none()).collect();
    let common = queue.common_reason(known);
    let is_described = known
        .zip(common.as_ref())
        .is_some_and(|(known, common)| nodes.is_reason_of_all(known, common));
    let mut candidates: Vec<_> =
        starts.iter().map(|candidate| ((*candidate).clone(), None)).collect();
    if is_described {
        // Those that may have another reason: canaries, and examined nodes.
        let last = starts.get(canaries.len()..).and_then(<[_]>::last);
        let is_behind = |candidate: &&Candidate| {
            !gate.comes_first(&candidate.1) && last.is_none_or(|last| *last < *candidate)
        };
        let apart = canaries.iter().copied().skip(starts.len());
        let apart = apart.chain(examined.iter().filter(is_behind));
        let apart = queue.reasons(apart, common.as_ref());
        if apart.iter().all(|(_, reason)| reason.is_some()) {
            candidates.extend(apart);
            return Evaluation { candidates, common, is_described };
        }
        // An unavailable node that is started may take the last slot: the common reason changes.
        queue = QueueLimits::new(nodes, conditions, limits());
        for (_, name) in &starts {
            // It counts as started; the reason is known: none.
            drop(queue.reason(name));
        }
    }
    candidates.extend(queue.reasons(all.clone().skip(starts.len()), common.as_ref()));
    // Without a limit that refuses all, the last candidates mostly share their reason.
    let common = common.or_else(|| candidates.last()?.1.clone());
    Evaluation { candidates, common, is_described: false }
}

/// The limits during a decision, and what forbids every start.
struct QueueLimits<'m> {
    nodes: &'m RunNodes<'m>,
    barrier: Option<&'m UpgradeReason>,
    gate: &'m ProofGate,
    /// How many nodes of the step have been started in this decision.
    started: usize,
    throttle: StartThrottle<'m>,
}

impl<'m> QueueLimits<'m> {
    fn new(
        nodes: &'m RunNodes<'m>,
        (barrier, gate): (Option<&'m UpgradeReason>, &'m ProofGate),
        throttle: StartThrottle<'m>,
    ) -> Self {
        Self { nodes, barrier, gate, started: 0, throttle }
    }

    /// Returns the reason for which every candidate is refused that is not examined, that the
    /// limits count, and that is available. `None`: it differs, or they may start. `known`: the one
    /// of the last decision; an equal one stays the same value, so that it is quickly compared.
    fn common_reason(&mut self, known: Option<&Arc<Reason>>) -> Option<Arc<Reason>> {
        let mut patched = self.nodes.fleet.memory.patched.iter();
        let is_requested =
            patched.any(|(name, patched)| patched.starts && self.nodes.place(name).is_none());
        let refused = match self.barrier {
            _ if is_requested => None,
            // It names the limit that holds each node.
            Some(UpgradeReason::NoTime { .. }) => None,
            Some(barrier) => Some(barrier.clone()),
            None => self
                .gate
                .reason_of_others(self.started)
                .cloned()
                .or_else(|| self.throttle.refusal_of_available().map(UpgradeReason::Refused)),
        };
        let reason = Reason::Upgrading(refused?);
        let known = known.filter(|known| ***known == reason);
        Some(known.map_or_else(|| Arc::new(reason), Arc::clone))
    }

    /// Returns the reason for which a candidate is not started; `None`: it is started.
    fn reason(&mut self, name: &Arc<str>) -> Option<Reason> {
        let Some(member) = self.nodes.throttled(name) else {
            // The limits do not count it: it has no driver pod that could be replaced.
            return Some(Reason::DriverPodMissing);
        };
        let gate = if self.gate.comes_first(name) {
            None
        } else {
            self.gate.reason_of_others(self.started)
        };
        let conditions = (self.barrier, gate);
        let refused = refused(self.nodes.fleet, name, member, conditions, &mut self.throttle);
        self.started += usize::from(refused.is_none());
        refused.map(Reason::Upgrading)
    }

    /// Returns candidates in their order, each with the reason for which it is not started; `None`:
    /// it is started. `common`: the reason of most of them.
    fn reasons<'c>(
        &mut self,
        candidates: impl Iterator<Item = &'c Candidate>,
        common: Option<&Arc<Reason>>,
    ) -> Vec<(Candidate, Option<Arc<Reason>>)> {
        let mut last: Option<Arc<Reason>> = None;
        let reason = |candidate: &Candidate| {
            let reason = self.reason(&candidate.1).map(|reason| {
                // Most of them are refused for the same reason.
                let mut equal = common.into_iter().chain(&last).filter(|other| ***other == reason);
                let reason = equal.next().map_or_else(|| Arc::new(reason), Arc::clone);
                last = Some(Arc::clone(&reason));
                reason
            });
            (candidate.clone(), reason)
        };
        candidates.map(reason).collect()
    }
}

/// Returns what forbids the node's start: a condition for all nodes, or a limit. If a node's start
/// was requested, the node has its slot already: it must not wait for itself if the server did not
/// accept the patch. A start whose answer is overdue is repeated only if no condition forbids it.
fn refused<'m>(
    fleet: &FleetInputs<'_>,
    name: &Arc<str>,
    member: &'m ThrottledNode,
    (barrier, gate): (Option<&UpgradeReason>, Option<&UpgradeReason>),
    throttle: &mut StartThrottle<'m>,
) -> Option<UpgradeReason> {
    let requested = fleet.memory.patched.get(name).filter(|patched| patched.starts);
    let is_under_way =
        |patched: &PendingPatch| fleet.now < after(patched.at, REPEAT_SECONDS) && !fleet.is_over();
    if requested.is_some_and(is_under_way) {
        return None;
    }
    if let Some(UpgradeReason::NoTime { deadline, per_node, .. }) = barrier {
        // More time is the wrong hint if other nodes block the node.
        return Some(UpgradeReason::NoTime {
            deadline: *deadline,
            per_node: *per_node,
            held: throttle.standing(member),
        });
    }
    if let Some(barrier) = barrier {
        return Some(barrier.clone());
    }
    if requested.is_some() && !fleet.is_over() {
        return None;
    }
    if let Some(gate) = gate {
        return Some(gate.clone());
    }
    throttle.start(name, member).err().map(UpgradeReason::Refused)
}

/// Returns what forbids every start. `ends`: whether a node ends in this decision.
fn barrier(nodes: &mut RunNodes<'_>, gate: &ProofGate, ends: bool) -> Option<UpgradeReason> {
    let fleet = nodes.fleet;
    if let ProofGate::Closed(halted @ UpgradeReason::Halted { .. }) = gate {
        return Some(halted.clone());
    }
    let (settings, memory) = (fleet.settings, fleet.memory);
    let upgrades = || nodes.listed.iter().map(|node| (node.name, &node.assessment.upgrade));
    let sums = &nodes.kept.sums;
    let counted = upgrades().filter(|(_, upgrade)| upgrade.throttled.is_some()).count();
    let budget = settings.upgrade.tolerated_failures().resolve(sums.throttled.len() + counted);
    let given_up = upgrades().filter(|(_, upgrade)| upgrade.given_up).map(|(name, _)| name);
    let mut failed: Vec<&Arc<str>> = sums.given_up.iter().chain(given_up).collect();
    if failed.len() > budget {
        failed.sort_unstable();
        let failed: Vec<String> = failed.into_iter().map(ToString::to_string).collect();
        return Some(UpgradeReason::FailureBudget { failed: failed.into(), budget });
    }
    let per_node = settings.per_node_seconds;
    match window::state(&settings.upgrade.windows, fleet.now) {
        Some(WindowState::Closed(opens)) => {
            nodes.alarm.set(opens);
            let is_late = after(opens, per_node) >= memory.deadline;
            let deadline = is_late.then_some(memory.deadline);
            return Some(UpgradeReason::OutsideWindow { opens, deadline });
        }
        Some(WindowState::Open(closes)) => nodes.alarm.set(closes),
        None => {}
    }
    let latest = before(memory.deadline, per_node);
    if fleet.now >= latest {
        return Some(UpgradeReason::NoTime { deadline: memory.deadline, per_node, held: None });
    }
    nodes.alarm.set(latest);
    if let ProofGate::Closed(reason) = gate {
        return Some(reason.clone());
    }
    let soak = settings.upgrade.soak_seconds;
    if soak == 0 {
        return None;
    }
    // Deferred nodes were not upgraded.
    let has_ended = |record: &&NodeRecord| {
        matches!(record.outcome, Some(NodeOutcome::Done | NodeOutcome::Failed))
    };
    let ended = memory.nodes.values().filter(has_ended).filter_map(|record| record.since);
    let last =
        ended.filter(|since| *since >= memory.started_at).chain(ends.then_some(fleet.now)).max()?;
    (!nodes.alarm.passed(last, soak)).then_some(UpgradeReason::Soak { until: after(last, soak) })
}
