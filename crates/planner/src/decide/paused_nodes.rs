//! Pauses: no paused node starts, and started nodes with an unchanged driver wait.

use jiff::SignedDuration;

use crate::action::NodePatch;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::hold;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use observed::pause;
use observed::{Observed, ObservedNode};

use super::inputs::FleetInputs;
use super::modes::drive::patch::put;
use super::node_draft::NodeDraft;

/// Returns the reason of a paused node; `None` if it is not paused.
pub(super) fn paused(observed: &Observed, node: &ObservedNode) -> Option<Reason> {
    let pause = pause::find_pause(observed, node)?;
    let (by, why) = (pause.by.clone(), pause.reason.clone());
    Some(Reason::Upgrading(UpgradeReason::Paused { by, why, at: pause.at }))
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
        paused(fleet.observed, node).unwrap_or(reason)
    } else {
        reason
    }
}

/// Stops the clock of a node in progress: the time of the pause counts for none of its limits.
pub(super) fn freeze(draft: &mut NodeDraft<'_>, record: &UpgradeRecord) {
    if record.paused.is_some() {
        return;
    }
    let stopped = UpgradeRecord { paused: Some(draft.now()), ..record.clone() };
    let mut patch = NodePatch::for_node(draft.node);
    put(&mut patch, &stopped, draft.traits());
    draft.issue(patch);
}

/// Restarts the stopped clock of a node. Returns whether it was stopped.
pub(super) fn thaw(draft: &mut NodeDraft<'_>, record: &UpgradeRecord) -> bool {
    let Some(stopped) = record.paused else { return false };
    let pause = draft.now().duration_since(stopped).max(SignedDuration::ZERO);
    let since = record.since.saturating_add(pause).unwrap_or(draft.now());
    let mut patch = NodePatch::for_node(draft.node);
    put(&mut patch, &UpgradeRecord { paused: None, since, ..record.clone() }, draft.traits());
    draft.issue(patch);
    true
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
