//! What proves a canary: its driver is current, its checks have succeeded, and it has passed its
//! acceptance tests.

use contract::acceptance::AcceptanceTime;
use contract::record::NodeOutcome;
use contract::record::proof::DriverProof;

use crate::decide::assess::UpgradeTurn;
use crate::decide::run_nodes::RunNodes;
use crate::reason::Reason;

use super::standing;

/// Returns whether the driver is proven on a canary.
pub(super) fn is_proven(nodes: &RunNodes<'_>, proof: &DriverProof, name: &str) -> bool {
    let is_well = standing(nodes, name).is_some_and(|upgrade| match upgrade.turn {
        UpgradeTurn::Over => true,
        UpgradeTurn::Left => is_settled(nodes, name),
        UpgradeTurn::Waits(_) | UpgradeTurn::Candidate(_) | UpgradeTurn::UnderWay(_) => false,
    });
    is_well && is_tested(nodes, proof, name)
}

/// Returns whether a canary that is still in the cluster is not proven, or no longer.
pub(super) fn has_unproven(nodes: &RunNodes<'_>, proof: &DriverProof) -> bool {
    let observed = nodes.fleet.observed;
    let mut present = proof.canaries.iter().filter(|name| observed.nodes.contains_key(name));
    present.any(|name| !is_proven(nodes, proof, name))
}

/// Returns whether the canary has passed the tests that it must pass, or a user takes it as proven.
/// A node gets its driver without tests if a user aborts the rollout, or if NVIDIA's controller
/// starts it before the hook holds it.
pub(super) fn is_tested(nodes: &RunNodes<'_>, proof: &DriverProof, name: &str) -> bool {
    let mut tests = nodes.fleet.settings.upgrade.acceptance.iter();
    !tests.any(|test| test.runs(AcceptanceTime::After))
        || proof.tested.contains(name)
        || proof.has_accepted(name)
}

/// Returns whether the run no longer waits for a node whose upgrade needs no step. Its driver is
/// then current: that comes first.
fn is_settled(nodes: &RunNodes<'_>, name: &str) -> bool {
    let left = match nodes.place(name) {
        Some(place) => nodes.listed[place].reason.as_ref(),
        None => nodes.kept.known.get(name).and_then(|known| known.left.as_ref()),
    };
    let outcome = nodes.fleet.memory.nodes.get(name).and_then(|record| record.outcome);
    left.is_some_and(|left| nodes.fleet.tolerates(left) || waits_for_excused(nodes, name, left))
        || matches!(outcome, Some(NodeOutcome::Done | NodeOutcome::Deferred))
}

/// Returns whether the node waits only for an operand that was failing before the run, or that a
/// user has overruled.
fn waits_for_excused(nodes: &RunNodes<'_>, name: &str, left: &Reason) -> bool {
    let (observed, memory) = (nodes.fleet.observed, nodes.fleet.memory);
    let node = observed.nodes.get(name);
    let entry = node.and_then(|node| memory.baseline.as_ref()?.get(&node.uid));
    let operand = left.operand();
    operand.zip(entry).is_some_and(|(operand, entry)| entry.failing.contains(&operand.daemon_set))
}
