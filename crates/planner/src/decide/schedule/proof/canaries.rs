//! The choice of canaries: for each combination of label values, idle nodes first, then those with
//! the fewest pods that use the device.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::proof::Canary;
use contract::record::proof::DriverProof;
use contract::task::Task;
use observed::ObservedNode;

use crate::decide::assess::UpgradeTurn;
use crate::decide::emit::outcome::outcome_at_once;
use crate::decide::inputs::FleetInputs;
use crate::decide::run_nodes::RunNodes;
use crate::pods::FOCUS_LIMIT;
use crate::pods::device_users::{DeviceRelation, DeviceRules, DeviceUsers, consumers};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;

use super::standing;

/// Seconds after which canaries are chosen among the nodes whose pods are listed by then.
const LISTING_SECONDS: u64 = 30;

/// The values of the labels that make a combination; empty for a node without the label.
type Combination = Vec<String>;

/// Chooses the missing canaries, and forgets those that cannot be canaries any more. Returns whether
/// every combination of label values has its canaries, as far as its nodes are not left alone.
pub(super) fn choose(nodes: &mut RunNodes<'_>, proof: &mut DriverProof, canary: &Canary) -> bool {
    let accepted = &proof.accepted;
    proof.canaries.retain(|name| is_available(nodes, accepted, name));
    let observed = nodes.fleet.observed;
    let mut found: BTreeMap<Combination, usize> = BTreeMap::new();
    for node in proof.canaries.iter().filter_map(|name| observed.nodes.get(name)) {
        *found.entry(combination(node, canary)).or_default() += 1;
    }
    let candidates = candidates(nodes, canary);
    let has_nodes = |of: &Combination| candidates.contains_key(of) || found.contains_key(of);
    if held_back(nodes).iter().any(|node| !has_nodes(&combination(node, canary))) {
        return false;
    }
    let wanted = usize::try_from(canary.nodes).unwrap_or(usize::MAX);
    let known: BTreeSet<&str> = proof.canaries.iter().map(String::as_str).collect();
    let lacking = candidates.iter().filter_map(|(of, names)| {
        let missing = wanted.saturating_sub(found.get(of).copied().unwrap_or(0));
        let free: Vec<&Arc<str>> = names.iter().filter(|name| !known.contains(&***name)).collect();
        (missing > 0 && !free.is_empty()).then_some((missing, free))
    });
    let mut lacking: Vec<(usize, Vec<&Arc<str>>)> = lacking.collect();
    let each = FOCUS_LIMIT.checked_div(lacking.len()).unwrap_or(FOCUS_LIMIT).max(1);
    for (missing, free) in &mut lacking {
        free.truncate(each.max(*missing));
    }
    let nominated: Vec<&Arc<str>> = lacking.iter().flat_map(|(_, free)| free).copied().collect();
    if !are_listed(nodes, &nominated) {
        return false;
    }
    let mut chosen = Vec::new();
    for (missing, free) in lacking {
        let mut ranked: Vec<(usize, &Arc<str>)> =
            free.into_iter().map(|name| (device_users(nodes, name), name)).collect();
        ranked.sort_unstable();
        chosen.extend(ranked.into_iter().take(missing).map(|(_, name)| name.to_string()));
    }
    proof.canaries.extend(chosen);
    proof.canaries.sort_unstable();
    !proof.canaries.is_empty()
}

/// Returns the nodes with their old driver that the run waits for, and that may not be started now,
/// such as paused ones.
fn held_back<'a>(nodes: &RunNodes<'a>) -> Vec<&'a ObservedNode> {
    let (observed, memory) = (nodes.fleet.observed, nodes.fleet.memory);
    let is_left_alone = |name: &str, reason: &Reason| {
        let outcome = || memory.nodes.get(name).and_then(|record| record.outcome);
        outcome_at_once(reason).or_else(outcome).is_some()
    };
    let is_held_back = |name: &str| {
        let upgrade = standing(nodes, name).filter(|upgrade| upgrade.is_old);
        match upgrade.map(|upgrade| &upgrade.turn) {
            Some(UpgradeTurn::Waits(reason)) => !is_left_alone(name, reason),
            Some(
                UpgradeTurn::Over
                | UpgradeTurn::Left
                | UpgradeTurn::Candidate(_)
                | UpgradeTurn::UnderWay(_),
            )
            | None => false,
        }
    };
    observed.nodes.iter().filter(|(name, _)| is_held_back(name)).map(|(_, node)| node).collect()
}

/// Returns the nodes that may be started, by combination.
fn candidates(nodes: &RunNodes<'_>, canary: &Canary) -> BTreeMap<Combination, BTreeSet<Arc<str>>> {
    let mut found: BTreeMap<Combination, BTreeSet<Arc<str>>> = BTreeMap::new();
    let is_candidate = |turn: &UpgradeTurn| matches!(turn, UpgradeTurn::Candidate(_));
    let examined = nodes
        .listed
        .iter()
        .filter(|node| is_candidate(&node.assessment.upgrade.turn))
        .map(|node| node.name);
    let kept = nodes.kept.sums.candidates.iter().map(|(_, name)| name);
    for name in kept.chain(examined) {
        if let Some(node) = nodes.fleet.observed.nodes.get(name) {
            found.entry(combination(node, canary)).or_default().insert(Arc::clone(name));
        }
    }
    found
}

fn combination(node: &ObservedNode, canary: &Canary) -> Combination {
    canary.per.iter().map(|label| node.labels.text(label).unwrap_or_default().to_owned()).collect()
}

/// Returns the label values of nodes by which canaries are chosen, such as
/// `nvidia.com/gpu.product=NVIDIA-L4`; none without such labels.
pub(super) fn label_values(fleet: &FleetInputs<'_>, names: &[String]) -> Vec<String> {
    let Some(canary) = fleet.settings.upgrade.canary.as_ref() else { return Vec::new() };
    let nodes = names.iter().filter_map(|name| fleet.observed.nodes.get(name));
    let values = nodes.filter_map(|node| {
        let labels = canary.per.iter().zip(combination(node, canary));
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        (!labels.is_empty()).then(|| labels.join(" and "))
    });
    values.collect::<BTreeSet<String>>().into_iter().collect()
}

/// Returns whether a canary may be started, is being upgraded, or is proven. A canary whose new
/// driver failed stays one until it is given up, whatever it waits for: another node would get the
/// same driver unproven. `accepted`: the failed nodes past which a user has resumed the rollout.
fn is_available(nodes: &RunNodes<'_>, accepted: &[String], name: &str) -> bool {
    standing(nodes, name).is_some_and(|upgrade| match &upgrade.turn {
        UpgradeTurn::Candidate(_) | UpgradeTurn::Left | UpgradeTurn::Over => true,
        UpgradeTurn::UnderWay(record) => record.state.is_in_progress() || !upgrade.given_up,
        UpgradeTurn::Waits(reason) => {
            // A user takes it as proven, or has repaired it.
            let is_released = matches!(**reason, Reason::Upgrading(UpgradeReason::Releasing));
            is_released
                || upgrade.is_retried
                    && outcome_at_once(reason).is_none()
                    && accepted.iter().all(|known| known != name)
        }
    })
}

/// Requests the pods of nodes. Returns whether they are listed, or the hook has waited for long
/// enough. Only mode `drive` watches pods.
fn are_listed(nodes: &mut RunNodes<'_>, names: &[&Arc<str>]) -> bool {
    let fleet = nodes.fleet;
    if !fleet.has(Task::Drive) {
        return true;
    }
    let listed = &fleet.observed.workloads.pods;
    let since = fleet.memory.assessed.since.unwrap_or(fleet.now);
    if names.iter().all(|name| listed.contains_key(&***name))
        || nodes.alarm.passed(since, LISTING_SECONDS)
    {
        return true;
    }
    for name in names {
        if let Some(node) = fleet.observed.nodes.get(name) {
            nodes.draft(node).effects.focus = true;
        }
    }
    false
}

/// Returns the number of pods on a node that use the device; the largest number if they are not
/// listed.
fn device_users(nodes: &RunNodes<'_>, name: &str) -> usize {
    let (observed, settings) = (nodes.fleet.observed, nodes.fleet.settings);
    // Selectors are checked before the run starts.
    let selectors = consumers(&settings.upgrade).unwrap_or_default();
    let users = DeviceUsers::new(settings.driver, DeviceRules::Ours, &observed.workloads.claims)
        .with_consumers(&selectors);
    observed.workloads.pods.get(name).map_or(usize::MAX, |pods| {
        pods.iter().filter(|pod| matches!(users.judge(pod), DeviceRelation::Holds(_))).count()
    })
}
