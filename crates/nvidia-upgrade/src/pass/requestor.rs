//! The mode in which NVIDIA's maintenance-operator takes nodes out of service: stages 3, 8 and 13 of their own.

use super::super::snapshot::NodeEntry;
use super::super::state::ControllerState;
use super::begin::take_request;
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

/// Asks for every pending node at once: how many go is the maintenance-operator's business.
pub(super) fn request(run: &mut PassRun<'_, '_>, requestor: &Requestor) -> Result<(), PassError> {
    for entry in run.bucket(ControllerState::UpgradeRequired) {
        take_request(run, entry)?;
        if entry.is_skipped() {
            continue;
        }
        if let Some(write) = request_of(entry, requestor) {
            run.write(write)?;
        }
        run.annotate(entry, run.traits.requestor, Some("true".to_owned()))?;
        run.state(entry, ControllerState::NodeMaintenanceRequired)?;
    }
    Ok(())
}

/// Goes on where the object is ready; begins again where it is gone. There is no limit of time.
pub(super) fn maintenance(run: &mut PassRun<'_, '_>) -> Result<(), PassError> {
    for entry in run.bucket(ControllerState::NodeMaintenanceRequired) {
        match &entry.maintenance {
            None => run.state(entry, ControllerState::UpgradeRequired)?,
            Some(object) if object.reason == Some("Ready") => {
                run.state(entry, ControllerState::PodRestartRequired)?
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Gives nodes back. The label comes first: what fails after it is never tried again.
pub(super) fn release(run: &mut PassRun<'_, '_>, requestor: &Requestor) -> Result<(), PassError> {
    for entry in run.bucket(ControllerState::UncordonRequired).filter(|entry| entry.notes.requestor)
    {
        run.state(entry, ControllerState::Done)?;
        run.annotate(entry, run.traits.requestor, None)?;
        let (node, name) = (entry.node.to_owned(), requestor.object(entry.node));
        match &entry.maintenance {
            Some(object) if object.requestor == requestor.id => {
                if !object.deleting {
                    run.write(PassWrite::DeleteMaintenance { node, name })?;
                }
            }
            Some(object) if object.additional.contains(&requestor.id.as_str()) => {
                run.write(PassWrite::LeaveMaintenance { node, name })?;
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// What brings the node's NodeMaintenance about. `None`: it is there, and ours too.
fn request_of(entry: &NodeEntry<'_>, requestor: &Requestor) -> Option<PassWrite> {
    let (node, name) = (entry.node.to_owned(), requestor.object(entry.node));
    match &entry.maintenance {
        Some(object) if requestor.prefix == SHARED_PREFIX => {
            if object.requestor == requestor.id
                || object.additional.contains(&requestor.id.as_str())
            {
                None
            } else {
                Some(PassWrite::JoinMaintenance { node, name })
            }
        }
        Some(_) | None => Some(PassWrite::CreateMaintenance { node, name }),
    }
}
