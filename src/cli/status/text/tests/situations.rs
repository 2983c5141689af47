//! The situations of the tests.

use jiff::{SignedDuration, Timestamp};

use contract::acceptance::AcceptanceTime;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::record::proof::{HaltCause, Halted};
use contract::settings::Settings;
use contract::user_request::{RequestCommand, UserRequest};
use kube_io::releases::ReleaseDeployer;
use ops::hold_status::HoldStatus;
use ops::remedy::{Remedy, RemedyContext, remedy_for};
use ops::run_phase::RunPhase;
use ops::status::{
    BlockingCondition, FleetTotals, LimitUse, MissingEta, NodeRow, NodeStage, PauseStatus,
    ProofStatus, RolloutStatus, RunStatus,
};
use ops::wait_start::WaitStart;
use planner::drive_upgrade::cause::FailureCause;
use planner::progress::RolloutPace;
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn waits(reason: &'static str, text: &str, since: Option<i64>) -> BlockingCondition {
    BlockingCondition {
        reason,
        text: text.to_owned(),
        since: WaitStart { at: since.map(at), by: None },
        resolves_itself: true,
        until: None,
        stalled: false,
        blocked_by: Vec::new(),
        remedy: Remedy::words("wait"),
        obstacles: Vec::new(),
        whole_fleet: false,
    }
}

/// Returns the wait of a node for a reason as a snapshot of a cluster gives it, since second 700.
/// `phase`: the phase of the run. `is_halted`: whether the rollout has halted.
fn waits_for(reason: &Reason, phase: RunPhase, is_halted: bool) -> BlockingCondition {
    let settings =
        Settings { operator_namespace: "gpu-operator".to_owned(), ..Settings::default() };
    let context = RemedyContext {
        node: Some("gpu-0"),
        driver_pod: Some("nvidia-driver-x2x9q"),
        plugin_pods: &[],
        settings: &settings,
        is_halted,
        has_job: phase.has_job(),
    };
    BlockingCondition {
        resolves_itself: reason.resolves_itself(),
        until: reason.ends_at(),
        remedy: remedy_for(reason, context),
        ..waits(reason.name(), &reason.to_string(), Some(700))
    }
}

fn row(node: &str, stage: NodeStage, waiting: Option<BlockingCondition>) -> NodeRow {
    NodeRow {
        node: node.to_owned(),
        stage,
        state: None,
        cordoned: false,
        not_ready: None,
        driver_now: Some("580.105.08".to_owned()),
        driver_wanted: Some("580.126.20".to_owned()),
        driver_current: stage == NodeStage::Done,
        driver_ready: true,
        plugin: None,
        held: None,
        waiting,
        end: None,
    }
}

/// A wait that does not resolve itself.
fn needs(reason: &'static str, text: &str, remedy: Remedy) -> BlockingCondition {
    BlockingCondition { resolves_itself: false, remedy, ..waits(reason, text, Some(700)) }
}

fn request(command: RequestCommand, second: i64) -> UserRequest {
    UserRequest {
        reason: Some("INC-7".to_owned()),
        ..UserRequest::new(command, "ada".to_owned(), at(second))
    }
}

/// Returns the status of two nodes, of which the second one is done, at second 1,000.
fn status(phase: RunPhase, first: NodeRow) -> RolloutStatus {
    let count = |stage| usize::from(first.stage == stage);
    RolloutStatus {
        title: "GPU driver (release gpu-operator/gpu-operator-post, mode drive)".to_owned(),
        driver: "gpu",
        release: Some("gpu-operator/gpu-operator-post".to_owned()),
        deploy_again: Some(
            "flux reconcile helmrelease gpu-operator-post -n flux-system --force".to_owned(),
        ),
        automatic_retry: Some("Flux tries again within 10 minutes after a failure"),
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
        proof: None,
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
        fleet_wait_limit_seconds: 300,
        fleet_wait_verdict: None,
        nodes: vec![first, row("gpu-1", NodeStage::Done, None)],
        notes: Vec::new(),
        at: at(1_000),
    }
}

fn no_eta(status: &mut RolloutStatus, reason: &'static str, text: &str) {
    status.totals.no_eta = Some(MissingEta { reason, node: None, text: text.to_owned() });
}

pub(super) fn moving() -> RolloutStatus {
    let waiting = waits("DriverComing", "the new driver pod does not exist yet", Some(970));
    let mut first = row("gpu-0", NodeStage::InProgress, Some(waiting));
    (first.state, first.cordoned) = (Some("pod-restart-required".to_owned()), true);
    first.end = Some(at(1_090));
    let mut status = status(RunPhase::Running, first);
    status.totals.end = Some(at(1_090));
    status
}

pub(super) fn fleet_waits(since: Option<i64>) -> RolloutStatus {
    let mut waiting = waits("OperatorNotReady", "deployment/gpu-operator is not available", since);
    waiting.whole_fleet = true;
    waiting.remedy = Remedy::words(
        "check the Deployment and its pods: new pods may be unable to start, or old pods may not end",
    )
    .inspect("kubectl describe deployment -n gpu-operator gpu-operator")
    .inspect("kubectl get pods -n gpu-operator");
    let first = row("gpu-0", NodeStage::Unknown, Some(waiting.clone()));
    let mut status = status(RunPhase::Running, first);
    status.fleet = vec![waiting];
    status.fleet_wait_verdict = Some(ExitCode::OperatorMissing);
    no_eta(&mut status, "fleet-waits", "the whole fleet is waiting (OperatorNotReady)");
    status
}

pub(super) fn held() -> RolloutStatus {
    let held = HoldStatus {
        purpose: "operator-upgrade",
        release: Some("gpu-operator/gpu-operator-pre".to_owned()),
        deployment: Some("4f1c2a9b7d3e".to_owned()),
        operator: Some("from v26.3.1 to v26.7.0".to_owned()),
        since: Some(at(800)),
    };
    let text = format!("{}; no hook Job is running", held.text());
    let deployer = ReleaseDeployer::Flux {
        namespace: "flux-system".to_owned(),
        name: "gpu-operator-post".to_owned(),
    };
    let mut waiting = needs("NotRunning", &text, HoldStatus::remedy(Some(&deployer)));
    waiting.since.at = held.since;
    let mut first = row("gpu-0", NodeStage::Pending, Some(waiting));
    first.held = Some(held);
    let mut status = status(RunPhase::Never, first);
    "GPU driver (release gpu-operator/gpu-operator-post, mode assist)"
        .clone_into(&mut status.title);
    (status.mode, status.holds_unattended) = ("assist", true);
    no_eta(&mut status, "no-hook-running", "no hook is running");
    status
}

pub(super) fn cut_short(phase: RunPhase) -> RolloutStatus {
    let remedy = Remedy::words("deploy the bundle again: the rollout continues where it stopped");
    let remedy = if phase == RunPhase::Lost {
        Remedy::words(format!(
            "look at the Job before the next run deletes it: it shows why it ended; then {}",
            remedy.text
        ))
        .inspect("kubectl describe job -n gpu-operator gpu-operator-post")
    } else {
        remedy
    };
    let waiting = needs("NotRunning", "no hook Job is running", remedy);
    let mut status = status(phase, row("gpu-0", NodeStage::Pending, Some(waiting)));
    no_eta(&mut status, "no-hook-running", "no hook is running");
    if phase == RunPhase::Aborted {
        status.requests =
            vec![request(RequestCommand::Retry, 100), request(RequestCommand::Abort, 700)];
        status.requests[0].nodes = vec!["gpu-0".to_owned()];
        let waiting = status.nodes[0].waiting.as_mut().expect("it waits");
        waiting.remedy.text = format!(
            "run gpu-rollout pause, and ask ada (abort); if the rollout may continue, run gpu-rollout resume, and {}",
            waiting.remedy.text
        );
    }
    status
}

pub(super) fn ended() -> RolloutStatus {
    let mut status = status(RunPhase::Ended, row("gpu-0", NodeStage::Done, None));
    let run = status.run.as_mut().expect("a run");
    (run.verdict, run.ended_at) = (Some("success"), Some(at(940)));
    run.message = Some("settled: 2 of 2 nodes done".to_owned());
    status.totals.done = 2;
    status
}

/// A run that has succeeded, although a user keeps a node on its old driver.
pub(super) fn ended_without_skipped_node() -> RolloutStatus {
    let skipped = Reason::Skipped { label: contract::names::UPGRADE_SKIP_LABEL };
    let mut status = ended();
    status.nodes[0] =
        row("gpu-0", NodeStage::Deferred, Some(waits_for(&skipped, RunPhase::Ended, false)));
    let run = status.run.as_mut().expect("a run");
    run.message = Some("settled: 1 of 2 nodes done, 1 deferred".to_owned());
    (status.totals.done, status.totals.deferred) = (1, 1);
    status
}

/// A run that has failed, because the driver of a node did not start.
pub(super) fn ended_with_failed_node() -> RolloutStatus {
    let failed = Reason::Upgrading(UpgradeReason::Failed {
        cause: FailureCause::DriverTimeout,
        message: "nvidia-driver-ctr: CrashLoopBackOff".to_owned(),
        attempts: 2,
        cordoned: true,
    });
    let mut first =
        row("gpu-0", NodeStage::Failed, Some(waits_for(&failed, RunPhase::Ended, false)));
    (first.state, first.cordoned) = (Some("upgrade-failed".to_owned()), true);
    first.driver_now.clone_from(&first.driver_wanted);
    (first.driver_current, first.driver_ready) = (true, false);
    let mut status = status(RunPhase::Ended, first);
    let run = status.run.as_mut().expect("a run");
    (run.verdict, run.ended_at) = (Some("nodes-failed"), Some(at(940)));
    run.message = Some(format!("1 of 2 nodes failed: gpu-0: {failed}"));
    no_eta(&mut status, "no-hook-running", "no hook is running");
    status
}

/// A driver that keeps failing, while a user has paused the others.
pub(super) fn failing_and_paused() -> RolloutStatus {
    let text = "the new driver pod is not ready (nvidia-driver-ctr: CrashLoopBackOff), 3 restarts";
    let remedy = Remedy::words("find out why the driver does not start; the node continues as soon as its driver starts, or when you deploy a driver that starts (docs/how-to/bad-driver.md)")
        .inspect("kubectl logs -n gpu-operator nvidia-driver-x2x9q -c nvidia-driver-ctr");
    let failing =
        BlockingCondition { stalled: true, remedy, ..waits("DriverNotReady", text, Some(700)) };
    let mut first = row("gpu-0", NodeStage::InProgress, Some(failing));
    (first.state, first.cordoned) = (Some("pod-restart-required".to_owned()), true);
    (first.driver_now, first.driver_ready) = (first.driver_wanted.clone(), false);
    first.driver_current = true;
    let mut status = status(RunPhase::Running, first);
    status.nodes.push(row("gpu-2", NodeStage::Pending, Some(paused(None, false))));
    (status.totals.nodes, status.totals.pending) = (3, 1);
    status.pauses = vec![pause("bob", Some("pool=a"))];
    no_eta(&mut status, "node-fails", "the driver on node gpu-0 keeps failing (DriverNotReady)");
    status
}

fn pause(by: &str, selector: Option<&str>) -> PauseStatus {
    PauseStatus {
        by: by.to_owned(),
        reason: Some("lunch".to_owned()),
        selector: selector.map(str::to_owned),
        nodes: Vec::new(),
        at: Some(at(900)),
        until: None,
    }
}

/// The wait of a node for the end of a pause. `until`: the second at which it ends by itself;
/// `is_late`: whether that is too late for the run.
fn paused(until: Option<i64>, is_late: bool) -> BlockingCondition {
    let reason = Reason::Upgrading(UpgradeReason::Paused {
        by: "bob".to_owned(),
        why: Some("lunch".to_owned()),
        at: Some(at(900)),
        until: until.map(at),
        is_late,
    });
    let since = WaitStart { at: Some(at(900)), by: None };
    BlockingCondition { since, ..waits_for(&reason, RunPhase::Running, false) }
}

pub(super) fn only_paused(phase: RunPhase) -> RolloutStatus {
    let first = row("gpu-0", NodeStage::Pending, Some(paused(None, false)));
    let mut status = status(phase, first);
    status.pauses = vec![pause("bob", None)];
    no_eta(&mut status, "node-stuck", "node gpu-0 needs manual action (Paused)");
    status
}

/// A pause that ends by itself at this second. The run must end at second 4,000.
pub(super) fn frozen(phase: RunPhase, until: i64, resolves_itself: bool) -> RolloutStatus {
    let paused = paused(Some(until), !resolves_itself);
    let mut status = status(phase, row("gpu-0", NodeStage::Pending, Some(paused)));
    status.pauses = vec![PauseStatus { until: Some(at(until)), ..pause("bob", None) }];
    if resolves_itself && phase.has_job() {
        status.totals.end = Some(at(until + 120));
    } else {
        no_eta(&mut status, "node-stuck", "node gpu-0 needs manual action (Paused)");
    }
    status
}

/// A node that was being upgraded when the fleet was frozen.
pub(super) fn frozen_in_progress() -> RolloutStatus {
    let mut status = frozen(RunPhase::Running, 3_000, true);
    let first = &mut status.nodes[0];
    (first.stage, first.cordoned) = (NodeStage::InProgress, true);
    first.state = Some("pod-deletion-required".to_owned());
    (status.totals.pending, status.totals.in_progress) = (0, 1);
    (status.totals.slots.used, status.totals.unavailable.used) = (1, 1);
    status
}

/// The next maintenance window opens at this second. `deadline`: of the run, if that is too late.
pub(super) fn outside_window(opens: i64, deadline: Option<i64>) -> RolloutStatus {
    let reason = Reason::Upgrading(UpgradeReason::OutsideWindow {
        opens: at(opens),
        deadline: deadline.map(at),
    });
    let since = WaitStart { at: Some(at(400)), by: None };
    let waiting = BlockingCondition { since, ..waits_for(&reason, RunPhase::Running, false) };
    let stage = if deadline.is_some() { NodeStage::Failed } else { NodeStage::Pending };
    let mut status = status(RunPhase::Running, row("gpu-0", stage, Some(waiting)));
    if deadline.is_none() {
        status.totals.end = Some(at(opens + 120));
    }
    status
}

/// The image of an acceptance test has not been pulled for five minutes.
pub(super) fn tested() -> RolloutStatus {
    let reason = Reason::Upgrading(UpgradeReason::Accepting {
        test: "dcgm".to_owned(),
        time: AcceptanceTime::After,
        trouble: Some("main: ImagePullBackOff: manifest unknown".to_owned()),
        until: at(1_300),
    });
    let waiting =
        BlockingCondition { stalled: true, ..waits_for(&reason, RunPhase::Running, false) };
    let mut first = row("gpu-0", NodeStage::InProgress, Some(waiting));
    (first.state, first.cordoned) = (Some("validation-required".to_owned()), true);
    first.driver_now.clone_from(&first.driver_wanted);
    first.driver_current = true;
    let mut status = status(RunPhase::Running, first);
    no_eta(&mut status, "node-stuck", "node gpu-0 needs manual action (Accepting)");
    status
}

/// The canary failed its acceptance test: the run has halted, and has ended.
pub(super) fn halted() -> RolloutStatus {
    let failed = Reason::Upgrading(UpgradeReason::Failed {
        cause: FailureCause::AcceptanceFailed,
        message: "acceptance test `dcgm` failed: main: exit code 226".to_owned(),
        attempts: 1,
        cordoned: true,
    });
    let halt = Halted {
        at: at(900),
        cause: HaltCause::FailedProofs,
        nodes: vec!["gpu-0".to_owned()],
        labels: vec!["nvidia.com/gpu.product=NVIDIA-L4".to_owned()],
    };
    let reason = Reason::Upgrading(UpgradeReason::from(&halt));
    let mut first =
        row("gpu-0", NodeStage::Failed, Some(waits_for(&failed, RunPhase::Ended, true)));
    (first.state, first.cordoned) = (Some("upgrade-failed".to_owned()), true);
    first.driver_now.clone_from(&first.driver_wanted);
    first.driver_current = true;
    let mut status = status(RunPhase::Ended, first);
    status.nodes.push(row(
        "gpu-2",
        NodeStage::Deferred,
        Some(waits_for(&reason, RunPhase::Ended, true)),
    ));
    status.nodes[1] =
        row("gpu-1", NodeStage::Deferred, Some(waits_for(&reason, RunPhase::Ended, true)));
    let run = status.run.as_mut().expect("a run");
    (run.verdict, run.ended_at) = (Some("halted"), Some(at(940)));
    run.message = Some(format!("{reason}; gpu-0: {failed}"));
    let totals = &mut status.totals;
    (totals.nodes, totals.done, totals.deferred) = (3, 0, 2);
    status.proof = Some(ProofStatus {
        canaries: vec!["gpu-0".to_owned()],
        steps_ended: 0,
        proven_at: None,
        halt: Some(halt),
        text: Some(reason.to_string()),
    });
    no_eta(&mut status, "ended", "the run has ended");
    status
}

/// The rollout has halted, and a user has ended the halt: the next run continues.
pub(super) fn resumed() -> RolloutStatus {
    let resume = UserRequest { halt: Some(at(900)), ..request(RequestCommand::Resume, 960) };
    RolloutStatus { requests: vec![resume], ..halted() }
}

/// Without a hook, a failed node keeps the only slot of NVIDIA's controller.
pub(super) fn slot_kept_by_failure() -> RolloutStatus {
    let failed = "the upgrade by NVIDIA's controller failed";
    let remedy = Remedy::words(
        "the driver pod has no problem, so read in the operator's log why the upgrade failed (pods that were not evicted, a drain, a validation), and remove the cause; only then retry the node: the GPU Operator upgrades it again",
    )
    .inspect("kubectl logs -n gpu-operator deployment/gpu-operator --tail=50")
    .run("gpu-rollout retry --yes gpu-0");
    let mut first = row("gpu-0", NodeStage::Failed, Some(needs("UpgradeFailed", failed, remedy)));
    first.cordoned = true;
    let queued = BlockingCondition {
        blocked_by: vec!["gpu-0".to_owned()],
        ..needs(
            "DriverOutOfDate",
            "no slot is free (maxParallelUpgrades is 1, 1 in use): gpu-0 (failed, keeps its slot)",
            Remedy::words("repair the nodes that hold slots").inspect("gpu-rollout why gpu-0"),
        )
    };
    let mut status = status(RunPhase::Never, first);
    (status.run, status.release, status.mode) = (None, None, "observe");
    "GPU driver (GPU Operator, no hook release of gpu-rollout)".clone_into(&mut status.title);
    status.totals.slots.used = 1;
    status.nodes.push(row("gpu-2", NodeStage::Pending, Some(queued)));
    (status.totals.nodes, status.totals.pending) = (3, 1);
    no_eta(&mut status, "node-stuck", "node gpu-0 needs manual action (UpgradeFailed)");
    status
}

/// The operator reports an error, whose message says what to repair.
pub(super) fn operator_reports_error() -> RolloutStatus {
    let reason = Reason::ReconcileFailed {
        kind: "ClusterPolicy",
        name: "cluster-policy".to_owned(),
        reason: "ReconcileFailed".to_owned(),
        message: "Failed to reconcile state-driver: no kernel".to_owned(),
    };
    let mut status = fleet_waits(Some(880));
    for waiting in status.fleet.iter_mut().chain(&mut status.nodes[0].waiting) {
        (waiting.reason, waiting.text) = (reason.name(), reason.to_string());
        waiting.remedy = Remedy::words(reason.advice(Driver::Gpu))
            .inspect("kubectl logs -n gpu-operator deployment/gpu-operator --tail=50");
    }
    status
}
