//! Sums over all nodes of the snapshot's cache, which are updated with each node.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::build::{PodCounts, TakenPod};
use super::{CachedNode, CountedEntries, DriverPodSlot, EntryClass};

/// The sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SnapshotTotals {
    /// The driver pods by the index of their DaemonSet.
    pub(super) pods: BTreeMap<usize, PodCounts>,
    /// The nodes of class [`EntryClass::Open`].
    pub(super) open: BTreeSet<Arc<str>>,
    /// The other nodes, by the NVIDIADriver that owns them.
    by_owner: BTreeMap<Option<Box<str>>, OwnerTotals>,
}

/// The sums over the nodes of one NVIDIADriver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OwnerTotals {
    /// Number of driver pods on settled nodes.
    settled: usize,
    /// Number of driver pods on skipped nodes.
    skipped: usize,
    /// Number of driver pods on pending nodes.
    pending_pods: usize,
    /// The pending nodes, in the controller's order.
    pending: BTreeSet<PendingNode>,
}

/// A pending node. It is ordered by its first driver pod in the controller's order.
#[derive(Clone, Debug)]
pub(super) struct PendingNode {
    first: DriverPodSlot,
    pub(super) node: Arc<str>,
}

impl PendingNode {
    fn new(name: &str, node: &CachedNode) -> Option<Self> {
        let turn = |slot: &&DriverPodSlot| {
            let taken = slot.taken();
            (taken.place, taken.pod.namespace.clone(), taken.pod.name.clone())
        };
        let first = match node.driver_pods.as_slice() {
            [one] => Some(one),
            several => several.iter().min_by_key(turn),
        };
        Some(Self { first: first?.clone(), node: name.into() })
    }

    fn turn(&self) -> (usize, &str, &str) {
        let TakenPod { place, pod } = self.first.taken();
        (place, &pod.namespace, &pod.name)
    }
}

impl Ord for PendingNode {
    fn cmp(&self, other: &Self) -> Ordering {
        self.turn().cmp(&other.turn()).then_with(|| self.node.cmp(&other.node))
    }
}

impl PartialOrd for PendingNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PendingNode {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PendingNode {}

impl SnapshotTotals {
    /// Adds a node. The caller adds its pods.
    pub(super) fn add(&mut self, name: &str, node: &CachedNode) {
        let pods = node.driver_pods.len();
        let totals = self.by_owner.entry(node.owner.clone()).or_default();
        match node.class {
            EntryClass::Open => drop(self.open.insert(name.into())),
            EntryClass::Settled => totals.settled += pods,
            EntryClass::Skipped => totals.skipped += pods,
            EntryClass::Pending => {
                totals.pending_pods += pods;
                totals.pending.extend(PendingNode::new(name, node));
            }
        }
        self.drop_empty(node);
    }

    /// Removes a node, as it was added, and its pods. `None`: it has no driver pod.
    pub(super) fn remove(&mut self, name: &str, node: Option<&CachedNode>) {
        for (place, counts) in &mut self.pods {
            let own = node.into_iter().flat_map(CachedNode::taken);
            counts.remove(name, own.filter(|one| one.place == *place));
        }
        self.pods.retain(|_, counts| *counts != PodCounts::default());
        let Some(node) = node else { return };
        let pods = node.driver_pods.len();
        let totals = self.by_owner.entry(node.owner.clone()).or_default();
        match node.class {
            EntryClass::Open => drop(self.open.remove(name)),
            EntryClass::Settled => totals.settled = totals.settled.saturating_sub(pods),
            EntryClass::Skipped => totals.skipped = totals.skipped.saturating_sub(pods),
            EntryClass::Pending => {
                totals.pending_pods = totals.pending_pods.saturating_sub(pods);
                if let Some(pending) = PendingNode::new(name, node) {
                    totals.pending.remove(&pending);
                }
            }
        }
        self.drop_empty(node);
    }

    /// Drops the sums of the node's owner if they are empty: caches of the same nodes are equal.
    fn drop_empty(&mut self, node: &CachedNode) {
        if self.by_owner.get(&node.owner).is_some_and(|totals| *totals == OwnerTotals::default()) {
            self.by_owner.remove(&node.owner);
        }
    }

    fn of_owner(&self, owner: Option<&str>) -> impl Iterator<Item = &OwnerTotals> {
        let is_wanted =
            move |key: &Option<Box<str>>| owner.is_none_or(|owner| key.as_deref() == Some(owner));
        self.by_owner.iter().filter(move |(key, _)| is_wanted(key)).map(|(_, totals)| totals)
    }

    /// Returns the number of driver pods on all nodes.
    pub(super) fn driver_pods(&self) -> usize {
        self.pods.values().map(PodCounts::owned).sum()
    }

    /// Returns the numbers of the nodes of one NVIDIADriver, or of all.
    pub(super) fn counted(&self, owner: Option<&str>) -> CountedEntries {
        let mut counted = CountedEntries::default();
        for totals in self.of_owner(owner) {
            counted.settled += totals.settled;
            counted.pending += totals.pending_pods;
            counted.skipped += totals.skipped;
        }
        counted
    }

    /// Returns a number of pending nodes in the controller's order. If others have the same place
    /// as the last one, they are returned too.
    pub(super) fn first_pending(&self, owner: Option<&str>, count: usize) -> Vec<&PendingNode> {
        let mut found: Vec<&PendingNode> = Vec::new();
        for totals in self.of_owner(owner) {
            let mut last = None;
            for (number, pending) in totals.pending.iter().enumerate() {
                if number >= count && last != Some(pending.turn()) {
                    break;
                }
                last = Some(pending.turn());
                found.push(pending);
            }
        }
        found.sort();
        let last =
            count.checked_sub(1).and_then(|last| found.get(last)).map(|pending| pending.turn());
        if count < found.len() {
            found.retain(|pending| last.is_some_and(|last| pending.turn() <= last));
        }
        found
    }
}
