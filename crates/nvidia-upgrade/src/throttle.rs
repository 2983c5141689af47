//! The number of nodes that the controller starts, and which: its arithmetic, with all numbers
//! (state machine of k8s-operator-libs, `upgrade_inplace.go` and `GetUpgradesAvailable`).

use contract::policy::Policy;

use super::snapshot::{NodeEntry, UpgradeSnapshot};
use super::state::ControllerState;

/// The numbers of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpgradeSlots {
    /// Number of nodes that it manages; percentages refer to these.
    pub total: usize,
    /// Number of nodes in progress, failed ones included.
    pub in_progress: usize,
    /// Maximum number of unavailable nodes.
    pub max_unavailable: usize,
    /// Number of nodes that are cordoned or not Ready, in any state.
    pub unavailable: usize,
    /// Number of unavailable nodes plus the nodes about to be cordoned; a node that is both counts
    /// twice.
    pub counted: usize,
    /// Number of nodes that may start; may be below zero.
    pub available: i64,
    /// The limit that determines that number.
    pub limit: PolicyLimit,
}

/// A limit of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyLimit {
    /// No limit: all pending nodes.
    #[default]
    Pending,
    /// `maxParallelUpgrades`
    Parallel,
    /// `maxUnavailable`
    Unavailable,
}

/// The controller's decision about a pending node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingDecision {
    /// It starts.
    Starts,
    /// The user's skip label excludes it.
    Skipped,
    /// No slot is left for it.
    Waits,
}

/// Computes the numbers for the nodes of a snapshot under a policy.
pub fn slots(snapshot: &UpgradeSnapshot<'_>, policy: &Policy) -> UpgradeSlots {
    let UpgradeSnapshot { entries, counted: others, .. } = snapshot;
    let count =
        |test: &dyn Fn(&NodeEntry<'_>) -> bool| entries.iter().filter(|entry| test(entry)).count();
    let total =
        count(&|entry| entry.state.is_managed()) + others.settled + others.pending + others.skipped;
    let in_progress = count(&|entry| entry.state.is_in_progress());
    let pending = count(&|entry| entry.state == ControllerState::UpgradeRequired)
        + others.pending
        + others.skipped;
    let unavailable = count(&|entry| entry.is_unavailable());
    let counted = unavailable + count(&|entry| entry.state == ControllerState::CordonRequired);
    let max_unavailable = policy.max_unavailable.map_or(total, |limit| limit.resolve(total));

    let (mut available, mut limit) = match policy.max_parallel_upgrades {
        0 => (signed(pending), PolicyLimit::Pending),
        parallel => (i64::from(parallel) - signed(in_progress), PolicyLimit::Parallel),
    };
    let mut at_most = |most: i64| {
        if available > most {
            (available, limit) = (most, PolicyLimit::Unavailable);
        }
    };
    at_most(signed(max_unavailable));
    if counted >= max_unavailable {
        at_most(0);
        // The original sets it to zero even where it was below.
        available = 0;
    } else if max_unavailable < total {
        at_most(signed(max_unavailable) - signed(counted));
    }
    UpgradeSlots { total, in_progress, max_unavailable, unavailable, counted, available, limit }
}

impl UpgradeSlots {
    /// Returns the decision about each of the pending nodes, in their order.
    pub fn turns<'e, 'a>(
        self,
        entries: &'e [NodeEntry<'a>],
    ) -> impl Iterator<Item = (&'e NodeEntry<'a>, PendingDecision)> {
        let mut available = self.available;
        entries.iter().filter(|entry| entry.state == ControllerState::UpgradeRequired).map(
            move |entry| {
                let turn = turn(entry, available);
                if turn == PendingDecision::Starts {
                    available -= 1;
                }
                (entry, turn)
            },
        )
    }
}

/// Returns the decision about a pending node with a number of free slots. A node that is already
/// cordoned needs none.
pub(super) fn turn(entry: &NodeEntry<'_>, available: i64) -> PendingDecision {
    if entry.is_skipped() {
        PendingDecision::Skipped
    } else if available > 0 || entry.unschedulable {
        PendingDecision::Starts
    } else {
        PendingDecision::Waits
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
