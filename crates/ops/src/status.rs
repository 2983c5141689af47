//! The status of a rollout: one row per node, and totals of the fleet. Pure; the format of `gpu-rollout status -o json` is made from these types.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::user_request::UserRequest;
use observed::Observed;
use observed::pause::{ObservedPause, annotated_nodes};
use planner::node::DriverOperands;
use planner::progress::RolloutPace;

use super::hold_status::{HoldStatus, is_attended};
use super::observe::RolloutSnapshot;
use super::obstacle::PodObstacle;
use super::remedy::Remedy;
use super::run_phase::RunPhase;
use super::wait_start::{WaitStart, WaitStartSources};

mod row;
mod totals;
mod waiting;

pub use planner::progress::{LimitUse, NodeStage};
pub use row::PluginCondition;
pub use totals::{FleetTotals, MissingEta, PoolTotals};

/// A rollout at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// What it is about, for people.
    pub title: String,
    /// The driver's name in settings.
    pub driver: &'static str,
    /// `namespace/name` of the hook release; absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Who decides.
    pub mode: &'static str,
    /// The hook's run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStatus>,
    /// Nodes are held, and no hook is at work that releases them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub holds_unattended: bool,
    /// Who holds the Lease, over all hooks of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_holder: Option<String>,
    /// What people have paused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<PauseStatus>,
    /// What users asked of the rollout with commands, oldest first: the newest 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<UserRequest>,
    /// What the fleet comes to.
    pub totals: FleetTotals,
    /// What the whole fleet waits for.
    pub fleet: Vec<BlockingCondition>,
    /// The nodes that need the driver, or whose plugin is looked after, in the order of their names.
    pub nodes: Vec<NodeRow>,
    /// What is worth knowing.
    pub notes: Vec<String>,
    /// When it was seen.
    pub at: Timestamp,
}

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseStatus {
    /// Who.
    pub by: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Label selector of the nodes; absent with `nodes` absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The nodes with the annotation `gpu-rollout.dev/pause`, where that is the pause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Since when; absent: unknown, as an annotation has no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl PauseStatus {
    fn from_pause(pause: &ObservedPause) -> Self {
        let ObservedPause { key: _, selector, by, reason, at } = pause.clone();
        let selector = selector.map(|selector| selector.to_string());
        Self { by, reason, selector, nodes: Vec::new(), at }
    }

    /// Returns all pauses of a cluster. Nodes whose annotations have the same reason are one pause.
    fn all(observed: &Observed) -> Vec<Self> {
        let mut pauses: Vec<Self> = observed.pauses.iter().map(Self::from_pause).collect();
        let mut annotated: BTreeMap<Option<String>, Self> = BTreeMap::new();
        for (node, pause) in annotated_nodes(observed) {
            let known = annotated.entry(pause.reason.clone());
            let known = known.or_insert_with(|| Self::from_pause(&pause));
            known.nodes.push(node.name.clone());
        }
        pauses.extend(annotated.into_values());
        pauses
    }
}

/// The hook's run: what it goes on with, or the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// Whether a hook is at work, and otherwise why none is.
    pub phase: RunPhase,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When its time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// How it ended: the name of the exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<&'static str>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Its name.
    pub node: String,
    /// How far it is.
    pub stage: NodeStage,
    /// Its state in the upgrade, in the vendor's words; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Cordoned.
    pub cordoned: bool,
    /// The driver that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_now: Option<String>,
    /// The driver that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_wanted: Option<String>,
    /// Its driver pod is of the newest revision.
    pub driver_current: bool,
    /// How the DRA kubelet plugin stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginCondition>,
    /// The hold of a hook on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HoldStatus>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<BlockingCondition>,
    /// When it will probably be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
}

/// What a node, or the fleet, waits for, or why it ended as it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockingCondition {
    /// The kind of reason: a constant name.
    pub reason: &'static str,
    /// In words.
    pub text: String,
    /// Since when, and through whom.
    pub since: WaitStart,
    /// Whether it can end without anybody doing something about it.
    pub resolves_itself: bool,
    /// What to do.
    pub remedy: Remedy,
    /// The pods that are in the way, each with what to do about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<PodObstacle>,
    /// The whole fleet waits for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole_fleet: bool,
}

/// Describes the status of a rollout.
pub fn status(snapshot: &RolloutSnapshot) -> RolloutStatus {
    let observed = &snapshot.observed;
    let operands = DriverOperands::new(observed, snapshot.settings.driver);
    let sources = WaitStartSources {
        settings: &snapshot.settings,
        times: &snapshot.times,
        operands: &operands,
    };
    let decided = snapshot.decided();
    let mut nodes = decided.progress(observed, snapshot.settings.driver);
    let mut rows: Vec<NodeRow> =
        nodes.iter().map(|node| row::row(snapshot, &sources, node)).collect();
    let pace = RolloutPace::from_records(
        snapshot.record.nodes.values().filter(|_| snapshot.record.run.is_some()),
        snapshot.settings.per_node_seconds,
    );
    let totals = totals::totals(snapshot, &mut nodes, &mut rows, pace);
    RolloutStatus {
        title: snapshot.target.title(),
        driver: snapshot.settings.driver.traits().name,
        release: snapshot.target.release.clone(),
        mode: snapshot.settings.mode.name(),
        run: run(snapshot),
        holds_unattended: rows.iter().any(|row| row.held.is_some()) && !is_attended(snapshot),
        lease_holder: snapshot
            .holder
            .as_ref()
            .filter(|holder| holder.until.is_none_or(|until| until > snapshot.now))
            .map(|holder| holder.name.clone()),
        pauses: PauseStatus::all(observed),
        requests: snapshot.record.requests.clone(),
        totals,
        fleet: decided.fleet_waits().map(|wait| waiting::fleet(snapshot, wait)).collect(),
        nodes: rows,
        notes: snapshot
            .decision
            .notes
            .iter()
            .map(ToString::to_string)
            .chain(snapshot.notes.iter().cloned())
            .collect(),
        at: snapshot.now,
    }
}

fn run(snapshot: &RolloutSnapshot) -> Option<RunStatus> {
    snapshot.target.release.as_ref()?;
    let run = snapshot.record.run.as_ref();
    let phase = snapshot.phase();
    // The record of the run before is still there while the Job of the next one starts.
    let run = run.filter(|run| {
        !phase.has_job() || snapshot.job.as_ref().is_some_and(|job| job.uid == run.job)
    });
    let verdict = run.and_then(|run| run.verdict.as_ref());
    Some(RunStatus {
        phase,
        started_at: run
            .map(|run| run.started_at)
            .or_else(|| snapshot.job.as_ref().and_then(|job| job.started)),
        deadline: phase.has_job().then_some(snapshot.decision.memory.deadline),
        verdict: verdict.map(|verdict| verdict.code.name()),
        message: verdict.map(|verdict| verdict.message.clone()),
        ended_at: verdict.map(|verdict| verdict.at),
    })
}
