//! The mode in which NVIDIA's maintenance-operator takes nodes out of service: stages 3, 8 and 13 of their own.

use super::super::snapshot::NodeEntry;
use super::super::state::ControllerState;
use super::{PassError, PassRun, PassWrite};

/// The prefix with which operators share one object a node.
pub const SHARED_PREFIX: &str = "nvidia-operator";

/// How the mode is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requestor {
    /// Who asks.
    pub id: String,
    /// Namespace of the NodeMaintenance objects.
    pub namespace: String,
    /// Their names are `<prefix>-<node>`.
    pub prefix: String,
}

impl Requestor {
    /// The name of a node's object.
    pub fn object(&self, node: &str) -> String {
        format!("{}-{node}", self.prefix)
    }
}

impl PassRun<'_, '_> {
    /// Asks for every pending node at once: how many go is the maintenance-operator's business.
    pub(super) fn request(&mut self, requestor: &Requestor) -> Result<(), PassError> {
        for entry in self.bucket(ControllerState::UpgradeRequired) {
            self.take_request(entry)?;
            if entry.is_skipped() {
                continue;
            }
            if let Some(write) = request_of(entry, requestor) {
                self.write(write)?;
            }
            self.annotate(entry, self.traits.requestor, Some("true".to_owned()))?;
            self.state(entry, ControllerState::NodeMaintenanceRequired)?;
        }
        Ok(())
    }

    /// Goes on where the object is ready; begins again where it is gone. There is no limit of time.
    pub(super) fn maintenance(&mut self) -> Result<(), PassError> {
        for entry in self.bucket(ControllerState::NodeMaintenanceRequired) {
            match &entry.maintenance {
                None => self.state(entry, ControllerState::UpgradeRequired)?,
                Some(object) if object.reason == Some("Ready") => self.state(entry, ControllerState::PodRestartRequired)?,
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Gives nodes back. The label comes first: what fails after it is never tried again.
    pub(super) fn release(&mut self, requestor: &Requestor) -> Result<(), PassError> {
        for entry in self.bucket(ControllerState::UncordonRequired).filter(|entry| entry.notes.requestor) {
            self.state(entry, ControllerState::Done)?;
            self.annotate(entry, self.traits.requestor, None)?;
            let (node, name) = (entry.node.to_owned(), requestor.object(entry.node));
            match &entry.maintenance {
                Some(object) if object.requestor == requestor.id => {
                    if !object.deleting {
                        self.write(PassWrite::DeleteMaintenance { node, name })?;
                    }
                }
                Some(object) if object.additional.contains(&requestor.id.as_str()) => {
                    self.write(PassWrite::LeaveMaintenance { node, name })?;
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}

/// What brings the node's NodeMaintenance about. `None`: it is there, and ours too.
fn request_of(entry: &NodeEntry<'_>, requestor: &Requestor) -> Option<PassWrite> {
    let (node, name) = (entry.node.to_owned(), requestor.object(entry.node));
    match &entry.maintenance {
        Some(object) if requestor.prefix == SHARED_PREFIX => {
            if object.requestor == requestor.id || object.additional.contains(&requestor.id.as_str()) {
                None
            } else {
                Some(PassWrite::JoinMaintenance { node, name })
            }
        }
        Some(_) | None => Some(PassWrite::CreateMaintenance { node, name }),
    }
}
