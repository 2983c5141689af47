//! What is remembered from one decision to the next. The part that must survive the process is [`NodeRecord`]s, [`RecordedPluginConfig`]s,
//! the cohort and the baseline. The rest only measures durations, and a restart resets it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use contract::record::baseline::Baseline;
use contract::record::cohort::Cohort;
use contract::record::{
    NodeOutcome, NodeRecord, PluginReplacement, RecordedPluginConfig, ReplacedPodKind,
};

use super::pods::eviction_retry::{BusyServer, EvictionHistory};
use super::pods::filter::OwnPods;
use super::reason::Reason;
use super::refused_write::{RefusedObject, WriteRefusals};
use super::spec::leadership::OperatorActivity;
use observed::ObservedNode;
use observed::named::Named;

/// After this long nobody waits for what a request to a pod brings: it is asked for again after a minute at the latest.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(10);

/// A run's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunMemory {
    /// When the run began.
    pub started_at: Timestamp,
    /// The nodes that the run waits for: all of the first complete list. Nodes that join later are reported, not waited for. `None`: nothing was
    /// decided yet.
    pub cohort: Option<Arc<Cohort>>,
    /// When this process took the run up: nothing was done for nodes before.
    pub taken_up: Timestamp,
    /// When the run must have ended.
    pub deadline: Timestamp,
    /// The nodes that the run is about, by name: those that were out of date at some time, or whose plugin was replaced.
    pub nodes: Named<NodeRecord>,
    /// The device plugin's configurations as they were last seen.
    pub configs: BTreeMap<String, RecordedPluginConfig>,
    /// Since when the fleet has been waiting for the same kind of reason.
    pub fleet_waiting: Option<(&'static str, Timestamp)>,
    /// The same of each node.
    pub waiting: Named<(&'static str, Timestamp)>,
    /// The same of what failed nodes wait for apart from their upgrade.
    pub waiting_apart: Named<(&'static str, Timestamp)>,
    /// Since when driver and toolkit of a node have been seen ready, with their identity.
    pub ready: Named<(String, Timestamp)>,
    /// Since when ready plugin pods of a node have been seen to publish another driver version than is loaded, by their UIDs.
    pub outdated: Named<BTreeMap<String, Timestamp>>,
    /// When this process last asked for the deletion of a pod, by UID.
    pub issued: BTreeMap<String, Timestamp>,
    /// Patches of nodes that have been asked for and not been seen, by name.
    pub patched: Named<PendingPatch>,
    /// What was answered when a pod's eviction was asked for, by its UID.
    pub evictions: BTreeMap<String, EvictionHistory>,
    /// Writes that the API server refused, by node and pod UID (none for the node itself).
    pub refusals: BTreeMap<RefusedObject, WriteRefusals>,
    /// Nodes that were to be given back untouched because the time was over.
    pub handed_back: BTreeSet<String>,
    /// The API server is too busy for evictions.
    pub busy: Option<BusyServer>,
    /// What the vendor's controller would do and has not done, by node and state, and since when.
    pub pending: BTreeMap<(String, &'static str), Timestamp>,
    /// How often it was woken for that, and when last.
    pub wakes: BTreeMap<(String, &'static str), (u32, Timestamp)>,
    /// A hash over what it watches, and since when that has not changed.
    pub vendor_seen: Option<(u64, Timestamp)>,
    /// What the operator was last seen to do.
    pub operator: Option<OperatorActivity>,
    /// The operator's version when a run last succeeded. `None`: that is not known.
    pub settled_version: Option<String>,
    /// The fleet as it was when the run began.
    pub baseline: Option<Arc<Baseline>>,
    /// The same of the run before, if that did not succeed.
    pub earlier_baseline: Option<Arc<Baseline>>,
    /// Since when what was failing before the run has been ready, by node and DaemonSet.
    pub recovering: BTreeMap<String, BTreeMap<String, Timestamp>>,
    /// The hook's own pods: they never leave a node because of it.
    pub own: OwnPods,
    /// Since when everything has been well, and what "everything" was: a change of the fleet restarts the quiet period.
    pub well: Option<(Arc<[String]>, Timestamp)>,
}

/// A patch of a node that has been asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPatch {
    /// The version of the node that it was made for.
    pub version: String,
    /// When it was asked for.
    pub at: Timestamp,
    /// It starts the node's upgrade.
    pub starts: bool,
}

impl RunMemory {
    /// A run that begins.
    pub fn new(started_at: Timestamp, deadline: Timestamp) -> Self {
        Self { started_at, taken_up: started_at, deadline, ..Self::default() }
    }

    /// The nodes of which the two remember something else.
    pub fn differing<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a str> {
        let names = [
            self.nodes.differing(&other.nodes),
            self.waiting.differing(&other.waiting),
            self.waiting_apart.differing(&other.waiting_apart),
            self.ready.differing(&other.ready),
            self.outdated.differing(&other.outdated),
            self.patched.differing(&other.patched),
        ];
        let refused = self
            .refusals
            .iter()
            .filter(|(object, refusal)| other.refusals.get(*object) != Some(*refusal));
        let accepted = other.refusals.keys().filter(|object| !self.refusals.contains_key(*object));
        let refusals =
            refused.map(|(object, _)| object).chain(accepted).map(|(node, _)| node.as_str());
        names.into_iter().flatten().map(|name| &**name).chain(refusals).collect()
    }

    /// Whether the run waits for the node with this UID.
    pub fn is_in_cohort(&self, uid: &str) -> bool {
        self.cohort.as_ref().is_some_and(|cohort| cohort.contains(uid))
    }

    /// A run that begins after another one. What that one replaced stays remembered, and so do plugins that did not come back: a run that is
    /// tried again must not take down the next few.
    pub fn following(
        nodes: &Named<NodeRecord>,
        started_at: Timestamp,
        deadline: Timestamp,
    ) -> Self {
        let mut memory = Self::new(started_at, deadline);
        for (name, node) in nodes {
            let mut node = node.clone();
            node.replaced = last_of_each(std::mem::take(&mut node.replaced));
            if node.replaced.is_empty() {
                continue;
            }
            for replacement in node
                .replaced
                .values_mut()
                .filter(|replacement| !keeps_waiting(node.outcome, replacement.plugin))
            {
                replacement.back_at.get_or_insert(started_at);
            }
            (node.outcome, node.reason, node.since, node.refused) = (None, None, None, None);
            node.steps.clear();
            node.evicted.clear();
            memory.nodes.insert(Arc::clone(name), node);
        }
        memory
    }

    /// Whether a pod of the device plugin that was restarted on the node is not back: there may be none at all meanwhile.
    pub fn has_device_plugin_away(&self, node: &ObservedNode) -> bool {
        let away = |replacement: &PluginReplacement| {
            replacement.plugin == ReplacedPodKind::Device && replacement.back_at.is_none()
        };
        self.nodes
            .get(&node.name)
            .is_some_and(|record| record.uid == node.uid && record.replaced.values().any(away))
    }

    /// Notes what the fleet waits for, and answers since when it has been that kind of reason.
    pub(crate) fn fleet_waits(&mut self, reason: &Reason, now: Timestamp) -> Timestamp {
        match self.fleet_waiting {
            Some((name, since)) if name == reason.name() => since,
            Some(_) | None => {
                self.fleet_waiting = Some((reason.name(), now));
                now
            }
        }
    }

    /// Forgets what was asked of pods so long ago that it changes nothing any more, as UIDs never come back. `here`: pods that are still there.
    pub fn prune(&mut self, here: impl Fn(&str) -> bool, now: Timestamp) {
        let old = |at: Timestamp| now.duration_since(at) > FORGOTTEN;
        self.issued.retain(|_, at| !old(*at));
        self.evictions.retain(|uid, history| !old(history.last) || here(uid));
    }
}

/// Whether a plugin that was not back when a run was over is still waited for by the next one.
fn keeps_waiting(outcome: Option<NodeOutcome>, plugin: ReplacedPodKind) -> bool {
    match outcome {
        None | Some(NodeOutcome::Failed) => true,
        // The settings tolerate that of the DRA driver. A node that was not ready is judged again, and so is one whose device plugin was not
        // examined because its configuration was missing.
        Some(NodeOutcome::Done | NodeOutcome::Deferred) => plugin == ReplacedPodKind::Device,
        Some(NodeOutcome::Gone) => false,
    }
}

/// Of each DaemonSet the last replacement: what must not be done again.
fn last_of_each(
    replaced: BTreeMap<String, PluginReplacement>,
) -> BTreeMap<String, PluginReplacement> {
    let mut last: BTreeMap<String, (String, PluginReplacement)> = BTreeMap::new();
    for (uid, one) in replaced {
        if last.get(&one.daemon_set).is_none_or(|(_, known)| known.at < one.at) {
            last.insert(one.daemon_set.clone(), (uid, one));
        }
    }
    last.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::eviction_retry::EvictionReply;

    /// Both grew with every pod that a long run asked to leave.
    #[test]
    fn requests_for_vanished_pods_are_forgotten() {
        let at = |minutes: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        let mut memory = RunMemory::new(at(0), at(1000));
        for (uid, minute) in [("gone", 0), ("here", 0), ("just-gone", 9)] {
            memory.issued.insert(uid.to_owned(), at(minute));
            memory.evictions.insert(
                uid.to_owned(),
                EvictionHistory::after(None, at(minute), EvictionReply::Accepted),
            );
        }
        memory.prune(|uid| uid == "here", at(11));
        assert_eq!(memory.evictions.keys().collect::<Vec<_>>(), ["here", "just-gone"]);
        assert_eq!(memory.issued.keys().collect::<Vec<_>>(), ["just-gone"]);
    }
}
