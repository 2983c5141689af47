//! The run record: what a run did, kept in the ConfigMap of its hook release. Data key [`RUN_KEY`] holds a [`RunRecord`], and
//! `node.<name>` a [`NodeRecord`] for each node that the run is about, so that one node's progress is one small patch.
//!
//! A node's record takes 550 bytes or so after a replacement; a ConfigMap holds 1 MiB. What does not fit into the first ConfigMap goes into the
//! further ones ([`object_name`]). The first one is written last, and is the only one of most runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::baseline::Baseline;
use self::cohort::Cohort;
use super::exit::ExitCode;

pub mod baseline;
pub mod cohort;
mod recorded_reason;

pub use recorded_reason::RecordedReason;

/// The format of the record. Version 1 knows one ConfigMap, with names of nodes in keys; what it can read is still written as version 1.
pub const RECORD_FORMAT_VERSION: u32 = 2;
/// The ConfigMaps of one record, at most.
pub const OBJECTS: usize = 10;
/// Data key of the [`RunRecord`].
pub const RUN_KEY: &str = "run";
/// Prefix of the data keys of [`NodeRecord`]s; the node's name follows (node names are valid data keys).
pub const NODE_KEY_PREFIX: &str = "node.";

/// The same where the name is too long for a key: a hash of it follows, and the entry holds the name.
pub const HASHED_KEY_PREFIX: &str = "node_";
/// Data key of the number of ConfigMaps in use, in the first one, where there is more than one.
pub const OBJECTS_KEY: &str = "objects";

/// So many evicted pods are kept of one node: their names may take 300 bytes each.
const MOST_EVICTED: usize = 32;
/// So many steps are kept of one node: a few attempts.
pub const MOST_STEPS: usize = 32;

/// The name of one of the ConfigMaps of a record; the first one has the record's own name.
pub fn object_name(record: &str, index: usize) -> String {
    if index == 0 { record.to_owned() } else { format!("{record}-{index}") }
}

/// One run of one hook Job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The format that is needed to read it, at most [`RECORD_FORMAT_VERSION`] of the program that wrote it.
    pub format_version: u32,
    /// The trigger digest that the run was about.
    pub digest: String,
    /// UID of the Job: a replacement pod of the same Job goes on with the same run.
    pub job: String,
    /// When the run began.
    pub started_at: Timestamp,
    /// Which specs it was about when it ended: an edit that the digest does not know of is no "nothing has changed".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub specs: String,
    /// The device plugin's configurations by key: with which text they were last seen, and since when. A pod that started before is stale.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub configs: BTreeMap<String, RecordedPluginConfig>,
    /// Number of nodes in the cohort, which has data keys of its own; absent until the first decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort_nodes: Option<usize>,
    /// The cohort.
    #[serde(skip)]
    pub cohort: Option<Arc<Cohort>>,
    /// The operator's version when a run last succeeded: another one renders its DaemonSets again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_version: Option<String>,
    /// Number of nodes in the baseline, which has data keys of its own; absent until the first decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_nodes: Option<usize>,
    /// The baseline.
    #[serde(skip)]
    pub baseline: Option<Arc<Baseline>>,
    /// What the whole fleet waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet_wait: Option<RecordedFleetWait>,
    /// How it ended; absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// What the whole fleet waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedFleetWait {
    /// The reason's name.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

/// One configuration of the device plugin, as the hook has seen it. Kept for each key and not for each node: what a node's pods run with
/// follows from when they started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedPluginConfig {
    /// SHA-256 of its text.
    pub digest: String,
    /// It has had this text since then, or for longer.
    pub since: Timestamp,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The code that the process ends with.
    pub code: ExitCode,
    /// Why, for people.
    pub message: String,
    /// What the message names: what ended the run, or what a successful run reports. Bounded, as the message is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<VerdictReason>,
    /// When.
    pub at: Timestamp,
}

/// One reason of a verdict, for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerdictReason {
    /// The node; absent for what concerns the fleet, or the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A constant name, as in events and metrics.
    pub reason: String,
}

impl VerdictReason {
    /// Of a node, or of the fleet.
    pub fn new(node: Option<&str>, reason: &str) -> Self {
        Self { node: node.map(str::to_owned), reason: reason.to_owned() }
    }
}

/// What happened to one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRecord {
    /// UID of the Node object: a node that comes back under the same name is another node.
    pub uid: String,
    /// How it ended for the node; absent while the run waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<NodeOutcome>,
    /// What the run waits for, or why the outcome is what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RecordedReason>,
    /// Since when `outcome` and `reason` are as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How the node's upgrade went: each state with the time at which it was entered, in their order. Where the vendor's controller does it, its states
    /// as they were seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RecordedStep>,
    /// The pods that were evicted for it, where the hook did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<EvictedPod>,
    /// The plugins that were replaced on the node, by the UID of the pod that was deleted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<String, PluginReplacement>,
    /// The write that the API server refused, for which the run gives the node up. A new run tries it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedWrite>,
}

/// A kind of write of one node's upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteKind {
    /// A patch of the node: cordon, labels, annotations.
    Node,
    /// The eviction of one of its pods.
    Eviction,
    /// The deletion of its driver pod or of a plugin pod.
    PodDeletion,
}

impl fmt::Display for WriteKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Node => "a change of the node",
            Self::Eviction => "the eviction of a pod",
            Self::PodDeletion => "the deletion of a pod",
        })
    }
}

/// A refused write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedWrite {
    /// The write.
    pub write: WriteKind,
    /// The server's words.
    pub message: String,
    /// The node takes no patch either: it stays as it is, and nothing more is written to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stays: bool,
    /// Admission changed a patch that was to change the node's cordon: its record may not say whose the cordon is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cordon: bool,
    /// A person had asked for the node when its write was refused: only a new request counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requested: bool,
}

/// One step of a node's upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedStep {
    /// The state.
    pub state: String,
    /// When it was entered.
    pub at: Timestamp,
}

/// A pod that was evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictedPod {
    /// `namespace/name`.
    pub pod: String,
    /// When its eviction was granted.
    pub at: Timestamp,
}

impl NodeRecord {
    /// Notes a pod of the node whose eviction was granted. A node that loses more than a report can show has the first ones.
    pub fn evicts(&mut self, pod: String, at: Timestamp) {
        if self.evicted.len() < MOST_EVICTED && self.evicted.iter().all(|known| known.pod != pod) {
            self.evicted.push(EvictedPod { pod, at });
        }
    }
}

/// How a run ends for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeOutcome {
    /// Driver, toolkit and plugin are current.
    Done,
    /// The node left the cluster.
    Gone,
    /// Left as it is, for a reason that the policy tolerates.
    Deferred,
    /// It will not get there by itself.
    Failed,
}

/// What a replaced pod is part of.
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
    /// What the pod is part of.
    #[serde(default)]
    pub plugin: ReplacedPodKind,
    /// The pod's name; empty in a record that had to be shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// UID of the DaemonSet that brings the replacement.
    pub daemon_set: String,
    /// What the pod was behind: what runs under the plugin (`<driver pod UID>/<restarts>` of driver and toolkit), or its configuration. At
    /// most one replacement for each.
    pub under: String,
    /// Why it was replaced; empty in a record that had to be shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// When its deletion was decided.
    pub at: Timestamp,
    /// When the replacement was seen serving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_at: Option<Timestamp>,
}
