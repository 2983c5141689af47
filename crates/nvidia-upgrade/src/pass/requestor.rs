//! Requestor mode, in which NVIDIA's maintenance-operator takes nodes out of service: its own
//! stages 3, 8 and 13.

use super::super::snapshot::NodeEntry;
use super::super::state::ControllerState;
use super::begin::take_request;
use super::{PassError, PassRun, PassWrite};

/// The prefix of objects that operators share, one per node.
pub const SHARED_PREFIX: &str = "nvidia-operator";

/// The configuration of the mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requestor {
    /// The requestor.
    pub id: String,
    /// Namespace of the NodeMaintenance objects.
    pub namespace: String,
    /// Their names are `<prefix>-<node>`.
    pub prefix: String,
}

impl Requestor {
    /// Returns the name of a node's object.
    pub fn object(&self, node: &str) -> String {
        format!("{}-{node}", self.prefix)
    }
}

/// Requests every pending node at once: the maintenance-operator limits how many are in
/// maintenance.
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

/// Continues if the object is ready; starts again if it is gone. There is no timeout.
pub(super) fn maintenance(run: &mut PassRun<'_, '_>) -> Result<(), PassError> {
    for entry in run.bucket(ControllerState::NodeMaintenanceRequired) {
        match &entry.maintenance {
            None => run.state(entry, ControllerState::UpgradeRequired)?,
            Some(object) if object.reason == Some("Ready") => {
                run.state(entry, ControllerState::PodRestartRequired)?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Releases nodes. The label comes first: if a later write fails, it is never retried.
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

/// Returns the write that requests the node's NodeMaintenance; `None` if it exists, and the
/// requestor is already listed.
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
