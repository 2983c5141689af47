//! Reports a run: when it started, when and how it ended, and what happened on each node. The
//! sources are the run record, which stays when events are gone, and the annotations of nodes in
//! progress.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::record::acceptance::AcceptanceResult;
use contract::record::proof::Halted;
use contract::record::{
    EvictedPod, NodeOutcome, NodeRecord, RecordedStep, ReplacedPodKind, RunRecord,
};
use contract::user_request::UserRequest;
use planner::drive_upgrade::record::read;
use planner::node::driver_nodes;

use super::observe::RolloutSnapshot;
use super::proven_nodes::open_halt;
use super::run_phase::RunPhase;
use super::upgrade_steps::upgrade_steps;

mod kind;
mod metrics;
mod timeline;

pub use kind::SpanKind;
pub use metrics::format_metrics;
pub use timeline::{Timeline, timeline};

/// The report of a rollout's last run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// The title of the rollout, for people.
    pub title: String,
    /// `namespace/name` of the hook release; absent: there is none, and thus no run record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The driver's name in the settings.
    pub driver: &'static str,
    /// The mode.
    pub mode: &'static str,
    /// The last run, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<ReportedRun>,
    /// What users have asked of the rollout with commands since the run before ended, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<UserRequest>,
    /// Numbers of nodes and pods.
    pub totals: ReportTotals,
    /// The affected nodes, by the time of their first change.
    pub nodes: Vec<NodeTimeline>,
    /// Notes for people, for example about what could not be read.
    pub notes: Vec<String>,
    /// The time of the report.
    pub at: Timestamp,
}

/// Start and end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportedRun {
    /// The phase of the run.
    pub phase: RunPhase,
    /// When the run started.
    pub started_at: Timestamp,
    /// When the run ended; absent: it is in progress, or ended without a verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The duration so far, in seconds; of a run that ended without a verdict: until its last entry
    /// in the run record.
    pub seconds: i64,
    /// How the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Why no more nodes are started; absent: the rollout has not halted, or a user has ended the
    /// halt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt: Option<Halted>,
    /// The first 12 characters of the run's trigger digest.
    pub digest: String,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Name of the exit code.
    pub code: &'static str,
    /// Number of the exit code.
    pub exit: u8,
    /// The message, for people.
    pub message: String,
}

/// Numbers of nodes and pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportTotals {
    /// Nodes that need the driver.
    pub nodes: usize,
    /// Affected nodes: the following numbers are about these.
    pub touched: usize,
    /// Nodes whose driver, toolkit and plugins are current.
    pub done: usize,
    /// Nodes that failed.
    pub failed: usize,
    /// Nodes that were left unchanged for a reason that the policy tolerates.
    pub deferred: usize,
    /// Nodes that were removed from the cluster.
    pub gone: usize,
    /// Nodes without an outcome.
    pub open: usize,
    /// Evicted pods.
    pub evicted: usize,
    /// Replaced plugin pods.
    pub replaced: usize,
}

/// What happened on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTimeline {
    /// Name of the node.
    pub node: String,
    /// The outcome of the node; absent: it has none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<NodeOutcome>,
    /// What the node waits for, or the reason of its outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The successive states of the node.
    pub spans: Vec<StateSpan>,
    /// The time from the start of the first state to the end of the last one, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// The pods that were evicted from the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<EvictedPod>,
    /// The plugin pods that were replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<ReplacedPlugin>,
    /// The results of the acceptance tests, in the order in which they ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<AcceptanceResult>,
}

/// The time that a node was in a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateSpan {
    /// The state's name.
    pub state: String,
    /// The kind of the state.
    pub kind: SpanKind,
    /// The start of the span.
    pub from: Timestamp,
    /// Whether it may have started earlier: the node was in this state when the hook first observed
    /// it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub or_earlier: bool,
    /// The end of the span.
    pub to: Timestamp,
}

/// A replaced plugin pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedPlugin {
    /// The kind of the plugin.
    pub plugin: ReplacedPodKind,
    /// The replaced pod.
    pub pod: String,
    /// The cause of the replacement.
    pub cause: String,
    /// When the pod was replaced.
    pub at: Timestamp,
    /// When the new pod served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_at: Option<Timestamp>,
}

/// Reports a rollout's last run. Pure.
pub fn report(snapshot: &RolloutSnapshot) -> RunReport {
    let run = snapshot.record.run.as_ref().map(|run| {
        let ended_at = run.verdict.as_ref().map(|verdict| verdict.at);
        let phase = run_phase(snapshot, run);
        let written = || last_written(snapshot).map_or(run.started_at, |at| at.max(run.started_at));
        let end = ended_at.or_else(|| (!phase.has_job()).then(written)).unwrap_or(snapshot.now);
        ReportedRun {
            phase,
            started_at: run.started_at,
            ended_at,
            seconds: end.duration_since(run.started_at).as_secs().max(0),
            verdict: run.verdict.as_ref().map(|verdict| Verdict {
                code: verdict.code.name(),
                exit: verdict.code.number(),
                message: verdict.message.clone(),
            }),
            halt: open_halt(snapshot).cloned(),
            digest: run.digest.chars().take(12).collect(),
        }
    });
    let is_over = run.as_ref().is_some_and(|run| !run.phase.has_job());
    let end = run
        .as_ref()
        .and_then(|run| run.ended_at)
        .or_else(|| last_written(snapshot).filter(|_| is_over))
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
        requests: requests(snapshot),
        totals: totals(all, &nodes),
        nodes,
        notes: snapshot.notes.clone(),
        at: snapshot.now,
    }
}

/// Returns the phase of the recorded run. While the next Job starts, the record still has the run
/// before.
fn run_phase(snapshot: &RolloutSnapshot, run: &RunRecord) -> RunPhase {
    let job = snapshot.job.as_ref().filter(|job| job.uid == run.job);
    RunPhase::new(job, &snapshot.record, snapshot.holder.as_ref(), snapshot.now)
}

/// Returns what users have asked for since the run before ended, such as the end of a halt.
fn requests(snapshot: &RolloutSnapshot) -> Vec<UserRequest> {
    let run = snapshot.record.run.as_ref();
    let since = run.map(|run| run.previous_ended_at.unwrap_or(run.started_at));
    let requests = snapshot.record.requests.iter();
    requests.filter(|request| since.is_none_or(|since| request.at >= since)).cloned().collect()
}

/// Returns the time of the last entry about a node in the run record.
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

/// Returns the node records of the run record and of nodes in progress, with the steps so far.
fn records(snapshot: &RolloutSnapshot) -> BTreeMap<String, NodeRecord> {
    let traits = snapshot.settings.driver.traits();
    let in_progress =
        snapshot.observed.nodes.values().filter(|node| read(node, traits).record().is_some());
    let names = in_progress.map(|node| node.name.as_str());
    let names: BTreeSet<&str> =
        snapshot.record.nodes.keys().map(|name| &**name).chain(names).collect();
    let record = |name: &str| {
        let recorded = snapshot.record.nodes.get(name).cloned().unwrap_or_default();
        NodeRecord { steps: upgrade_steps(snapshot, name), ..recorded }
    };
    names.into_iter().map(|name| (name.to_owned(), record(name))).collect()
}

fn is_telling(bar: &NodeTimeline) -> bool {
    !bar.spans.is_empty()
        || !bar.evicted.is_empty()
        || !bar.replaced.is_empty()
        || !bar.acceptance.is_empty()
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

/// Creates a node's timeline of the run that started at `started_at`. The record keeps the last
/// replacement of each plugin for the next run; replacements of earlier runs are left out here.
fn bar(
    node: String,
    record: NodeRecord,
    started_at: Option<Timestamp>,
    end: Timestamp,
) -> NodeTimeline {
    let NodeRecord { outcome, reason, since, steps, replaced, mut evicted, mut acceptance, .. } =
        record;
    let is_of_run = |at: Timestamp| started_at.is_none_or(|started_at| at >= started_at);
    // A node with an outcome was in its last state until the time of the outcome.
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
    acceptance.retain(|one| is_of_run(one.at));
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
        acceptance,
    }
}

fn spans(steps: &[RecordedStep], end: Timestamp) -> Vec<StateSpan> {
    let ends = steps.iter().skip(1).map(|step| step.at).chain([end]);
    let span = |(step, to): (&RecordedStep, Timestamp)| {
        let kind = SpanKind::from_state(&step.state)?;
        let RecordedStep { ref state, at: from, or_earlier } = *step;
        Some(StateSpan { state: state.clone(), kind, from, or_earlier, to: to.max(from) })
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
