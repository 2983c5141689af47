//! Stage 11: the validator's pods must be ready.

use super::super::snapshot::NodeEntry;
use super::super::state::ControllerState;
use super::{PassError, PassRun};

/// Seconds that a validator gets (k8s-operator-libs `validation_manager.go`).
pub const VALIDATION_SECONDS: u64 = 600;

impl PassRun<'_, '_> {
    pub(super) fn validation(&mut self) -> Result<(), PassError> {
        for entry in self.bucket(ControllerState::ValidationRequired) {
            self.let_it_load(entry)?;
            if self.is_valid(entry)? {
                self.finish(entry)?;
            }
        }
        Ok(())
    }

    /// Leave for a driver pod that waits with loading the driver.
    pub(super) fn let_it_load(&mut self, entry: &NodeEntry<'_>) -> Result<(), PassError> {
        if entry.waits_for_safe_load() { self.annotate(entry, self.traits.safe_load, None) } else { Ok(()) }
    }

    /// Whether all validator pods are ready; without any it is not, and no time runs. A ready pod that comes before one that is not takes
    /// the time back to nothing, every pass.
    fn is_valid(&mut self, entry: &NodeEntry<'_>) -> Result<bool, PassError> {
        if !self.options.validation {
            return Ok(true);
        }
        let key = self.traits.validation_start;
        let mut start = entry.notes.validation_start;
        for validator in &entry.validators {
            if !validator.ready {
                if self.timed_out(entry, key, start, VALIDATION_SECONDS)? {
                    self.state(entry, ControllerState::Failed)?;
                    self.annotate(entry, key, None)?;
                }
                return Ok(false);
            }
            self.annotate(entry, key, None)?;
            start = None;
        }
        Ok(!entry.validators.is_empty())
    }
}
