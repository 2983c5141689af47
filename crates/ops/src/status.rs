//! The status of a rollout: one row per node, and totals of the fleet. Pure. These types define the
//! format of `gpu-rollout status -o json`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::exit::ExitCode;
use contract::record::RunRecord;
use contract::user_request::UserRequest;
use planner::node::DriverOperands;
use planner::progress::RolloutPace;

use super::deploy_again::{automatic_retry, deploy_again};
use super::hold_status::{HoldStatus, is_attended};
use super::observe::RolloutSnapshot;
use super::obstacle::PodObstacle;
use super::remedy::Remedy;
use super::run_phase::RunPhase;
use super::wait_start::{WaitStart, WaitStartSources};

mod headline;
mod pauses;
mod proof;
mod row;
mod safe_wait;
mod stalled_test;
mod totals;
mod waiting;

pub use headline::{Attention, Headline};
pub use pauses::{PauseEnd, PauseStatus};
pub use planner::progress::{LimitUse, NodeStage};
pub use proof::ProofStatus;
pub use row::{PluginCondition, state_meaning};
pub use safe_wait::WaitAnswer;
pub use totals::{FleetTotals, MissingEta, PoolTotals};

/// The status of a rollout at one point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The title of the rollout, for people.
    pub title: String,
    /// The driver's name in the settings.
    pub driver: &'static str,
    /// `namespace/name` of the hook release; absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// How to deploy the release again, so that its hook runs again; absent: its deployer is
    /// unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deploy_again: Option<String>,
    /// How the deployer deploys the release again by itself after a failed run, for people; absent:
    /// it does not, or it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automatic_retry: Option<&'static str>,
    /// The mode.
    pub mode: &'static str,
    /// The hook's run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStatus>,
    /// Whether nodes are held and no hook is running that releases them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub holds_unattended: bool,
    /// The holder of the Lease, which all hooks of the cluster share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_holder: Option<String>,
    /// The pauses that have not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<PauseStatus>,
    /// How far the new driver is proven; absent: without canaries, ramp and halt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofStatus>,
    /// What users asked of the rollout with commands, oldest first: the newest 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<UserRequest>,
    /// Totals of the fleet.
    pub totals: FleetTotals,
    /// What the whole fleet waits for.
    pub fleet: Vec<BlockingCondition>,
    /// Seconds after which a wait of the whole fleet needs manual action.
    pub fleet_wait_limit_seconds: u64,
    /// The verdict with which the run then fails; absent: it does not fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub fleet_wait_verdict: Option<ExitCode>,
    /// The nodes that need the driver, or whose plugin the hook replaces, sorted by name.
    pub nodes: Vec<NodeRow>,
    /// Notes for people, for example about what could not be read.
    pub notes: Vec<String>,
    /// The time of the snapshot.
    pub at: Timestamp,
}

/// The current run of the hook, or the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// Whether a hook is running, and otherwise why not.
    pub phase: RunPhase,
    /// When the run started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the time budget of the run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The name of the exit code with which the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<&'static str>,
    /// The message of the verdict, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// The status of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    /// Name of the node.
    pub node: String,
    /// The progress of the node.
    pub stage: NodeStage,
    /// The node's state in the upgrade, with NVIDIA's name; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether the node is cordoned.
    pub cordoned: bool,
    /// Since when the node is NotReady; absent: it is Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<WaitStart>,
    /// The running driver version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_now: Option<String>,
    /// The driver version of the node's DaemonSet. The operator sets it some time after its custom
    /// resource requests another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_wanted: Option<String>,
    /// Whether the driver pod is of the newest revision.
    pub driver_current: bool,
    /// Whether the driver pod is ready; true if the node needs none of the operator's.
    pub driver_ready: bool,
    /// The condition of the DRA kubelet plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginCondition>,
    /// The hold of a hook on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HoldStatus>,
    /// What the node waits for, or why it ended as it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<BlockingCondition>,
    /// When the node will probably be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
}

/// What a node or the fleet waits for, or why a node ended as it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockingCondition {
    /// The constant name of the reason.
    pub reason: &'static str,
    /// The reason, for people.
    pub text: String,
    /// When the wait started, and who caused it.
    pub since: WaitStart,
    /// Whether the condition can resolve itself.
    pub resolves_itself: bool,
    /// When it ends by itself: the end of a pause, or the next opening of a maintenance window;
    /// absent: never, or it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether it lasts although it can resolve itself: the node is not Ready, its driver keeps
    /// failing, the pod of its acceptance test does not run, or the whole fleet has waited longer
    /// than the grace time.
    pub stalled: bool,
    /// The nodes that block this one. If their own conditions are resolved, this one is too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<String>,
    /// What to do.
    pub remedy: Remedy,
    /// The pods that block the upgrade of the node, each with its remedy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<PodObstacle>,
    /// Whether the whole fleet waits for this condition.
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
        assessed_since: snapshot.assessed_since(),
    };
    let decided = snapshot.decided();
    let mut nodes = decided.progress(observed, snapshot.settings.driver);
    for node in &mut nodes {
        // The engine tolerates the plugin only because no hook is running that replaces it.
        if node
            .wait
            .as_ref()
            .is_some_and(|wait| waiting::needs_hook_for_plugin(snapshot, &wait.reason))
        {
            node.stage = NodeStage::Pending;
        }
    }
    let mut rows: Vec<NodeRow> =
        nodes.iter().map(|node| row::row(snapshot, &sources, node)).collect();
    let recorded = snapshot.record.run.as_ref();
    let pace = RolloutPace::from_records(
        snapshot.record.nodes.values().filter(|_| recorded.is_some()),
        &recorded.map(RunRecord::interruption_times).unwrap_or_default(),
        snapshot.settings.per_node_seconds,
    );
    let totals = totals::totals(snapshot, &mut nodes, &mut rows, pace);
    RolloutStatus {
        title: snapshot.target.title(),
        driver: snapshot.settings.driver.traits().name,
        release: snapshot.target.release.clone(),
        deploy_again: snapshot.target.deployer.as_ref().map(deploy_again),
        automatic_retry: snapshot.target.deployer.as_ref().and_then(automatic_retry),
        mode: snapshot.settings.mode.name(),
        run: run_status(snapshot),
        holds_unattended: rows.iter().any(|row| row.held.is_some()) && !is_attended(snapshot),
        lease_holder: snapshot
            .holder
            .as_ref()
            .filter(|holder| holder.until.is_none_or(|until| until > snapshot.now))
            .map(|holder| holder.name.clone()),
        pauses: PauseStatus::all(observed, snapshot.now),
        proof: ProofStatus::of(snapshot),
        requests: snapshot.record.requests.clone(),
        totals,
        fleet_wait_limit_seconds: waiting::fleet_wait_limit(&snapshot.settings),
        fleet_wait_verdict: decided
            .fleet_waits()
            .next()
            .and_then(|wait| waiting::fleet_verdict(&wait.reason, snapshot)),
        fleet: decided.fleet_waits().map(|wait| waiting::fleet(snapshot, &wait)).collect(),
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

fn run_status(snapshot: &RolloutSnapshot) -> Option<RunStatus> {
    snapshot.target.release.as_ref()?;
    let run = snapshot.record.run.as_ref();
    let phase = snapshot.phase();
    // The record of the previous run is still there while the next Job starts.
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
