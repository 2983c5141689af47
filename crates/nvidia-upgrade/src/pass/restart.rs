//! Stages 9 and 10: the driver pod is replaced, and nodes that were given up.

use super::super::state::ControllerState;
use super::finish::finish;
use super::validate::let_it_load;
use super::{PassError, PassRun, PassWrite, in_sync, is_up};

/// More restarts than this, of a container that is not ready, are a failure (k8s-operator-libs, `isDriverPodFailing`).
pub const MOST_RESTARTS: i32 = 10;

/// Deletes driver pods of older revisions, and looks whether the new ones are up. A pod that hangs without being restarted is waited
/// for without limit.
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

/// A failed node comes back as soon as its driver is up. It is not validated.
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
