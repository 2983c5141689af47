//! How many nodes the controller starts, and which: its arithmetic, with all the numbers (state-machine of k8s-operator-libs,
//! `upgrade_inplace.go` and `GetUpgradesAvailable`).

use contract::policy::Policy;

use super::snapshot::{NodeEntry, UpgradeSnapshot};
use super::state::ControllerState;

/// The numbers of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpgradeSlots {
    /// Nodes that it manages; percentages are of these.
    pub total: usize,
    /// Nodes in progress; failed ones are among them.
    pub in_progress: usize,
    /// How many nodes may be unavailable.
    pub max_unavailable: usize,
    /// Nodes that are cordoned or not Ready, of whatever state.
    pub unavailable: usize,
    /// The same and the nodes about to be cordoned; one that is both counts twice.
    pub counted: usize,
    /// How many nodes may start. May be below zero.
    pub available: i64,
    /// Which of the two limits that number comes from.
    pub limit: PolicyLimit,
}

/// A limit of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyLimit {
    /// None: as many as are pending.
    #[default]
    Pending,
    /// `maxParallelUpgrades`
    Parallel,
    /// `maxUnavailable`
    Unavailable,
}

/// What the controller does with a pending node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingDecision {
    /// It starts.
    Starts,
    /// The user's label keeps it.
    Skipped,
    /// No slot is left for it.
    Waits,
}

/// The numbers for the nodes of a snapshot under a policy.
pub fn slots(snapshot: &UpgradeSnapshot<'_>, policy: &Policy) -> UpgradeSlots {
    let UpgradeSnapshot { entries, counted: others, .. } = snapshot;
    let count =
        |test: &dyn Fn(&NodeEntry<'_>) -> bool| entries.iter().filter(|entry| test(entry)).count();
    let total = count(&|entry| entry.state.is_managed()) + others.settled + others.pending;
    let in_progress = count(&|entry| entry.state.is_in_progress());
    let pending = count(&|entry| entry.state == ControllerState::UpgradeRequired) + others.pending;
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
    /// What happens to each of the pending nodes, in their order.
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

/// What happens to a pending node while so many slots are left. A node that is cordoned already needs none.
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
