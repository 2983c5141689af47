//! The results of the controller's background tasks: eviction and drain of one node. The caller
//! simulates how long they take.

use contract::policy::{DrainPolicy, Policy};
use contract::selector::Selector;

use super::snapshot::NodeDevicePods;
use super::state::ControllerState;
use super::users::is_of_daemon_set;
use observed::workload::Workload;

/// The start of an eviction task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionTask {
    /// There is nothing to evict, or not all pods may be evicted: the node enters this state at
    /// once, and no pod is evicted.
    Ends(ControllerState),
    /// All of them are evicted.
    Runs,
}

/// Compares only numbers: how many pods use the device, and how many of them may be evicted.
pub fn eviction(users: &NodeDevicePods, policy: &Policy) -> EvictionTask {
    match (users.wanted, users.evictable) {
        (0, _) => EvictionTask::Ends(ControllerState::PodRestartRequired),
        (wanted, evictable) if wanted == evictable => EvictionTask::Runs,
        _ => EvictionTask::Ends(eviction_ended(false, policy)),
    }
}

/// Returns the state of a node after its evictions. After successful evictions, no drain follows.
pub fn eviction_ended(well: bool, policy: &Policy) -> ControllerState {
    match (well, &policy.drain) {
        (true, _) => ControllerState::PodRestartRequired,
        (false, Some(_)) => ControllerState::DrainRequired,
        (false, None) => ControllerState::Failed,
    }
}

/// Returns the state of a node after its drain.
pub fn drain_ended(well: bool) -> ControllerState {
    if well { ControllerState::PodRestartRequired } else { ControllerState::Failed }
}

/// Returns the drain's selector, as the operators compose it: the user's, without the pods that are
/// never drained.
pub fn drain_selector(user: &str, drain_skip_label: &str) -> String {
    if user.is_empty() {
        format!("{drain_skip_label}!=true")
    } else {
        format!("{user},{drain_skip_label}!=true")
    }
}

/// Returns the pods of one node that a drain evicts, including those that are already being
/// deleted, because the drain waits for these too; `None` if one of the pods may not be evicted, so
/// none is. `selector`: [`drain_selector`]. Pods of DaemonSets (which are assumed to exist) stay
/// while they run, static pods always.
pub fn drained<'p>(
    pods: &'p [Workload],
    drain: &DrainPolicy,
    selector: &Selector,
) -> Option<Vec<&'p Workload>> {
    let stays = |pod: &Workload| is_of_daemon_set(pod) && !pod.phase.is_finished() || pod.mirror;
    let may = |pod: &Workload| {
        pod.phase.is_finished()
            || (drain.force || pod.controller.is_some())
                && (drain.delete_empty_dir || !(pod.empty_dir || pod.memory_dir))
    };
    let going: Vec<&Workload> =
        pods.iter().filter(|pod| selector.matches(&pod.labels) && !stays(pod)).collect();
    going.iter().all(|pod| may(pod)).then_some(going)
}
