//! The part of a node's upgrade that must survive a restart of the hook: one annotation on the
//! node, written together with its state label and its cordon. A process that is killed at any time
//! leaves a node that the next process can continue.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use contract::driver::DriverTraits;
use contract::omitted::is_default;
use contract::record::RecordedStep;
use contract::record::acceptance::AcceptanceResult;
use observed::{ObservedNode, ParsedValue};

use super::cause::FailureCause;
use super::state::UpgradeState;

/// The format of [`UpgradeRecord`]. A program that finds a newer one leaves the node alone.
pub const VERSION: u32 = 1;

/// The record of one node.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeRecord {
    /// [`VERSION`] of the program that wrote it.
    pub version: u32,
    /// The upgrade state of the node.
    pub state: UpgradeState,
    /// When the node entered the state.
    pub since: Timestamp,
    /// When the node was started.
    pub started: Timestamp,
    /// The trigger digest under which it was started.
    pub digest: String,
    /// Whether the cordon is the hook's: the hook removes it when the node is done.
    pub cordoned: bool,
    /// How often another user or controller removed the cordon and the hook restored it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recordoned: u32,
    /// Since when its clock has been stopped by a pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Timestamp>,
    /// When the node entered each state.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps: BTreeMap<UpgradeState, Timestamp>,
    /// Whether the driver's installation does not change: workloads stay, and only the pod is
    /// replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restart_only: bool,
    /// Whether a user requested the upgrade, even if the driver was already current.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requested: bool,
    /// Whether the node was a canary of the driver. The choice of canaries changes when one fails,
    /// and a failed canary must still pass their tests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub canary: bool,
    /// The topology group in which it was started. Labels by which nodes are grouped may be missing
    /// while the driver is replaced: GPU feature discovery, which sets some of them, stops then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<NodeGroup>,
    /// `namespace/name` of the DaemonSet, if no operator installs the driver: there may be several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_set: Option<String>,
    /// UID of the driver pod when the node was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_pod: Option<String>,
    /// Whether a failed attempt under any digest changed the driver, or may have. Read it with
    /// [`UpgradeRecord::has_changed_driver`]: records of earlier versions do not have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub driver_changed: bool,
    /// Failed attempts under this digest, by cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attempts: BTreeMap<FailureCause, u32>,
    /// Trigger digest, a slash, and UID of the driver pod with which the acceptance tests after the
    /// upgrade have begun: if the pod stops working, that is a result of the tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_begun: Option<String>,
    /// How often the tests have begun again under this digest, because others had replaced the
    /// driver pod.
    #[serde(default, skip_serializing_if = "is_default")]
    pub driver_replacements: u32,
    /// The results of acceptance tests under this digest, in the order in which they ended. Each
    /// counts only for its driver pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<AcceptanceResult>,
    /// The failure, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<NodeFailure>,
}

/// The topology group of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroup {
    /// The key of the label.
    pub label: String,
    /// The value of the label.
    pub value: String,
}

/// Why a node failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFailure {
    /// The cause.
    pub cause: FailureCause,
    /// The message with details, such as pods and numbers.
    pub message: String,
}

/// The record on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRecordState {
    /// No record.
    Nothing,
    /// A record.
    Record(Arc<UpgradeRecord>),
    /// A record of a newer program.
    Newer(u32),
    /// A text that is not a record, or a state label without a record: a user edited it. The owner
    /// of the cordon is unknown, so the cordon counts as foreign.
    Broken,
}

impl NodeRecordState {
    /// Returns the record, if there is one that this program can read.
    pub fn record(&self) -> Option<&Arc<UpgradeRecord>> {
        if let Self::Record(record) = self { Some(record) } else { None }
    }

    /// Returns whether the record is about another DaemonSet than this one.
    pub(crate) fn belongs_to_other_hook(&self, identity: Option<&str>) -> bool {
        let theirs = self.record().and_then(|record| record.daemon_set.as_deref());
        theirs.zip(identity).is_some_and(|(theirs, identity)| theirs != identity)
    }
}

#[derive(Deserialize)]
struct VersionedRecord {
    version: u32,
}

/// Returns whether the record on the node is about another DaemonSet than this one.
pub fn belongs_to_other_hook(
    node: &ObservedNode,
    traits: &DriverTraits,
    identity: Option<&str>,
) -> bool {
    identity.is_some() && read(node, traits).belongs_to_other_hook(identity)
}

/// Reads the record on the node.
pub fn read(node: &ObservedNode, traits: &DriverTraits) -> NodeRecordState {
    match node.annotations.entry(traits.own_record) {
        Some(record) => record.parsed(),
        None if node.labels.contains_key(traits.own_state_label) => NodeRecordState::Broken,
        None => NodeRecordState::Nothing,
    }
}

impl ParsedValue for NodeRecordState {
    fn parse(text: &str) -> Self {
        match serde_json::from_str::<UpgradeRecord>(text) {
            Ok(record) if record.version > VERSION => Self::Newer(record.version),
            Ok(record) => Self::Record(Arc::new(record)),
            // A newer record need not have the fields of this one.
            Err(_) => match serde_json::from_str::<VersionedRecord>(text) {
                Ok(found) if found.version > VERSION => Self::Newer(found.version),
                Ok(_) | Err(_) => Self::Broken,
            },
        }
    }
}

impl UpgradeRecord {
    /// Creates the record of a node that is started now under this digest.
    pub fn new(state: UpgradeState, digest: &str, now: Timestamp) -> Self {
        Self {
            version: VERSION,
            state,
            since: now,
            started: now,
            digest: digest.to_owned(),
            cordoned: false,
            recordoned: 0,
            paused: None,
            steps: BTreeMap::from([(state, now)]),
            restart_only: false,
            requested: false,
            canary: false,
            group: None,
            daemon_set: None,
            driver_pod: None,
            driver_changed: false,
            attempts: BTreeMap::new(),
            tests_begun: None,
            driver_replacements: 0,
            acceptance: Vec::new(),
            failure: None,
        }
    }

    /// Returns the annotation's text.
    pub fn text(&self) -> String {
        // A struct of plain fields with string keys always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Enters a state.
    pub fn enter(&mut self, state: UpgradeState, now: Timestamp) {
        (self.state, self.since) = (state, now);
        self.steps.insert(state, now);
    }

    /// Returns the states that the node entered, in order, for the run record.
    pub fn steps(&self) -> Vec<RecordedStep> {
        let mut steps: Vec<(Timestamp, UpgradeState)> =
            self.steps.iter().map(|(state, at)| (*at, *state)).collect();
        steps.sort_unstable();
        steps
            .into_iter()
            .map(|(at, state)| RecordedStep {
                state: state.name().to_owned(),
                at,
                or_earlier: false,
            })
            .collect()
    }

    /// Returns how many seconds each state took, as a message.
    pub fn describe_steps(&self, now: Timestamp) -> String {
        let steps = self.steps();
        let ends = steps.iter().skip(1).map(|step| step.at).chain([now]);
        let parts: Vec<String> = steps
            .iter()
            .zip(ends)
            .map(|(step, end)| {
                format!("{} {} s", step.state, end.duration_since(step.at).as_secs())
            })
            .collect();
        parts.join(", ")
    }

    /// Returns the results of acceptance tests that count under a digest: another deployment may
    /// have other tests.
    pub fn results(&self, digest: &str) -> &[AcceptanceResult] {
        if self.digest == digest { &self.acceptance } else { &[] }
    }

    /// Adds the result of an acceptance test under this digest. Results and attempts under another
    /// one no longer count. Only this result has log lines from now on: the annotation of a node
    /// has little room.
    pub fn add_result(&mut self, result: AcceptanceResult, digest: &str) {
        self.count_under(digest);
        self.acceptance.iter_mut().for_each(|known| known.log.clear());
        self.acceptance.push(result);
    }

    /// Returns the record with the results of acceptance tests of a later one. Its state is that of
    /// the later one only if the node stays in it: a state that is not written has no start.
    #[must_use]
    pub fn with_results_of(&self, later: &Self) -> Self {
        if self.state == later.state {
            return later.clone();
        }
        Self {
            digest: later.digest.clone(),
            attempts: later.attempts.clone(),
            tests_begun: later.tests_begun.clone(),
            driver_replacements: later.driver_replacements,
            acceptance: later.acceptance.clone(),
            ..self.clone()
        }
    }

    /// Counts results and attempts under this digest from now on.
    pub fn count_under(&mut self, digest: &str) {
        if self.digest != digest {
            self.driver_changed = self.has_changed_driver();
            self.attempts.clear();
            self.acceptance.clear();
            digest.clone_into(&mut self.digest);
        }
    }

    /// Returns whether a failed attempt under any digest changed the driver, or may have: then the
    /// driver has not been proven. Records of earlier versions show it only by the causes of their
    /// attempts.
    pub fn has_changed_driver(&self) -> bool {
        self.driver_changed || self.attempts.keys().any(|cause| !cause.is_before_restart())
    }

    /// Returns whether an attempt has failed: under this digest, or under another one in which it
    /// changed the driver.
    pub fn has_failed(&self) -> bool {
        self.driver_changed || !self.attempts.is_empty()
    }

    /// Returns the number of failed attempts for a cause under a digest.
    pub fn attempts(&self, cause: FailureCause, digest: &str) -> u32 {
        if self.digest == digest { self.attempts.get(&cause).copied().unwrap_or(0) } else { 0 }
    }
}
