//! The nodes that are started: conditions that forbid every start, and limits.

use std::sync::Arc;

use crate::drive_upgrade::start_limits::{StartThrottle, ThrottledNode};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::record::{NodeOutcome, NodeRecord};

use crate::decide::alarm::Alarm;
use crate::decide::assess::{NodeAssessment, UpgradeTurn};
use crate::decide::inputs::FleetInputs;
use crate::decide::node_draft::NodeDraft;
use crate::decide::run_nodes::{RunNode, RunNodes};
use crate::time::after;

/// Starts as many candidates as the limits allow, and sets the reasons of the others. `ends`:
/// whether a node ends in this decision; `start`: starts a node with its number of earlier
/// attempts.
pub(super) fn start<'a>(
    nodes: &mut RunNodes<'a>,
    ends: bool,
    start: impl Fn(&mut NodeDraft<'a>, u32),
) {
    let candidate = |(place, node): (usize, &RunNode<'_>)| {
        if let UpgradeTurn::Candidate(again) = node.assessment.upgrade.turn {
            Some((again, place))
        } else {
            None
        }
    };
    // Nodes with earlier attempts come last: they must not delay the others.
    let mut candidates: Vec<(u32, usize)> =
        nodes.listed.iter().enumerate().filter_map(candidate).collect();
    if candidates.is_empty() {
        return;
    }
    candidates.sort_unstable();
    let fleet = nodes.fleet;
    let standings: Vec<(&'a str, Arc<NodeAssessment>)> =
        nodes.listed.iter().map(|node| (&**node.name, Arc::clone(&node.assessment))).collect();
    let upgrades = || standings.iter().map(|(name, assessment)| (*name, &assessment.upgrade));
    let members: Vec<(&str, &ThrottledNode)> = upgrades()
        .filter_map(|(name, upgrade)| Some((name, upgrade.throttled.as_ref()?)))
        .collect();
    let failed: Vec<String> = upgrades()
        .filter(|(_, upgrade)| upgrade.given_up)
        .map(|(name, _)| name.to_owned())
        .collect();
    let mut throttle = StartThrottle::new(&fleet.settings.upgrade, &members);
    let barrier = barrier(fleet, &mut nodes.alarm, failed, members.len(), ends);
    let mut last: Option<Arc<Reason>> = None;
    for (again, place) in candidates {
        let (name, assessment) = &standings[place];
        let node = &mut nodes.listed[place];
        let reason = match &assessment.upgrade.throttled {
            // The limits do not count it: it has no driver pod that could be replaced.
            None => Reason::DriverPodMissing,
            Some(member) => {
                let refused = refused(fleet, name, member, barrier.as_ref(), &mut throttle);
                Reason::Upgrading(refused.unwrap_or_else(|| {
                    start(node.draft(fleet), again);
                    UpgradeReason::Cordoning
                }))
            }
        };
        // Most of them are refused for the same reason.
        let reason =
            last.take().filter(|last| **last == reason).unwrap_or_else(|| Arc::new(reason));
        node.reason = Some(Arc::clone(&reason));
        last = Some(reason);
    }
}

/// Returns what forbids the node's start: a condition for all nodes, or a limit. A node whose start
/// was requested already has its slot: it must not wait for itself if the server did not accept the
/// patch.
fn refused<'m>(
    fleet: &FleetInputs<'_>,
    name: &'m str,
    member: &'m ThrottledNode,
    barrier: Option<&UpgradeReason>,
    throttle: &mut StartThrottle<'m>,
) -> Option<UpgradeReason> {
    if !fleet.is_over() && fleet.memory.patched.get(name).is_some_and(|patched| patched.starts) {
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
    throttle.start(name, member).err().map(UpgradeReason::Refused)
}

/// Returns what forbids every start. `failed`: the failed nodes, of a number of nodes.
fn barrier(
    fleet: &FleetInputs<'_>,
    alarm: &mut Alarm,
    failed: Vec<String>,
    of: usize,
    ends: bool,
) -> Option<UpgradeReason> {
    let (settings, memory) = (fleet.settings, fleet.memory);
    let budget = settings.upgrade.failure_budget.resolve(of);
    if failed.len() > budget {
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
    let upgraded = |record: &&NodeRecord| {
        matches!(record.outcome, Some(NodeOutcome::Done | NodeOutcome::Failed))
    };
    let ended = memory.nodes.values().filter(upgraded).filter_map(|record| record.since);
    let last =
        ended.filter(|since| *since >= memory.started_at).chain(ends.then_some(fleet.now)).max()?;
    (!alarm.passed(last, soak)).then_some(UpgradeReason::Soak { until: after(last, soak) })
}
