//! The snapshot from one look to the next: of every node it is kept what a pass has to do with it, and a node is looked at again when
//! something of it has changed. Of most there is nothing but a number to be told, and only the others come as entries.

use std::sync::Arc;

use contract::policy::Policy;

use super::super::throttle::slots;
use super::build::{DaemonSetOrder, EntryTables, TakenPod};
use super::{Lot, NodeEntry, Quiet, SnapshotInputs, UpgradeSnapshot};
use observed::named::Named;
use observed::{Observed, ObservedPod, OnNode};

/// All nodes with driver pods, in short. Of two drivers, or of two sets of DaemonSets, revisions and policies, there are two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    /// By node; `""` are pods of which the node is not known.
    nodes: Named<Kept>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    lot: Lot,
    /// The NVIDIADriver that owns it.
    owner: Option<Box<str>>,
    seats: Vec<DriverPodSlot>,
}

/// A driver pod, and where the controller takes it.
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

impl Roll {
    /// Of all nodes.
    pub fn new(observed: &Observed, inputs: &SnapshotInputs<'_>) -> Self {
        let mut roll = Self::default();
        let elsewhere = observed.pods.iter().filter_map(ObservedPod::on_node).filter(|name| !observed.nodes.contains_key(name));
        roll.look_again(observed, inputs, observed.nodes.keys().map(|name| &**name).chain(elsewhere));
        roll
    }

    /// Looks at nodes again. `changed`: those of which the node or a driver pod has changed, come or gone.
    pub fn look_again<'n>(&mut self, observed: &Observed, inputs: &SnapshotInputs<'_>, changed: impl IntoIterator<Item = &'n str>) {
        let (order, tables) = (DaemonSetOrder::new(observed, inputs.selection), EntryTables::new(observed, inputs));
        // Of pods that are on no node nobody tells that they have changed.
        for name in changed.into_iter().chain([""]) {
            let seats: Vec<DriverPodSlot> = observed
                .pods
                .shared_on(name)
                .flat_map(|pod| order.places(pod).map(|place| DriverPodSlot { place, pod: Arc::clone(pod) }))
                .collect();
            if seats.is_empty() {
                self.nodes.remove(name);
                continue;
            }
            let node = observed.nodes.get(name);
            let mut entries: Vec<Option<NodeEntry<'_>>> = Vec::with_capacity(seats.len());
            for seat in &seats {
                entries.push(node.filter(|_| !seat.pod.unbound).map(|node| tables.entry(node, seat.taken(), &order)));
            }
            // One of several that is open opens all.
            let lots = entries.iter().map(|entry| entry.as_ref().map_or(Lot::Open, NodeEntry::lot));
            let lot = lots.reduce(|one, other| if one == other { one } else { Lot::Open }).unwrap_or(Lot::Open);
            let owner = entries.iter().flatten().find_map(|entry| entry.owner).map(Box::from);
            self.nodes.insert(name, Kept { lot, owner, seats });
        }
    }

    /// What the controller sees of the nodes of one NVIDIADriver, or of all. Pending nodes come as entries as far as there may be slots for
    /// them. Those of the maintenance-operator's mode, which asks for all of them at once, are to be looked at in full.
    pub fn snapshot<'a>(
        &'a self,
        observed: &'a Observed,
        inputs: &SnapshotInputs<'_>,
        owner: Option<&str>,
        policy: &Policy,
    ) -> UpgradeSnapshot<'a> {
        let (order, tables) = (DaemonSetOrder::new(observed, inputs.selection), EntryTables::new(observed, inputs));
        let seats = |kept: &'a Kept| kept.seats.iter().map(DriverPodSlot::taken);
        let blocked = order.wrong_count(observed, || self.nodes.values().flat_map(seats));
        let (mut quiet, mut open, mut line) = (Quiet::default(), Vec::new(), Vec::new());
        for (name, kept) in &self.nodes {
            let ours = owner.is_none_or(|owner| kept.owner.as_deref() == Some(owner));
            match kept.lot {
                // What is wrong with one is in the way of all.
                Lot::Open => open.extend(seats(kept)),
                Lot::Settled if ours => quiet.settled += kept.seats.len(),
                Lot::Pending if ours => {
                    quiet.pending += kept.seats.len();
                    line.push((&**name, kept));
                }
                Lot::Settled | Lot::Pending => {}
            }
        }
        let made = |mut taken: Vec<TakenPod<'a>>, quiet: Quiet<'a>| {
            taken.sort_by_key(TakenPod::turn);
            let (mut entries, blocked) = tables.entries(observed, &order, taken, blocked.clone());
            entries.retain(|entry| owner.is_none_or(|owner| entry.owner == Some(owner)));
            UpgradeSnapshot { driver: inputs.driver, entries, quiet, blocked }
        };
        let mut snapshot = made(open.clone(), quiet);
        let available = usize::try_from(slots(&snapshot, policy).available).unwrap_or(0);
        let first = next(&mut line, available);
        if !first.is_empty() {
            open.extend(first.iter().flat_map(|(_, kept)| seats(kept)));
            let mut quiet = std::mem::take(&mut snapshot.quiet);
            quiet.pending -= first.iter().map(|(_, kept)| kept.seats.len()).sum::<usize>();
            snapshot = made(open, quiet);
        }
        snapshot.quiet.line = line.into_iter().map(|(name, _)| name).collect();
        snapshot
    }
}

/// Takes the nodes out of the line whose turn comes first, so many of them.
fn next<'a>(line: &mut Vec<(&'a str, &'a Kept)>, count: usize) -> Vec<(&'a str, &'a Kept)> {
    if count == 0 {
        return Vec::new();
    }
    let turn = |kept: &'a Kept| kept.seats.iter().map(|seat| seat.taken().turn()).min();
    let mut turns: Vec<_> = line.iter().map(|(_, kept)| turn(kept)).collect();
    if count >= turns.len() {
        return std::mem::take(line);
    }
    let (_, last, _) = turns.select_nth_unstable(count - 1);
    let last = *last;
    let (first, rest) = line.iter().partition(|(_, kept)| turn(kept) <= last);
    *line = rest;
    first
}
