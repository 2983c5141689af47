//! The run record: what a run did, kept in the ConfigMap of its hook release. Data key [`RUN_KEY`]
//! contains a [`RunRecord`], and `node.<name>` a [`NodeRecord`] for each node of the run, so that
//! the progress of one node is one small patch.
//!
//! A node's record takes about 550 bytes after a replacement; a ConfigMap can contain 1 MiB.
//! Records that do not fit into the first ConfigMap go into further ones ([`object_name`]). The
//! first one is written last, and most runs need no other.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::acceptance::AcceptanceResult;
use self::baseline::Baseline;
use self::cohort::Cohort;
use self::proof::DriverProof;
use super::exit::ExitCode;

pub mod acceptance;
pub mod baseline;
pub mod cohort;
pub mod proof;
mod recorded_reason;

pub use recorded_reason::RecordedReason;

/// The format of the record. Version 1 has one ConfigMap, with node names in keys. A record that
/// version 1 can express is still written as version 1.
///
/// Any later image may read the record. A higher version is refused before anything is written
/// ([`ExitCode::NewerFormat`]). With the same or a lower version, unknown keys are ignored, and
/// missing keys have defaults. So a key may be added without a new version if a reader may safely
/// ignore it. A new version is needed for a key that changes its meaning or its type, or that is
/// removed, and for a new value of an enumeration ([`ReplacedPodKind`], [`NodeOutcome`]): an older
/// reader would treat the whole node's record as absent, and the hook could replace the node's pods
/// again.
pub const RECORD_FORMAT_VERSION: u32 = 2;
/// Maximum number of ConfigMaps of one record.
pub const OBJECTS: usize = 10;
/// Data key of the [`RunRecord`].
pub const RUN_KEY: &str = "run";
/// Prefix of the data keys of [`NodeRecord`]s; the node's name follows (node names are valid data
/// keys).
pub const NODE_KEY_PREFIX: &str = "node.";

/// Prefix of the data keys of nodes whose name is too long for a key; a hash of the name follows,
/// and the entry contains the name.
pub const HASHED_KEY_PREFIX: &str = "node_";
/// Data key of the number of ConfigMaps in use, in the first ConfigMap. Absent if there is only
/// one.
pub const OBJECTS_KEY: &str = "objects";

/// Maximum number of evicted pods that are kept for one node: a name may take 300 bytes.
const MOST_EVICTED: usize = 32;
/// Maximum number of results of acceptance tests that are kept for one node: a few attempts of a
/// few tests.
const MOST_RESULTS: usize = 16;

/// How many interruptions of a run are kept.
pub const MOST_INTERRUPTIONS: usize = 32;
/// Maximum number of steps that are kept for one node: a few attempts.
pub const MOST_STEPS: usize = 32;

/// Returns the name of a ConfigMap of a record; the first one has the record's own name.
pub fn object_name(record: &str, index: usize) -> String {
    if index == 0 { record.to_owned() } else { format!("{record}-{index}") }
}

/// One run of one hook Job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The format version that is needed to read the record, at most [`RECORD_FORMAT_VERSION`] of
    /// the program that wrote it.
    pub format_version: u32,
    /// The trigger digest of the run.
    pub digest: String,
    /// UID of the Job: a replacement pod of the same Job continues the same run.
    pub job: String,
    /// Start of the run.
    pub started_at: Timestamp,
    /// Time at which a hook process last took over the run, or acquired the Lease again after
    /// another process may have held it. The time limits of the driver's steps start again then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over_at: Option<Timestamp>,
    /// When the run before ended: what users have asked for since then concerns this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_ended_at: Option<Timestamp>,
    /// Hash of the specs at the end of the run. It detects an edit that the trigger digest does not
    /// cover.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub specs: String,
    /// The device plugin's configurations by key, each with the digest of its text and the time
    /// since which the hook has observed that text. A pod that started before that time is stale.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub configs: BTreeMap<String, RecordedPluginConfig>,
    /// Number of nodes in the cohort, which has its own data keys; absent until the first decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort_nodes: Option<usize>,
    /// The cohort.
    #[serde(skip)]
    pub cohort: Option<Arc<Cohort>>,
    /// The operator's version when a run last succeeded. Another version renders its DaemonSets
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_version: Option<String>,
    /// Number of nodes in the baseline, which has its own data keys; absent until the first
    /// decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_nodes: Option<usize>,
    /// The baseline.
    #[serde(skip)]
    pub baseline: Option<Arc<Baseline>>,
    /// How far the driver of the rollout is proven; absent without canaries, ramp and halt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<DriverProof>,
    /// The driver of the fleet when a run last succeeded: it needs no proof again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_driver: Option<String>,
    /// The reason for which the whole fleet waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet_wait: Option<RecordedFleetWait>,
    /// Since when nodes have been assessed: since the last wait for the operator and the spec ended.
    /// It stays during the next such wait; absent until the first assessment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assessed_since: Option<Timestamp>,
    /// When each interruption of the run ended, in order: a hook process took the run over, or the
    /// assessment of nodes began again. Only the last [`MOST_INTERRUPTIONS`] are kept. The duration
    /// of an upgrade with an interruption in it is not a measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interruptions: Vec<Timestamp>,
    /// The verdict; absent while the run continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// The reason for which the whole fleet waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedFleetWait {
    /// The reason's name.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// Whether nodes are assessed during the wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nodes_assessed: bool,
}

/// One configuration of the device plugin, as the hook observed it. It is kept per key and not per
/// node: the text that a node's pods run with follows from their start time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedPluginConfig {
    /// SHA-256 of its text.
    pub digest: String,
    /// The configuration has had this text at least since this time.
    pub since: Timestamp,
}

impl RunRecord {
    /// Returns when each interruption ended. A record without a list is of an earlier version,
    /// which kept the last two times.
    pub fn interruption_times(&self) -> Vec<Timestamp> {
        if self.interruptions.is_empty() {
            [self.taken_over_at, self.assessed_since].into_iter().flatten().collect()
        } else {
            self.interruptions.clone()
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The exit code of the process.
    pub code: ExitCode,
    /// The reason, for users.
    pub message: String,
    /// The reasons in the message: what ended the run, or what a successful run reports. Bounded,
    /// as the message is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<VerdictReason>,
    /// Time of the verdict.
    pub at: Timestamp,
    /// The hint in the message, if it has one. A record has it only in the message.
    #[serde(skip)]
    pub hint: Option<String>,
}

impl Verdict {
    /// Returns the message without the hint.
    pub fn message_without_hint(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
        self.message.replacen(&hint, "", 1)
    }
}

/// One reason of a verdict, for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerdictReason {
    /// The node; absent for a reason that concerns the fleet, or the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A constant name, as in events and metrics.
    pub reason: String,
}

impl VerdictReason {
    /// Creates a reason of a node, or of the fleet.
    pub fn new(node: Option<&str>, reason: &str) -> Self {
        Self { node: node.map(str::to_owned), reason: reason.to_owned() }
    }
}

/// What happened to one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRecord {
    /// UID of the Node object: a node that is created again under the same name is another node.
    pub uid: String,
    /// The outcome of the node; absent while the run waits for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<NodeOutcome>,
    /// The reason for which the run waits for the node, or for which the node has its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RecordedReason>,
    /// Since when `outcome` and `reason` have their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The upgrade of the node: each state with the time at which the node entered it, in order. If
    /// NVIDIA's controller performs the upgrade, these are its states as the hook observed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RecordedStep>,
    /// The pods that the hook evicted for the upgrade of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<EvictedPod>,
    /// The results of the acceptance tests on the node, in the order in which they ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<AcceptanceResult>,
    /// The plugins that the hook replaced on the node, by the UID of the deleted pod.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<String, PluginReplacement>,
    /// The refused write because of which the run stopped the upgrade of the node. A new run
    /// retries it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedWrite>,
}

/// The kind of a write during the upgrade of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteKind {
    /// A patch of the node: cordon, labels, annotations.
    Node,
    /// The eviction of one of its pods.
    Eviction,
    /// The deletion of its driver pod or of a plugin pod.
    PodDeletion,
    /// The creation of the pod of an acceptance test: it never becomes a [`RefusedWrite`].
    AcceptancePod,
}

impl fmt::Display for WriteKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Node => "a change of the node",
            Self::Eviction => "the eviction of a pod",
            Self::PodDeletion => "the deletion of a pod",
            Self::AcceptancePod => "the creation of the pod of an acceptance test",
        })
    }
}

/// A refused write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedWrite {
    /// The write.
    pub write: WriteKind,
    /// The message of the API server.
    pub message: String,
    /// The API server also refuses patches of the node: the hook leaves the node as it is, and
    /// writes nothing more to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stays: bool,
    /// Admission changed a patch that was to change the node's cordon: the node's record may not
    /// say who owns the cordon.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cordon: bool,
    /// A user had requested the node when its write was refused: only a new request applies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requested: bool,
}

/// One step of a node's upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedStep {
    /// The state.
    pub state: String,
    /// Time at which the node entered it.
    pub at: Timestamp,
    /// Whether the node may have entered it earlier: it was in this state when the hook first
    /// observed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub or_earlier: bool,
}

/// An evicted pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictedPod {
    /// `namespace/name`.
    pub pod: String,
    /// Time at which the API server accepted the eviction.
    pub at: Timestamp,
}

impl NodeRecord {
    /// Adds a pod whose eviction the API server accepted. Only the first `MOST_EVICTED` pods of a
    /// node are kept.
    pub fn evicts(&mut self, pod: String, at: Timestamp) {
        if self.evicted.len() < MOST_EVICTED && self.evicted.iter().all(|known| known.pod != pod) {
            self.evicted.push(EvictedPod { pod, at });
        }
    }

    /// Adds the result of an acceptance test, unless it is known. Another result of the same test
    /// with the same driver pod is replaced. Only the newest `MOST_RESULTS` results are kept, all
    /// without log lines: the run record is small, and has the results of all nodes.
    pub fn add_result(&mut self, result: &AcceptanceResult) {
        let is_same = |known: &AcceptanceResult| {
            (&known.test, known.time, &known.driver_pod)
                == (&result.test, result.time, &result.driver_pod)
        };
        match self.acceptance.iter_mut().find(|known| is_same(known)) {
            Some(known) if known.at == result.at => {}
            Some(known) => *known = result.without_log(),
            None => self.acceptance.push(result.without_log()),
        }
        let oldest = self.acceptance.len().saturating_sub(MOST_RESULTS);
        self.acceptance.drain(..oldest);
    }
}

/// The outcome of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeOutcome {
    /// Driver, toolkit and plugin are current.
    Done,
    /// The node left the cluster.
    Gone,
    /// Left unchanged, for a reason that the policy tolerates.
    Deferred,
    /// The node failed, and needs manual action.
    Failed,
}

/// The component of a replaced pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplacedPodKind {
    /// The DRA kubelet plugin.
    #[default]
    Dra,
    /// Device plugin, GPU feature discovery or MPS daemon.
    Device,
}

/// One replaced plugin pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginReplacement {
    /// The component of the pod.
    #[serde(default)]
    pub plugin: ReplacedPodKind,
    /// The pod's name; empty in a record that had to be shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// UID of the DaemonSet that creates the replacement.
    pub daemon_set: String,
    /// Identity of the thing that the pod was older than: the driver and toolkit below the plugin
    /// (`<driver pod UID>/<restarts>` of both), or its configuration. Each identity causes at most
    /// one replacement.
    pub under: String,
    /// The reason for the replacement; empty in a record that had to be shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// Time at which the hook decided to delete the pod.
    pub at: Timestamp,
    /// Time at which the hook first observed that the replacement serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::acceptance::AcceptanceVerdict;
    use super::*;
    use crate::acceptance::AcceptanceTime;

    fn result(test: usize, second: i64) -> AcceptanceResult {
        AcceptanceResult {
            test: format!("test-{test}"),
            time: AcceptanceTime::After,
            driver_pod: "driver".to_owned(),
            verdict: AcceptanceVerdict::Failed,
            message: "exit code 1".to_owned(),
            at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second),
            seconds: 5,
            log: Vec::new(),
        }
    }

    #[test]
    fn log_lines_do_not_get_into_the_run_record() {
        let mut record = NodeRecord::default();
        for second in [1, 2] {
            let log = vec!["2 of 8 GPUs".to_owned()];
            record.add_result(&AcceptanceResult { log, ..result(0, second) });
            assert_eq!(record.acceptance, [result(0, second)]);
        }
    }

    #[test]
    fn newest_results_of_tests_are_kept_once() {
        let mut record = NodeRecord::default();
        record.add_result(&result(0, 1));
        record.acceptance[0].message.push_str(" with details");
        record.add_result(&result(0, 1));
        assert_eq!(record.acceptance.len(), 1);
        assert!(record.acceptance[0].message.ends_with("details"), "it is the same result");
        record.add_result(&result(0, 2));
        assert_eq!(record.acceptance, [result(0, 2)], "another attempt replaces it");
        for test in 1..=MOST_RESULTS {
            record.add_result(&result(test, 3));
        }
        assert_eq!(record.acceptance.len(), MOST_RESULTS);
        assert_eq!(record.acceptance[0].test, "test-1", "the oldest is gone");
    }
}
