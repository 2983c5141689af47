//! The snapshot across decisions: the cache keeps the class of every node and sums over the nodes,
//! and evaluates only nodes that have changed. Most nodes are only counted, and only the others have
//! entries.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::policy::Policy;

use super::super::throttle::slots;
use super::build::{SnapshotTables, TakenPod};
use super::{CountedEntries, EntryClass, NodeEntry, UpgradeSnapshot};
use observed::named::Named;
use observed::{Observed, ObservedPod, OnNode};

mod totals;

use totals::SnapshotTotals;

/// A short form of all nodes with driver pods. Different drivers, or sets of DaemonSets, revisions
/// and policies, need different caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCache {
    /// By node; `""` contains pods whose node is not known.
    nodes: Named<CachedNode>,
    totals: SnapshotTotals,
}

/// The requests with which the controller reads the nodes in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotReads {
    /// Number of driver pods, for each of which it reads the node.
    pub pods: usize,
    /// Number of driver pods for which it lists ControllerRevisions: all that do not wait to start.
    pub lists: usize,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CachedNode {
    class: EntryClass,
    /// The NVIDIADriver that owns it.
    owner: Option<Box<str>>,
    driver_pods: Vec<DriverPodSlot>,
}

/// A driver pod, and its index in the controller's order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DriverPodSlot {
    place: usize,
    pod: Arc<ObservedPod>,
}

impl DriverPodSlot {
    fn taken(&self) -> TakenPod<'_> {
        TakenPod { place: self.place, pod: &self.pod }
    }
}

impl CachedNode {
    fn taken(&self) -> impl Iterator<Item = TakenPod<'_>> {
        self.driver_pods.iter().map(DriverPodSlot::taken)
    }
}

impl SnapshotCache {
    /// Creates the cache of all nodes.
    pub fn new(observed: &Observed, tables: &SnapshotTables<'_>) -> Self {
        let mut cache = Self::default();
        let elsewhere = observed
            .pods
            .iter()
            .filter_map(ObservedPod::on_node)
            .filter(|name| !observed.nodes.contains_key(name));
        cache.update(observed, tables, observed.nodes.keys().map(|name| &**name).chain(elsewhere));
        cache
    }

    /// Updates nodes. `changed`: those that changed, appeared or disappeared, themselves or with a
    /// driver pod.
    pub fn update<'n>(
        &mut self,
        observed: &Observed,
        tables: &SnapshotTables<'_>,
        changed: impl IntoIterator<Item = &'n str>,
    ) {
        // Changes of pods without a node are not reported.
        for name in changed.into_iter().chain([""]) {
            let node = cached_node(name, observed, tables);
            self.totals.remove(name, self.nodes.get(name));
            let taken: Vec<TakenPod<'_>> = node.iter().flat_map(CachedNode::taken).collect();
            tables.order.count(name, observed.nodes.get(name), &taken, &mut self.totals.pods);
            match node {
                Some(node) => {
                    self.totals.add(name, &node);
                    self.nodes.insert(name, node);
                }
                None => drop(self.nodes.remove(name)),
            }
        }
    }

    /// Returns the controller's view of the nodes of one NVIDIADriver, or of all. Pending nodes
    /// have entries as far as there may be slots for them. Requestor mode, which requests all of
    /// them at once, needs a full snapshot.
    pub fn snapshot<'a>(
        &'a self,
        observed: &'a Observed,
        SnapshotTables { order, entries }: &SnapshotTables<'a>,
        owner: Option<&str>,
        policy: &Policy,
    ) -> UpgradeSnapshot<'a> {
        let blocked = order.wrong_count(&self.totals.pods);
        // An error of one node blocks all.
        let open: Vec<TakenPod<'a>> = self
            .totals
            .open
            .iter()
            .filter_map(|name| self.nodes.get(name))
            .flat_map(CachedNode::taken)
            .collect();
        let counted = self.totals.counted(owner);
        let made = |mut taken: Vec<TakenPod<'a>>, counted: CountedEntries| {
            taken.sort_by_key(TakenPod::turn);
            let (mut of_owner, blocked) = entries.entries(observed, order, taken, blocked.clone());
            of_owner.retain(|entry| owner.is_none_or(|owner| entry.owner == Some(owner)));
            UpgradeSnapshot { driver: entries.driver, entries: of_owner, counted, blocked }
        };
        let snapshot = made(open.clone(), counted);
        let available = usize::try_from(slots(&snapshot, policy).available).unwrap_or(0);
        let first: Vec<&'a CachedNode> = self
            .totals
            .first_pending(owner, available)
            .into_iter()
            .filter_map(|pending| self.nodes.get(&pending.node))
            .collect();
        if first.is_empty() {
            return snapshot;
        }
        let pending = first.iter().map(|cached| cached.driver_pods.len()).sum::<usize>();
        let counted = CountedEntries { pending: counted.pending - pending, ..counted };
        made(
            open.into_iter().chain(first.into_iter().flat_map(CachedNode::taken)).collect(),
            counted,
        )
    }

    /// Returns how many requests a pass over these nodes needs.
    pub fn reads(&self) -> SnapshotReads {
        let pods = self.totals.driver_pods();
        let CountedEntries { settled: _, pending, skipped } = self.totals.counted(None);
        SnapshotReads { pods, lists: pods.saturating_sub(pending + skipped) }
    }

    /// Returns the class of a node that a snapshot counts unless it has an entry, with the
    /// NVIDIADriver that owns the node.
    pub fn counted_class(&self, node: &str) -> Option<(EntryClass, Option<&str>)> {
        let cached = self.nodes.get(node).filter(|cached| cached.class != EntryClass::Open)?;
        Some((cached.class, cached.owner.as_deref()))
    }

    /// Returns the names of the nodes of a class, of one NVIDIADriver or of all, that `snapshot`
    /// only counts. It visits all nodes.
    pub fn counted_nodes<'a>(
        &'a self,
        snapshot: &UpgradeSnapshot<'_>,
        class: EntryClass,
        owner: Option<&str>,
    ) -> BTreeSet<&'a str> {
        let entries: BTreeSet<&str> = snapshot.entries.iter().map(|entry| entry.node).collect();
        let is_counted = |(name, cached): &(&Arc<str>, &CachedNode)| {
            cached.class == class
                && owner.is_none_or(|owner| cached.owner.as_deref() == Some(owner))
                && !entries.contains(&***name)
        };
        self.nodes.iter().filter(is_counted).map(|(name, _)| &**name).collect()
    }
}

/// Returns the short form of a node; `None` if it has no driver pod.
fn cached_node(
    name: &str,
    observed: &Observed,
    SnapshotTables { order, entries }: &SnapshotTables<'_>,
) -> Option<CachedNode> {
    let driver_pods: Vec<DriverPodSlot> = observed
        .pods
        .shared_on(name)
        .flat_map(|pod| {
            order.places(pod).map(|place| DriverPodSlot { place, pod: Arc::clone(pod) })
        })
        .collect();
    if driver_pods.is_empty() {
        return None;
    }
    let node = observed.nodes.get(name);
    let entry = |driver_pod: &DriverPodSlot| -> Option<(EntryClass, Option<Box<str>>)> {
        let node = node.filter(|_| !driver_pod.pod.unbound)?;
        let entry: NodeEntry<'_> = entries.entry(node, driver_pod.taken(), order);
        Some((entry.class(), entry.owner.map(Box::from)))
    };
    let entries: Vec<_> = driver_pods.iter().map(entry).collect();
    // If one of several entries is open, all are.
    let class = entries
        .iter()
        .map(|entry| entry.as_ref().map_or(EntryClass::Open, |(class, _)| *class))
        .reduce(|one, other| if one == other { one } else { EntryClass::Open })
        .unwrap_or(EntryClass::Open);
    let owner = entries.into_iter().flatten().find_map(|(_, owner)| owner);
    Some(CachedNode { class, owner, driver_pods })
}
