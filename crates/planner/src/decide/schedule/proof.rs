//! Proof before scale: canaries first, then shares of the fleet, with a soak after each step, and a
//! halt if proof fails. The steps are part of the run record, so that they survive the process.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::memory::RunMemory;
use crate::reason::upgrade::UpgradeReason;
use crate::spec::driver_identity;
use crate::time::after;
use contract::acceptance::AcceptanceTime;
use contract::policy::UpgradeSettings;
use contract::proof::{Canary, Halt, RampShare};
use contract::record::acceptance::AcceptanceVerdict;
use contract::record::proof::{DriverProof, HaltCause, Halted, is_part_of};

use crate::decide::assess::UpgradeStanding;
use crate::decide::run_nodes::RunNodes;

use canaries::{CanaryChoice, choose};
use evidence::is_proven;

mod canaries;
mod evidence;
mod failures;

/// After how many nodes that failed acceptance tests with their old driver the rollout halts, if no
/// node has passed one of these tests: probably the test is bad, and would disturb every node in
/// vain.
const FAILED_TESTS: u32 = 2;

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
    /// Returns whether some nodes come first.
    pub(super) fn has_first(&self) -> bool {
        matches!(self, Self::Only(..))
    }

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

    /// Returns what distinguishes the step from others, for the run record.
    fn key(&self) -> String {
        match self {
            Self::Canaries(Canary { nodes, per, .. }) => {
                let per =
                    if per.is_empty() { String::new() } else { format!(" per {}", per.join(", ")) };
                format!("{nodes} canaries{per}")
            }
            Self::Share(share) => share.to_string(),
        }
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
    /// The nodes of the run that limits count, without those that have no driver pod, such as nodes
    /// with a driver of their own.
    total: usize,
    /// Those of them that have the new driver, or are getting it.
    reached: usize,
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
            total: sums.proving + counted(|one| one.proves),
            reached: sums.reached + counted(UpgradeStanding::has_reached),
            old: sums.old + counted(|one| one.is_old),
            in_progress: sums.throttled.in_progress()
                + counted(|one| one.throttled.as_ref().is_some_and(|node| node.in_progress)),
        }
    }
}

/// Advances the proof as far as possible now. Returns which candidates may be started.
pub(super) fn advance(nodes: &mut RunNodes<'_>, memory: &mut RunMemory) -> ProofGate {
    let fleet = nodes.fleet;
    // What is left of another driver, or of a fleet that needs no proof, is forgotten.
    let known = memory.proof.take();
    let Some(halt) = fleet.settings.upgrade.halts() else { return ProofGate::Open };
    let counts = FleetCounts::of(nodes);
    if counts.old == 0 && counts.in_progress == 0 && retried(nodes).is_empty() {
        return ProofGate::Open;
    }
    let driver = driver_identity(fleet.observed, fleet.settings.driver);
    if memory.proven_driver.as_ref().is_some_and(|proven| is_part_of(&driver, proven)) {
        // The fleet goes back to it.
        return ProofGate::Open;
    }
    let known = known.filter(|proof| proof.is_about(&driver));
    let mut proof = known.map_or_else(|| DriverProof::new(driver), Arc::unwrap_or_clone);
    failures::note(nodes, &mut proof);
    // A node that a user retries must prove the driver like any other.
    proof.accepted.retain(|name| !is_in_progress(nodes, name));
    repeat_changed_steps(&mut proof, &fleet.settings.upgrade);
    proof.halt = match proof.halt.take() {
        Some(known) => Some(with_later_failures(nodes, &proof, known)),
        None => halted(nodes, &proof, halt, counts),
    };
    let gate = match &proof.halt {
        Some(halt) => ProofGate::Closed(halt.into()),
        None => step(nodes, &mut proof, counts),
    };
    memory.proof = Some(Arc::new(proof));
    gate
}

/// Returns the halt, if failed nodes have reached a limit.
fn halted(
    nodes: &RunNodes<'_>,
    proof: &DriverProof,
    limits: Halt,
    counts: FleetCounts,
) -> Option<Halted> {
    let reaches = |cause, limit: u32| {
        let failed = failed(nodes, proof, cause);
        let is_over = failed.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
        is_over.then(|| {
            let labels = canaries::label_values(nodes.fleet, proof, &failed);
            Halted { at: nodes.fleet.now, cause, nodes: failed, labels }
        })
    };
    let failed_tests = || {
        let halt = reaches(HaltCause::FailedTests, FAILED_TESTS)?;
        // Nodes in progress may pass it, and nodes with the new driver have passed it.
        let is_bad = halt.nodes.len() > counts.in_progress
            && counts.reached <= counts.in_progress
            && is_test_never_passed(nodes);
        is_bad.then_some(halt)
    };
    let failed_proofs = reaches(HaltCause::FailedProofs, limits.failed_proofs);
    failed_proofs
        .or_else(|| reaches(HaltCause::FailedNodes, limits.failed_nodes?))
        .or_else(failed_tests)
}

/// Returns whether a test with the old driver has failed in this run, and no node has passed it.
fn is_test_never_passed(nodes: &RunNodes<'_>) -> bool {
    let results = || {
        let all = nodes.fleet.memory.nodes.values().flat_map(|node| &node.acceptance);
        all.filter(|result| result.time == AcceptanceTime::Before)
    };
    let is_passed = |test: &str| {
        results().any(|one| one.test == test && one.verdict == AcceptanceVerdict::Passed)
    };
    results().any(|result| !result.verdict.accepts() && !is_passed(&result.test))
}

/// Adds the nodes that were in progress at a halt and have failed since then: a user who ends the
/// halt knows them, and they do not halt the rollout again.
fn with_later_failures(nodes: &RunNodes<'_>, proof: &DriverProof, halt: Halted) -> Halted {
    let mut all: BTreeSet<String> = failed(nodes, proof, halt.cause).into_iter().collect();
    if all.iter().all(|name| halt.nodes.contains(name)) {
        return halt;
    }
    all.extend(halt.nodes);
    let failed: Vec<String> = all.into_iter().collect();
    let mut labels = canaries::label_values(nodes.fleet, proof, &failed);
    // Nodes that have left have no labels any more.
    labels.extend(halt.labels);
    labels.sort_unstable();
    labels.dedup();
    Halted { nodes: failed, labels, ..halt }
}

/// Returns the failed nodes that count for a cause of halts.
fn failed(nodes: &RunNodes<'_>, proof: &DriverProof, cause: HaltCause) -> Vec<String> {
    let sums = &nodes.kept.sums;
    let (kept, fails): (_, fn(&UpgradeStanding) -> bool) = match cause {
        HaltCause::FailedProofs => (&sums.failed_proofs, |upgrade| upgrade.has_failed_proof),
        HaltCause::FailedNodes => (&sums.given_up, |upgrade| upgrade.given_up),
        HaltCause::FailedTests => (&sums.failed_tests, |upgrade| upgrade.has_failed_test),
    };
    let examined = nodes.listed.iter().filter(|node| fails(&node.assessment.upgrade));
    let names = kept.iter().chain(examined.map(|node| node.name)).map(|name| &**name);
    let departed = failures::departed(nodes, proof).filter(|_| cause != HaltCause::FailedTests);
    let names = names.chain(departed);
    let names: BTreeSet<&str> = names.filter(|name| !proof.has_accepted(name)).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Forgets the steps that have ended from the first one on that is another one in this policy.
fn repeat_changed_steps(proof: &mut DriverProof, upgrade: &UpgradeSettings) {
    let is_same = |(place, known): &(usize, &String)| {
        ProofStep::after(*place, upgrade).is_some_and(|step| step.key() == **known)
    };
    let same = proof.ended_steps.iter().enumerate().take_while(is_same).count();
    if same < proof.ended_steps.len() {
        proof.ended_steps.truncate(same);
        proof.proven_at = None;
    }
}

/// Returns whether every step has ended: the driver is proven, whatever nodes are left.
pub fn is_complete(proof: &DriverProof, upgrade: &UpgradeSettings) -> bool {
    ProofStep::after(proof.ended_steps.len(), upgrade).is_none()
}

/// Advances through the steps that have ended. Returns which candidates the current step starts.
fn step(nodes: &mut RunNodes<'_>, proof: &mut DriverProof, counts: FleetCounts) -> ProofGate {
    let (fleet, total) = (nodes.fleet, counts.total);
    let upgrade = &fleet.settings.upgrade;
    let soak = upgrade.canary.as_ref().map_or(0, |canary| canary.soak_seconds);
    loop {
        let Some(step) = ProofStep::after(proof.ended_steps.len(), upgrade) else {
            return ProofGate::Open;
        };
        let is_canary_step = matches!(step, ProofStep::Canaries(_));
        if is_canary_step && evidence::has_unproven(nodes, proof) {
            // A canary has stopped working during its soak: it begins again.
            proof.proven_at = None;
        }
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
            let next = ProofStep::after(proof.ended_steps.len() + 1, upgrade);
            return ProofGate::Closed(UpgradeReason::StepSoak {
                step: step.describe(total),
                until: after(proven_at, soak),
                next: next.map_or_else(|| "all nodes".to_owned(), |next| next.describe(total)),
            });
        }
        proof.ended_steps.push(step.key());
        proof.proven_at = None;
    }
}

/// Returns which canaries may be started; `None` if all of them are proven.
fn canary_gate(
    nodes: &mut RunNodes<'_>,
    proof: &mut DriverProof,
    canary: &Canary,
) -> Option<ProofGate> {
    let choice = choose(nodes, proof, canary);
    let proven = proof.canaries.iter().filter(|name| is_proven(nodes, proof, name)).count();
    if choice == CanaryChoice::Complete && proven == proof.canaries.len() {
        return None;
    }
    let names: BTreeSet<Arc<str>> =
        proof.canaries.iter().map(|name| Arc::from(name.as_str())).collect();
    let canaries: Arc<[String]> = proof.canaries.as_slice().into();
    let awaited: Arc<[String]> = choice.awaited().into();
    Some(ProofGate::Only(names, UpgradeReason::CanariesFirst { canaries, proven, awaited }))
}

/// Returns how many nodes may be started for a share of the fleet; `None` if it is proven. A node
/// that is retried has not failed yet, and is not proven either.
fn share_gate(
    share: RampShare,
    counts: FleetCounts,
    retried: BTreeSet<Arc<str>>,
) -> Option<ProofGate> {
    let (limit, reached) = (share.resolve(counts.total), counts.reached);
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

/// Returns whether the hook upgrades the node now.
fn is_in_progress(nodes: &RunNodes<'_>, name: &str) -> bool {
    let record = standing(nodes, name).and_then(|upgrade| upgrade.turn.record());
    record.is_some_and(|record| record.state.is_in_progress())
}

/// Returns the assessment of a node's upgrade.
fn standing<'n>(nodes: &'n RunNodes<'_>, name: &str) -> Option<&'n UpgradeStanding> {
    match nodes.place(name) {
        Some(place) => Some(&nodes.listed[place].assessment.upgrade),
        None => Some(&nodes.kept.known.get(name)?.found.as_ref()?.0.upgrade),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that was added before the others, or changed, has not ended.
    #[test]
    fn changed_step_is_repeated() {
        let share = |text: &str| text.parse::<RampShare>().expect("a share");
        let settings = |canary: Option<u32>, ramp: &[&str]| UpgradeSettings {
            canary: canary.map(|nodes| Canary { nodes, ..Canary::default() }),
            ramp: ramp.iter().map(|text| share(text)).collect(),
            ..UpgradeSettings::default()
        };
        let both = ["1 canaries", "10%"].map(str::to_owned).to_vec();
        for (policy, ended, is_complete_now) in [
            (settings(Some(1), &["10%"]), 2, true),
            (settings(Some(1), &["10%", "50%"]), 2, false),
            (settings(Some(1), &["20%"]), 1, false),
            (settings(Some(2), &["10%"]), 0, false),
            (settings(None, &["10%"]), 0, false),
            (settings(Some(1), &[]), 1, true),
        ] {
            let mut proof = DriverProof {
                ended_steps: both.clone(),
                proven_at: Some(jiff::Timestamp::UNIX_EPOCH),
                ..DriverProof::default()
            };
            repeat_changed_steps(&mut proof, &policy);
            assert_eq!(proof.ended_steps.len(), ended, "{policy:?}");
            assert_eq!(proof.proven_at.is_some(), ended == 2, "{policy:?}");
            assert_eq!(is_complete(&proof, &policy), is_complete_now, "{policy:?}");
        }
    }
}
