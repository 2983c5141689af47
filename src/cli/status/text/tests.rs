//! What `status` prints in the situations that were once described wrongly.

use jiff::SignedDuration;

use contract::user_request::UserRequest;
use ops::hold_status::HoldStatus;
use ops::remedy::Remedy;
use ops::status::{FleetTotals, MissingEta};
use ops::wait_start::WaitStart;
use planner::progress::RolloutPace;

use super::*;

const WIDTH: usize = 120;

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn waits(reason: &'static str, text: &str, since: Option<i64>) -> BlockingCondition {
    BlockingCondition {
        reason,
        text: text.to_owned(),
        since: WaitStart { at: since.map(at), by: None },
        resolves_itself: true,
        remedy: Remedy::words("wait"),
        obstacles: Vec::new(),
        whole_fleet: false,
    }
}

fn row(node: &str, stage: NodeStage, waiting: Option<BlockingCondition>) -> NodeRow {
    NodeRow {
        node: node.to_owned(),
        stage,
        state: None,
        cordoned: false,
        driver_now: Some("580.105.08".to_owned()),
        driver_wanted: Some("580.126.20".to_owned()),
        driver_current: stage == NodeStage::Done,
        plugin: None,
        held: None,
        waiting,
        end: None,
    }
}

/// Returns the status of two nodes, of which the second one is done, at second 1,000.
fn status(phase: RunPhase, first: NodeRow) -> RolloutStatus {
    let count = |stage| usize::from(first.stage == stage);
    RolloutStatus {
        title: "gpu · helm · gpu-operator/gpu-operator-post (drive)".to_owned(),
        driver: "gpu",
        release: Some("gpu-operator/gpu-operator-post".to_owned()),
        mode: "drive",
        run: Some(RunStatus {
            phase,
            started_at: Some(at(400)),
            deadline: phase.has_job().then(|| at(4_000)),
            verdict: None,
            message: None,
            ended_at: None,
        }),
        holds_unattended: false,
        lease_holder: None,
        pauses: Vec::new(),
        requests: Vec::new(),
        totals: FleetTotals {
            nodes: 2,
            done: 1,
            in_progress: count(NodeStage::InProgress),
            pending: count(NodeStage::Pending),
            failed: count(NodeStage::Failed),
            unknown: count(NodeStage::Unknown),
            deferred: count(NodeStage::Deferred),
            slots: LimitUse { used: count(NodeStage::InProgress), limit: Some(1) },
            unavailable: LimitUse { used: usize::from(first.cordoned), limit: None },
            pools: Vec::new(),
            pace: RolloutPace { per_node_seconds: 120, measured_nodes: 1 },
            end: None,
            no_eta: None,
        },
        fleet: Vec::new(),
        nodes: vec![first, row("gpu-1", NodeStage::Done, None)],
        notes: Vec::new(),
        at: at(1_000),
    }
}

fn no_eta(status: &mut RolloutStatus, reason: &'static str, text: &str) {
    status.totals.no_eta = Some(MissingEta { reason, text: text.to_owned() });
}

fn moving() -> RolloutStatus {
    let waiting = waits("DriverComing", "the new driver pod does not exist yet", Some(970));
    let mut first = row("gpu-0", NodeStage::InProgress, Some(waiting));
    (first.state, first.cordoned) = (Some("pod-restart-required".to_owned()), true);
    first.end = Some(at(1_090));
    let mut status = status(RunPhase::Running, first);
    status.totals.end = Some(at(1_090));
    status
}

fn fleet_waits(since: Option<i64>) -> RolloutStatus {
    let mut waiting = waits("OperatorNotReady", "deployment/gpu-operator is not available", since);
    waiting.whole_fleet = true;
    let first = row("gpu-0", NodeStage::Unknown, Some(waiting.clone()));
    let mut status = status(RunPhase::Running, first);
    status.fleet = vec![waiting];
    no_eta(&mut status, "fleet-waits", "the whole fleet is waiting (OperatorNotReady)");
    status
}

fn held() -> RolloutStatus {
    let waiting = waits("Held", "held until the operator is upgraded", Some(800));
    let mut first = row("gpu-0", NodeStage::Pending, Some(waiting));
    first.held = Some(HoldStatus {
        purpose: "operator-upgrade",
        release: Some("gpu-operator/gpu-operator-pre".to_owned()),
        deployment: Some("4f1c2a9b7d3e".to_owned()),
        operator: Some("from v26.3.1 to v26.7.0".to_owned()),
        since: Some(at(800)),
    });
    let mut status = status(RunPhase::Never, first);
    status.holds_unattended = true;
    no_eta(&mut status, "no-hook-running", "no hook is running");
    status
}

fn cut_short(phase: RunPhase) -> RolloutStatus {
    let waiting = waits("NotRunning", "no hook Job is running", None);
    let mut status = status(phase, row("gpu-0", NodeStage::Pending, Some(waiting)));
    no_eta(&mut status, "no-hook-running", "no hook is running");
    if phase == RunPhase::Aborted {
        status.requests = vec![UserRequest {
            command: RequestCommand::Abort,
            nodes: Vec::new(),
            other_nodes: 0,
            selector: None,
            by: "ada".to_owned(),
            reason: Some("INC-7".to_owned()),
            at: at(700),
        }];
    }
    status
}

fn ended() -> RolloutStatus {
    let mut status = status(RunPhase::Ended, row("gpu-0", NodeStage::Done, None));
    let run = status.run.as_mut().expect("a run");
    (run.verdict, run.ended_at) = (Some("success"), Some(at(940)));
    run.message = Some("settled: 2 of 2 nodes done".to_owned());
    status.totals.done = 2;
    status
}

#[test]
fn status_text_is_as_reviewed() {
    let mut between = moving();
    between.run.as_mut().expect("a run").phase = RunPhase::BetweenPods;
    let situations = [
        ("a node moves", moving()),
        ("the pod of the hook was killed", between),
        ("the whole fleet waits", fleet_waits(Some(880))),
        ("the whole fleet waits, since when is unknown", fleet_waits(None)),
        ("a hook holds a node, and none is running", held()),
        ("aborted", cut_short(RunPhase::Aborted)),
        ("the Job was deleted", cut_short(RunPhase::Lost)),
        ("the run has ended", ended()),
    ];
    let texts: Vec<String> = situations
        .iter()
        .map(|(situation, status)| {
            format!("== {situation}\n{}", status_text(status, false, Some(WIDTH)))
        })
        .collect();
    insta::assert_snapshot!(texts.join("\n"));
}
