//! The end of a node's upgrade, and stage 12: uncordon.

use super::super::snapshot::NodeEntry;
use super::super::state::ControllerState;
use super::{PassError, PassRun, PassWrite};

impl PassRun<'_, '_> {
    /// A node that was cordoned before stays so, and is done; any other is to be uncordoned. With the maintenance-operator all are.
    pub(super) fn finish(&mut self, entry: &NodeEntry<'_>) -> Result<(), PassError> {
        let key = self.traits.initially_unschedulable;
        // A node that is there twice loses the note with its first entry. What takes an annotation off reads the node again, so after a validation
        // the second one knows.
        let is_gone =
            |write: &PassWrite| matches!(write, PassWrite::Annotate { node, key: gone, value: None } if node == entry.node && *gone == key);
        let reads_again = entry.state == ControllerState::ValidationRequired && !entry.validators.is_empty();
        let is_noted = entry.notes.initially_unschedulable && !(reads_again && self.outcome.writes.iter().any(is_gone));
        if is_noted && !entry.notes.requestor {
            self.state(entry, ControllerState::Done)?;
            return self.annotate(entry, key, None);
        }
        self.state(entry, ControllerState::UncordonRequired)?;
        if entry.notes.requestor {
            self.annotate(entry, key, None)?;
        }
        Ok(())
    }

    /// Uncordons whatever is cordoned, whoever did it.
    pub(super) fn uncordon(&mut self) -> Result<(), PassError> {
        for entry in self.bucket(ControllerState::UncordonRequired).filter(|entry| !entry.notes.requestor) {
            if entry.unschedulable {
                self.write(PassWrite::Uncordon { node: entry.node.to_owned() })?;
            }
            self.state(entry, ControllerState::Done)?;
        }
        Ok(())
    }
}
