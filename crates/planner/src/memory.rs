//! The memory from one decision to the next. [`NodeRecord`]s, [`RecordedPluginConfig`]s, the cohort
//! and the baseline must survive the process. The rest only measures durations, and a restart
//! resets it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use contract::record::baseline::Baseline;
use contract::record::cohort::Cohort;
use contract::record::proof::DriverProof;
use contract::record::{
    MOST_INTERRUPTIONS, NodeOutcome, NodeRecord, PluginReplacement, RecordedFleetWait,
    RecordedPluginConfig, ReplacedPodKind,
};
use contract::user_request::AcceptedNode;

use super::action::TestLogReading;
use super::decide::Action;
use super::pods::eviction_retry::{BusyServer, EvictionHistory};
use super::pods::filter::OwnPods;
use super::reason::Reason;
use super::spec::leadership::OperatorActivity;
use super::write_refusals::{RefusedObject, WriteRefusals};
use observed::ObservedNode;
use observed::named::Named;

/// Requests about a pod that are older than this are forgotten: the hook repeats a request after
/// one minute at the latest.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(10);

/// A run's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunMemory {
    /// Start of the run.
    pub started_at: Timestamp,
    /// The nodes that the run waits for: all nodes of the first complete list. Nodes that join
    /// later are reported, not waited for. `None` before the first decision.
    pub cohort: Option<Arc<Cohort>>,
    /// Time at which this process took over the run, or acquired the Lease again after another
    /// process may have held it: it did nothing for nodes before.
    pub taken_over_at: Timestamp,
    /// Time by which the run must have ended.
    pub deadline: Timestamp,
    /// The nodes of the run, by name: those that were out of date at some time, or whose plugin was
    /// replaced.
    pub nodes: Named<NodeRecord>,
    /// The device plugin's configurations as last observed.
    pub configs: BTreeMap<String, RecordedPluginConfig>,
    /// Since when the fleet has been waiting for the same kind of reason.
    pub fleet_waiting: Option<(&'static str, Timestamp)>,
    /// The time in which nodes have been assessed.
    pub assessed: AssessmentPeriod,
    /// When each interruption of the run ended, in order; see [`RunMemory::interruption_ended`].
    pub interruptions: Vec<Timestamp>,
    /// The waits of the run record, if a command follows the run of a hook. A wait that the command
    /// observes for the first time started when the record says.
    pub followed: Option<RecordedWaits>,
    /// Since when each node has been waiting for the same kind of reason.
    pub waiting: Named<(&'static str, Timestamp)>,
    /// Since when each failed node has been waiting for a reason other than its upgrade.
    pub waiting_apart: Named<(&'static str, Timestamp)>,
    /// The acceptance test that is running on each node.
    pub testing: Named<RunningTest>,
    /// The driver and toolkit of each node, as last observed ready.
    pub ready: Named<ReadyBase>,
    /// Since when the hook has observed ready plugin pods of a node that publish another driver
    /// version than the loaded one, by their UIDs.
    pub outdated: Named<BTreeMap<String, Timestamp>>,
    /// The requests of this process about pods: deletions by the pod's UID, creations of pods of
    /// acceptance tests by its name, and readings of their logs.
    pub issued: Named<PodRequest>,
    /// What this process knows about the logs of acceptance tests' pods, by their UIDs.
    pub test_logs: Named<TestLog>,
    /// Patches of nodes that were requested and whose result has not been observed, by name.
    pub patched: Named<PendingPatch>,
    /// The history of the eviction of a pod, by its UID.
    pub evictions: Named<EvictionHistory>,
    /// Writes that the API server refused, by node and pod UID (none for the node itself).
    pub refusals: BTreeMap<RefusedObject, WriteRefusals>,
    /// Nodes that were to be released unchanged because the time was over.
    pub released_unchanged: BTreeSet<String>,
    /// The API server is too busy for evictions.
    pub busy: Option<BusyServer>,
    /// Steps that NVIDIA's controller would take and has not taken, each with the time since which
    /// this is so.
    pub pending: Arc<BTreeMap<AwaitedStep, Timestamp>>,
    /// How often the hook woke the controller for that, and when last.
    pub wakes: Arc<BTreeMap<AwaitedStep, (u32, Timestamp)>>,
    /// The objects that the controller watches, as the last decision observed them.
    pub vendor_seen: Option<WatchedObjects>,
    /// The last observed activity of the operator.
    pub operator: Option<OperatorActivity>,
    /// The operator's version when a run last succeeded; `None` if unknown.
    pub settled_version: Option<String>,
    /// The fleet at the start of the run.
    pub baseline: Option<Arc<Baseline>>,
    /// How far the driver of the rollout is proven. `None`: it needs no proof, or no node has needed
    /// an upgrade.
    pub proof: Option<Arc<DriverProof>>,
    /// The failed nodes that users take as proven
    /// ([`contract::user_request::accepted_nodes`]).
    pub accepted: BTreeSet<AcceptedNode>,
    /// The driver of the fleet when a run last succeeded; `None` if unknown.
    pub proven_driver: Option<String>,
    /// The baseline of the previous run, if that run did not succeed.
    pub earlier_baseline: Option<Arc<Baseline>>,
    /// Since when operands that were failing before the run have been ready, by node and DaemonSet.
    pub recovering: BTreeMap<String, BTreeMap<String, Timestamp>>,
    /// The hook's own pods: the hook never evicts them.
    pub own: OwnPods,
    /// Since when all conditions have been met, and the fleet for which they were met: a change of
    /// the fleet restarts the quiet period.
    pub well: Option<(Arc<[String]>, Timestamp)>,
}

/// The objects that NVIDIA's controller watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedObjects {
    /// A hash over them.
    pub hash: u64,
    /// Since when they have been unchanged.
    pub since: Timestamp,
    /// Whether one of them changed then. `false`: the process observed them then for the first time.
    pub has_changed: bool,
}

/// A step that NVIDIA's controller would take: the node and its state.
pub type AwaitedStep = (String, &'static str);

/// The time in which nodes have been assessed. They are not while the whole fleet waits for the
/// operator or the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssessmentPeriod {
    /// Since when: since the last such wait ended. It stays during the next wait. `None`: no
    /// decision of this run has assessed nodes.
    pub since: Option<Timestamp>,
    /// Whether such a wait has started since then.
    pub has_ended: bool,
    /// Whether the last decision of this process assessed nodes.
    pub is_observed: bool,
}

impl AssessmentPeriod {
    /// Records that a decision assesses no node.
    pub(crate) fn end(&mut self) {
        (self.has_ended, self.is_observed) = (true, false);
    }

    /// Records that a decision assesses nodes. Returns whether a new period starts.
    fn extend(&mut self, now: Timestamp) -> bool {
        let starts = std::mem::take(&mut self.has_ended) || self.since.is_none();
        if starts {
            self.since = Some(now);
        }
        self.is_observed = true;
        starts
    }
}

/// The waits of the run record, apart from those of nodes, which [`RunMemory::nodes`] has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedWaits {
    /// What the whole fleet waits for.
    pub fleet: Option<RecordedFleetWait>,
}

/// An acceptance test that is running on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningTest {
    /// The name of its pod, which need not exist now.
    pub pod: String,
    /// Since when.
    pub since: Timestamp,
    /// Why the kubelet refused or ended the last such pod, if it did.
    pub ended_by_kubelet: Option<String>,
}

/// The driver and toolkit of a node, observed as ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyBase {
    /// As in [`super::node::PluginBase`].
    pub identity: String,
    /// As in [`super::node::PluginBase`].
    pub served_since: Option<Timestamp>,
    /// Since when the hook has observed this.
    pub observed_since: Timestamp,
}

/// The final answer to the reading of the log of an acceptance test's pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestLog {
    /// The node of the pod.
    pub node: String,
    /// Time of the answer.
    pub at: Timestamp,
    /// The last lines without secrets; none if the log cannot be read.
    pub lines: Vec<String>,
}

/// A request about a pod: its deletion, the creation of the pod of an acceptance test, or the
/// reading of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRequest {
    /// The node of the pod.
    pub node: String,
    /// Time of the last request.
    pub at: Timestamp,
}

/// A requested patch of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPatch {
    /// The version of the node for which the patch was created.
    pub version: String,
    /// Time of the request.
    pub at: Timestamp,
    /// Whether the patch starts the node's upgrade.
    pub starts: bool,
}

impl RunMemory {
    /// Creates the memory of a new run.
    pub fn new(started_at: Timestamp, deadline: Timestamp) -> Self {
        Self { started_at, taken_over_at: started_at, deadline, ..Self::default() }
    }

    /// Records that a decision assesses nodes.
    pub(crate) fn assesses_nodes(&mut self, now: Timestamp) {
        if self.assessed.extend(now) {
            self.interruption_ended(now);
        }
    }

    /// Records the end of an interruption: until now, no hook process or no operator was at work.
    pub fn interruption_ended(&mut self, now: Timestamp) {
        self.interruptions.push(now);
        let oldest = self.interruptions.len().saturating_sub(MOST_INTERRUPTIONS);
        self.interruptions.drain(..oldest);
    }

    /// Returns the nodes about which the two memories differ.
    pub fn differing<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a str> {
        let names = [
            self.nodes.differing(&other.nodes),
            self.waiting.differing(&other.waiting),
            self.waiting_apart.differing(&other.waiting_apart),
            self.testing.differing(&other.testing),
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
        let issued = self.issued.differing(&other.issued).into_iter().flat_map(|uid| {
            let both = [self.issued.get(uid), other.issued.get(uid)];
            both.into_iter().flatten().map(|request| request.node.as_str())
        });
        let logs = self.test_logs.differing(&other.test_logs).into_iter().flat_map(|uid| {
            let both = [self.test_logs.get(uid), other.test_logs.get(uid)];
            both.into_iter().flatten().map(|log| log.node.as_str())
        });
        let names = names.into_iter().flatten().map(|name| &**name);
        names.chain(refusals).chain(issued).chain(logs).collect()
    }

    /// Returns whether the run waits for the node with this UID.
    pub fn is_in_cohort(&self, uid: &str) -> bool {
        self.cohort.as_ref().is_some_and(|cohort| cohort.contains(uid))
    }

    /// Creates the memory of a run that follows another one. It keeps the replacements of the
    /// previous run, and the plugins that did not come back: a repeated run must not take down more
    /// plugins. A node that had left does not come back: a new node of this name has another UID.
    pub fn following(
        nodes: &Named<NodeRecord>,
        started_at: Timestamp,
        deadline: Timestamp,
    ) -> Self {
        let mut memory = Self::new(started_at, deadline);
        let stays = |node: &NodeRecord| node.outcome != Some(NodeOutcome::Gone);
        for (name, node) in nodes.iter().filter(|(_, node)| stays(node)) {
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
            node.acceptance.clear();
            memory.nodes.insert(Arc::clone(name), node);
        }
        memory
    }

    /// Returns whether a restarted pod of the device plugin is not back on the node; there may
    /// temporarily be no pod at all.
    pub fn has_device_plugin_away(&self, node: &ObservedNode) -> bool {
        let away = |replacement: &PluginReplacement| {
            replacement.plugin == ReplacedPodKind::Device && replacement.back_at.is_none()
        };
        self.nodes
            .get(&node.name)
            .is_some_and(|record| record.uid == node.uid && record.replaced.values().any(away))
    }

    /// Records the reason for which the fleet waits, and returns since when it has been that kind
    /// of reason.
    pub(crate) fn fleet_waits(&mut self, reason: &Reason, now: Timestamp) -> Timestamp {
        match self.fleet_waiting {
            Some((name, since)) if name == reason.name() => since,
            Some(_) | None => {
                let recorded = self.followed.as_ref().and_then(|waits| waits.fleet.as_ref());
                let recorded = recorded.filter(|recorded| recorded.reason == reason.name());
                let since = recorded.map_or(now, |recorded| recorded.since);
                self.fleet_waiting = Some((reason.name(), since));
                since
            }
        }
    }

    /// Records the final answer to the reading of a log: its last lines, none if it cannot be read.
    /// An answer after which the reading may be repeated is not recorded.
    pub fn note_test_log(&mut self, reading: &TestLogReading, lines: Vec<String>, now: Timestamp) {
        let log = TestLog { node: reading.node.clone(), at: now, lines };
        self.test_logs.insert(reading.uid.as_str(), log);
    }

    /// Returns whether an action reads a log to whose reading there is a final answer.
    pub fn has_read(&self, action: &Action) -> bool {
        matches!(action, Action::ReadTestLog(reading) if self.test_logs.contains_key(&reading.uid))
    }

    /// Forgets requests about pods that are too old to matter, as UIDs never come back. `here`:
    /// whether a pod still exists.
    pub fn prune(&mut self, here: impl Fn(&str) -> bool, now: Timestamp) {
        let old = |at: Timestamp| now.duration_since(at) > FORGOTTEN;
        self.issued.retain(|_, request| !old(request.at));
        self.test_logs.retain(|_, log| !old(log.at));
        self.evictions.retain(|uid, history| !old(history.last) || here(uid));
    }
}

/// Returns whether the next run still waits for a plugin that was not back when a run ended.
fn keeps_waiting(outcome: Option<NodeOutcome>, plugin: ReplacedPodKind) -> bool {
    match outcome {
        None | Some(NodeOutcome::Failed) => true,
        // The settings tolerate this of the DRA driver. A node that was not ready is assessed
        // again, and so is a node whose device plugin was not examined because its configuration
        // was missing.
        Some(NodeOutcome::Done | NodeOutcome::Deferred) => plugin == ReplacedPodKind::Device,
        Some(NodeOutcome::Gone) => false,
    }
}

/// Returns the last replacement of each DaemonSet: it must not be repeated.
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

    /// Both maps grew with every pod that a long run evicted.
    #[test]
    fn requests_for_vanished_pods_are_forgotten() {
        let at = |minutes: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        let mut memory = RunMemory::new(at(0), at(1000));
        for (uid, minute) in [("gone", 0), ("here", 0), ("just-gone", 9)] {
            let request = PodRequest { node: "n".to_owned(), at: at(minute) };
            memory.issued.insert(uid, request);
            let history = EvictionHistory::after(None, at(minute), EvictionReply::Accepted);
            memory.evictions.insert(uid, history);
        }
        memory.prune(|uid| uid == "here", at(11));
        let [evictions, issued] = [
            memory.evictions.keys().map(|uid| &**uid).collect::<Vec<_>>(),
            memory.issued.keys().map(|uid| &**uid).collect(),
        ];
        assert_eq!((evictions, issued), (vec!["here", "just-gone"], vec!["just-gone"]));
    }

    /// A decision examines a node again when the log of its test has been read.
    #[test]
    fn answered_log_concerns_its_node_until_forgotten() {
        let at = |minutes: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        let before = RunMemory::new(at(0), at(1000));
        let mut memory = before.clone();
        let (node, uid) = ("gpu-0".to_owned(), "u1".to_owned());
        let reading = TestLogReading { node, uid, ..TestLogReading::default() };
        let action = Action::ReadTestLog(reading.clone());
        assert!(!memory.has_read(&action));
        memory.note_test_log(&reading, Vec::new(), at(0));
        assert!(memory.has_read(&action));
        assert!(memory.differing(&before).contains("gpu-0"));
        memory.prune(|_| true, at(11));
        assert_eq!(memory, before);
    }

    /// Regression: every later run kept and reported the record of a node that had left.
    #[test]
    fn node_that_left_is_forgotten_by_next_run() {
        let replacement = PluginReplacement {
            plugin: ReplacedPodKind::Dra,
            pod: "plugin".to_owned(),
            daemon_set: "plugins".to_owned(),
            under: "driver/0".to_owned(),
            cause: "the driver is newer".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            back_at: Some(Timestamp::UNIX_EPOCH),
        };
        let record = |outcome| NodeRecord {
            outcome: Some(outcome),
            replaced: BTreeMap::from([("old".to_owned(), replacement.clone())]),
            ..NodeRecord::default()
        };
        let mut nodes = Named::new();
        nodes.insert("here", record(NodeOutcome::Done));
        nodes.insert("left", record(NodeOutcome::Gone));
        let now = Timestamp::UNIX_EPOCH;
        let memory = RunMemory::following(&nodes, now, now);
        assert_eq!(memory.nodes.keys().map(|name| &**name).collect::<Vec<_>>(), ["here"]);
    }
}
