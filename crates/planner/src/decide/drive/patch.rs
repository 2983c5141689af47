//! Patches of nodes: what is put into them, and that none is issued twice before it is seen.

use crate::action::NodePatch;
use crate::decide::{Action, Deciding};
use crate::memory::PendingPatch;
use crate::upgrade::record::UpgradeRecord;
use crate::upgrade::state::UpgradeState;
use contract::driver::DriverTraits;
use observed::ObservedNode;

/// Seconds after which a patch that has not been seen is issued again.
pub(super) const REPEAT_SECONDS: u64 = 10;

impl Deciding<'_> {
    /// Issues a patch, unless one for the same state of the node is under way.
    pub(in crate::decide) fn issue(&mut self, mut patch: NodePatch, starts: bool) -> bool {
        if let Some(node) = self.observed.nodes.get(&patch.node)
            && (self.takes_no_patch(node) || self.tried_again(node).is_some())
        {
            return false;
        }
        if let Some(patched) = self.memory.patched.get(&patch.node)
            && patched.version == patch.version
            && !self.passed(patched.at, REPEAT_SECONDS)
        {
            return false;
        }
        let patched = PendingPatch { version: patch.version.clone(), at: self.now, starts };
        self.memory.patched.insert(patch.node.clone(), patched);
        self.passed(self.now, REPEAT_SECONDS);
        patch.starts = starts;
        self.actions.push(Action::PatchNode(patch));
        true
    }

    /// A patch is over when the node has been seen at another version, or is gone.
    pub(in crate::decide) fn forget_seen_patches(&mut self) {
        let nodes = &self.observed.nodes;
        self.memory.patched.retain(|name, patched| nodes.get(name).is_some_and(|node| node.version == patched.version));
    }

    /// Whether a patch of the node is under way: what it will change has not been seen.
    pub(in crate::decide) fn is_patched(&mut self, node: &ObservedNode) -> bool {
        match self.memory.patched.get(&node.name).map(|patched| patched.at) {
            Some(at) => !self.passed(at, REPEAT_SECONDS),
            None => false,
        }
    }
}

/// Puts state label and record into a patch.
pub(in crate::decide) fn put(patch: &mut NodePatch, record: &UpgradeRecord, traits: &DriverTraits) {
    patch.labels.insert(traits.own_state_label.to_owned(), Some(record.state.name().to_owned()));
    patch.annotations.insert(traits.own_record.to_owned(), Some(record.text()));
}

/// Takes the note away by which the vendor's controller leaves our cordon, where we let go of the node with it.
pub(super) fn take_note(patch: &mut NodePatch, node: &ObservedNode, record: &UpgradeRecord, traits: &DriverTraits) {
    if record.steps.contains_key(&UpgradeState::Lifted) && node.annotations.contains_key(traits.initially_unschedulable) {
        patch.annotations.insert(traits.initially_unschedulable.to_owned(), None);
    }
}

/// Takes both away.
pub(super) fn remove(patch: &mut NodePatch, traits: &DriverTraits) {
    patch.labels.insert(traits.own_state_label.to_owned(), None);
    patch.annotations.insert(traits.own_record.to_owned(), None);
}
