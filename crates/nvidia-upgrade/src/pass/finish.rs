//! The end of a node's upgrade, and stage 12: uncordon.

use super::super::snapshot::NodeEntry;
use super::super::state::ControllerState;
use super::{PassError, PassRun, PassWrite};

/// Ends the upgrade of a node: a node that was cordoned before stays cordoned, and is done; any
/// other is uncordoned. With the maintenance-operator, all are.
pub(super) fn finish(run: &mut PassRun<'_, '_>, entry: &NodeEntry<'_>) -> Result<(), PassError> {
    let key = run.traits.initially_unschedulable;
    // A node with two entries loses the annotation with its first entry. The removal of an
    // annotation reads the node again, so after a validation the second entry is up to date.
    let is_gone = |write: &PassWrite| matches!(write, PassWrite::Annotate { node, key: gone, value: None } if node == entry.node && *gone == key);
    let reads_again =
        entry.state == ControllerState::ValidationRequired && !entry.validators.is_empty();
    let is_noted = entry.notes.initially_unschedulable
        && !(reads_again && run.outcome.writes.iter().any(is_gone));
    if is_noted && !entry.notes.requestor {
        run.state(entry, ControllerState::Done)?;
        return run.annotate(entry, key, None);
    }
    run.state(entry, ControllerState::UncordonRequired)?;
    if entry.notes.requestor {
        run.annotate(entry, key, None)?;
    }
    Ok(())
}

/// Uncordons all nodes in the state, also those with a foreign cordon.
pub(super) fn uncordon(run: &mut PassRun<'_, '_>) -> Result<(), PassError> {
    for entry in
        run.bucket(ControllerState::UncordonRequired).filter(|entry| !entry.notes.requestor)
    {
        if entry.unschedulable {
            run.write(PassWrite::Uncordon { node: entry.node.to_owned() })?;
        }
        run.state(entry, ControllerState::Done)?;
    }
    Ok(())
}
