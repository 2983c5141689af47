//! Whether a node still waits, or has an outcome.

use std::sync::Arc;

use jiff::Timestamp;

use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::exit::ExitCode;
use contract::record::{NodeOutcome, RecordedReason};
use contract::task::Task;

use crate::decide::inputs::FleetInputs;
use crate::decide::node_draft::NodeDraft;
use crate::decide::operands;
use crate::decide::run_nodes::{RunNode, RunNodes};

/// The outcome of a node, with its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::decide) struct NodeEnding {
    /// The outcome. `None`: it has not ended, or does not belong to the run.
    pub(in crate::decide) outcome: Option<NodeOutcome>,
    /// The reason for which it waits, or for its outcome.
    pub(in crate::decide) reason: Option<Arc<Reason>>,
    /// Since when the reason has been of this kind.
    pub(in crate::decide) since: Option<Timestamp>,
}

impl NodeEnding {
    /// Returns whether the node has the same outcome with this reason.
    fn holds_for(&self, reason: Option<&Arc<Reason>>, fleet: &FleetInputs<'_>) -> bool {
        match (reason, &self.reason) {
            (Some(reason), Some(known)) => {
                let is_only_described = self.outcome.is_none() && fleet.is_only_described(reason);
                reason == known || is_only_described && reason.name() == known.name()
            }
            (reason, known) => reason.is_none() && known.is_none(),
        }
    }
}

/// Determines the outcome of every node.
pub(in crate::decide) fn end_all(nodes: &mut RunNodes<'_>) {
    let fleet = nodes.fleet;
    let members = nodes.kept.sums.members
        + nodes.listed.iter().filter(|node| node.assessment.is_member).count();
    let tolerated =
        fleet.settings.tolerate_not_ready.resolve(members).min(members.saturating_sub(1));
    let mut not_ready = NotReadyNodes { found: 0, tolerated };
    for node in &mut nodes.listed {
        let known = node.known.as_ref().and_then(|known| known.found.as_ref());
        let known = known.map(|(_, ending)| ending);
        node.ending = match known.filter(|_| node.draft.is_none()) {
            Some(known) if known.holds_for(node.reason.as_ref(), fleet) => {
                NodeEnding { reason: node.reason.clone(), ..known.clone() }
            }
            Some(_) | None => end(node, fleet, &mut not_ready),
        };
    }
}

/// Nodes that have been NotReady for so long that they count.
struct NotReadyNodes {
    found: usize,
    /// Number of tolerated nodes.
    tolerated: usize,
}

fn end<'a>(
    node: &mut RunNode<'a>,
    fleet: &'a FleetInputs<'a>,
    not_ready: &mut NotReadyNodes,
) -> NodeEnding {
    let (is_member, reason) = (node.assessment.is_member, node.reason.clone());
    let draft = node.draft(fleet);
    if !(is_member || draft.is_member()) {
        return NodeEnding { reason, ..NodeEnding::default() };
    }
    let Some(reason) = reason else {
        draft.memory.waiting = None;
        // A node that was never out of date gets no record.
        if draft.memory.record.is_some() {
            note(draft, Some(NodeOutcome::Done), None);
        }
        return NodeEnding { outcome: Some(NodeOutcome::Done), reason: None, since: None };
    };
    let since = draft.waits(&reason);
    let outcome = outcome(draft, &reason, since, not_ready);
    if outcome.is_some() || !fleet.has(Task::Drive) {
        let kept = outcome != Some(NodeOutcome::Done) || draft.memory.record.is_some();
        if kept {
            note(draft, outcome, Some(&reason));
        }
    } else if draft.memory.record.is_some() {
        // Its state is on the node itself; the run record contains the outcome.
        note(draft, None, None);
    }
    NodeEnding { outcome, reason: Some(reason), since: Some(since) }
}

/// Returns the outcome that a reason has after its time; `None` if the hook still waits.
fn outcome(
    draft: &mut NodeDraft<'_>,
    reason: &Reason,
    since: Timestamp,
    not_ready: &mut NotReadyNodes,
) -> Option<NodeOutcome> {
    let (fleet, settings) = (draft.fleet, draft.settings());
    let per_node = settings.per_node_seconds;
    if let Some(outcome) = outcome_at_once(reason) {
        return Some(outcome);
    }
    if let Reason::UpgradeFailed { .. } = reason {
        // The time of a healthy node is over.
        return draft.alarm.passed(since, per_node).then_some(NodeOutcome::Failed);
    }
    if let Reason::NodeNotReady { .. } = reason {
        if draft.node.annotations.contains_key(fleet.traits.own_record) {
            // Nodes that the hook's upgrade took down are not tolerated: they come back, or they
            // have failed.
            return None;
        }
        // The number of tolerated nodes depends on the others.
        draft.effects.depends_on_others = true;
        // The condition's time is from another clock: the hook's own observation counts.
        let long = draft.alarm.passed(since, per_node);
        not_ready.found += usize::from(long);
        return (long && not_ready.found <= not_ready.tolerated).then_some(NodeOutcome::Deferred);
    }
    if reason.follows_operand_rule() {
        return operands::outcome(draft, reason, since);
    }
    if reason.exit_code() == ExitCode::PluginsNotServing {
        let limit = settings.device_plugin.replacement_seconds;
        let over = !reason.resolves_itself() || draft.alarm.passed(since, limit);
        return over.then_some(NodeOutcome::Failed);
    }
    if reason.exit_code() != ExitCode::DraNotServing {
        return None;
    }
    if fleet.tolerates(reason) {
        operands::note_tolerated(draft, reason);
        return Some(NodeOutcome::Deferred);
    }
    let over =
        !reason.resolves_itself() || draft.alarm.passed(since, settings.dra.replacement_seconds);
    over.then_some(NodeOutcome::Failed)
}

/// Returns the outcome that a reason has at once.
pub(in crate::decide) fn outcome_at_once(reason: &Reason) -> Option<NodeOutcome> {
    // While this hook holds the Lease, no hook upgrades the other driver: waiting would not help.
    let left_alone = matches!(
        reason,
        Reason::Skipped { .. }
            | Reason::Upgrading(
                UpgradeReason::OtherDriver { ours: true, .. }
                    | UpgradeReason::ForeignCordon
                    | UpgradeReason::FailureBudget { .. }
                    | UpgradeReason::Halted { .. }
                    | UpgradeReason::NotAccepted { .. }
            )
    );
    let failed = matches!(
        reason,
        Reason::WriteRefused { .. }
            | Reason::Upgrading(
                UpgradeReason::Failed { .. }
                    | UpgradeReason::NewerRecord { .. }
                    | UpgradeReason::NoTime { .. }
                    | UpgradeReason::OutsideWindow { deadline: Some(_), .. }
            )
    );
    if left_alone {
        return Some(NodeOutcome::Deferred);
    }
    failed.then_some(NodeOutcome::Failed)
}

/// Records outcome and reason. The start time depends on the kind of reason, not on its numbers.
fn note(draft: &mut NodeDraft<'_>, outcome: Option<NodeOutcome>, reason: Option<&Reason>) {
    let now = draft.now();
    let reason = reason.map(|reason| RecordedReason::new(reason.name(), reason.lasting()));
    draft.change_record(|record| {
        let name =
            |reason: &Option<RecordedReason>| reason.as_ref().map(|reason| reason.name.clone());
        if record.since.is_none()
            || record.outcome != outcome
            || name(&record.reason) != name(&reason)
        {
            record.outcome = outcome;
            record.since = Some(now);
        }
        record.reason = reason;
    });
}
