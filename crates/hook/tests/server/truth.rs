//! Checks the output of `status`, `why`, `doctor`, `report` and the metrics at every second of a
//! rollout. It is compared with the objects on the API server and with the state of the hook.

use std::cell::Cell;
use std::sync::Arc;

use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::settings::{Mode, Settings};
use contract::task::Task;
use hook::{HookMetrics, HookProcess, PodIdentity, RunEnd, Shutdown};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::driven::Driven;
use crate::person::Person;
use crate::settings::{OPERATOR, settings};
use crate::world::{NEW, OPERATOR_POD, World, objects};

mod alarms;
mod claims;
mod messages;
mod moment;

use claims::Claims;
use moment::{HookState, Moment, nodes};

/// How long commands are checked after the hook has ended, in seconds.
const AFTERWARDS: u64 = 20;

/// The time after which a story counts as stuck, in seconds.
const LONG: i64 = 240;

/// A pod of the hook. It gets no signal, but is killed.
struct RunningPod {
    run: JoinHandle<RunEnd>,
    metrics: Arc<HookMetrics>,
    _stop: watch::Sender<bool>,
}

/// The hook of a story, with the state that the Job controller and the kubelet know.
struct StoryHook {
    settings: Settings,
    job: String,
    pods: usize,
    running: Option<RunningPod>,
    ended: Option<ExitCode>,
    /// Whether the last pod has held the Lease.
    has_led: Cell<bool>,
}

impl StoryHook {
    fn new(settings: Settings, job: &str) -> Self {
        let job = job.to_owned();
        Self { settings, job, pods: 0, running: None, ended: None, has_led: Cell::default() }
    }

    /// Returns the name of the last pod.
    fn pod(&self) -> String {
        format!("{}-{}", self.settings.release, self.pods)
    }

    /// Starts a pod of the Job.
    fn start(&mut self, world: &World) {
        self.pods += 1;
        self.has_led.set(false);
        let pod = self.pod();
        world.put("pods", &self.settings.namespace, &pod, self.pod_object());
        let (stop, shutdown) = Shutdown::pair();
        let identity = PodIdentity { job: self.job.clone(), pod: pod.clone() };
        let hook = HookProcess::new(
            world.server.client(&pod),
            self.settings.clone(),
            identity,
            world.clock.clone(),
            shutdown,
        );
        let metrics = hook.metrics();
        metrics.enable_snapshots();
        self.running =
            Some(RunningPod { run: tokio::task::spawn_local(hook.run()), metrics, _stop: stop });
    }

    /// Kills the process without a signal.
    fn kill(&mut self) {
        if let Some(pod) = self.running.take() {
            pod.run.abort();
        }
    }

    /// Returns the object of a pod, as the Job controller and the kubelet write it.
    fn pod_object(&self) -> Value {
        json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {
                "labels": {"batch.kubernetes.io/job-name": self.settings.release},
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": self.settings.release, "uid": self.job, "controller": true,
                }],
            },
            "spec": {"nodeName": "system-0", "containers": [{"name": "hook"}]},
            "status": {"phase": "Running"},
        })
    }

    /// Writes the status of the Job. The Job controller notices the end of the pod at once.
    async fn sync_job(&mut self, world: &World) {
        if let Some(pod) = self.running.take_if(|pod| pod.run.is_finished()) {
            self.ended = Some(pod.run.await.unwrap().code);
        }
        let (alive, ended) = (self.running.is_some(), self.ended);
        if !alive {
            world.edit("pods", &self.settings.namespace, &self.pod(), |pod| {
                let phase = if ended == Some(ExitCode::Success) { "Succeeded" } else { "Failed" };
                pod["status"]["phase"] = json!(phase);
            });
        }
        let failed = self.pods - usize::from(alive || ended == Some(ExitCode::Success));
        world.edit("jobs", &self.settings.namespace, &self.settings.release, |job| {
            job["status"]["active"] = json!(u8::from(alive));
            job["status"]["failed"] = json!(failed);
            if let Some(code) = ended {
                let kind = if code == ExitCode::Success { "Complete" } else { "Failed" };
                job["status"]["conditions"] = json!([{"type": kind, "status": "True"}]);
            }
        });
    }

    fn state(&self) -> HookState<'_> {
        match (&self.running, self.ended) {
            (Some(pod), _) => {
                HookState::Running { metrics: &pod.metrics, has_led: self.has_led.get() }
            }
            (None, Some(_)) => HookState::Ended,
            (None, None) => HookState::Dead,
        }
    }
}

/// Returns the report of a command that is run now, while no node changes.
async fn look<'w>(world: &'w World, hook: &'w StoryHook, person: &mut Person) -> Moment<'w> {
    let leads = || hook.has_led.get() || world.holder() == Some(hook.pod());
    loop {
        let before = (leads(), nodes(world));
        person.start_anew().await;
        let snapshot = person.observe(world).await;
        // The command may have read the objects before or after a change.
        if before == (leads(), nodes(world)) {
            hook.has_led.set(before.0);
            return Moment::new(world, &snapshot, hook.state());
        }
    }
}

/// An additional action in a story at a certain second.
type Deed = fn(&World, &mut StoryHook);

/// Plays a story and checks the output at every second of it. Returns the number of checked
/// moments.
async fn told(story: &str, world: &World, mut hook: StoryHook, deeds: &[(i64, Deed)]) -> ExitCode {
    let mut person = Box::pin(Person::with_rights(world, &[])).await;
    let (mut claims, mut afterwards, mut deeds) =
        (Claims::default(), AFTERWARDS, deeds.iter().peekable());
    hook.start(world);
    while afterwards > 0 {
        while let Some((_, deed)) = deeds.next_if(|(second, _)| *second <= world.second()) {
            deed(world, &mut hook);
        }
        hook.sync_job(world).await;
        let moment = Box::pin(look(world, &hook, &mut person)).await;
        let lies = claims.check(&moment);
        assert!(
            lies.is_empty(),
            "{story}, second {}:\n{}\n{}",
            world.second(),
            lies.join("\n"),
            moment.text()
        );
        afterwards -= u64::from(hook.ended.is_some() && deeds.peek().is_none());
        assert!(world.second() < 4200, "{story}: does not end\n{}", moment.text());
        // After minutes without change, check less often.
        world.pass(if world.second() < LONG { 1 } else { 15 }).await;
    }
    hook.ended.unwrap()
}

/// Plays a story with a fleet that the hook drives.
async fn drives(
    story: &str,
    change: impl FnOnce(Driven) -> Driven,
    deeds: &[(i64, Deed)],
) -> ExitCode {
    tries_once(story, 1, change, deeds).await
}

/// Plays a story with this limit of unavailable nodes and one attempt per node.
async fn tries_once(
    story: &str,
    unavailable: u32,
    change: impl FnOnce(Driven) -> Driven,
    deeds: &[(i64, Deed)],
) -> ExitCode {
    let settings = |settings: &mut Settings| {
        settings.upgrade.attempts = 1;
        settings.upgrade.policy.max_unavailable = Some(Count::Number(unavailable));
    };
    let fleet = change(Driven::new(Driver::Gpu, settings)).begin();
    let (settings, job) = fleet.stages[0].clone();
    Box::pin(told(story, &fleet.world, StoryHook::new(settings, &job), deeds)).await
}

/// Plays a story with a fleet that NVIDIA's controller upgrades.
async fn assists(story: &str, mode: Mode, deeds: &[(i64, Deed)]) -> ExitCode {
    let mut world = World::at_rest(3);
    has_version(&world);
    let mut tasks = vec![Task::Settle, Task::Reroll];
    tasks.extend((mode == Mode::Assist).then_some(Task::Wake));
    let settings = Settings { mode, tasks, ..settings() };
    world.settings = settings.clone();
    world.install(&settings, "job-1");
    world.upgrade(&[0, 1, 2]);
    Box::pin(told(story, &world, StoryHook::new(settings, "job-1"), deeds)).await
}

/// Labels the operator with a version, so that its upgrade controller is known.
fn has_version(world: &World) {
    world.edit("deployments", OPERATOR, names::OPERATOR_DEPLOYMENT, |deployment| {
        deployment["metadata"]["labels"]["app.kubernetes.io/version"] = json!("v26.7.0");
    });
}

fn operator_is_away(world: &World, away: bool) {
    world.edit("deployments", OPERATOR, names::OPERATOR_DEPLOYMENT, |deployment| {
        for key in ["availableReplicas", "readyReplicas"] {
            deployment["status"][key] = json!(u8::from(!away));
        }
    });
}

fn operator_is_scaled_to(world: &World, replicas: u8) {
    world.edit("deployments", OPERATOR, names::OPERATOR_DEPLOYMENT, |deployment| {
        deployment["spec"]["replicas"] = json!(replicas);
        for key in ["replicas", "updatedReplicas", "availableReplicas", "readyReplicas"] {
            deployment["status"][key] = json!(replicas);
        }
    });
}

fn node_is_ready(world: &World, node: &str, ready: bool) {
    let now = format!("{:.0}", world.clock.now());
    world.edit("nodes", "", node, |node| {
        let condition = &mut node["status"]["conditions"][0];
        condition["status"] = json!(if ready { "True" } else { "False" });
        condition["lastTransitionTime"] = json!(now);
    });
}

fn asks_for(world: &World, version: &str) {
    world.edit("clusterpolicies", "", names::CLUSTER_POLICY, |policy| {
        policy["spec"]["driver"]["version"] = json!(version);
    });
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn undisturbed_rollout_is_told_truly() {
    assert_eq!(
        drives("drive", |fleet| fleet.serves("serve", "gpu-0", 1, true), &[]).await,
        ExitCode::Success
    );
    assert_eq!(assists("assist", Mode::Assist, &[]).await, ExitCode::Success);
    assert_eq!(assists("observe", Mode::Observe, &[]).await, ExitCode::Success);
}

/// Regression (P17): for half a minute after a SIGKILL, the run was reported as running.
#[tokio::test(flavor = "local", start_paused = true)]
async fn killed_hook_is_not_running() {
    let deeds: [(i64, Deed); 2] =
        [(30, |_, hook| hook.kill()), (55, |world, hook| hook.start(world))];
    assert_eq!(drives("drive", |fleet| fleet, &deeds).await, ExitCode::Success);
    assert_eq!(assists("assist", Mode::Assist, &deeds).await, ExitCode::Success);
}

/// Regression (L4): the Lease of the killed pod made the run of its replacement look as if it were
/// running.
#[tokio::test(flavor = "local", start_paused = true)]
async fn lease_of_killed_pod_is_not_that_of_its_replacement() {
    let deeds: [(i64, Deed); 2] =
        [(30, |_, hook| hook.kill()), (35, |world, hook| hook.start(world))];
    assert_eq!(drives("drive", |fleet| fleet, &deeds).await, ExitCode::Success);
}

/// Regression (L5): the run was reported as starting whenever the hook yielded its Lease.
#[tokio::test(flavor = "local", start_paused = true)]
async fn hook_that_yields_its_lease_is_running() {
    let deeds: [(i64, Deed); 2] = [
        (0, |world, _| operator_is_away(world, true)),
        (60, |world, _| operator_is_away(world, false)),
    ];
    assert_eq!(drives("drive", |fleet| fleet, &deeds).await, ExitCode::Success);
}

/// Regression (P1): `status` reported "3 nodes: 3 done" in the middle of an upgrade while the
/// operator was scaled to zero.
#[tokio::test(flavor = "local", start_paused = true)]
async fn fleet_without_operator_is_not_called_done() {
    let deeds: [(i64, Deed); 2] = [
        (30, |world, _| operator_is_away(world, true)),
        (110, |world, _| operator_is_away(world, false)),
    ];
    assert_eq!(drives("drive", |fleet| fleet, &deeds).await, ExitCode::Success);
    assert_eq!(assists("assist", Mode::Assist, &deeds).await, ExitCode::Success);
}

/// Regression (L1): an operator that a user had scaled to 0 was expected to come back by itself, and
/// `doctor` did not find it.
#[tokio::test(flavor = "local", start_paused = true)]
async fn operator_scaled_to_zero_needs_manual_action() {
    let deeds: [(i64, Deed); 2] = [
        (30, |world, _| operator_is_scaled_to(world, 0)),
        (60, |world, _| operator_is_scaled_to(world, 1)),
    ];
    assert_eq!(drives("drive", |fleet| fleet, &deeds).await, ExitCode::Success);
    assert_eq!(assists("assist", Mode::Assist, &deeds).await, ExitCode::Success);
}

/// Regression (P1): the same after another user changed the version in the middle of the rollout.
#[tokio::test(flavor = "local", start_paused = true)]
async fn fleet_with_other_version_is_not_called_done() {
    let deeds: [(i64, Deed); 2] =
        [(30, |world, _| asks_for(world, "595.10")), (110, |world, _| asks_for(world, NEW))];
    assert_eq!(drives("drive", |fleet| fleet, &deeds).await, ExitCode::Success);
}

/// Regressions: a node that is NotReady had an ETA (P3), and needed action while it rebooted.
#[tokio::test(flavor = "local", start_paused = true)]
async fn node_that_is_not_ready_is_told_truly() {
    let deeds: [(i64, Deed); 2] = [
        (30, |world, _| node_is_ready(world, "gpu-0", false)),
        (500, |world, _| node_is_ready(world, "gpu-0", true)),
    ];
    assert_eq!(drives("drive", |fleet| fleet, &deeds).await, ExitCode::Success);
}

/// Regression (P3): a node whose driver does not start for minutes had an ETA of seconds.
#[tokio::test(flavor = "local", start_paused = true)]
async fn failing_driver_is_told_truly() {
    let failing = |fleet: Driven| {
        fleet.with(|script| {
            script.failing.insert("gpu-1");
        })
    };
    assert_eq!(tries_once("room for others", 2, failing, &[]).await, ExitCode::NodesFailed);
    // The failed node is unavailable, and no other node may be. The last node had an ETA of a few
    // seconds until the deadline.
    assert_eq!(tries_once("no room for others", 1, failing, &[]).await, ExitCode::NodesFailed);
}

/// Regression (P2): the retry of a node that NVIDIA's controller had given up was announced for a
/// minute from now, at every second.
#[tokio::test(flavor = "local", start_paused = true)]
async fn announced_retry_does_not_slide() {
    let mut world = World::at_rest(3);
    has_version(&world);
    let mut settings =
        Settings { mode: Mode::Assist, tasks: vec![Task::Settle, Task::Wake], ..settings() };
    settings.upgrade.attempts = 3;
    // The run ends before the retry: no controller acts in this world.
    settings.budget_seconds = 140;
    world.settings = settings.clone();
    world.install(&settings, "job-1");
    world.upgrade(&[0, 2]);
    world.edit("nodes", "", "gpu-1", |node| {
        node["metadata"]["labels"][Driver::Gpu.traits().state_label] = json!("upgrade-failed");
    });
    let code = Box::pin(told("retry", &world, StoryHook::new(settings, "job-1"), &[])).await;
    assert_eq!(code, ExitCode::Budget);
}

/// Regression: a node that NVIDIA's controller did not start although a slot was free was expected
/// later and later.
#[tokio::test(flavor = "local", start_paused = true)]
async fn node_that_no_controller_starts_has_no_eta() {
    let mut world = World::at_rest(3);
    has_version(&world);
    let mut settings =
        Settings { mode: Mode::Assist, tasks: vec![Task::Settle, Task::Wake], ..settings() };
    settings.budget_seconds = 400;
    world.settings = settings.clone();
    world.install(&settings, "job-1");
    world.upgrade(&[0, 1]);
    let code = Box::pin(told("not taken", &world, StoryHook::new(settings, "job-1"), &[])).await;
    assert_eq!(code, ExitCode::Budget);
}

/// Regression (P16): without a leader, `status` announced the next pass of the operator's upgrade
/// controller.
#[tokio::test(flavor = "local", start_paused = true)]
async fn gap_without_leader_is_told_truly() {
    const NEXT_POD: &str = "gpu-operator-2-abcde";
    let deeds: [(i64, Deed); 2] = [
        (30, |world, _| {
            world.remove("pods", OPERATOR, OPERATOR_POD);
            world.put("pods", OPERATOR, NEXT_POD, objects::operator_pod(NEXT_POD));
        }),
        (50, |world, _| {
            world.edit("leases", OPERATOR, names::OPERATOR_LEASE, |lease| {
                lease["spec"]["holderIdentity"] = json!(format!("{NEXT_POD}_9f2c"));
            });
        }),
    ];
    assert_eq!(assists("assist", Mode::Assist, &deeds).await, ExitCode::Success);
    assert_eq!(drives("drive", |fleet| fleet, &deeds).await, ExitCode::Success);
}
