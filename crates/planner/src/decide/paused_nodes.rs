//! Pauses: no paused node starts, and started nodes with an unchanged driver wait.

use jiff::SignedDuration;

use crate::action::NodePatch;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::hold;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::time::after;
use observed::ObservedNode;
use observed::pause;

use super::inputs::FleetInputs;
use super::modes::drive::patch::put;
use super::node_draft::NodeDraft;

/// Returns the reason of a paused node; `None` if it is not paused.
pub(super) fn paused(fleet: &FleetInputs<'_>, node: &ObservedNode) -> Option<Reason> {
    let pause = pause::find_pause(fleet.observed, node, fleet.now)?;
    let (by, why, until) = (pause.by.clone(), pause.reason.clone(), pause.until);
    let ends_too_late =
        |until| after(until, fleet.settings.per_node_seconds) >= fleet.memory.deadline;
    let is_late = until.is_some_and(ends_too_late);
    Some(Reason::Upgrading(UpgradeReason::Paused { by, why, at: pause.at, until, is_late }))
}

/// Has a paused node assessed again when its pause ends: of all that cover the node, this one lasts
/// longest.
pub(super) fn heed_end(draft: &mut NodeDraft<'_>) {
    let pause = pause::find_pause(draft.fleet.observed, draft.node, draft.now());
    if let Some(until) = pause.and_then(|pause| pause.until) {
        draft.alarm.set(until);
    }
}

/// Returns the reason of a node that NVIDIA's controller has not started: the pause, where it keeps
/// the node back. Where NVIDIA's controller decides, only the skip label does.
pub(super) fn paused_before(
    fleet: &FleetInputs<'_>,
    node: &ObservedNode,
    reason: Reason,
) -> Reason {
    let waits = matches!(&reason, Reason::DriverOutOfDate { .. }) && reason.waits_for_others();
    if waits && (fleet.settings.mode.decides() || node.labels.has(fleet.traits.skip_label, "true"))
    {
        paused(fleet, node).unwrap_or(reason)
    } else {
        reason
    }
}

/// Stops the clock of a node in progress: the time of the pause counts for none of its limits.
pub(super) fn stop_clock(draft: &mut NodeDraft<'_>, record: &UpgradeRecord) {
    if record.paused.is_some() {
        return;
    }
    let stopped = UpgradeRecord { paused: Some(draft.now()), ..record.clone() };
    let mut patch = NodePatch::for_node(draft.node);
    put(&mut patch, &stopped, draft.traits());
    draft.issue(patch);
}

/// Returns the record of a node whose clock was stopped, with the clock running again.
pub(super) fn resumed(draft: &NodeDraft<'_>, record: &UpgradeRecord) -> Option<UpgradeRecord> {
    let pause = draft.now().duration_since(record.paused?).max(SignedDuration::ZERO);
    let since = record.since.saturating_add(pause).unwrap_or(draft.now());
    Some(UpgradeRecord { paused: None, since, ..record.clone() })
}

/// Restarts the clock of a node: writes its [`resumed`] record.
pub(super) fn restart_clock(draft: &mut NodeDraft<'_>, resumed: &UpgradeRecord) {
    let mut patch = NodePatch::for_node(draft.node);
    put(&mut patch, resumed, draft.traits());
    draft.issue(patch);
}

/// Holds a paused node if the hook may, so that NVIDIA's controller does not start it: the user who
/// paused it may have had no right to label nodes, and nodes join later.
pub(super) fn hold_paused(draft: &mut NodeDraft<'_>) {
    let driver = draft.settings().driver;
    // The pause takes over the hold of an operator upgrade, so that `resume` releases it.
    let taken_over = matches!(
        hold::HoldPurpose::from_node(draft.node, driver),
        Some(hold::HoldPurpose::OperatorUpgrade(_))
    );
    if taken_over || hold::can_be_held(draft.node, driver) {
        draft.issue(hold::hold_as(draft.node, driver, pause::HOLD));
    }
}
