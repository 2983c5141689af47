//! Mode `drive` on the in-process server: a small fleet, the other actors in its cluster, and the
//! stories.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::settings::{Mode, Settings};
use contract::task::Task;
use hook::{HookProcess, PodIdentity, RunEnd, Shutdown};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fake::store::{Key, text};
use crate::settings::{OPERATOR, settings};
use crate::world::{NEW, OLD, Pod, World, at, objects as common};

mod aborts;
mod acceptance;
mod busy;
mod crowd;
mod ends;
mod faults;
pub(crate) mod judge;
mod kills;
mod moments;
pub(crate) mod objects;
mod pauses;
pub(crate) mod play;
mod refused_writes;
mod releasing;
mod restored;
pub(crate) mod stories;
mod straight_line;
mod takeovers;
mod views;

use objects::{JOBS, Kind, NETWORK};
use play::{Play, Script};

/// The number of nodes of a fleet.
pub(crate) const NODES: usize = 3;
/// The Jobs of the hooks, in their order.
const JOBS_OF_HOOKS: [&str; 2] = ["job-1", "job-2"];

/// A fleet with the hooks that drive it one after another.
pub(crate) struct Driven {
    pub(crate) world: World,
    pub(crate) drivers: Vec<Driver>,
    /// The settings and the Job of each hook.
    pub(crate) stages: Vec<(Settings, String)>,
    /// The index of the current hook.
    stage: Rc<Cell<usize>>,
    script: Script,
    play: JoinSet<()>,
}

/// Returns the settings of a hook in mode `drive`.
fn driving(driver: Driver) -> Settings {
    let mut settings = Settings { mode: Mode::Drive, driver, per_node_seconds: 120, ..settings() };
    settings.tasks = match driver {
        Driver::Gpu => vec![Task::Settle, Task::Drive, Task::Reroll],
        Driver::Ofed => vec![Task::Settle, Task::Drive],
        Driver::DaemonSet => unreachable!("these stories are about the operators' drivers"),
    };
    settings.upgrade.policy.max_unavailable = Some(contract::count::Count::Number(1));
    if driver == Driver::Ofed {
        settings.release = "network-operator-post".into();
        settings.record = "network-operator-post-record".into();
        settings.component = "network-operator".into();
        settings.operator_namespace = NETWORK.into();
        settings.expected.nic_cluster_policy = true;
    }
    settings
}

/// Adds the operator of a driver, with its policy.
fn operator(world: &World, driver: Driver) {
    let deployment = match driver {
        Driver::Gpu => {
            let mut policy = common::policy(NEW);
            policy["spec"]["driver"]["upgradePolicy"]["autoUpgrade"] = json!(false);
            world.put("clusterpolicies", "", names::CLUSTER_POLICY, policy);
            (OPERATOR, names::OPERATOR_DEPLOYMENT)
        }
        Driver::Ofed => {
            world.put(
                "nicclusterpolicies",
                "",
                names::NIC_CLUSTER_POLICY,
                objects::nic_cluster_policy(NEW),
            );
            (NETWORK, names::NETWORK_OPERATOR_DEPLOYMENT)
        }
        Driver::DaemonSet => unreachable!("these stories are about the operators' drivers"),
    };
    world.put("deployments", deployment.0, deployment.1, common::deployment());
}

impl Driven {
    /// Returns nodes `gpu-0` … with the old driver. The operator has rendered the new one, and no
    /// node has started.
    pub(crate) fn new(driver: Driver, change: impl Fn(&mut Settings)) -> Self {
        Self::of(&[driver], change)
    }

    /// As `new`, with several drivers whose hooks run in this order.
    pub(crate) fn of(drivers: &[Driver], change: impl Fn(&mut Settings)) -> Self {
        Self::sized(NODES, drivers, change)
    }

    /// As `of`, with `nodes` nodes.
    pub(crate) fn sized(nodes: usize, drivers: &[Driver], change: impl Fn(&mut Settings)) -> Self {
        let stages = drivers.iter().zip(JOBS_OF_HOOKS).map(|(driver, job)| {
            let mut settings = driving(*driver);
            change(&mut settings);
            (settings, job.to_owned())
        });
        let stages: Vec<(Settings, String)> = stages.collect();
        let mut world = World::empty(stages[0].0.clone());
        if drivers.contains(&Driver::Gpu) {
            world.operator_leads();
        }
        for (settings, job) in &stages {
            world.install(settings, job);
            for test in &settings.upgrade.acceptance {
                let template = objects::pod_template();
                world.put("podtemplates", ACCEPTANCE_NAMESPACE, &test.name, template);
            }
        }
        let kinds = Kind::all(drivers);
        for driver in drivers {
            operator(&world, *driver);
        }
        for kind in &kinds {
            world.put("daemonsets", kind.namespace(), kind.name(), kind.daemon_set(NEW, nodes));
            for (number, hash) in
                [(1, "old"), (2, "new")].into_iter().take(if kind.is_driver() { 2 } else { 1 })
            {
                let hash = if kind.is_driver() { hash } else { "new" };
                world.put(
                    "controllerrevisions",
                    kind.namespace(),
                    &format!("{}-{hash}", kind.name()),
                    kind.revision(number, hash),
                );
            }
        }
        for index in 0..nodes {
            let name = format!("gpu-{index}");
            world.put("nodes", "", &name, objects::node(&name, drivers));
            for (at_second, kind) in (-5000..).step_by(10).zip(&kinds) {
                let (hash, version) = if kind.is_driver() { ("old", OLD) } else { ("new", NEW) };
                let key = play::create(&world.server, *kind, &name, hash, version);
                crate::world::edit(&world.server, &key, |pod| {
                    pod["metadata"]["creationTimestamp"] = json!(text(at(at_second - 5)));
                    pod["status"] = objects::running(pod, at(at_second));
                });
            }
            if drivers.contains(&Driver::Gpu) {
                play::publish(&world.server, &name);
            }
        }
        let script = Script { driver_seconds: 8, ..Script::default() };
        Self {
            world,
            drivers: drivers.to_vec(),
            stages,
            stage: Rc::default(),
            script,
            play: JoinSet::new(),
        }
    }

    /// Starts a pod of the current Job. When its hook has succeeded, the next hook runs under the
    /// same pod name.
    pub(crate) fn start(&self, pod: &str) -> Pod {
        let (stop, shutdown) = Shutdown::pair();
        let (client, clock, pod) =
            (self.world.server.client(pod), self.world.clock.clone(), pod.to_owned());
        let (stages, stage, last) =
            (self.stages.clone(), Rc::clone(&self.stage), self.stages.len() - 1);
        let handle = tokio::task::spawn_local(async move {
            let mut ended = None;
            for (at, (settings, job)) in stages.into_iter().enumerate().skip(stage.get()) {
                let identity = PodIdentity { job, pod: pod.clone() };
                let hook = HookProcess::new(
                    client.clone(),
                    settings,
                    identity,
                    clock.clone(),
                    shutdown.clone(),
                );
                let RunEnd { code, .. } = *ended.insert(hook.run().await);
                if code != ExitCode::Success {
                    break;
                }
                stage.set(stage.get().max(at + 1).min(last));
            }
            ended.unwrap()
        });
        Pod { handle, stop }
    }

    /// Starts a pod and waits for it.
    pub(crate) async fn run(&self, pod: &str) -> RunEnd {
        self.ends(self.start(pod)).await
    }

    /// Waits for a pod. Each of its hooks must end before Kubernetes terminates its Job.
    pub(crate) async fn ends(&self, pod: Pod) -> RunEnd {
        let budget: u64 = self.stages.iter().map(|(settings, _)| settings.budget_seconds).sum();
        tokio::time::timeout(Duration::from_secs(budget), pod.handle)
            .await
            .expect("the hook ends within its Job's time")
            .unwrap()
    }

    /// Replaces the hooks by others with another digest, as the deployer does.
    pub(crate) fn deployed_anew(&mut self) {
        for (settings, job) in &mut self.stages {
            settings.digest = "e".repeat(64);
            job.push('e');
            self.world.install(settings, job);
        }
    }

    /// Returns the driver of the last hook, which the story is about.
    pub(crate) fn driver(&self) -> Driver {
        self.drivers[self.drivers.len() - 1]
    }

    /// Changes the behavior of the other actors.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Script)) -> Self {
        change(&mut self.script);
        self
    }

    /// Adds running pods of a ReplicaSet on a node.
    pub(crate) fn serves(self, name: &str, node: &str, pods: usize, holds_gpu: bool) -> Self {
        self.works(("ReplicaSet", name), node, pods, holds_gpu)
    }

    /// Adds running pods of any controller on a node.
    pub(crate) fn works(
        self,
        owner: (&str, &str),
        node: &str,
        pods: usize,
        holds_gpu: bool,
    ) -> Self {
        for _ in 0..pods {
            let key = play::workload(&self.world.server, owner, holds_gpu);
            crate::world::edit(&self.world.server, &key, |pod| {
                pod["spec"]["nodeName"] = json!(node);
                pod["status"] = objects::running(pod, at(-500));
            });
        }
        self
    }

    /// Adds a PodDisruptionBudget for a workload.
    pub(crate) fn protected(self, name: &str, at_least: usize) -> Self {
        self.world.put(
            "poddisruptionbudgets",
            JOBS,
            name,
            objects::budget(name, &json!({"minAvailable": at_least})),
        );
        self
    }

    /// Changes the initial state of a node.
    pub(crate) fn node(self, name: &str, change: impl FnOnce(&mut Value)) -> Self {
        self.world.edit("nodes", "", name, change);
        self
    }

    /// Changes the initial state of a node's driver pod.
    pub(crate) fn driver_pod(self, node: &str, change: impl FnOnce(&mut Value)) -> Self {
        let kind = Kind::driver(self.driver());
        let key: Key = {
            let state = self.world.server.state();
            let on_node = |(key, pod): &(&Key, &Value)| {
                key.resource == "pods"
                    && pod["spec"]["nodeName"] == node
                    && Kind::of(pod) == Some(kind)
            };
            state.store.objects.iter().find(on_node).map(|(key, _)| key.clone()).unwrap()
        };
        crate::world::edit(&self.world.server, &key, change);
        self
    }

    /// Starts the other actors.
    pub(crate) fn begin(mut self) -> Self {
        let mut play = Play::new(&self.world.server, self.script.clone());
        // The status of the budgets is complete before the hook observes them.
        play.react();
        self.play.spawn(play.run());
        self
    }
}
