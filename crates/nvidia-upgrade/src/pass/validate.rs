//! Stage 11: the validator's pods must be ready.

use super::super::snapshot::NodeEntry;
use super::super::state::ControllerState;
use super::finish::finish;
use super::work::timed_out;
use super::{PassError, PassRun};

/// Seconds within which a validator must succeed (k8s-operator-libs `validation_manager.go`).
pub const VALIDATION_SECONDS: u64 = 600;

pub(super) fn validation(run: &mut PassRun<'_, '_>) -> Result<(), PassError> {
    for entry in run.bucket(ControllerState::ValidationRequired) {
        let_it_load(run, entry)?;
        if is_valid(run, entry)? {
            finish(run, entry)?;
        }
    }
    Ok(())
}

/// Allows a waiting driver pod to load the driver.
pub(super) fn let_it_load(
    run: &mut PassRun<'_, '_>,
    entry: &NodeEntry<'_>,
) -> Result<(), PassError> {
    if entry.waits_for_safe_load() {
        run.annotate(entry, run.traits.safe_load, None)
    } else {
        Ok(())
    }
}

/// Returns whether all validator pods are ready; without any, the node is not valid, and no timeout
/// applies. A ready pod before one that is not ready resets the time in every pass.
fn is_valid(run: &mut PassRun<'_, '_>, entry: &NodeEntry<'_>) -> Result<bool, PassError> {
    if !run.options.validation {
        return Ok(true);
    }
    let key = run.traits.validation_start;
    let mut start = entry.notes.validation_start;
    for validator in &entry.validators {
        if !validator.ready {
            if timed_out(run, entry, key, start, VALIDATION_SECONDS)? {
                run.state(entry, ControllerState::Failed)?;
                run.annotate(entry, key, None)?;
            }
            return Ok(false);
        }
        run.annotate(entry, key, None)?;
        start = None;
    }
    Ok(!entry.validators.is_empty())
}
