//! Work of other actors on a node: the hook waits until they are done.

use crate::drive_upgrade::record::belongs_to_other_hook;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::driver::Driver;
use nvidia_upgrade::state::ControllerState;
use observed::ObservedNode;

use super::inputs::FleetInputs;

/// Returns the reason if another actor works on the node.
pub(super) fn work_of_other_actor(fleet: &FleetInputs<'_>, node: &ObservedNode) -> Option<Reason> {
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
