//! What the controller's background tasks come to: eviction and drain of one node. How long they take is the world's business.

use contract::policy::{DrainPolicy, Policy};
use contract::selector::Selector;

use super::snapshot::NodeDevicePods;
use super::state::ControllerState;
use super::users::is_of_daemon_set;
use observed::workload::Workload;

/// How an eviction task begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionTask {
    /// Nothing to evict, or not all of it may be: the node goes on at once, no pod is touched.
    Ends(ControllerState),
    /// All of them are evicted.
    Runs,
}

/// Compares numbers only: how many pods use the device, and how many of them may be evicted.
pub fn eviction(users: &NodeDevicePods, policy: &Policy) -> EvictionTask {
    match (users.wanted, users.evictable) {
        (0, _) => EvictionTask::Ends(ControllerState::PodRestartRequired),
        (wanted, evictable) if wanted == evictable => EvictionTask::Runs,
        _ => EvictionTask::Ends(eviction_ended(false, policy)),
    }
}

/// Where a node goes after its evictions. When they went well no drain follows.
pub fn eviction_ended(well: bool, policy: &Policy) -> ControllerState {
    match (well, &policy.drain) {
        (true, _) => ControllerState::PodRestartRequired,
        (false, Some(_)) => ControllerState::DrainRequired,
        (false, None) => ControllerState::Failed,
    }
}

/// Where a node goes after its drain.
pub fn drain_ended(well: bool) -> ControllerState {
    if well { ControllerState::PodRestartRequired } else { ControllerState::Failed }
}

/// The drain's selector, as the operators compose it: the user's, and the pods that nobody drains left out.
pub fn drain_selector(user: &str, drain_skip_label: &str) -> String {
    if user.is_empty() {
        format!("{drain_skip_label}!=true")
    } else {
        format!("{user},{drain_skip_label}!=true")
    }
}

/// The pods of one node that a drain evicts, those that are being deleted already among them: it waits for these too. `None`: one of the pods may
/// not be evicted, so none is. `selector`: [`drain_selector`]. Pods of DaemonSets (which are taken to exist) stay while they run, static pods
/// always.
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
