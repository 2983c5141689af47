//! The nodes that are not started any more in a run: because the rollout has halted, or because its
//! failure budget is exceeded. The run does not wait for them.

use std::sync::Arc;

use crate::drive_upgrade::state::UpgradeState;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use observed::ObservedNode;

use crate::decide::assess::UpgradeTurn;
use crate::decide::emit::outcome::outcome_at_once;
use crate::decide::inputs::FleetInputs;
use crate::decide::modes::drive::{DrivenNode, not_retried};
use crate::decide::run_nodes::RunNodes;

use super::proof::ProofGate;

/// In a rollout that has halted, ends the waits of nodes that have not started, and that may not be
/// started now, such as paused ones. `gate`: says whether it has halted.
pub(super) fn end_waits(nodes: &mut RunNodes<'_>, gate: &ProofGate) {
    let halt = if let ProofGate::Closed(reason @ UpgradeReason::Halted { .. }) = gate {
        Some(Reason::Upgrading(reason.clone()))
    } else {
        None
    };
    let is_same = nodes.kept.halt.as_deref() == halt.as_ref();
    if !is_same {
        // The results of the other nodes were determined before the halt, or during another one.
        nodes.kept.halt = halt.map(Arc::new);
        let names: Vec<Arc<str>> = nodes.kept.sums.unstarted.iter().map(Arc::clone).collect();
        nodes.examine(names.iter().map(|name| &**name));
    }
    let halt = nodes.kept.halt.clone();
    if is_same && halt.is_none() {
        return;
    }
    let fleet = nodes.fleet;
    for node in nodes.listed.iter_mut().filter(|node| node.assessment.upgrade.is_unstarted) {
        let reason = match &node.assessment.upgrade.turn {
            UpgradeTurn::Waits(reason) => Some(Arc::clone(reason)),
            UpgradeTurn::Left => node.reason.clone(),
            UpgradeTurn::Over | UpgradeTurn::Candidate(_) | UpgradeTurn::UnderWay(_) => None,
        };
        let Some(reason) = reason else { continue };
        node.reason = Some(match halt.as_ref().filter(|_| is_ended(&reason)) {
            Some(halt) => reason_of(fleet, node.node, halt),
            None => reason,
        });
    }
}

/// Returns whether a halt ends the wait of a node that has not started. Some waits end soon, or
/// with an outcome of their own.
fn is_ended(reason: &Reason) -> bool {
    let ends_itself = matches!(
        reason,
        Reason::WriteRetried { .. }
            | Reason::UpgradeFailed { .. }
            | Reason::Upgrading(UpgradeReason::Cordoning | UpgradeReason::Releasing)
    );
    !ends_itself && outcome_at_once(reason).is_none()
}

/// Returns whether a candidate that is refused for this reason is not started any more in this run.
pub(super) fn is_final(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Upgrading(UpgradeReason::Halted { .. } | UpgradeReason::FailureBudget { .. })
    )
}

/// Returns the reason of a node that is not started any more. `common`: why no node is. A node that
/// failed before, and that keeps the hook's cordon or an unproven driver, has failed.
pub(super) fn reason_of(
    fleet: &FleetInputs<'_>,
    node: &ObservedNode,
    common: &Arc<Reason>,
) -> Arc<Reason> {
    let driven = DrivenNode::of(fleet, node);
    let record = driven
        .as_ref()
        .and_then(DrivenNode::record)
        .filter(|record| record.state == UpgradeState::UpgradeFailed);
    let failed = record.and_then(|record| Some((record, record.failure.as_ref()?)));
    let Some((record, failure)) = failed else { return Arc::clone(common) };
    let cordoned = record.cordoned && node.unschedulable;
    if !(cordoned || record.has_changed_driver()) {
        return Arc::clone(common);
    }
    let attempts = record.attempts(failure.cause, &record.digest);
    Arc::new(not_retried(failure.cause, failure.message.clone(), attempts, cordoned))
}
