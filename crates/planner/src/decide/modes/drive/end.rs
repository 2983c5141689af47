//! The end of a node's upgrade: the node is released, fails, or is cleaned up.

use jiff::Timestamp;

use crate::action::{NodeNews, NodePatch};
use crate::decide::assess::UpgradeTurn;
use crate::decide::node_draft::NodeDraft;
use crate::drive_upgrade::cause::{FailureCause, pause};
use crate::drive_upgrade::record::{NodeFailure, UpgradeRecord};
use crate::drive_upgrade::state::UpgradeState;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::record::PluginReplacement;
use contract::task::Task;

use super::patch::{put, remove, take_note};
use super::turn::is_older;
use super::{DrivenNode, acceptance};

/// Removes gpu-rollout's labels and annotations, but no cordon whose owner is unknown.
pub(in crate::decide) fn clear_away(draft: &mut NodeDraft<'_>) -> UpgradeTurn {
    let mut patch = NodePatch::for_node(draft.node);
    remove(&mut patch, draft.traits());
    draft.issue(patch);
    UpgradeTurn::waits(UpgradeReason::Releasing)
}

/// Releases a node that is done: removes cordon, state and record in one patch.
pub(in crate::decide) fn release_node(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> Reason {
    let (node, now) = (driven.node, draft.now());
    let mut patch = NodePatch::for_node(node);
    remove(&mut patch, draft.traits());
    if record.cordoned && node.unschedulable {
        patch.unschedulable = Some(false);
    }
    take_note(&mut patch, node, record, draft.traits());
    let stays = if !record.cordoned && node.unschedulable {
        "; the node stays cordoned, as it was before"
    } else {
        ""
    };
    let since = |one: &&PluginReplacement| one.at >= record.started;
    let replaced =
        draft.record().into_iter().flat_map(|known| known.replaced.values()).filter(since);
    let replaced: Vec<String> =
        replaced.map(|one| format!("; plugin {} replaced: {}", one.pod, one.cause)).collect();
    patch.news = Some(NodeNews::Upgraded(format!(
        "{}{}{stays}",
        record.describe_steps(now),
        replaced.concat()
    )));
    if draft.issue(patch) {
        draft.effects.tested = acceptance::has_passed(draft, driven, record);
        draft.change_record(|known| known.steps = record.steps());
        note_results(draft, record);
    }
    Reason::Upgrading(UpgradeReason::Releasing)
}

/// Marks a node as failed. With an unchanged old driver, it is released at once; otherwise it keeps
/// its cordon.
pub(in crate::decide) fn fail(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
    cause: FailureCause,
    message: String,
) -> Reason {
    let (node, settings, now) = (driven.node, draft.settings(), draft.now());
    let mut failed = record.clone();
    let (attempts, limit) =
        (record.attempts(cause, &settings.digest) + 1, settings.upgrade.attempts);
    // A node that fails an acceptance test is not retried, and NVIDIA's controller retries none.
    let is_steered = settings.has(Task::Steer);
    let is_final = cause.is_acceptance() || is_steered && !cause.is_refusal();
    let attempts = if is_final { attempts.max(limit) } else { attempts };
    failed.count_under(&settings.digest);
    failed.attempts.insert(cause, attempts);
    failed.failure = Some(NodeFailure { cause, message: message.clone() });
    failed.enter(UpgradeState::UpgradeFailed, now);
    let mut patch = NodePatch::for_node(node);
    // Without a working driver, it would take workloads that cannot run. If an earlier attempt
    // changed the driver, the driver has not been proven.
    let broken = driven.pod.as_ref().is_some_and(|driver| !driver.pod.containers_ready);
    failed.driver_changed = !cause.is_before_restart()
        || record.has_changed_driver()
        || is_changed(draft, driven, record);
    // A cordon that others set from now on is theirs.
    failed.cordoned &= node.unschedulable;
    if !failed.driver_changed && record.cordoned && !broken {
        failed.cordoned = false;
        take_note(&mut patch, node, record, draft.traits());
        patch.unschedulable = node.unschedulable.then_some(false);
    }
    put(&mut patch, &failed, draft.traits());
    let refused = if cause.is_refusal() { draft.refused_write() } else { None };
    let reason = if let Some(refused) = refused {
        Reason::WriteRefused {
            write: refused.write,
            message,
            cordoned: failed.cordoned && node.unschedulable,
        }
    } else if attempts >= limit {
        not_retried(cause, message, attempts, failed.cordoned && node.unschedulable)
    } else {
        let at = now.saturating_add(pause(attempts)).unwrap_or(Timestamp::MAX);
        draft.alarm.set(at);
        Reason::Upgrading(UpgradeReason::Retry { message, attempts, limit, at })
    };
    patch.news =
        Some(NodeNews::Failed(format!("{cause}: {reason}; {}", failed.describe_steps(now))));
    if draft.issue(patch) {
        draft.change_record(|known| known.steps = failed.steps());
        note_results(draft, &failed);
    }
    reason
}

/// Returns whether the driver pod that existed when the node was started has been replaced, or is
/// being replaced.
fn is_changed(draft: &NodeDraft<'_>, driven: &DrivenNode<'_>, record: &UpgradeRecord) -> bool {
    let issued = &draft.fleet.memory.issued;
    driven.pod.as_ref().map_or(record.state == UpgradeState::PodRestartRequired, |driver| {
        let pod = driver.pod;
        !is_older(pod, record) || pod.deleting || issued.contains_key(&pod.uid)
    })
}

/// Returns the reason of a node that failed, and is not retried under this digest.
pub(in crate::decide) fn not_retried(
    cause: FailureCause,
    message: String,
    attempts: u32,
    cordoned: bool,
) -> Reason {
    Reason::Upgrading(if cause == FailureCause::AcceptanceFailedBefore {
        UpgradeReason::NotAccepted { message, cordoned }
    } else {
        UpgradeReason::Failed { cause, message, attempts, cordoned }
    })
}

/// Copies the results of acceptance tests, which the node has from now on, into the run record.
pub(in crate::decide) fn note_results(draft: &mut NodeDraft<'_>, record: &UpgradeRecord) {
    if !record.acceptance.is_empty() {
        draft.change_record(|known| {
            record.acceptance.iter().for_each(|result| known.add_result(result));
        });
    }
}
