//! How many nodes the controller starts, and which: its arithmetic, with all the numbers (state-machine of k8s-operator-libs,
//! `upgrade_inplace.go` and `GetUpgradesAvailable`).

use serde::Serialize;

use crate::contract::policy::Policy;

use super::snapshot::{Entry, Snapshot};
use super::state::State;

/// The numbers of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slots {
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
    pub limit: Limit,
}

/// A limit of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
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
pub enum Turn {
    /// It starts.
    Starts,
    /// The user's label keeps it.
    Skipped,
    /// No slot is left for it.
    Waits,
}

/// The numbers for the nodes of a snapshot under a policy.
pub fn slots(snapshot: &Snapshot<'_>, policy: &Policy) -> Slots {
    let Snapshot { entries, quiet, .. } = snapshot;
    let count = |test: &dyn Fn(&Entry<'_>) -> bool| entries.iter().filter(|entry| test(entry)).count();
    let total = count(&|entry| entry.state.is_managed()) + quiet.settled + quiet.pending;
    let in_progress = count(&|entry| entry.state.is_in_progress());
    let pending = count(&|entry| entry.state == State::UpgradeRequired) + quiet.pending;
    let unavailable = count(&|entry| entry.is_unavailable());
    let counted = unavailable + count(&|entry| entry.state == State::CordonRequired);
    let max_unavailable = policy.max_unavailable.map_or(total, |limit| limit.of(total));

    let (mut available, mut limit) = match policy.max_parallel_upgrades {
        0 => (signed(pending), Limit::Pending),
        parallel => (i64::from(parallel) - signed(in_progress), Limit::Parallel),
    };
    let mut at_most = |most: i64| {
        if available > most {
            (available, limit) = (most, Limit::Unavailable);
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
    Slots { total, in_progress, max_unavailable, unavailable, counted, available, limit }
}

impl Slots {
    /// What happens to each of the pending nodes, in their order.
    pub fn turns<'e, 'a>(self, entries: &'e [Entry<'a>]) -> impl Iterator<Item = (&'e Entry<'a>, Turn)> {
        let mut available = self.available;
        entries.iter().filter(|entry| entry.state == State::UpgradeRequired).map(move |entry| {
            let turn = turn(entry, available);
            if turn == Turn::Starts {
                available -= 1;
            }
            (entry, turn)
        })
    }
}

/// What happens to a pending node while so many slots are left. A node that is cordoned already needs none.
pub(super) fn turn(entry: &Entry<'_>, available: i64) -> Turn {
    if entry.is_skipped() {
        Turn::Skipped
    } else if available > 0 || entry.unschedulable {
        Turn::Starts
    } else {
        Turn::Waits
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
