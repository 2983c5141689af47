//! The memory of one node: taken from the run's memory, changed during the decision, and put back.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::memory::{PendingPatch, ReadyBase, RunMemory, RunningTest};
use crate::node::PluginBase;
use crate::reason::Reason;
use contract::record::NodeRecord;
use contract::record::baseline::NodeBaseline;
use observed::ObservedNode;
use observed::named::Named;

/// One node's part of [`RunMemory`]; the fields are described there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeMemory {
    /// Whether a command follows the run of a hook, and the record belongs to this node.
    is_followed: bool,
    pub(super) record: Option<Arc<NodeRecord>>,
    pub(super) waiting: Option<(&'static str, Timestamp)>,
    pub(super) waiting_apart: Option<(&'static str, Timestamp)>,
    pub(super) testing: Option<RunningTest>,
    pub(super) ready: Option<ReadyBase>,
    pub(super) outdated: BTreeMap<String, Timestamp>,
    pub(super) patched: Option<PendingPatch>,
    pub(super) recovering: BTreeMap<String, Timestamp>,
    pub(super) baseline: Option<Arc<NodeBaseline>>,
}

impl NodeMemory {
    pub(super) fn of(memory: &RunMemory, node: &ObservedNode) -> Self {
        let name = &node.name;
        let record = memory.nodes.shared(name);
        Self {
            is_followed: memory.followed.is_some()
                && record.is_some_and(|record| record.uid == node.uid),
            record: record.cloned(),
            waiting: memory.waiting.get(name).copied(),
            waiting_apart: memory.waiting_apart.get(name).copied(),
            testing: memory.testing.get(name).cloned(),
            ready: memory.ready.get(name).cloned(),
            outdated: memory.outdated.get(name).cloned().unwrap_or_default(),
            patched: memory.patched.get(name).cloned(),
            recovering: memory.recovering.get(name).cloned().unwrap_or_default(),
            baseline: memory
                .baseline
                .as_ref()
                .and_then(|baseline| baseline.get(&node.uid))
                .cloned(),
        }
    }

    /// Puts the changed parts back.
    pub(super) fn put(self, before: &Self, memory: &mut RunMemory, node: &ObservedNode) {
        let name = &node.name;
        if self.record != before.record {
            match self.record {
                Some(record) => memory.nodes.insert_shared(name.as_str(), record),
                None => drop(memory.nodes.remove(name)),
            }
        }
        put(&mut memory.waiting, name, before.waiting.as_ref(), self.waiting);
        put(&mut memory.waiting_apart, name, before.waiting_apart.as_ref(), self.waiting_apart);
        put(&mut memory.testing, name, before.testing.as_ref(), self.testing);
        put(&mut memory.ready, name, before.ready.as_ref(), self.ready);
        let some = |pods: &BTreeMap<String, Timestamp>| (!pods.is_empty()).then(|| pods.clone());
        put(&mut memory.outdated, name, some(&before.outdated).as_ref(), some(&self.outdated));
        put(&mut memory.patched, name, before.patched.as_ref(), self.patched);
        if self.recovering != before.recovering {
            if self.recovering.is_empty() {
                memory.recovering.remove(name);
            } else {
                memory.recovering.insert(name.clone(), self.recovering);
            }
        }
        if self.baseline != before.baseline
            && let (Some(baseline), Some(entry)) = (&mut memory.baseline, self.baseline)
        {
            Arc::make_mut(baseline).insert(&node.uid, entry);
        }
    }

    /// Returns the record, if it belongs to this node and not to an earlier node of the same name.
    pub(super) fn record_of(&self, node: &ObservedNode) -> Option<&NodeRecord> {
        self.record.as_deref().filter(|record| record.uid == node.uid)
    }

    /// Returns whether a command follows the run of a hook that has a record of this node.
    pub(super) fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Records the reason for which the node waits, and returns since when it has been that kind of
    /// reason.
    pub(super) fn waits(&mut self, reason: &Reason, now: Timestamp) -> Timestamp {
        let recorded = self.record.as_ref().filter(|_| self.is_followed);
        let recorded = recorded.filter(|record| {
            record.reason.as_ref().is_some_and(|recorded| recorded.name == reason.name())
        });
        let start = recorded.and_then(|record| record.since).unwrap_or(now);
        since(&mut self.waiting, reason, start)
    }

    /// Records the reason for which a failed node waits apart from its upgrade, and returns since
    /// when.
    pub(super) fn waits_apart(&mut self, reason: &Reason, now: Timestamp) -> Timestamp {
        since(&mut self.waiting_apart, reason, now)
    }

    /// Records that the acceptance test with this pod is running. The pod may not exist yet, or no
    /// longer.
    pub(super) fn tests(&mut self, pod: &str, now: Timestamp) -> &mut RunningTest {
        let known = self.testing.take().filter(|known| known.pod == pod);
        self.testing.insert(known.unwrap_or_else(|| RunningTest {
            pod: pod.to_owned(),
            since: now,
            ended_by_kubelet: None,
        }))
    }

    /// Records that driver and toolkit are ready, and returns since when they have been observed so.
    pub(super) fn ready_since(&mut self, base: &PluginBase, now: Timestamp) -> Timestamp {
        let same = |known: &ReadyBase| {
            known.identity == base.identity && known.served_since == base.served_since
        };
        let known = self.ready.take().filter(same);
        let new = || ReadyBase {
            identity: base.identity.clone(),
            served_since: base.served_since,
            observed_since: now,
        };
        self.ready.insert(known.unwrap_or_else(new)).observed_since
    }

    /// Records whether a plugin pod publishes another driver version than the loaded one, and
    /// returns since when it has been observed to; `None` if it does not.
    pub(super) fn outdated_since(
        &mut self,
        uid: &str,
        outdated: bool,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if outdated {
            return Some(*self.outdated.entry(uid.to_owned()).or_insert(now));
        }
        self.outdated.remove(uid);
        None
    }
}

fn since(
    waiting: &mut Option<(&'static str, Timestamp)>,
    reason: &Reason,
    now: Timestamp,
) -> Timestamp {
    let known = waiting.filter(|(name, _)| *name == reason.wait_name());
    waiting.insert(known.unwrap_or((reason.wait_name(), now))).1
}

fn put<T: Clone + PartialEq>(all: &mut Named<T>, name: &str, before: Option<&T>, now: Option<T>) {
    if before == now.as_ref() {
        return;
    }
    match now {
        Some(value) => all.insert(name, value),
        None => drop(all.remove(name)),
    }
}
