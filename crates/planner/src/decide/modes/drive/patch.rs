//! Contents of patches of nodes.

use crate::action::NodePatch;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::drive_upgrade::state::UpgradeState;
use contract::driver::DriverTraits;
use observed::ObservedNode;

/// Puts state label and record into a patch.
pub(in crate::decide) fn put(patch: &mut NodePatch, record: &UpgradeRecord, traits: &DriverTraits) {
    patch.labels.insert(traits.own_state_label.to_owned(), Some(record.state.name().to_owned()));
    patch.annotations.insert(traits.own_record.to_owned(), Some(record.text()));
}

/// Removes both.
pub(super) fn remove(patch: &mut NodePatch, traits: &DriverTraits) {
    patch.labels.insert(traits.own_state_label.to_owned(), None);
    patch.annotations.insert(traits.own_record.to_owned(), None);
}

/// Removes the annotation because of which NVIDIA's controller keeps gpu-rollout's cordon, if the
/// hook set it when it released the node.
pub(super) fn take_note(
    patch: &mut NodePatch,
    node: &ObservedNode,
    record: &UpgradeRecord,
    traits: &DriverTraits,
) {
    if record.steps.contains_key(&UpgradeState::Lifted)
        && node.annotations.contains_key(traits.initially_unschedulable)
    {
        patch.annotations.insert(traits.initially_unschedulable.to_owned(), None);
    }
}
