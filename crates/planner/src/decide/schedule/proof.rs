//! Proof before scale: canaries first, then shares of the fleet, with a soak after each step, and a
//! halt if proof fails. The steps are part of the run record, so that they survive the process.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::memory::RunMemory;
use crate::reason::upgrade::UpgradeReason;
use crate::spec::driver_identity;
use crate::time::after;
use contract::policy::UpgradeSettings;
use contract::proof::{Canary, Halt, RampShare};
use contract::record::proof::{DriverProof, HaltCause, Halted};

use crate::decide::assess::{UpgradeStanding, UpgradeTurn};
use crate::decide::run_nodes::RunNodes;

use canaries::choose;

mod canaries;
mod failures;

/// Which candidates may be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::decide) enum ProofGate {
    /// All.
    Open,
    /// None, for this reason.
    Closed(UpgradeReason),
    /// The canaries, or the nodes of the step that are retried; the others wait for this reason.
    Only(BTreeSet<Arc<str>>, UpgradeReason),
    /// This many; the others wait for this reason.
    Share(usize, UpgradeReason),
}

impl ProofGate {
    /// Returns whether the node is one of those that come first.
    pub(super) fn comes_first(&self, name: &str) -> bool {
        matches!(self, Self::Only(names, _) if names.contains(name))
    }

    /// Returns the reason for which the nodes that do not come first wait, if this many have been
    /// started in this decision. `None`: one of them may be started.
    pub(super) fn reason_of_others(&self, started: usize) -> Option<&UpgradeReason> {
        match self {
            Self::Open => None,
            Self::Closed(reason) | Self::Only(_, reason) => Some(reason),
            Self::Share(left, reason) => (started >= *left).then_some(reason),
        }
    }
}

/// A step of the proof.
enum ProofStep<'s> {
    Canaries(&'s Canary),
    Share(RampShare),
}

impl<'s> ProofStep<'s> {
    /// Returns the step after a number of steps. `None`: all have ended.
    fn after(ended: usize, upgrade: &'s UpgradeSettings) -> Option<Self> {
        let canaries = upgrade.canary.iter().map(ProofStep::Canaries);
        canaries.chain(upgrade.ramp.iter().copied().map(ProofStep::Share)).nth(ended)
    }

    /// Describes the step for people: what may be started.
    fn describe(&self, total: usize) -> String {
        match self {
            Self::Canaries(_) => "the canaries".to_owned(),
            Self::Share(share) => format!("{share} = {} of {total} nodes", share.resolve(total)),
        }
    }
}

/// The numbers of nodes that a step depends on.
#[derive(Clone, Copy)]
struct FleetCounts {
    /// The nodes that limits count.
    total: usize,
    /// Nodes with the driver that they had, whose upgrade has not started.
    old: usize,
    in_progress: usize,
}

impl FleetCounts {
    fn of(nodes: &RunNodes<'_>) -> Self {
        let sums = &nodes.kept.sums;
        let upgrades = || nodes.listed.iter().map(|node| &node.assessment.upgrade);
        let counted =
            |counts: fn(&UpgradeStanding) -> bool| upgrades().filter(|one| counts(one)).count();
        Self {
            total: sums.throttled.len() + counted(|one| one.throttled.is_some()),
            old: sums.old + counted(|one| one.is_old),
            in_progress: sums.throttled.in_progress()
                + counted(|one| one.throttled.as_ref().is_some_and(|node| node.in_progress)),
        }
    }

    /// Returns how many nodes have the new driver, or are getting it.
    fn reached(self) -> usize {
        self.total.saturating_sub(self.old)
    }
}

/// Advances the proof as far as possible now. Returns which candidates may be started.
pub(super) fn advance(nodes: &mut RunNodes<'_>, memory: &mut RunMemory) -> ProofGate {
    let fleet = nodes.fleet;
    // What is left of another driver, or of a fleet that needs no proof, is forgotten.
    let known = memory.proof.take();
    let Some(halt) = fleet.settings.upgrade.halts() else { return ProofGate::Open };
    let counts = FleetCounts::of(nodes);
    if counts.old == 0 && counts.in_progress == 0 {
        return ProofGate::Open;
    }
    let driver = driver_identity(fleet.observed, fleet.settings.driver);
    if memory.proven_driver.as_ref() == Some(&driver) {
        // The fleet goes back to it.
        return ProofGate::Open;
    }
    let known = known.filter(|proof| proof.driver == driver);
    let mut proof = known.map_or_else(|| DriverProof::new(driver), Arc::unwrap_or_clone);
    failures::note(nodes, &mut proof);
    if proof.halt.is_none() {
        proof.halt = halted(nodes, &proof, halt);
    }
    let gate = match &proof.halt {
        Some(halt) => ProofGate::Closed(halt.into()),
        None => step(nodes, &mut proof, counts),
    };
    memory.proof = Some(Arc::new(proof));
    gate
}

/// Returns the halt, if failed nodes have reached a limit.
fn halted(nodes: &RunNodes<'_>, proof: &DriverProof, limits: Halt) -> Option<Halted> {
    let listed = || nodes.listed.iter().map(|node| (node.name, &node.assessment.upgrade));
    let is_counted = |name: &&str| proof.accepted.iter().all(|known| known != *name);
    let named = |kept: &BTreeSet<Arc<str>>, fails: fn(&UpgradeStanding) -> bool| -> Vec<String> {
        let examined = listed().filter(|(_, upgrade)| fails(upgrade)).map(|(name, _)| name);
        let names = kept.iter().chain(examined).map(|name| &**name);
        let names = names.chain(failures::departed(nodes, proof)).filter(is_counted);
        let names: BTreeSet<&str> = names.collect();
        names.into_iter().map(str::to_owned).collect()
    };
    let sums = &nodes.kept.sums;
    let proofs = named(&sums.failed_proofs, |upgrade| upgrade.has_failed_proof);
    let failed = named(&sums.given_up, |upgrade| upgrade.given_up);
    let reaches =
        |nodes: &[String], limit: u32| nodes.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let halts = |cause, named: Vec<String>| {
        let labels = canaries::label_values(nodes.fleet, &named);
        Some(Halted { at: nodes.fleet.now, cause, nodes: named, labels })
    };
    if reaches(&proofs, limits.failed_proofs) {
        return halts(HaltCause::FailedProofs, proofs);
    }
    let is_over = limits.failed_nodes.is_some_and(|limit| reaches(&failed, limit));
    if is_over { halts(HaltCause::FailedNodes, failed) } else { None }
}

/// Advances through the steps that have ended. Returns which candidates the current step starts.
fn step(nodes: &mut RunNodes<'_>, proof: &mut DriverProof, counts: FleetCounts) -> ProofGate {
    let (fleet, total) = (nodes.fleet, counts.total);
    let upgrade = &fleet.settings.upgrade;
    let soak = upgrade.canary.as_ref().map_or(0, |canary| canary.soak_seconds);
    loop {
        let Some(step) = ProofStep::after(proof.steps_ended, upgrade) else {
            return ProofGate::Open;
        };
        if proof.proven_at.is_none() {
            let gate = match step {
                ProofStep::Canaries(canary) => canary_gate(nodes, proof, canary),
                ProofStep::Share(share) => share_gate(share, counts, retried(nodes)),
            };
            if let Some(gate) = gate {
                return gate;
            }
        }
        let proven_at = *proof.proven_at.get_or_insert(fleet.now);
        if !nodes.alarm.passed(proven_at, soak) {
            let next = ProofStep::after(proof.steps_ended + 1, upgrade);
            return ProofGate::Closed(UpgradeReason::StepSoak {
                step: step.describe(total),
                until: after(proven_at, soak),
                next: next.map_or_else(|| "all nodes".to_owned(), |next| next.describe(total)),
            });
        }
        proof.steps_ended += 1;
        proof.proven_at = None;
    }
}

/// Returns which canaries may be started; `None` if all of them are proven.
fn canary_gate(
    nodes: &mut RunNodes<'_>,
    proof: &mut DriverProof,
    canary: &Canary,
) -> Option<ProofGate> {
    let is_chosen = choose(nodes, proof, canary);
    let proven = proof.canaries.iter().filter(|name| is_proven(nodes, name)).count();
    if is_chosen && proven == proof.canaries.len() {
        return None;
    }
    let names: BTreeSet<Arc<str>> =
        proof.canaries.iter().map(|name| Arc::from(name.as_str())).collect();
    let canaries: Arc<[String]> = proof.canaries.as_slice().into();
    Some(ProofGate::Only(names, UpgradeReason::CanariesFirst { canaries, proven }))
}

/// Returns how many nodes may be started for a share of the fleet; `None` if it is proven. A node
/// that is retried has not failed yet, and is not proven either.
fn share_gate(
    share: RampShare,
    counts: FleetCounts,
    retried: BTreeSet<Arc<str>>,
) -> Option<ProofGate> {
    let (limit, reached) = (share.resolve(counts.total), counts.reached());
    if reached >= limit && counts.in_progress == 0 && retried.is_empty() {
        return None;
    }
    let reason = UpgradeReason::RampStep { share, limit, total: counts.total };
    if reached >= limit && !retried.is_empty() {
        return Some(ProofGate::Only(retried, reason));
    }
    Some(ProofGate::Share(limit.saturating_sub(reached), reason))
}

/// Returns the nodes that failed with their new driver, and are retried.
fn retried(nodes: &RunNodes<'_>) -> BTreeSet<Arc<str>> {
    let examined = nodes.listed.iter().filter(|node| node.assessment.upgrade.is_retried);
    let kept = nodes.kept.sums.retried.iter().map(Arc::clone);
    kept.chain(examined.map(|node| Arc::clone(node.name))).collect()
}

/// Returns whether the node's driver is current and its checks have succeeded, apart from an
/// operand that is excused.
fn is_proven(nodes: &RunNodes<'_>, name: &str) -> bool {
    standing(nodes, name).is_some_and(|upgrade| match upgrade.turn {
        UpgradeTurn::Over => true,
        UpgradeTurn::Left => waits_for_excused_operand(nodes, name),
        UpgradeTurn::Waits(_) | UpgradeTurn::Candidate(_) | UpgradeTurn::UnderWay(_) => false,
    })
}

/// Returns whether the node waits only for an operand that was failing before the run, or that a
/// user has overruled. Its driver is then current: that comes first.
fn waits_for_excused_operand(nodes: &RunNodes<'_>, name: &str) -> bool {
    let left = match nodes.place(name) {
        Some(place) => nodes.listed[place].reason.as_ref(),
        None => nodes.kept.known.get(name).and_then(|known| known.left.as_ref()),
    };
    let (observed, memory) = (nodes.fleet.observed, nodes.fleet.memory);
    let node = observed.nodes.get(name);
    let entry = node.and_then(|node| memory.baseline.as_ref()?.get(&node.uid));
    let operand = left.and_then(|left| left.operand());
    operand.zip(entry).is_some_and(|(operand, entry)| entry.failing.contains(&operand.daemon_set))
}

/// Returns the assessment of a node's upgrade.
fn standing<'n>(nodes: &'n RunNodes<'_>, name: &str) -> Option<&'n UpgradeStanding> {
    match nodes.place(name) {
        Some(place) => Some(&nodes.listed[place].assessment.upgrade),
        None => Some(&nodes.kept.known.get(name)?.found.as_ref()?.0.upgrade),
    }
}
