//! Reports a run: when it started and ended, how, and what happened on each node. From the run record, which stays when events are long gone, and
//! from the annotations of nodes that are in progress.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::record::{EvictedPod, NodeOutcome, NodeRecord, RecordedStep, ReplacedPodKind};
use contract::user_request::UserRequest;
use planner::drive_upgrade::record::{NodeRecordState, read};
use planner::node::driver_nodes;

use super::observe::RolloutSnapshot;

mod kind;
mod metrics;
mod timeline;

pub use kind::SpanKind;
pub use metrics::format_metrics;
pub use timeline::{Timeline, timeline};

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// What it is about, for people.
    pub title: String,
    /// `namespace/name` of the hook release; absent: there is none, and nobody has written anything down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The driver's name in settings.
    pub driver: &'static str,
    /// Who decides when a node goes.
    pub mode: &'static str,
    /// The last run, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<ReportedRun>,
    /// What users asked of the rollout with commands since the run started, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<UserRequest>,
    /// What the nodes come to.
    pub totals: ReportTotals,
    /// The nodes to which something happened, in the order in which it did.
    pub nodes: Vec<NodeTimeline>,
    /// What is worth knowing.
    pub notes: Vec<String>,
    /// When it was looked at.
    pub at: Timestamp,
}

/// When it began, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportedRun {
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; absent: it goes on, or was aborted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Its length in seconds, so far; of a run that was aborted: until the last thing that it wrote down.
    pub seconds: i64,
    /// It has not ended, and no hook is at work on it: it was aborted, or its hook was uninstalled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The digest of its settings, as far as it is needed to tell it from others.
    pub digest: String,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The code's name.
    pub code: &'static str,
    /// The exit code.
    pub exit: u8,
    /// Why, for people.
    pub message: String,
}

/// Numbers of nodes and pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportTotals {
    /// Nodes that need the driver.
    pub nodes: usize,
    /// To which something happened.
    pub touched: usize,
    /// Of these, driver, toolkit and plugins are current.
    pub done: usize,
    /// They failed.
    pub failed: usize,
    /// They were left as they are.
    pub deferred: usize,
    /// They left the cluster.
    pub gone: usize,
    /// They are not at an end.
    pub open: usize,
    /// Pods that were evicted.
    pub evicted: usize,
    /// Plugin pods that were replaced.
    pub replaced: usize,
}

/// What happened on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTimeline {
    /// Its name.
    pub node: String,
    /// How it ended; absent: it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<NodeOutcome>,
    /// What it waits for, or why it ended as it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its states, one after the other.
    pub spans: Vec<StateSpan>,
    /// Seconds from the first one's begin to the last one's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// The pods that were evicted for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<EvictedPod>,
    /// The plugin pods that were replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<ReplacedPlugin>,
}

/// A node was in this state for so long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateSpan {
    /// The state's name.
    pub state: String,
    /// What it is to people.
    pub kind: SpanKind,
    /// From when on.
    pub from: Timestamp,
    /// Until when.
    pub to: Timestamp,
}

/// A replaced plugin pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedPlugin {
    /// What it is part of.
    pub plugin: ReplacedPodKind,
    /// The pod that went.
    pub pod: String,
    /// Why.
    pub cause: String,
    /// When.
    pub at: Timestamp,
    /// When its replacement served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_at: Option<Timestamp>,
}

/// Reports a rollout's last run. Pure.
pub fn report(snapshot: &RolloutSnapshot) -> RunReport {
    let run = snapshot.record.run.as_ref().map(|run| {
        let ended_at = run.verdict.as_ref().map(|verdict| verdict.at);
        let aborted = ended_at.is_none() && !snapshot.phase().has_job();
        let written = || last_written(snapshot).map_or(run.started_at, |at| at.max(run.started_at));
        let end = ended_at.or_else(|| aborted.then(written)).unwrap_or(snapshot.now);
        ReportedRun {
            started_at: run.started_at,
            ended_at,
            seconds: end.duration_since(run.started_at).as_secs().max(0),
            aborted,
            verdict: run.verdict.as_ref().map(|verdict| Verdict {
                code: verdict.code.name(),
                exit: verdict.code.number(),
                message: verdict.message.clone(),
            }),
            digest: run.digest.chars().take(12).collect(),
        }
    });
    let aborted = run.as_ref().is_some_and(|run| run.aborted);
    let end = run
        .as_ref()
        .and_then(|run| run.ended_at)
        .or_else(|| last_written(snapshot).filter(|_| aborted))
        .unwrap_or(snapshot.now);
    let started_at = run.as_ref().map(|run| run.started_at);
    let mut nodes: Vec<NodeTimeline> = records(snapshot)
        .into_iter()
        .map(|(node, record)| bar(node, record, started_at, end))
        .filter(is_telling)
        .collect();
    nodes.sort_by(|one, other| (begin(one), &one.node).cmp(&(begin(other), &other.node)));
    let all = driver_nodes(&snapshot.observed, snapshot.settings.driver).count();
    RunReport {
        title: snapshot.target.title(),
        release: snapshot.target.release.clone(),
        driver: snapshot.settings.driver.traits().name,
        mode: snapshot.settings.mode.name(),
        run,
        requests: requests_since(snapshot, started_at),
        totals: totals(all, &nodes),
        nodes,
        notes: snapshot.notes.clone(),
        at: snapshot.now,
    }
}

/// Returns what users asked for since then.
fn requests_since(snapshot: &RolloutSnapshot, started_at: Option<Timestamp>) -> Vec<UserRequest> {
    let requests = snapshot.record.requests.iter();
    requests.filter(|request| started_at.is_none_or(|at| request.at >= at)).cloned().collect()
}

/// When something was last written down of a node.
fn last_written(snapshot: &RolloutSnapshot) -> Option<Timestamp> {
    let of_node = |record: &NodeRecord| {
        let steps = record.steps.iter().map(|step| step.at);
        let pods = record
            .evicted
            .iter()
            .map(|one| one.at)
            .chain(record.replaced.values().map(|one| one.back_at.unwrap_or(one.at)));
        steps.chain(pods).chain(record.since).max()
    };
    snapshot.record.nodes.values().filter_map(of_node).max()
}

/// What is written down of the nodes, with the steps of those that are in progress.
fn records(snapshot: &RolloutSnapshot) -> BTreeMap<String, NodeRecord> {
    let mut records: BTreeMap<String, NodeRecord> = snapshot
        .record
        .nodes
        .iter()
        .map(|(name, record)| (name.to_string(), record.clone()))
        .collect();
    for node in snapshot.observed.nodes.values() {
        if let NodeRecordState::Record(own) = read(node, snapshot.settings.driver.traits()) {
            records.entry(node.name.clone()).or_default().steps = own.steps();
        }
    }
    records
}

fn is_telling(bar: &NodeTimeline) -> bool {
    !bar.spans.is_empty()
        || !bar.evicted.is_empty()
        || !bar.replaced.is_empty()
        || bar.outcome.is_some_and(|outcome| outcome != NodeOutcome::Done)
}

fn begin(bar: &NodeTimeline) -> Option<Timestamp> {
    let spans = bar.spans.first().map(|span| span.from);
    spans
        .into_iter()
        .chain(bar.replaced.iter().map(|one| one.at))
        .chain(bar.evicted.iter().map(|one| one.at))
        .min()
}

/// Makes a node's timeline of the run that started then. The record keeps the last replacement of each plugin, so that the next run knows of it:
/// those of earlier runs are left out here.
fn bar(
    node: String,
    record: NodeRecord,
    started_at: Option<Timestamp>,
    end: Timestamp,
) -> NodeTimeline {
    let NodeRecord { outcome, reason, since, steps, replaced, mut evicted, .. } = record;
    let is_of_run = |at: Timestamp| started_at.is_none_or(|started_at| at >= started_at);
    // What is at an end was in its last state until then.
    let end = since.filter(|_| outcome.is_some()).unwrap_or(end);
    let spans = spans(&steps, end);
    let mut replaced: Vec<ReplacedPlugin> = replaced
        .into_values()
        .filter(|one| is_of_run(one.at))
        .map(|one| ReplacedPlugin {
            plugin: one.plugin,
            pod: one.pod,
            cause: one.cause,
            at: one.at,
            back_at: one.back_at,
        })
        .collect();
    replaced.sort_by_key(|one| one.at);
    evicted.retain(|one| is_of_run(one.at));
    let seconds = spans
        .first()
        .zip(spans.last())
        .map(|(first, last)| last.to.duration_since(first.from).as_secs());
    NodeTimeline {
        node,
        outcome,
        reason: reason.map(|reason| reason.to_string()),
        spans,
        seconds,
        evicted,
        replaced,
    }
}

fn spans(steps: &[RecordedStep], end: Timestamp) -> Vec<StateSpan> {
    let ends = steps.iter().skip(1).map(|step| step.at).chain([end]);
    let span = |(step, to): (&RecordedStep, Timestamp)| {
        let kind = SpanKind::from_state(&step.state)?;
        Some(StateSpan { state: step.state.clone(), kind, from: step.at, to: to.max(step.at) })
    };
    steps.iter().zip(ends).filter_map(span).collect()
}

fn totals(nodes: usize, bars: &[NodeTimeline]) -> ReportTotals {
    let count =
        |outcome: Option<NodeOutcome>| bars.iter().filter(|bar| bar.outcome == outcome).count();
    ReportTotals {
        nodes,
        touched: bars.len(),
        done: count(Some(NodeOutcome::Done)),
        failed: count(Some(NodeOutcome::Failed)),
        deferred: count(Some(NodeOutcome::Deferred)),
        gone: count(Some(NodeOutcome::Gone)),
        open: count(None),
        evicted: bars.iter().map(|bar| bar.evicted.len()).sum(),
        replaced: bars.iter().map(|bar| bar.replaced.len()).sum(),
    }
}
