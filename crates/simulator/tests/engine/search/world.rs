//! The small world, and the state that the engine observes of it. The current time is constant:
//! when time advances, timestamps become older.

use std::sync::{Arc, LazyLock};

use contract::acceptance::{AcceptanceGpus, AcceptanceNodes, AcceptanceTest, AcceptanceTime};
use contract::count::Count;
use contract::driver::Driver;
use contract::policy::{PodDeletionPolicy, Policy, UpgradeSettings};
use contract::settings::{Mode, Settings};
use contract::task::Task;
use jiff::Timestamp;
use observed::acceptance::{AcceptancePhase, AcceptancePod};
use observed::workload::{PodController, PodPhase, Workload};
use observed::{
    LiveUpgradePolicy, Observed, ObservedContainer, ObservedNode, ObservedPod, ObservedRevision,
    ObservedSlice,
};
use planner::decide::Action;
use planner::decide::Planner;
use planner::memory::RunMemory;

use crate::fleet::{Fleet, NEW, OLD, at};
use crate::settings::settings;

/// Returns the constant current time.
pub(crate) fn now() -> Timestamp {
    at(0)
}

/// The parameters of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) nodes: usize,
    /// The maximum number of faults.
    pub(crate) faults: u8,
    /// Whether caches can lag.
    pub(crate) lag: bool,
    /// Whether a pod with a GPU runs on the first node.
    pub(crate) pod: bool,
    /// Whether the nodes must pass an acceptance test with the new driver.
    pub(crate) test: bool,
    pub(crate) parallel: u32,
}

/// A driver pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Start {
    Starting,
    Failing,
    Ready,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DriverPod {
    pub(crate) number: u8,
    pub(crate) new: bool,
    pub(crate) start: Start,
    pub(crate) deleting: bool,
}

/// A DRA plugin pod. `fresh`: it started after the running driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Plugin {
    pub(crate) number: u8,
    pub(crate) fresh: bool,
    pub(crate) deleting: bool,
}

/// The pod of an acceptance test.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TestPod {
    pub(crate) name: String,
    /// The number of the driver pod with which it runs.
    pub(crate) driver: u8,
    /// Whether it succeeded. `None`: it runs.
    pub(crate) passed: Option<bool>,
    pub(crate) deleting: bool,
}

/// A node with its pods.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    pub(crate) version: u32,
    pub(crate) ready: bool,
    /// Seconds for which it has not been ready.
    pub(crate) down: i64,
    pub(crate) cordoned: bool,
    pub(crate) ours: bool,
    pub(crate) label: Option<String>,
    pub(crate) record: Option<String>,
    /// Whether the record was just written.
    pub(crate) fresh_record: bool,
    pub(crate) driver: Option<DriverPod>,
    pub(crate) validator: bool,
    pub(crate) plugin: Option<Plugin>,
    /// The pod with a GPU: its number, and whether it is leaving.
    pub(crate) pod: Option<(u8, bool)>,
    pub(crate) test: Option<TestPod>,
    /// The driver pods with which the last pod of the test succeeded.
    pub(crate) tested: Vec<u8>,
    /// The driver pods for which a plugin was replaced.
    pub(crate) replaced: Vec<u8>,
}

/// The state of the world.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// `None`: the node left the cluster.
    pub(crate) hosts: Vec<Option<Host>>,
    /// The nodes as in the caches.
    pub(crate) seen: Vec<Option<Host>>,
    pub(crate) alive: bool,
    pub(crate) memory: RunMemory,
    pub(crate) planner: Planner,
    /// Decided actions that are not performed yet.
    pub(crate) actions: Vec<Action>,
    /// Whether something has changed since the last decision.
    pub(crate) dirty: bool,
    pub(crate) faults: u8,
    /// Nodes that others have changed since the last decision.
    pub(crate) stale: Vec<bool>,
    pub(crate) over: bool,
}

pub(crate) fn name(index: usize) -> String {
    format!("gpu-{index}")
}

pub(crate) fn index(node: &str) -> usize {
    node.trim_start_matches("gpu-").parse().expect("gpu-0, gpu-1 …")
}

pub(crate) fn policy(model: &Model) -> Settings {
    let policy = Policy {
        max_parallel_upgrades: model.parallel,
        max_unavailable: Some(Count::Number(model.parallel)),
        pod_deletion: Some(PodDeletionPolicy {
            timeout_seconds: 20,
            ..PodDeletionPolicy::default()
        }),
        ..Policy::default()
    };
    let mut settings = settings();
    settings.mode = Mode::Drive;
    settings.tasks = vec![Task::Settle, Task::Drive, Task::Reroll];
    settings.per_node_seconds = 20;
    settings.quiet_seconds = 5;
    settings.grace_seconds = 20;
    settings.dra.replacement_seconds = 20;
    settings.upgrade = UpgradeSettings {
        policy,
        attempts: 1,
        failure_budget: Count::Percent(100),
        start_seconds: 30,
        validation_seconds: 20,
        acceptance: model.test.then(acceptance_test).into_iter().collect(),
        ..UpgradeSettings::default()
    };
    settings
}

/// The name of the acceptance test.
const TEST: &str = "dcgm";

fn acceptance_test() -> AcceptanceTest {
    AcceptanceTest {
        name: TEST.to_owned(),
        timeout_seconds: 20,
        when: vec![AcceptanceTime::After],
        nodes: AcceptanceNodes::All,
        gpus: AcceptanceGpus::Template,
        log_lines: 0,
    }
}

impl World {
    pub(crate) fn new(model: &Model) -> Self {
        let host = |index: usize| Host {
            version: 0,
            ready: true,
            down: 0,
            cordoned: false,
            ours: false,
            label: None,
            record: None,
            fresh_record: false,
            driver: Some(DriverPod { number: 0, new: false, start: Start::Ready, deleting: false }),
            validator: true,
            plugin: Some(Plugin { number: 0, fresh: true, deleting: false }),
            pod: (model.pod && index == 0).then_some((0, false)),
            test: None,
            tested: Vec::new(),
            replaced: Vec::new(),
        };
        let hosts: Vec<Option<Host>> = (0..model.nodes).map(|index| Some(host(index))).collect();
        Self {
            seen: hosts.clone(),
            hosts,
            alive: true,
            memory: RunMemory::new(at(-100_000), at(1_000_000)),
            planner: Planner::default(),
            actions: Vec::new(),
            dirty: true,
            faults: model.faults,
            stale: vec![false; model.nodes],
            over: false,
        }
    }
}

/// The constant part of the observed state.
static BASE: LazyLock<Observed> = LazyLock::new(|| {
    let mut fleet = Fleet::at_rest(0);
    fleet.policy().upgrade_policy =
        LiveUpgradePolicy { stated: true, ..LiveUpgradePolicy::default() };
    fleet.policy().driver.version = Some(NEW.into());
    fleet.operator_observes();
    for daemon_set in &mut fleet.observed.daemon_sets {
        for key in ["ENABLE_GPU_POD_EVICTION", "ENABLE_AUTO_DRAIN"] {
            daemon_set.manager_environment.insert(key.into(), "false".into());
        }
    }
    fleet.observed.revisions.push(ObservedRevision {
        owner: "driver-ds".into(),
        revision: 2,
        hash: "new".into(),
    });
    // A node as the operator labels it, to copy.
    fleet.join("gpu-0", -200_000);
    fleet.observed
});

fn pod(kind: (&str, &str), owner: &str, node: &str, uid: String, started: i64) -> ObservedPod {
    ObservedPod {
        namespace: "gpu-operator".into(),
        name: uid.clone(),
        uid,
        owner: Some(owner.into()),
        node: Some(node.into()),
        labels: [(kind.0.to_owned(), kind.1.to_owned())].into(),
        running: true,
        ready: true,
        containers_ready: true,
        ready_since: Some(at(started)),
        created: at(started),
        containers: vec![ObservedContainer {
            name: "main".into(),
            started: Some(at(started)),
            ..ObservedContainer::default()
        }],
        ..ObservedPod::default()
    }
}

impl World {
    /// Returns the state in the caches. The times of containers only show their order.
    pub(crate) fn observed(&self) -> Observed {
        let mut observed = BASE.clone();
        let template = observed.nodes.get("gpu-0").expect("it was put there").clone();
        observed.nodes.remove("gpu-0");
        let traits = Driver::Gpu.traits();
        for (index, host) in self.seen.iter().enumerate() {
            let Some(host) = host else { continue };
            let node = name(index);
            let mut labels = template.labels.clone();
            labels
                .extend(host.label.clone().map(|label| (traits.own_state_label.to_owned(), label)));
            observed.nodes.insert(
                node.clone(),
                ObservedNode {
                    name: node.clone(),
                    uid: format!("node-{index}"),
                    ready: host.ready,
                    ready_since: Some(at(-host.down)),
                    unschedulable: host.cordoned,
                    labels,
                    annotations: host
                        .record
                        .clone()
                        .map(|text| (traits.own_record.to_owned(), text))
                        .into_iter()
                        .collect(),
                    version: host.version.to_string(),
                    ..template.clone()
                },
            );
            if let Some(driver) = host.driver {
                let mut pod = pod(
                    contract::names::DRIVER_COMPONENT,
                    "driver-ds",
                    &node,
                    format!("driver-{index}-{}", driver.number),
                    if driver.new { -300 } else { -900 },
                );
                let is_ready = driver.start == Start::Ready;
                let version = if driver.new { NEW } else { OLD };
                pod.revision = Some(if driver.new { "new" } else { "old" }.into());
                pod.containers[0].name = traits.container.into();
                pod.containers[0].image = format!("nvcr.io/nvidia/driver:{version}-ubuntu22.04");
                pod.deleting = driver.deleting;
                pod.containers_ready = is_ready;
                pod.ready = is_ready && host.ready && !driver.deleting;
                if driver.start == Start::Failing {
                    (pod.unready_restarts, pod.trouble) = (11, Some("CrashLoopBackOff".into()));
                }
                if !is_ready {
                    (pod.ready_since, pod.containers[0].started) = (None, None);
                }
                observed.pods.push(pod);
            }
            let toolkit = contract::names::TOOLKIT_APP;
            let mut tools = pod(toolkit, "toolkit-ds", &node, format!("toolkit-{index}"), -800);
            tools.revision = Some("toolkit".into());
            tools.ready = host.ready;
            observed.pods.push(tools);
            let mut validator = pod(
                ("app", "validator"),
                "validator-ds",
                &node,
                format!("validator-{index}"),
                -100,
            );
            validator.containers_ready = host.validator;
            observed.validators.push(validator);
            if let Some(plugin) = host.plugin {
                let started = if plugin.fresh { -100 } else { -700 };
                let mut pod = pod(
                    ("app", "plugin"),
                    "plugin-ds",
                    &node,
                    format!("plugin-{index}-{}", plugin.number),
                    started,
                );
                pod.deleting = plugin.deleting;
                pod.ready = host.ready && !plugin.deleting;
                observed.dra.pods.push(pod);
                let loaded = if plugin.fresh && host.driver.is_some_and(|driver| driver.new) {
                    NEW
                } else {
                    OLD
                };
                let slice = ObservedSlice {
                    driver: contract::names::DRA_GPU_DRIVER.into(),
                    node: node.clone(),
                    driver_version: Some(loaded.into()),
                    devices: 8,
                    ..ObservedSlice::default()
                };
                let observed::OptionalApi::Served(slices) = &mut observed.dra.slices else {
                    unreachable!("they are served")
                };
                slices.push(slice);
            }
            if let Some(test) = &host.test {
                let pod = acceptance_pod(&node, test);
                observed.acceptance.insert(&node, pod.name.clone(), Arc::new(pod));
            }
            let pods = host.pod.map(|(number, leaving)| workload(&node, number, leaving));
            observed.workloads.pods.insert(node, pods.into_iter().collect());
        }
        observed
    }
}

/// Returns the UID of the pod of the test with this name.
pub(crate) fn test_uid(name: &str) -> String {
    format!("uid-{name}")
}

fn acceptance_pod(node: &str, test: &TestPod) -> AcceptancePod {
    let phase = match test.passed {
        None => AcceptancePhase::Running,
        Some(true) => AcceptancePhase::Succeeded { seconds: 10 },
        Some(false) => AcceptancePhase::Failed {
            message: "exit code 1: Error".into(),
            timed_out: false,
            seconds: 10,
        },
    };
    AcceptancePod {
        name: test.name.clone(),
        uid: test_uid(&test.name),
        node: node.into(),
        test: TEST.into(),
        time: Some(AcceptanceTime::After),
        digest: settings().digest.chars().take(12).collect(),
        created: at(-10),
        deleting: test.deleting,
        phase,
        log_container: None,
    }
}

fn workload(node: &str, number: u8, leaving: bool) -> Workload {
    Workload {
        namespace: "ml".into(),
        name: format!("train-{number}"),
        uid: format!("pod-{number}"),
        node: node.into(),
        phase: PodPhase::Running,
        ready: !leaving,
        created: at(-5000),
        deleted_at: leaving.then(|| at(30)),
        grace_seconds: 30,
        controller: Some(PodController {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "train".into(),
            uid: "rs".into(),
        }),
        resources: ["nvidia.com/gpu".to_owned()].into(),
        ..Workload::default()
    }
}
