//! Stages 1 to 4: who needs an upgrade, whose turn it is, cordon.

use super::super::snapshot::{Entry, Revision};
use super::super::state::State;
use super::super::throttle::{Turn, slots, turn};
use super::{PassError, Run, Write, in_sync};

/// Whether the node needs an upgrade: its pod is of an older revision, waits for leave to load, or somebody asks for it.
fn needs_upgrade(entry: &Entry<'_>) -> Result<bool, PassError> {
    let older = !in_sync(entry)? && entry.pod.revision != Revision::Orphaned;
    Ok(older || entry.waits_for_safe_load() || entry.is_requested())
}

impl Run<'_, '_> {
    /// Nodes without a state, and nodes that are done.
    pub(super) fn unknown_or_done(&mut self, state: State) -> Result<(), PassError> {
        for entry in self.bucket(state) {
            if needs_upgrade(entry)? {
                if entry.unschedulable {
                    self.annotate(entry, self.driver().traits().initially_unschedulable, Some("true".to_owned()))?;
                }
                self.state(entry, State::UpgradeRequired)?;
            } else if state == State::Unknown {
                self.state(entry, State::Done)?;
            }
        }
        Ok(())
    }

    /// Starts as many pending nodes as the policy allows.
    pub(super) fn start(&mut self) -> Result<(), PassError> {
        let mut available = slots(self.snapshot, &self.rules.policy).available;
        for entry in self.bucket(State::UpgradeRequired) {
            let requested = self.take_request(entry)?;
            if turn(entry, available) != Turn::Starts {
                continue;
            }
            if !requested && self.restarts_only(entry) {
                // A node that cannot be cordoned stays, and the others go on.
                if !entry.unschedulable
                    && let Err(error) = self.write(Write::Cordon { node: entry.node.to_owned() })
                {
                    self.outcome.swallowed.push(error);
                    continue;
                }
                self.state(entry, State::PodRestartRequired)?;
            } else {
                self.state(entry, State::CordonRequired)?;
            }
            available -= 1;
        }
        Ok(())
    }

    /// A request is taken off as soon as it is seen, whether the node may start or not.
    pub(super) fn take_request(&mut self, entry: &Entry<'_>) -> Result<bool, PassError> {
        let requested = entry.is_requested();
        if requested {
            self.annotate(entry, self.driver().traits().requested, None)?;
        }
        Ok(requested)
    }

    /// The same driver configuration in pod and template: the driver need not be installed anew, and workloads can stay. That the pod is
    /// out of date at all is not asked.
    fn restarts_only(&self, entry: &Entry<'_>) -> bool {
        let digest = entry.pod.digest.filter(|digest| !digest.is_empty());
        self.options.generation.features().restart_only
            && entry.pod.revision != Revision::Orphaned
            && !entry.waits_for_safe_load()
            && digest.is_some()
            && digest == entry.pod.template_digest
    }

    /// Cordons the nodes whose turn has come.
    pub(super) fn cordon(&mut self) -> Result<(), PassError> {
        for entry in self.bucket(State::CordonRequired) {
            if !entry.unschedulable {
                self.write(Write::Cordon { node: entry.node.to_owned() })?;
            }
            self.state(entry, State::WaitForJobsRequired)?;
        }
        Ok(())
    }
}
