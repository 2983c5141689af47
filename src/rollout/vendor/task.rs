//! What the controller's background tasks come to: eviction and drain of one node. How long they take is the world's business.

use crate::contract::policy::Policy;

use super::snapshot::Users;
use super::state::State;

/// How an eviction task begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Nothing to evict, or not all of it may be: the node goes on at once, no pod is touched.
    Ends(State),
    /// All of them are evicted.
    Runs,
}

/// Compares numbers only: how many pods use the device, and how many of them may be evicted.
pub fn eviction(users: &Users, policy: &Policy) -> Eviction {
    match (users.wanted, users.evictable) {
        (0, _) => Eviction::Ends(State::PodRestartRequired),
        (wanted, evictable) if wanted == evictable => Eviction::Runs,
        _ => Eviction::Ends(eviction_ended(false, policy)),
    }
}

/// Where a node goes after its evictions. When they went well no drain follows.
pub fn eviction_ended(well: bool, policy: &Policy) -> State {
    match (well, &policy.drain) {
        (true, _) => State::PodRestartRequired,
        (false, Some(_)) => State::DrainRequired,
        (false, None) => State::Failed,
    }
}

/// Where a node goes after its drain.
pub fn drain_ended(well: bool) -> State {
    if well { State::PodRestartRequired } else { State::Failed }
}

/// The drain's selector, as the operators compose it: the user's, and the pods that nobody drains left out.
pub fn drain_selector(user: &str, drain_skip_label: &str) -> String {
    if user.is_empty() { format!("{drain_skip_label}!=true") } else { format!("{user},{drain_skip_label}!=true") }
}
