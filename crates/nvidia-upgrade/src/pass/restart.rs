//! Stages 9 and 10: replacement of the driver pod, and failed nodes.

use super::super::state::ControllerState;
use super::finish::finish;
use super::validate::let_it_load;
use super::{PassError, PassRun, PassWrite, in_sync, is_up};

/// Maximum number of restarts of a container that is not ready; more are a failure
/// (k8s-operator-libs, `isDriverPodFailing`).
pub const MOST_RESTARTS: i32 = 10;

/// Deletes driver pods with older revisions, and checks whether the new ones are up. There is no
/// timeout for a pod that hangs without restarts.
pub(super) fn restart(run: &mut PassRun<'_, '_>) -> Result<(), PassError> {
    let mut stale = Vec::new();
    for entry in run.bucket(ControllerState::PodRestartRequired) {
        if !in_sync(entry)? {
            if !entry.pod.deleting {
                stale.push(entry);
            }
            continue;
        }
        let_it_load(run, entry)?;
        if is_up(entry)? {
            if run.options.validation {
                run.state(entry, ControllerState::ValidationRequired)?;
            } else {
                finish(run, entry)?;
            }
        } else if entry.pod.unready_restarts > MOST_RESTARTS {
            run.state(entry, ControllerState::Failed)?;
        }
    }
    for entry in stale {
        run.write(PassWrite::DeletePod {
            node: entry.node.to_owned(),
            namespace: entry.pod.namespace.to_owned(),
            name: entry.pod.name.to_owned(),
            uid: entry.pod.uid.to_owned(),
        })?;
    }
    Ok(())
}

/// Continues with a failed node as soon as its driver is up. It is not validated.
pub(super) fn failed(run: &mut PassRun<'_, '_>) -> Result<(), PassError> {
    for entry in run.bucket(ControllerState::Failed) {
        if !is_up(entry)? {
            continue;
        }
        if entry.notes.initially_unschedulable {
            run.state(entry, ControllerState::Done)?;
            run.annotate(entry, run.traits.initially_unschedulable, None)?;
        } else {
            run.state(entry, ControllerState::UncordonRequired)?;
        }
    }
    Ok(())
}
