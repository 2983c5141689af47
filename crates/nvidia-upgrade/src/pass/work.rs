//! Stages 5 to 7: jobs, pods that use the device, drain.

use contract::policy::CompletionPolicy;

use super::super::snapshot::NodeEntry;
use super::super::state::ControllerState;
use super::{PassError, PassRun, PassWrite};

impl PassRun<'_, '_> {
    /// Waits for the jobs that the policy names. Nothing that goes wrong in here ends the pass.
    pub(super) fn wait_for_jobs(&mut self) {
        let rules = self.rules;
        for entry in self.bucket(ControllerState::WaitForJobsRequired) {
            let result = match &rules.policy.wait_for_completion {
                None => self.state(
                    entry,
                    if self.options.pod_deletion { ControllerState::PodDeletionRequired } else { ControllerState::DrainRequired },
                ),
                // With a selector it goes on with the pods, even where there is no such step.
                Some(_) if entry.jobs == 0 => self
                    .annotate(entry, self.traits.wait_start, None)
                    .and_then(|()| self.state(entry, ControllerState::PodDeletionRequired)),
                Some(wait) => self.still_busy(entry, wait),
            };
            self.swallow(result);
        }
    }

    /// A job that takes too long is no failure: the node goes on without waiting for it.
    fn still_busy(&mut self, entry: &NodeEntry<'_>, wait: &CompletionPolicy) -> Result<(), PassError> {
        if wait.timeout_seconds == 0 {
            return Ok(());
        }
        let key = self.traits.wait_start;
        if self.timed_out(entry, key, entry.notes.wait_start, wait.timeout_seconds)? {
            self.state(entry, ControllerState::PodDeletionRequired)?;
            self.annotate(entry, key, None)?;
        }
        Ok(())
    }

    /// Whether more than so many seconds have gone by since the time in an annotation; without one the time begins now.
    pub(super) fn timed_out(
        &mut self,
        entry: &NodeEntry<'_>,
        key: &'static str,
        start: Option<&str>,
        seconds: u64,
    ) -> Result<bool, PassError> {
        let now = self.options.now.as_second();
        let Some(start) = start else {
            self.annotate(entry, key, Some(now.to_string()))?;
            return Ok(false);
        };
        let error = |_| PassError::StartTime { node: entry.node.to_owned(), key, value: start.to_owned() };
        let start: i64 = start.parse().map_err(error)?;
        Ok(now > start.saturating_add_unsigned(seconds))
    }

    /// Has the pods evicted that use the device.
    pub(super) fn pod_deletion(&mut self) -> Result<(), PassError> {
        for entry in self.bucket(ControllerState::PodDeletionRequired) {
            if !self.options.pod_deletion {
                let result = self.state(entry, ControllerState::DrainRequired);
                self.swallow(result);
                continue;
            }
            if self.rules.policy.pod_deletion.is_none() {
                return Err(PassError::NoPodDeletion { node: entry.node.to_owned() });
            }
            if !self.options.evicting.contains(entry.node) {
                self.write(PassWrite::Evict { node: entry.node.to_owned() })?;
            }
        }
        Ok(())
    }

    /// Has the node drained, if the policy has a drain.
    pub(super) fn drain(&mut self) -> Result<(), PassError> {
        for entry in self.bucket(ControllerState::DrainRequired) {
            if self.rules.policy.drain.is_none() {
                self.state(entry, ControllerState::PodRestartRequired)?;
            } else if !self.options.draining.contains(entry.node) {
                self.write(PassWrite::Drain { node: entry.node.to_owned() })?;
            }
        }
        Ok(())
    }
}
