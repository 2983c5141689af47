//! The choice of canaries: for each combination of label values, idle nodes first, then those with
//! the fewest pods that use the device.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::proof::Canary;
use contract::record::proof::DriverProof;
use contract::task::Task;

use crate::decide::assess::UpgradeTurn;
use crate::decide::emit::outcome::outcome_at_once;
use crate::decide::inputs::FleetInputs;
use crate::decide::run_nodes::RunNodes;
use crate::pods::FOCUS_LIMIT;
use crate::pods::device_users::{DeviceRelation, DeviceRules, DeviceUsers, consumers};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;

use super::evidence::is_tested;
use super::standing;

/// Seconds after which canaries are chosen among the nodes whose pods are listed by then.
const LISTING_SECONDS: u64 = 30;

/// The values of the labels that make a combination; empty for a node without the label.
type Combination = Vec<String>;

/// Whether the canaries are chosen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CanaryChoice {
    /// Every combination of label values has its canaries, as far as its nodes are not left alone.
    Complete,
    /// The pods of nodes are not listed yet, or no node may be started.
    Pending,
    /// These nodes are the only ones of their combinations, and may not be started now.
    HeldBack(Vec<String>),
}

impl CanaryChoice {
    /// Returns the nodes that must be available before the choice is complete.
    pub(super) fn awaited(self) -> Vec<String> {
        match self {
            Self::HeldBack(names) => names,
            Self::Complete | Self::Pending => Vec::new(),
        }
    }
}

/// Chooses the missing canaries, and forgets those that cannot be canaries any more.
pub(super) fn choose(
    nodes: &mut RunNodes<'_>,
    proof: &mut DriverProof,
    canary: &Canary,
) -> CanaryChoice {
    let available: Vec<String> =
        proof.canaries.iter().filter(|name| is_available(nodes, proof, name)).cloned().collect();
    proof.canaries = available;
    proof.canary_labels.retain(|name, _| proof.canaries.contains(name));
    // They get the driver whatever others show, so the others wait for their proof too.
    add(nodes.fleet, proof, canary, in_progress(nodes));
    let mut found: BTreeMap<Combination, usize> = BTreeMap::new();
    for name in &proof.canaries {
        *found.entry(combination(nodes.fleet, proof, canary, name)).or_default() += 1;
    }
    let candidates = candidates(nodes, proof, canary);
    let has_nodes = |of: &Combination| candidates.contains_key(of) || found.contains_key(of);
    let held_back: Vec<String> = held_back(nodes)
        .into_iter()
        .filter(|name| !has_nodes(&combination(nodes.fleet, proof, canary, name)))
        .map(str::to_owned)
        .collect();
    if !held_back.is_empty() {
        return CanaryChoice::HeldBack(held_back);
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
        return CanaryChoice::Pending;
    }
    let mut chosen = BTreeSet::new();
    for (missing, free) in lacking {
        let mut ranked: Vec<(usize, &Arc<str>)> =
            free.into_iter().map(|name| (device_users(nodes, name), name)).collect();
        ranked.sort_unstable();
        chosen.extend(ranked.into_iter().take(missing).map(|(_, name)| Arc::clone(name)));
    }
    add(nodes.fleet, proof, canary, chosen);
    if proof.canaries.is_empty() { CanaryChoice::Pending } else { CanaryChoice::Complete }
}

/// Adds canaries with the labels by which they are chosen.
fn add(
    fleet: &FleetInputs<'_>,
    proof: &mut DriverProof,
    canary: &Canary,
    names: BTreeSet<Arc<str>>,
) {
    for name in names {
        if proof.canaries.iter().any(|known| **known == *name) {
            continue;
        }
        let labels = labels(fleet, canary, &name);
        if !labels.is_empty() {
            proof.canary_labels.insert(name.to_string(), labels);
        }
        proof.canaries.push(name.to_string());
    }
    proof.canaries.sort_unstable();
}

/// Returns the nodes in progress, without those that the hook is releasing: these were not tested
/// as canaries.
fn in_progress(nodes: &RunNodes<'_>) -> BTreeSet<Arc<str>> {
    let releasing = Reason::Upgrading(UpgradeReason::Releasing);
    let examined = nodes.listed.iter().filter(|node| {
        let record = node.assessment.upgrade.turn.record();
        record.is_some_and(|record| record.state.is_in_progress())
            && node.reason.as_deref() != Some(&releasing)
    });
    let kept = nodes.kept.sums.in_progress.iter().map(Arc::clone);
    kept.chain(examined.map(|node| Arc::clone(node.name))).collect()
}

/// Returns the nodes with their old driver that the run waits for, and that may not be started now,
/// such as paused ones.
fn held_back<'a>(nodes: &RunNodes<'a>) -> Vec<&'a str> {
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
    observed.nodes.keys().map(|name| &**name).filter(|name| is_held_back(name)).collect()
}

/// Returns the nodes that may be started, by combination.
fn candidates(
    nodes: &RunNodes<'_>,
    proof: &DriverProof,
    canary: &Canary,
) -> BTreeMap<Combination, BTreeSet<Arc<str>>> {
    let mut found: BTreeMap<Combination, BTreeSet<Arc<str>>> = BTreeMap::new();
    let is_candidate = |turn: &UpgradeTurn| matches!(turn, UpgradeTurn::Candidate(_));
    let examined = nodes.listed.iter().filter(|node| is_candidate(&node.assessment.upgrade.turn));
    let examined = examined.map(|node| node.name);
    let kept = nodes.kept.sums.candidates.iter().map(|(_, name)| name);
    for name in kept.chain(examined) {
        let of = combination(nodes.fleet, proof, canary, name);
        found.entry(of).or_default().insert(Arc::clone(name));
    }
    found
}

/// Returns the label values of a node by which canaries are chosen. Those with which a canary was
/// chosen come first: it may have lost them since.
fn combination(
    fleet: &FleetInputs<'_>,
    proof: &DriverProof,
    canary: &Canary,
    name: &str,
) -> Combination {
    let known = proof.canary_labels.get(name);
    let live = fleet.observed.nodes.get(name);
    let value = |label: &String| {
        let known = known.and_then(|labels| labels.get(label)).map(String::as_str);
        known.or_else(|| live?.labels.text(label)).unwrap_or_default().to_owned()
    };
    canary.per.iter().map(value).collect()
}

/// Returns the labels of a node by which canaries are chosen.
fn labels(fleet: &FleetInputs<'_>, canary: &Canary, name: &str) -> BTreeMap<String, String> {
    let node = fleet.observed.nodes.get(name);
    let value = |label: &String| Some((label.clone(), node?.labels.text(label)?.to_owned()));
    canary.per.iter().filter_map(value).collect()
}

/// Returns the label values of nodes by which canaries are chosen, such as
/// `nvidia.com/gpu.product=NVIDIA-L4`; none without such labels.
pub(super) fn label_values(
    fleet: &FleetInputs<'_>,
    proof: &DriverProof,
    names: &[String],
) -> Vec<String> {
    let Some(canary) = fleet.settings.upgrade.canary.as_ref() else { return Vec::new() };
    let is_known = |name: &&String| {
        fleet.observed.nodes.contains_key(name) || proof.canary_labels.contains_key(*name)
    };
    let values = names.iter().filter(is_known).filter_map(|name| {
        let labels = canary.per.iter().zip(combination(fleet, proof, canary, name));
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        (!labels.is_empty()).then(|| labels.join(" and "))
    });
    values.collect::<BTreeSet<String>>().into_iter().collect()
}

/// Returns whether a canary may be started, is being upgraded, or is proven. A canary whose new
/// driver failed stays one until it is given up, whatever it waits for: another node would get the
/// same driver unproven. Mode `steer` retries no failed node by itself. A canary that has the
/// driver without its tests cannot be tested any more.
fn is_available(nodes: &RunNodes<'_>, proof: &DriverProof, name: &str) -> bool {
    standing(nodes, name).is_some_and(|upgrade| match &upgrade.turn {
        UpgradeTurn::Candidate(_) => true,
        UpgradeTurn::Left | UpgradeTurn::Over => is_tested(nodes, proof, name),
        // A failed node holds up no others, unless the hook releases it: a user takes it as proven,
        // or has repaired it.
        UpgradeTurn::UnderWay(record) => record.state.is_in_progress() || !has_ended(nodes, name),
        UpgradeTurn::Waits(reason) => {
            // A user takes it as proven, or has repaired it.
            let is_released = matches!(**reason, Reason::Upgrading(UpgradeReason::Releasing));
            is_released
                || upgrade.is_retried
                    && outcome_at_once(reason).is_none()
                    && !proof.has_accepted(name)
        }
    })
}

/// Returns whether the node has an outcome.
fn has_ended(nodes: &RunNodes<'_>, name: &str) -> bool {
    let reason = match nodes.place(name) {
        Some(place) => nodes.listed[place].reason.as_ref(),
        None => {
            nodes.kept.known.get(name).and_then(|known| known.found.as_ref()?.1.reason.as_ref())
        }
    };
    reason.is_some_and(|reason| outcome_at_once(reason).is_some())
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
