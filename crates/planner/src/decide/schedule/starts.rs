//! The nodes that are started: conditions that forbid every start, and limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::drive_upgrade::start_limits::{StartThrottle, ThrottledFleet, ThrottledNode};
use crate::memory::PendingPatch;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::record::{NodeOutcome, NodeRecord};

use crate::decide::assess::UpgradeTurn;
use crate::decide::inputs::FleetInputs;
use crate::decide::node_draft::{NodeDraft, REPEAT_SECONDS};
use crate::decide::run_nodes::{RunNode, RunNodes};
use crate::time::after;

/// The result for the candidates of a decision.
#[derive(Clone)]
pub(in crate::decide) struct StartQueue {
    /// What forbade every start.
    barrier: Option<UpgradeReason>,
    /// Whether one of them was started.
    has_started: bool,
    /// The reason of all that were refused for a common reason.
    common: Option<Arc<Reason>>,
}

/// Starts as many candidates as the limits allow, and sets the reasons of the others. `ends`:
/// whether a node ends in this decision; `last`: the result of the last decision; `start`: starts a
/// node with its number of earlier attempts.
pub(super) fn start<'a>(
    nodes: &mut RunNodes<'a>,
    ends: bool,
    last: Option<StartQueue>,
    start: impl Fn(&mut NodeDraft<'a>, u32),
) -> Option<StartQueue> {
    let examined = examined_candidates(nodes);
    if examined.is_empty() && nodes.kept.sums.candidates.is_empty() {
        return None;
    }
    let barrier = barrier(nodes, ends);
    let known = last.as_ref().and_then(|last| last.common.clone());
    let is_same = nodes.has_same_throttled()
        && last.is_some_and(|last| !last.has_started && last.barrier == barrier);
    let members = examined_fleet(nodes);
    let common = common_reason(nodes, &members, barrier.as_ref(), known.as_ref());
    // If nothing has changed that the candidates wait for, only new candidates count.
    let mut reasons = is_same
        .then(|| reasons(nodes, &members, barrier.as_ref(), common.as_ref(), examined.clone()))
        .filter(|reasons| reasons.iter().all(|(_, reason)| reason.is_some()));
    if reasons.is_none() {
        let is_described = known
            .zip(common.as_ref())
            .is_some_and(|(known, common)| nodes.describe_candidates(&known, common));
        let mut all = examined;
        if !is_described {
            all.extend(nodes.kept.sums.candidates.iter().cloned());
        }
        reasons = Some(self::reasons(nodes, &members, barrier.as_ref(), common.as_ref(), all));
    }
    // Without a reason that forbids every start, those behind the last start mostly share theirs.
    let common = common.or_else(|| reasons.iter().flatten().last()?.1.clone());
    let fleet = nodes.fleet;
    let cordoning = Arc::new(Reason::Upgrading(UpgradeReason::Cordoning));
    let mut has_started = false;
    let mut chosen = Vec::new();
    for ((again, name), reason) in reasons.into_iter().flatten() {
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
        node.reason = Some(reason.unwrap_or_else(|| {
            start(node.draft(fleet), again);
            Arc::clone(&cordoning)
        }));
    }
    Some(StartQueue { barrier, has_started, common })
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

/// Returns the reason for which every candidate is refused that is not examined and that the limits
/// count. `None`: it differs, or they may start. `known`: the one of the last decision; an equal one
/// stays the same value, so that it is quickly compared.
fn common_reason(
    nodes: &RunNodes<'_>,
    examined: &ThrottledFleet,
    barrier: Option<&UpgradeReason>,
    known: Option<&Arc<Reason>>,
) -> Option<Arc<Reason>> {
    let fleet = nodes.fleet;
    let is_requested = fleet
        .memory
        .patched
        .iter()
        .any(|(name, patched)| patched.starts && nodes.place(name).is_none());
    let refused = match barrier {
        _ if is_requested => None,
        // It names the limit that holds each node.
        Some(UpgradeReason::NoTime { .. }) => None,
        Some(barrier) => Some(barrier.clone()),
        None => {
            let fleets = [&nodes.kept.sums.throttled, examined];
            let mut throttle = StartThrottle::new(&fleet.settings.upgrade, fleets);
            throttle.refusal_of_all().map(UpgradeReason::Refused)
        }
    };
    let reason = Reason::Upgrading(refused?);
    let known = known.filter(|known| ***known == reason);
    Some(known.map_or_else(|| Arc::new(reason), Arc::clone))
}

/// Returns the candidates in their order, each with the reason for which it is not started; `None`:
/// it is started. `common`: the reason of most of them.
fn reasons(
    nodes: &RunNodes<'_>,
    examined: &ThrottledFleet,
    barrier: Option<&UpgradeReason>,
    common: Option<&Arc<Reason>>,
    candidates: BTreeSet<Candidate>,
) -> Vec<(Candidate, Option<Arc<Reason>>)> {
    let fleet = nodes.fleet;
    let fleets = [&nodes.kept.sums.throttled, examined];
    let mut throttle = StartThrottle::new(&fleet.settings.upgrade, fleets);
    let mut last: Option<Arc<Reason>> = None;
    let reason = |candidate: Candidate| {
        let name = &candidate.1;
        let reason = match nodes.throttled(name) {
            // The limits do not count it: it has no driver pod that could be replaced.
            None => Reason::DriverPodMissing,
            Some(member) => match refused(fleet, name, member, barrier, &mut throttle) {
                Some(refused) => Reason::Upgrading(refused),
                None => return (candidate, None),
            },
        };
        // Most of them are refused for the same reason.
        let mut equal = common.into_iter().chain(&last).filter(|other| ***other == reason);
        let reason = equal.next().map_or_else(|| Arc::new(reason), Arc::clone);
        last = Some(Arc::clone(&reason));
        (candidate, Some(reason))
    };
    candidates.into_iter().map(reason).collect()
}

/// Returns what forbids the node's start: a condition for all nodes, or a limit. If a node's start
/// was requested, the node has its slot already: it must not wait for itself if the server did not
/// accept the patch. A start whose answer is overdue is repeated only if no condition forbids it.
fn refused<'m>(
    fleet: &FleetInputs<'_>,
    name: &Arc<str>,
    member: &'m ThrottledNode,
    barrier: Option<&UpgradeReason>,
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
    throttle.start(name, member).err().map(UpgradeReason::Refused)
}

/// Returns what forbids every start. `ends`: whether a node ends in this decision.
fn barrier(nodes: &mut RunNodes<'_>, ends: bool) -> Option<UpgradeReason> {
    let fleet = nodes.fleet;
    let (settings, memory) = (fleet.settings, fleet.memory);
    let upgrades = || nodes.listed.iter().map(|node| (node.name, &node.assessment.upgrade));
    let sums = &nodes.kept.sums;
    let counted = upgrades().filter(|(_, upgrade)| upgrade.throttled.is_some()).count();
    let budget = settings.upgrade.failure_budget.resolve(sums.throttled.len() + counted);
    let given_up = upgrades().filter(|(_, upgrade)| upgrade.given_up).map(|(name, _)| name);
    let mut failed: Vec<&Arc<str>> = sums.given_up.iter().chain(given_up).collect();
    if failed.len() > budget {
        failed.sort_unstable();
        let failed: Vec<String> = failed.into_iter().map(ToString::to_string).collect();
        return Some(UpgradeReason::FailureBudget { failed: failed.into(), budget });
    }
    let per_node = settings.per_node_seconds;
    if after(fleet.now, per_node) > memory.deadline {
        return Some(UpgradeReason::NoTime { deadline: memory.deadline, per_node, held: None });
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
