//! One pass, pure: what the controller sees → what it does.

use gpu_rollout::contract::count::Count;

/// A node with a driver pod.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) unschedulable: bool,
    pub(super) ready: bool,
    pub(super) skipped: bool,
    pub(super) initially_unschedulable: bool,
    pub(super) validation_started: bool,
    /// Whether the node's validator pod is ready; `None`: there is none.
    pub(super) validator: Option<bool>,
    pub(super) driver: DriverPod,
    /// Pods that use its GPUs, where they are to leave.
    pub(super) holders: usize,
}

/// Its driver pod.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
pub(super) struct DriverPod {
    pub(super) in_sync: bool,
    pub(super) ready: bool,
    pub(super) failing: bool,
    pub(super) terminating: bool,
}

/// The limits.
pub(super) struct Policy {
    pub(super) max_parallel: i64,
    pub(super) max_unavailable: Option<Count>,
}

/// One write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    State(&'static str),
    Unschedulable(bool),
    RememberUnschedulable,
    ForgetUnschedulable,
    StartValidation,
    EndValidation,
    Evict,
    DeleteDriver,
}

/// The writes of one pass, in order: at most one transition for each node.
pub(super) fn pass(entries: &[Entry], policy: &Policy) -> Vec<(String, Step)> {
    let mut free = free_slots(entries, policy);
    let mut writes = Vec::new();
    for entry in entries {
        writes.extend(steps(entry, &mut free).into_iter().map(|step| (entry.name.clone(), step)));
    }
    writes
}

fn steps(entry: &Entry, free: &mut i64) -> Vec<Step> {
    let driver = entry.driver;
    match entry.state.as_str() {
        "" | "upgrade-done" if !driver.in_sync => {
            let mut steps = Vec::new();
            if entry.unschedulable {
                steps.push(Step::RememberUnschedulable);
            }
            steps.push(Step::State("upgrade-required"));
            steps
        }
        "" => vec![Step::State("upgrade-done")],
        "upgrade-required" if !entry.skipped && (*free > 0 || entry.unschedulable) => {
            *free -= 1;
            vec![Step::State("cordon-required")]
        }
        "cordon-required" => vec![Step::Unschedulable(true), Step::State("wait-for-jobs-required")],
        "wait-for-jobs-required" => vec![Step::State("pod-deletion-required")],
        "pod-deletion-required" if entry.holders > 0 => vec![Step::Evict],
        "pod-deletion-required" => vec![Step::State("pod-restart-required")],
        "pod-restart-required" if !driver.in_sync && !driver.terminating => vec![Step::DeleteDriver],
        "pod-restart-required" if driver.in_sync && driver.ready => vec![Step::State("validation-required")],
        "pod-restart-required" if driver.in_sync && driver.failing => vec![Step::State("upgrade-failed")],
        "upgrade-failed" if driver.in_sync && driver.ready => finish(entry),
        "validation-required" => match entry.validator {
            Some(true) => {
                let mut steps = if entry.validation_started { vec![Step::EndValidation] } else { Vec::new() };
                steps.extend(finish(entry));
                steps
            }
            Some(false) if !entry.validation_started => vec![Step::StartValidation],
            Some(false) | None => Vec::new(),
        },
        "uncordon-required" => vec![Step::Unschedulable(false), Step::State("upgrade-done")],
        _ => Vec::new(),
    }
}

/// A node that was cordoned before the upgrade stays so.
fn finish(entry: &Entry) -> Vec<Step> {
    if entry.initially_unschedulable {
        vec![Step::State("upgrade-done"), Step::ForgetUnschedulable]
    } else {
        vec![Step::State("uncordon-required")]
    }
}

/// How many nodes may start now.
fn free_slots(entries: &[Entry], policy: &Policy) -> i64 {
    let count = |wanted: &dyn Fn(&Entry) -> bool| i64::try_from(entries.iter().filter(|entry| wanted(entry)).count()).unwrap_or(i64::MAX);
    let total = count(&|_| true);
    let required = count(&|entry| entry.state == "upgrade-required");
    let in_progress = total - required - count(&|entry| matches!(entry.state.as_str(), "" | "upgrade-done"));
    let unavailable = count(&|entry| entry.unschedulable || !entry.ready) + count(&|entry| entry.state == "cordon-required");
    let limit = policy.max_unavailable.map_or(total, |limit| i64::try_from(limit.of(entries.len())).unwrap_or(i64::MAX));
    let free = if policy.max_parallel == 0 { required } else { policy.max_parallel - in_progress }.min(limit);
    if unavailable >= limit {
        0
    } else if limit < total && unavailable + free > limit {
        limit - unavailable
    } else {
        free
    }
}
