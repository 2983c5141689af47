//! Mode `assist`: NVIDIA's controller decides and acts. The hook wakes it when it could continue
//! and has not noticed, and retries nodes whose upgrade failed with their old driver, within a
//! limit.
//!
//! The wake differs between releases (`nvidia_upgrade::controller_generation`): the skip label of a
//! node with a value that skips nothing, or the state label of a node that is not part of the
//! controller's state. Both are recognizable as gpu-rollout's, and the hook removes them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::action::NodePatch;
use crate::drive_upgrade::cause::pause;
use crate::drive_upgrade::record::read;
use crate::drive_upgrade::state::UpgradeState::Lifted;
use crate::memory::RunMemory;
use crate::node::is_driver_node;
use crate::policies;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::{abort, hold};
use contract::task::Task;
use nvidia_upgrade::state::ControllerState;
use nvidia_upgrade::wake::WakingChange;
use observed::ObservedNode;

use crate::decide::assess::{UpgradeStanding, UpgradeTurn};
use crate::decide::inputs::FleetInputs;
use crate::decide::modes::observe::ControllerForecast;
use crate::decide::node_draft::NodeDraft;
use crate::decide::paused_nodes::{hold_paused, paused};
use crate::decide::run_nodes::RunNodes;

/// Seconds that the controller has to act on a change of an object that it watches, in a small
/// fleet.
const NOTICE_SECONDS: u64 = 1;
/// Maximum number of wakes for one node in one state.
const MOST_WAKES: u32 = 3;
/// Seconds between the first two such wakes in a small fleet, doubled each time.
const WAKE_SECONDS: u64 = 5;
/// Maximum number of seconds that the hook waits for passes of the controller, which starts one
/// every two minutes anyway.
const MOST_PASS_SECONDS: u64 = 120;
/// Prefix of the value of a skip label that is gpu-rollout's. Only `true` skips.
pub const WAKE_VALUE: &str = "gpu-rollout-wake-";
/// The format of [`RetryCount`].
const RETRIES_VERSION: u32 = 1;

/// Number of retries of a node, stored on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetryCount {
    version: u32,
    /// The trigger digest under which retries are counted.
    digest: String,
    /// Number of retries.
    attempts: u32,
    /// Time of the last retry.
    at: Timestamp,
}

/// Assesses the node's upgrade: removes obsolete labels and annotations of gpu-rollout. `left`: the
/// reason for which it waits apart from its upgrade.
pub(in crate::decide) fn assess(
    draft: &mut NodeDraft<'_>,
    left: Option<&Arc<Reason>>,
) -> UpgradeStanding {
    UpgradeStanding::with(cleaned(draft, left).unwrap_or(UpgradeTurn::Left))
}

/// Removes labels and annotations of gpu-rollout that are no longer needed. `Some`: the node waits
/// for that.
pub(in crate::decide) fn cleaned(
    draft: &mut NodeDraft<'_>,
    left: Option<&Arc<Reason>>,
) -> Option<UpgradeTurn> {
    let steers = draft.fleet.has(Task::Steer);
    let is_known = draft.fleet.generation.is_some();
    // NVIDIA's controller does not wait for operands, and the run may end as done although some of
    // them are not ready: nothing is left for a later run to remove.
    let is_clear = is_known && left.is_none_or(|reason| reason.is_about_operands());
    let patch = if !steers && paused(draft.fleet, draft.node).is_some() {
        // The hold that keeps the controller from the node stays, whatever the controller's version
        // is: every version leaves a node with the skip label alone.
        hold_paused(draft);
        if !is_clear || draft.is_patched() {
            return None;
        }
        wakes_and_retries(draft)?
    } else if !steers && draft.node.annotations.contains_key(draft.traits().hold) {
        // A hold of mode `steer`, or of an upgrade of the operator: the newest operator is the
        // leader, and no other hook would release the node.
        hold::released(draft.node, draft.settings().driver)
    } else if is_clear {
        wakes_and_retries(draft).or_else(|| {
            if steers { None } else { abort::of_driver(draft.node, draft.settings().driver) }
        })?
    } else {
        return None;
    };
    draft.issue(patch);
    Some(UpgradeTurn::waits(UpgradeReason::Releasing))
}

/// Returns the patch that removes the wake label and the number of retries when the controller is
/// done with the node.
fn wakes_and_retries(draft: &NodeDraft<'_>) -> Option<NodePatch> {
    let (node, traits) = (draft.node, draft.traits());
    let state = ControllerState::of_node(node, traits);
    if state.is_in_progress() {
        return None;
    }
    let mut patch = NodePatch::for_node(node);
    if node.labels.get(traits.skip_label).is_some_and(|value| value.starts_with(WAKE_VALUE)) {
        patch.labels.insert(traits.skip_label.to_owned(), None);
    }
    if node.annotations.contains_key(traits.retries)
        && matches!(state, ControllerState::Unknown | ControllerState::Done)
    {
        patch.annotations.insert(traits.retries.to_owned(), None);
    }
    (!patch.is_empty()).then_some(patch)
}

/// Retries nodes whose upgrade by the controller failed, one in each decision.
pub(in crate::decide) fn retry_failed(nodes: &mut RunNodes<'_>) {
    let fleet = nodes.fleet;
    let mut retried = false;
    for node in &mut nodes.listed {
        let given_up = matches!(node.reason.as_deref(), Some(Reason::UpgradeFailed { .. }));
        let cleaned = !fleet.has(Task::Steer)
            && matches!(node.assessment.upgrade.turn, UpgradeTurn::Waits(_));
        if !given_up
            || cleaned
            || fleet.memory.refused(node.node).is_some_and(|refused| refused.stays)
        {
            continue;
        }
        if !fleet.has(Task::Steer) && paused(fleet, node.node).is_some() {
            continue;
        }
        if let Some(reason) = retry(node.draft(fleet), &mut retried) {
            node.reason = Some(reason.into());
        }
    }
}

/// Retries a node whose upgrade by the controller failed while its old driver kept running. The
/// label restarts its upgrade. `retried`: another node is retried in this decision.
fn retry(draft: &mut NodeDraft<'_>, retried: &mut bool) -> Option<Reason> {
    let (fleet, node, traits, settings) =
        (draft.fleet, draft.node, draft.traits(), draft.settings());
    draft.effects.depends_on_others = true;
    // In mode `steer`, only a node that was released under this digest is retried with its label.
    let lifted = read(node, traits)
        .record()
        .is_some_and(|record| record.state == Lifted && record.digest == settings.digest);
    if fleet.has(Task::Steer) && !lifted {
        return None;
    }
    let driver = fleet.operands.as_ref().and_then(|operands| operands.driver_pod(node));
    driver.filter(|pod| !pod.newest && !pod.pod.deleting)?;
    let known = node
        .annotations
        .get(traits.retries)
        .and_then(|text| serde_json::from_str::<RetryCount>(text).ok());
    let known = known.filter(|retries| retries.digest == settings.digest);
    // The controller's own attempt is the first.
    let attempts = 1 + known.as_ref().map_or(0, |retries| retries.attempts);
    let limit = settings.upgrade.attempts;
    if attempts >= limit {
        return None;
    }
    let message =
        "the upgrade by NVIDIA's controller failed, and the driver pod has an older revision";
    let retrying = |at| {
        Reason::Upgrading(UpgradeReason::Retry { message: message.to_owned(), attempts, limit, at })
    };
    let failed_since = draft.waits(&retrying(Timestamp::MIN));
    let at = failed_since.saturating_add(pause(attempts)).unwrap_or(Timestamp::MAX);
    // In mode `steer`, a node that was uncordoned by others is cordoned again first.
    let closed = !lifted || node.unschedulable;
    if at <= fleet.now && closed && !*retried && has_room(fleet, node) {
        *retried = true;
        let count = RetryCount {
            version: RETRIES_VERSION,
            digest: settings.digest.clone(),
            attempts,
            at: fleet.now,
        };
        let mut patch = NodePatch::for_node(node);
        patch.labels.insert(
            traits.state_label.to_owned(),
            Some(ControllerState::UpgradeRequired.label().to_owned()),
        );
        // A struct of plain fields always has a JSON form.
        patch.annotations.insert(
            traits.retries.to_owned(),
            Some(serde_json::to_string(&count).unwrap_or_default()),
        );
        patch.remove_attempt_times(node, traits);
        draft.issue(patch);
    } else if at > fleet.now {
        draft.alarm.set(at);
    }
    Some(retrying(at))
}

/// Returns whether the node's own policy allows one more node in progress: because of its cordon, a
/// retried node would not be subject to the controller's limits.
fn has_room(fleet: &FleetInputs<'_>, node: &ObservedNode) -> bool {
    let live =
        policies::live(fleet.observed, fleet.settings).into_iter().find(|live| live.governs(node));
    let limit = live.as_ref().and_then(|live| live.policy.max_parallel).unwrap_or(1);
    let governed = |node: &&ObservedNode| live.as_ref().is_none_or(|live| live.governs(node));
    let busy = |node: &&ObservedNode| ControllerState::of_node(node, fleet.traits).is_busy();
    limit == 0
        || fleet.observed.nodes.values().filter(governed).filter(busy).count() < limit as usize
}

/// Wakes the controller if it would continue with a node, has had time to notice, and has not been
/// woken too often for that.
///
/// What it does not watch, it does not notice: if all that it watches has been unchanged for long
/// enough when the node could continue, it is woken at once. If something changed at that time or
/// later, another pass is due, and has the time to start and to end.
pub(in crate::decide) fn wake(
    memory: &mut RunMemory,
    nodes: &mut RunNodes<'_>,
    forecast: &ControllerForecast,
) {
    let generation = forecast.generation;
    let fleet = nodes.fleet;
    let mut pending = BTreeMap::new();
    // The controller finishes nodes that it has started. Holds keep other paused nodes from it;
    // until the holds are observed, it must not be woken.
    let is_free = |name: &str| {
        fleet.observed.nodes.get(name).is_none_or(|node| paused(fleet, node).is_none())
    };
    for one in forecast.moves.iter().filter(|one| one.from.is_busy() || is_free(&one.node)) {
        let key = (one.node.clone(), one.from.label());
        let since = memory.pending.get(&key).copied().unwrap_or(fleet.now);
        pending.insert(key, since);
    }
    if memory.wakes.keys().any(|key| !pending.contains_key(key)) {
        Arc::make_mut(&mut memory.wakes).retain(|key, _| pending.contains_key(key));
    }
    let notices_pods = generation.is_woken_by(WakingChange::DaemonSetStatus);
    // If it also watches what makes nodes continue, the hash does not contain all that it watches.
    let seen = memory.vendor_seen.filter(|_| !notices_pods);
    // The present pass and the next one. Several wakes during a pass start only one more.
    let passes = (2 * forecast.pass_time(fleet.observed.nodes.len())).as_secs();
    let passes = passes.min(MOST_PASS_SECONDS);
    let mut due = Vec::new();
    for (key, since) in &pending {
        let wakes = memory.wakes.get(key).copied();
        let (from, seconds, doubled, another_pass) = match (wakes, seen) {
            (None, None) => (*since, NOTICE_SECONDS, 0, false),
            (None, Some(seen)) => {
                (seen.since, NOTICE_SECONDS, 0, seen.has_changed && seen.since >= *since)
            }
            // The wake itself is such a change, unless it was refused.
            (Some((count, last)), seen) => {
                let is_seen = seen.is_some_and(|seen| seen.since > last);
                (last, WAKE_SECONDS, count - 1, is_seen)
            }
        };
        let pause = if another_pass { seconds.max(passes) } else { seconds } << doubled;
        let is_allowed = wakes.is_none_or(|(count, _)| count < MOST_WAKES);
        if is_allowed && nodes.alarm.passed(from, pause) {
            due.push(key.clone());
        }
    }
    if *memory.pending != pending {
        memory.pending = Arc::new(pending);
    }
    let Some((first, _)) = due.first() else { return };
    let by_skip = generation.is_woken_by(WakingChange::NodeSkip)
        || generation.is_woken_by(WakingChange::NodeLabel);
    let patch = if by_skip { waking_skip_label(nodes, first) } else { waking_state_label(nodes) };
    if patch.is_some_and(|(node, patch)| nodes.draft(node).issue(patch)) {
        for key in due {
            let wakes = Arc::make_mut(&mut memory.wakes).entry(key).or_insert((0, fleet.now));
            *wakes = (wakes.0 + 1, fleet.now);
        }
    }
}

fn takes_patches(fleet: &FleetInputs<'_>, node: &ObservedNode) -> bool {
    !fleet.memory.refused(node).is_some_and(|refused| refused.stays)
}

/// Returns a skip label that skips nothing, on the node that should continue; on another node if
/// that one has a foreign skip label.
fn waking_skip_label<'a>(
    nodes: &RunNodes<'a>,
    name: &str,
) -> Option<(&'a ObservedNode, NodePatch)> {
    let (fleet, label) = (nodes.fleet, nodes.fleet.traits.skip_label);
    let free = |node: &&ObservedNode| {
        node.labels.get(label).is_none_or(|value| value.starts_with(WAKE_VALUE))
    };
    let may = |node: &&'a ObservedNode| free(node) && takes_patches(fleet, node);
    let own = fleet.observed.nodes.get(name).filter(may);
    let node = own.or_else(|| nodes.all().into_iter().find(may))?;
    let number = node
        .labels
        .get(label)
        .and_then(|value| value.strip_prefix(WAKE_VALUE)?.parse::<u32>().ok())
        .unwrap_or(0);
    let mut patch = NodePatch::for_node(node);
    patch.labels.insert(label.to_owned(), Some(format!("{WAKE_VALUE}{}", number.wrapping_add(1))));
    Some((node, patch))
}

/// Returns a state label on a node without driver, which is not part of the controller's state. If
/// there is no such node, the label of a done node is removed: the controller sets it again at
/// once.
fn waking_state_label<'a>(nodes: &RunNodes<'a>) -> Option<(&'a ObservedNode, NodePatch)> {
    let (fleet, traits) = (nodes.fleet, nodes.fleet.traits);
    let may = |node: &&'a ObservedNode| takes_patches(fleet, node);
    let is_bystander = |node: &&ObservedNode| {
        !nodes.is_listed(&node.name)
            && !is_driver_node(node, fleet.settings.driver)
            && (!node.labels.contains_key(traits.state_label)
                || node.annotations.contains_key(traits.wake))
    };
    if let Some(node) = fleet.observed.nodes.values().filter(is_bystander).find(may) {
        let mut patch = NodePatch::for_node(node);
        patch
            .labels
            .insert(traits.state_label.to_owned(), Some(ControllerState::Done.label().to_owned()));
        patch.annotations.insert(traits.wake.to_owned(), Some("true".to_owned()));
        return Some((node, patch));
    }
    let is = |node: &ObservedNode, state: ControllerState| {
        node.labels.has(traits.state_label, state.label())
    };
    // A node that still waits: the controller sets its label again. The last one is used, because
    // its start is the farthest away. A current node whose upgrade a user requested would lose the
    // request with its label.
    let outdated = |node: &&ObservedNode| {
        let pod = fleet.operands.as_ref().and_then(|operands| operands.driver_pod(node));
        pod.is_some_and(|pod| !pod.newest)
    };
    let all = nodes.all();
    let listed = || all.iter().copied();
    let done = listed().filter(|node| is(node, ControllerState::Done)).find(may);
    let waiting = || {
        listed()
            .rev()
            .filter(|node| is(node, ControllerState::UpgradeRequired))
            .filter(outdated)
            .find(may)
    };
    let node = done.or_else(waiting)?;
    let mut patch = NodePatch::for_node(node);
    patch.labels.insert(traits.state_label.to_owned(), None);
    Some((node, patch))
}

/// Removes gpu-rollout's state label from nodes without driver; the removal is repeated until it is
/// observed.
pub(in crate::decide) fn clean_bystanders(nodes: &mut RunNodes<'_>) {
    let fleet = nodes.fleet;
    let traits = fleet.traits;
    let listed = nodes.listed.iter().filter(|node| node.draft.is_some()).map(|node| node.node);
    let others = nodes.others.iter().map(|(_, node, _)| *node);
    let labeled: Vec<&ObservedNode> =
        listed.chain(others).filter(|node| node.annotations.contains_key(traits.wake)).collect();
    for node in labeled {
        let mut patch = NodePatch::for_node(node);
        let ours = node.labels.has(traits.state_label, ControllerState::Done.label());
        // A node that now belongs to the controller keeps its state label.
        if ours && !is_driver_node(node, fleet.settings.driver) {
            patch.labels.insert(traits.state_label.to_owned(), None);
        }
        patch.annotations.insert(traits.wake.to_owned(), None);
        nodes.draft(node).issue(patch);
    }
}
