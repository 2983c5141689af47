//! Work of others on a node: the hook waits until they are done. Also pauses: no paused node
//! starts, and started nodes with an unchanged driver wait.

use jiff::SignedDuration;

use crate::action::NodePatch;
use crate::drive_upgrade::record::{UpgradeRecord, belongs_to_other_hook};
use crate::hold;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::driver::Driver;
use nvidia_upgrade::state::ControllerState;
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

/// Returns the reason if others work on the node.
pub(super) fn others_have_it(fleet: &FleetInputs<'_>, node: &ObservedNode) -> Option<Reason> {
    let traits = fleet.traits;
    if node.annotations.contains_key(traits.requestor) {
        return Some(Reason::Upgrading(UpgradeReason::Requestor));
    }
    let maintenances = fleet.observed.workloads.maintenances.served().into_iter().flatten();
    if let Some(theirs) = maintenances.into_iter().find(|maintenance| maintenance.node == node.name)
    {
        return Some(Reason::Upgrading(UpgradeReason::Maintenance {
            name: theirs.name.clone(),
            requestor: theirs.requestor.clone(),
        }));
    }
    // NVIDIA's controller may just have been switched off: its work continues until it has removed
    // its label.
    let state = node.labels.text(traits.state_label).unwrap_or_default();
    if is_active(state) {
        return Some(Reason::UpgradeUnfinished { state: state.to_owned(), why: None });
    }
    let driver = fleet.settings.driver;
    if belongs_to_other_hook(node, traits, fleet.identity.as_deref()) {
        let state = node.labels.get(traits.own_state_label).cloned().unwrap_or_default();
        return Some(Reason::Upgrading(UpgradeReason::OtherDriver { driver, state, ours: true }));
    }
    other_driver(node, driver).map(|(driver, state, ours)| {
        Reason::Upgrading(UpgradeReason::OtherDriver { driver, state: state.to_owned(), ours })
    })
}

/// Returns another driver of the node that is being upgraded, or must be upgraded before this one
/// (network before GPU), and whether its record is gpu-rollout's.
pub(super) fn other_driver(node: &ObservedNode, this: Driver) -> Option<(Driver, &str, bool)> {
    Driver::ALL.into_iter().filter(|driver| *driver != this).find_map(|driver| {
        let traits = driver.traits();
        let state = |label: &str| node.labels.text(label).filter(|state| !state.is_empty());
        if let Some(own) = state(traits.own_state_label) {
            return Some((driver, own, true));
        }
        let theirs = state(traits.state_label)?;
        let first = driver == Driver::Ofed && theirs == ControllerState::UpgradeRequired.label();
        (is_active(theirs) || first).then_some((driver, theirs, false))
    })
}

/// Returns whether an upgrade state means that NVIDIA's controller is working on the node.
fn is_active(state: &str) -> bool {
    let state = ControllerState::from_label(Some(state));
    !state.is_idle() && state != ControllerState::Failed
}
