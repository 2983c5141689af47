//! Stages 1 to 4: nodes that need an upgrade, nodes that start, cordon.

use super::super::snapshot::{NodeEntry, PodRevision};
use super::super::state::ControllerState;
use super::super::throttle::{PendingDecision, slots, turn};
use super::{PassError, PassOptions, PassRun, PassWrite, in_sync};

/// Returns whether the node needs an upgrade: its pod has an older revision, or waits to load the
/// driver, or a user requests it.
fn needs_upgrade(entry: &NodeEntry<'_>) -> Result<bool, PassError> {
    let older = !in_sync(entry)? && entry.pod.revision != PodRevision::Orphaned;
    Ok(older || entry.waits_for_safe_load() || entry.is_requested())
}

/// Handles nodes without a state, and nodes that are done.
pub(super) fn unknown_or_done(
    run: &mut PassRun<'_, '_>,
    state: ControllerState,
) -> Result<(), PassError> {
    for entry in run.bucket(state) {
        if needs_upgrade(entry)? {
            if entry.unschedulable {
                run.annotate(entry, run.traits.initially_unschedulable, Some("true".to_owned()))?;
            }
            run.state(entry, ControllerState::UpgradeRequired)?;
        } else if state == ControllerState::Unknown {
            run.state(entry, ControllerState::Done)?;
        }
    }
    Ok(())
}

/// Starts as many pending nodes as the policy allows.
pub(super) fn start(run: &mut PassRun<'_, '_>) -> Result<(), PassError> {
    let mut available = slots(run.snapshot, &run.rules.policy).available;
    for entry in run.bucket(ControllerState::UpgradeRequired) {
        let requested = take_request(run, entry)?;
        if turn(entry, available) != PendingDecision::Starts {
            continue;
        }
        if !requested && restarts_only(run.options, entry) {
            // A node that cannot be cordoned stays, and the others continue.
            if !entry.unschedulable
                && let Err(error) = run.write(PassWrite::Cordon { node: entry.node.to_owned() })
            {
                run.outcome.swallowed.push(error);
                continue;
            }
            run.state(entry, ControllerState::PodRestartRequired)?;
        } else {
            run.state(entry, ControllerState::CordonRequired)?;
        }
        available -= 1;
    }
    Ok(())
}

/// Removes a request as soon as it is read, whether the node may start or not.
pub(super) fn take_request(
    run: &mut PassRun<'_, '_>,
    entry: &NodeEntry<'_>,
) -> Result<bool, PassError> {
    let requested = entry.is_requested();
    if requested {
        run.annotate(entry, run.traits.requested, None)?;
    }
    Ok(requested)
}

/// Cordons the nodes that were started.
pub(super) fn cordon(run: &mut PassRun<'_, '_>) -> Result<(), PassError> {
    for entry in run.bucket(ControllerState::CordonRequired) {
        if !entry.unschedulable {
            run.write(PassWrite::Cordon { node: entry.node.to_owned() })?;
        }
        run.state(entry, ControllerState::WaitForJobsRequired)?;
    }
    Ok(())
}

/// Returns whether pod and template have the same driver configuration: the driver need not be
/// installed again, and workloads can stay. Whether the pod is out of date is not checked.
fn restarts_only(options: &PassOptions, entry: &NodeEntry<'_>) -> bool {
    let digest = entry.pod.digest.filter(|digest| !digest.is_empty());
    options.generation.features().restart_only
        && entry.pod.revision != PodRevision::Orphaned
        && !entry.waits_for_safe_load()
        && digest.is_some()
        && digest == entry.pod.template_digest
}
