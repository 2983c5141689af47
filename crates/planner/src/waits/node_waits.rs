//! The waits of nodes. All nodes that wait for the same reason refer to one slot of a table, so that
//! its replacement costs the same for one node and for ten thousand.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::reason::{Reason, Wait};
use observed::named::{self, Named};

/// The waits of nodes, by name. Clones share their content.
#[derive(Clone, Default)]
pub struct NodeWaits {
    nodes: Named<NodeWait>,
    slots: Arc<Vec<ReasonSlot>>,
    /// The number of the next slot that is taken.
    next: SlotNumber,
}

/// The index of a reason's slot.
type SlotIndex = usize;

/// Distinguishes a slot from the one that had its index before it was free.
type SlotNumber = u64;

#[derive(Clone, Copy, PartialEq, Eq)]
struct NodeWait {
    slot: SlotIndex,
    number: SlotNumber,
    since: Timestamp,
}

#[derive(Clone)]
struct ReasonSlot {
    number: SlotNumber,
    reason: Arc<Reason>,
    /// Number of nodes that wait for it; 0: the slot is free.
    nodes: usize,
}

/// Iterator over the waits of nodes.
#[derive(Clone)]
struct NodeWaitsIter<'a> {
    nodes: named::Iter<'a, NodeWait>,
    slots: &'a [ReasonSlot],
}

impl Iterator for NodeWaitsIter<'_> {
    type Item = Wait;

    fn next(&mut self) -> Option<Wait> {
        self.nodes.next().map(|(name, wait)| wait.resolve(name, self.slots))
    }
}

impl NodeWait {
    fn resolve(self, name: &Arc<str>, slots: &[ReasonSlot]) -> Wait {
        Wait {
            node: Some(Arc::clone(name)),
            reason: Arc::clone(&slots[self.slot].reason),
            since: self.since,
        }
    }
}

impl NodeWaits {
    /// Iterates over all waits, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = Wait> + Clone + '_ {
        NodeWaitsIter { nodes: self.nodes.iter(), slots: &self.slots }
    }

    /// Returns the wait of a node.
    pub fn get(&self, name: &str) -> Option<Wait> {
        let (name, wait) = self.nodes.entry(name)?;
        Some(wait.resolve(name, &self.slots))
    }

    /// Returns whether a node waits.
    pub fn contains(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Returns the reason that a node waits for.
    pub(crate) fn reason(&self, name: &str) -> Option<&Arc<Reason>> {
        Some(&self.slots[self.slot(name)?].reason)
    }

    /// Returns the number of waiting nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether no node waits.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the waits for another kind of reason than before.
    pub(crate) fn new_since(&self, before: &Self) -> Vec<Wait> {
        let is_new = |name: &str| {
            let known = before.reason(name);
            self.reason(name).map(|reason| reason.name()) != known.map(|reason| reason.name())
        };
        // The nodes of a slot are not listed anywhere.
        if self.has_replaced_kind_since(before) {
            return self.iter().filter(|wait| wait.node.as_deref().is_some_and(is_new)).collect();
        }
        let changed = before.nodes.differing(&self.nodes);
        changed.into_iter().filter(|name| is_new(name)).filter_map(|name| self.get(name)).collect()
    }

    /// Returns whether a slot has kept its nodes, but has another kind of reason than before.
    fn has_replaced_kind_since(&self, before: &Self) -> bool {
        let has_other_kind = |(slot, known): (&ReasonSlot, &ReasonSlot)| {
            slot.nodes > 0
                && slot.number == known.number
                && slot.reason.name() != known.reason.name()
        };
        self.slots.iter().zip(before.slots.iter()).any(has_other_kind)
    }

    /// Iterates over the reasons that nodes wait for.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = &Arc<Reason>> {
        self.slots.iter().filter(|slot| slot.nodes > 0).map(|slot| &slot.reason)
    }

    /// Returns the number of nodes that wait for this reason, as the same value.
    pub(crate) fn waiting_for(&self, reason: &Arc<Reason>) -> usize {
        self.slots_of(reason).map(|slot| self.slots[slot].nodes).sum()
    }

    /// Sets or removes the wait of a node.
    pub(crate) fn set(&mut self, name: &Arc<str>, wait: Option<(&Arc<Reason>, Timestamp)>) {
        let Some((reason, since)) = wait else { return self.remove(name) };
        if let Some(known) = self.nodes.get(name).copied() {
            if known.since == since && Arc::ptr_eq(&self.slots[known.slot].reason, reason) {
                return;
            }
            self.leave_slot(known.slot);
        }
        let slot = self.take_slot(reason);
        let number = self.slots[slot].number;
        self.nodes.insert(Arc::clone(name), NodeWait { slot, number, since });
    }

    /// Removes the wait of a node.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(known) = self.nodes.get(name).copied() {
            self.nodes.remove(name);
            self.leave_slot(known.slot);
        }
    }

    /// Replaces a reason for all nodes that wait for it, as the same value.
    pub(crate) fn replace(&mut self, known: &Arc<Reason>, next: &Arc<Reason>) {
        let slots: Vec<SlotIndex> = self.slots_of(known).collect();
        for slot in slots {
            self.change_slot(slot, |slot| slot.reason = Arc::clone(next));
        }
    }

    /// Replaces the reasons that `is_replaced` selects, each for all nodes that wait for it.
    /// `representatives`: nodes whose waits are still valid; `set_later`: those whose waits are set
    /// afterwards; `next`: returns the reason of a representative.
    pub(crate) fn replace_for<'n>(
        &mut self,
        is_replaced: impl Fn(&Reason) -> bool,
        set_later: &[&str],
        representatives: impl Iterator<Item = &'n str>,
        mut next: impl FnMut(&str) -> Option<Arc<Reason>>,
    ) {
        let mut open: BTreeMap<SlotIndex, usize> = BTreeMap::new();
        let is_open = |slot: &ReasonSlot| slot.nodes > 0 && is_replaced(&slot.reason);
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| is_open(slot));
        open.extend(slots.map(|(index, slot)| (index, slot.nodes)));
        for slot in set_later.iter().filter_map(|name| self.slot(name)) {
            if let Some(nodes) = open.get_mut(&slot) {
                *nodes -= 1;
            }
        }
        open.retain(|_, nodes| *nodes > 0);
        for name in representatives {
            if open.is_empty() {
                return;
            }
            let Some(slot) = self.slot(name).filter(|slot| open.remove(slot).is_some()) else {
                continue;
            };
            if let Some(reason) = next(name).filter(|reason| *reason != self.slots[slot].reason) {
                self.change_slot(slot, |slot| slot.reason = reason);
            }
        }
    }

    fn slot(&self, name: &str) -> Option<SlotIndex> {
        self.nodes.get(name).map(|wait| wait.slot)
    }

    /// Returns the slots that hold this reason, as the same value. There are several if different
    /// reasons were replaced by the same one.
    fn slots_of(&self, reason: &Arc<Reason>) -> impl Iterator<Item = SlotIndex> {
        let holds = |slot: &ReasonSlot| slot.nodes > 0 && Arc::ptr_eq(&slot.reason, reason);
        self.slots.iter().enumerate().filter(move |(_, slot)| holds(slot)).map(|(index, _)| index)
    }

    /// Counts one more node in the reason's slot, and returns it.
    fn take_slot(&mut self, reason: &Arc<Reason>) -> SlotIndex {
        let known = self.slots_of(reason).next();
        if let Some(slot) = known {
            self.change_slot(slot, |slot| slot.nodes += 1);
            return slot;
        }
        let taken = ReasonSlot { number: self.next, reason: Arc::clone(reason), nodes: 1 };
        self.next += 1;
        let free = self.slots.iter().position(|slot| slot.nodes == 0);
        let slots = Arc::make_mut(&mut self.slots);
        if let Some(slot) = free {
            slots[slot] = taken;
            return slot;
        }
        slots.push(taken);
        slots.len() - 1
    }

    /// Counts one node less in a slot.
    fn leave_slot(&mut self, slot: SlotIndex) {
        self.change_slot(slot, |slot| slot.nodes -= 1);
        let used = self.slots.iter().rposition(|slot| slot.nodes > 0).map_or(0, |last| last + 1);
        if used < self.slots.len() {
            Arc::make_mut(&mut self.slots).truncate(used);
        }
    }

    fn change_slot(&mut self, slot: SlotIndex, change: impl FnOnce(&mut ReasonSlot)) {
        change(&mut Arc::make_mut(&mut self.slots)[slot]);
    }
}

impl PartialEq for NodeWaits {
    fn eq(&self, other: &Self) -> bool {
        let is_same = self.nodes.is_same(&other.nodes) && Arc::ptr_eq(&self.slots, &other.slots);
        is_same || (self.len() == other.len() && self.iter().eq(other.iter()))
    }
}

impl Eq for NodeWaits {}

impl fmt::Debug for NodeWaits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A change of waits. Nodes and reasons are numbers.
    #[derive(Clone, Debug)]
    enum Step {
        Set(usize, usize, i64),
        Remove(usize),
        Replace(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let (node, reason) = (0..6_usize, 0..5_usize);
        prop_oneof![
            4 => (node.clone(), reason.clone(), 0..3_i64)
                .prop_map(|(node, reason, since)| Step::Set(node, reason, since)),
            2 => node.prop_map(Step::Remove),
            2 => (reason.clone(), reason).prop_map(|(known, next)| Step::Replace(known, next)),
        ]
    }

    /// Returns reasons of two kinds; the last two are equal.
    fn reasons() -> Vec<Arc<Reason>> {
        let missing = |deployment: &str| Reason::OperatorMissing {
            deployment: deployment.to_owned(),
            namespace: String::new(),
        };
        let other = |resource| Reason::PolicyApiMissing { resource };
        [missing("a"), other("a"), other("b"), missing("b"), missing("b")].map(Arc::new).into()
    }

    type Known = BTreeMap<Arc<str>, (Arc<Reason>, Timestamp)>;

    fn change(steps: &[Step], reasons: &[Arc<Reason>], waits: &mut NodeWaits, known: &mut Known) {
        let name = |node: &usize| -> Arc<str> { format!("n{node}").into() };
        for step in steps {
            match step {
                Step::Set(node, reason, since) => {
                    let since = Timestamp::from_second(*since).unwrap();
                    waits.set(&name(node), Some((&reasons[*reason], since)));
                    known.insert(name(node), (Arc::clone(&reasons[*reason]), since));
                }
                Step::Remove(node) => {
                    waits.remove(&name(node));
                    known.remove(&name(node));
                }
                Step::Replace(before, next) => {
                    let (before, next) = (&reasons[*before], &reasons[*next]);
                    waits.replace(before, next);
                    for (reason, _) in known.values_mut() {
                        if Arc::ptr_eq(reason, before) {
                            *reason = Arc::clone(next);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn all_nodes_are_examined_only_if_a_slot_has_kept_them() {
        let [missing, other, ..] = &reasons()[..] else { panic!("two kinds of reasons") };
        let names: [Arc<str>; 2] = ["a", "b"].map(Arc::from);
        let wait = |reason| Some((reason, Timestamp::UNIX_EPOCH));
        let mut before = NodeWaits::default();
        before.set(&names[0], wait(missing));
        before.set(&names[1], wait(other));
        let mut taken_again = before.clone();
        taken_again.remove(&names[0]);
        taken_again.set(&names[0], wait(&Arc::new((**other).clone())));
        assert_eq!(taken_again.new_since(&before).len(), 1, "node a waits for another kind");
        assert!(!taken_again.has_replaced_kind_since(&before));

        let mut replaced = before.clone();
        replaced.replace(missing, other);
        assert_eq!(replaced.new_since(&before).len(), 1, "node a waits for another kind");
        assert!(replaced.has_replaced_kind_since(&before));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn waits_behave_like_a_map_of_reasons(
            first in prop::collection::vec(step(), 0..40),
            second in prop::collection::vec(step(), 0..10),
        ) {
            let reasons = reasons();
            let (mut waits, mut known) = (NodeWaits::default(), Known::new());
            change(&first, &reasons, &mut waits, &mut known);
            let (before, known_before) = (waits.clone(), known.clone());
            change(&second, &reasons, &mut waits, &mut known);
            for (waits, known) in [(&waits, &known), (&before, &known_before)] {
                let expected: Vec<Wait> = known
                    .iter()
                    .map(|(name, (reason, since))| Wait {
                        node: Some(Arc::clone(name)),
                        reason: Arc::clone(reason),
                        since: *since,
                    })
                    .collect();
                prop_assert_eq!(waits.iter().collect::<Vec<_>>(), expected);
                for reason in &reasons {
                    let count = known.values().filter(|(of, _)| Arc::ptr_eq(of, reason)).count();
                    prop_assert_eq!(waits.waiting_for(reason), count);
                }
                let in_use = |reason: &Arc<Reason>| known.values().any(|(of, _)| Arc::ptr_eq(of, reason));
                prop_assert!(waits.reasons().all(in_use));
            }
            let new: Vec<Arc<str>> =
                waits.new_since(&before).into_iter().filter_map(|wait| wait.node).collect();
            let is_new = |(name, (reason, _)): &(&Arc<str>, &(Arc<Reason>, Timestamp))| {
                known_before.get(*name).is_none_or(|(known, _)| known.name() != reason.name())
            };
            let expected: Vec<Arc<str>> =
                known.iter().filter(is_new).map(|(name, _)| Arc::clone(name)).collect();
            prop_assert_eq!(new, expected);
        }
    }
}
