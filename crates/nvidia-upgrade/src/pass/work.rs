//! Stages 5 to 7: jobs, pods that use the device, drain.

use contract::policy::CompletionPolicy;

use super::super::snapshot::NodeEntry;
use super::super::state::ControllerState;
use super::{PassError, PassRun, PassWrite};

/// Waits for the jobs that the policy selects. No error in this stage ends the pass.
pub(super) fn wait_for_jobs(run: &mut PassRun<'_, '_>) {
    let rules = run.rules;
    for entry in run.bucket(ControllerState::WaitForJobsRequired) {
        let result = match &rules.policy.wait_for_completion {
            None => run.state(
                entry,
                if run.options.pod_deletion {
                    ControllerState::PodDeletionRequired
                } else {
                    ControllerState::DrainRequired
                },
            ),
            // With a selector, the node moves to the pod deletion, even if there is no such step.
            Some(_) if entry.jobs == 0 => run
                .annotate(entry, run.traits.wait_start, None)
                .and_then(|()| run.state(entry, ControllerState::PodDeletionRequired)),
            Some(wait) => still_busy(run, entry, wait),
        };
        run.swallow(result);
    }
}

/// Returns whether the wait goes on. A job that takes too long is not a failure: the node continues
/// without it.
fn still_busy(
    run: &mut PassRun<'_, '_>,
    entry: &NodeEntry<'_>,
    wait: &CompletionPolicy,
) -> Result<(), PassError> {
    if wait.timeout_seconds == 0 {
        return Ok(());
    }
    let key = run.traits.wait_start;
    if timed_out(run, entry, key, entry.notes.wait_start, wait.timeout_seconds)? {
        run.state(entry, ControllerState::PodDeletionRequired)?;
        run.annotate(entry, key, None)?;
    }
    Ok(())
}

/// Returns whether more than a number of seconds have passed since the time in an annotation;
/// without the annotation, the time starts now.
pub(super) fn timed_out(
    run: &mut PassRun<'_, '_>,
    entry: &NodeEntry<'_>,
    key: &'static str,
    start: Option<&str>,
    seconds: u64,
) -> Result<bool, PassError> {
    let now = run.options.now.as_second();
    let Some(start) = start else {
        run.annotate(entry, key, Some(now.to_string()))?;
        return Ok(false);
    };
    let error =
        |_| PassError::StartTime { node: entry.node.to_owned(), key, value: start.to_owned() };
    let start: i64 = start.parse().map_err(error)?;
    Ok(now > start.saturating_add_unsigned(seconds))
}

/// Starts the eviction of the pods that use the device.
pub(super) fn pod_deletion(run: &mut PassRun<'_, '_>) -> Result<(), PassError> {
    for entry in run.bucket(ControllerState::PodDeletionRequired) {
        if !run.options.pod_deletion {
            let result = run.state(entry, ControllerState::DrainRequired);
            run.swallow(result);
            continue;
        }
        if run.rules.policy.pod_deletion.is_none() {
            return Err(PassError::NoPodDeletion { node: entry.node.to_owned() });
        }
        if !run.options.evicting.contains(entry.node) {
            run.write(PassWrite::Evict { node: entry.node.to_owned() })?;
        }
    }
    Ok(())
}

/// Starts the drain of the node, if the policy has one.
pub(super) fn drain(run: &mut PassRun<'_, '_>) -> Result<(), PassError> {
    for entry in run.bucket(ControllerState::DrainRequired) {
        if run.rules.policy.drain.is_none() {
            run.state(entry, ControllerState::PodRestartRequired)?;
        } else if !run.options.draining.contains(entry.node) {
            run.write(PassWrite::Drain { node: entry.node.to_owned() })?;
        }
    }
    Ok(())
}
