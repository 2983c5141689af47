//! The snapshot across decisions: the cache keeps the class of every node, and evaluates only nodes
//! that have changed. Most nodes are only counted, and only the others have entries.

use std::sync::Arc;

use contract::policy::Policy;

use super::super::throttle::slots;
use super::build::{DaemonSetOrder, EntryTables, TakenPod};
use super::{CountedEntries, EntryClass, NodeEntry, SnapshotInputs, UpgradeSnapshot};
use observed::named::Named;
use observed::{Observed, ObservedPod, OnNode};

/// A short form of all nodes with driver pods. Different drivers, or sets of DaemonSets, revisions
/// and policies, need different caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCache {
    /// By node; `""` contains pods whose node is not known.
    nodes: Named<CachedNode>,
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

impl SnapshotCache {
    /// Creates the cache of all nodes.
    pub fn new(observed: &Observed, inputs: &SnapshotInputs<'_>) -> Self {
        let mut cache = Self::default();
        let elsewhere = observed
            .pods
            .iter()
            .filter_map(ObservedPod::on_node)
            .filter(|name| !observed.nodes.contains_key(name));
        cache.update(observed, inputs, observed.nodes.keys().map(|name| &**name).chain(elsewhere));
        cache
    }

    /// Updates nodes. `changed`: those that changed, appeared or disappeared, themselves or with a
    /// driver pod.
    pub fn update<'n>(
        &mut self,
        observed: &Observed,
        inputs: &SnapshotInputs<'_>,
        changed: impl IntoIterator<Item = &'n str>,
    ) {
        let (order, tables) =
            (DaemonSetOrder::new(observed, inputs.selection), EntryTables::new(observed, inputs));
        // Changes of pods without a node are not reported.
        for name in changed.into_iter().chain([""]) {
            let driver_pods: Vec<DriverPodSlot> = observed
                .pods
                .shared_on(name)
                .flat_map(|pod| {
                    order.places(pod).map(|place| DriverPodSlot { place, pod: Arc::clone(pod) })
                })
                .collect();
            if driver_pods.is_empty() {
                self.nodes.remove(name);
                continue;
            }
            let node = observed.nodes.get(name);
            let mut entries: Vec<Option<NodeEntry<'_>>> = Vec::with_capacity(driver_pods.len());
            for driver_pod in &driver_pods {
                entries.push(
                    node.filter(|_| !driver_pod.pod.unbound)
                        .map(|node| tables.entry(node, driver_pod.taken(), &order)),
                );
            }
            // If one of several entries is open, all are.
            let classes = entries
                .iter()
                .map(|entry| entry.as_ref().map_or(EntryClass::Open, NodeEntry::class));
            let class = classes
                .reduce(|one, other| if one == other { one } else { EntryClass::Open })
                .unwrap_or(EntryClass::Open);
            let owner = entries.iter().flatten().find_map(|entry| entry.owner).map(Box::from);
            self.nodes.insert(name, CachedNode { class, owner, driver_pods });
        }
    }

    /// Returns the controller's view of the nodes of one NVIDIADriver, or of all. Pending nodes
    /// have entries as far as there may be slots for them. Requestor mode, which requests all of
    /// them at once, needs a full snapshot.
    pub fn snapshot<'a>(
        &'a self,
        observed: &'a Observed,
        inputs: &SnapshotInputs<'_>,
        owner: Option<&str>,
        policy: &Policy,
    ) -> UpgradeSnapshot<'a> {
        let (order, tables) =
            (DaemonSetOrder::new(observed, inputs.selection), EntryTables::new(observed, inputs));
        let driver_pods =
            |cached: &'a CachedNode| cached.driver_pods.iter().map(DriverPodSlot::taken);
        let blocked = order.wrong_count(observed, || self.nodes.values().flat_map(driver_pods));
        let (mut counted, mut open, mut pending) =
            (CountedEntries::default(), Vec::new(), Vec::new());
        for (name, cached) in &self.nodes {
            let ours = owner.is_none_or(|owner| cached.owner.as_deref() == Some(owner));
            match cached.class {
                // An error of one node blocks all.
                EntryClass::Open => open.extend(driver_pods(cached)),
                EntryClass::Settled if ours => counted.settled += cached.driver_pods.len(),
                EntryClass::Pending if ours => {
                    counted.pending += cached.driver_pods.len();
                    pending.push((&**name, cached));
                }
                EntryClass::Settled | EntryClass::Pending => {}
            }
        }
        let made = |mut taken: Vec<TakenPod<'a>>, counted: CountedEntries<'a>| {
            taken.sort_by_key(TakenPod::turn);
            let (mut entries, blocked) = tables.entries(observed, &order, taken, blocked.clone());
            entries.retain(|entry| owner.is_none_or(|owner| entry.owner == Some(owner)));
            UpgradeSnapshot { driver: inputs.driver, entries, counted, blocked }
        };
        let mut snapshot = made(open.clone(), counted);
        let available = usize::try_from(slots(&snapshot, policy).available).unwrap_or(0);
        let first = take_first(&mut pending, available);
        if !first.is_empty() {
            open.extend(first.iter().flat_map(|(_, cached)| driver_pods(cached)));
            let mut counted = std::mem::take(&mut snapshot.counted);
            counted.pending -=
                first.iter().map(|(_, cached)| cached.driver_pods.len()).sum::<usize>();
            snapshot = made(open, counted);
        }
        snapshot.counted.pending_nodes = pending.into_iter().map(|(name, _)| name).collect();
        snapshot
    }
}

/// Takes a number of pending nodes in the controller's order.
fn take_first<'a>(
    pending: &mut Vec<(&'a str, &'a CachedNode)>,
    count: usize,
) -> Vec<(&'a str, &'a CachedNode)> {
    if count == 0 {
        return Vec::new();
    }
    let turn = |cached: &'a CachedNode| {
        cached.driver_pods.iter().map(|driver_pod| driver_pod.taken().turn()).min()
    };
    let mut turns: Vec<_> = pending.iter().map(|(_, cached)| turn(cached)).collect();
    if count >= turns.len() {
        return std::mem::take(pending);
    }
    let (_, last, _) = turns.select_nth_unstable(count - 1);
    let last = *last;
    let (first, others) = pending.iter().partition(|(_, cached)| turn(cached) <= last);
    *pending = others;
    first
}
