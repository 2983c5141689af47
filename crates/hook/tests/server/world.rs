//! A small cluster on the fake API server: GPU nodes, the actions of the operator, and the
//! DaemonSet controller and kubelets that recreate deleted DRA plugins.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::names;
use contract::record::{OBJECTS, object_name};
use contract::settings::Settings;
use contract::task::AllowedNodeChanges;
use hook::{HookProcess, PodIdentity, RunClock, RunEnd, Shutdown};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::fake::Server;
use crate::fake::rights::grants;
use crate::fake::store::{Key, text};

pub(crate) mod check;
pub(crate) mod objects;
mod play;
pub(crate) use play::edit;

use objects::Operand;

use crate::settings::{DRA, OPERATOR, settings};

pub(crate) const OLD: &str = "580.105.08";
pub(crate) const NEW: &str = "580.126.20";

/// Returns the time at this second of the story's clock.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("in range")
}

/// The operator's pod.
pub(crate) const OPERATOR_POD: &str = "gpu-operator-6d8f5c7b9-x2x7q";

/// The durations of the actions in a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Seconds until the operator notices a new version.
    pub(crate) operator: u64,
    /// Seconds that a driver takes to load.
    pub(crate) driver: u64,
    /// Seconds from the ready driver to `upgrade-done`.
    pub(crate) finishing: u64,
    /// Seconds until a deleted plugin pod is gone and a new one exists.
    pub(crate) restart: u64,
    /// Seconds until a plugin serves.
    pub(crate) plugin: u64,
    /// Number of nodes that migrate at the same time.
    pub(crate) parallel: usize,
}

/// The cluster.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: RunClock,
    pub(crate) settings: Settings,
    pub(crate) pace: Pace,
    /// How far the clock of a hook pod that starts now is ahead of the server's.
    pub(crate) pod_skew: SignedDuration,
    tasks: JoinSet<()>,
    plugins_come_back: bool,
    /// The first plugin pod of each node.
    originals: BTreeMap<String, String>,
}

/// A running hook pod.
pub(crate) struct Pod {
    pub(crate) handle: JoinHandle<RunEnd>,
    pub(crate) stop: watch::Sender<bool>,
}

impl World {
    /// Returns a world with only namespaces and the hook's release with its Job.
    pub(crate) fn empty(settings: Settings) -> Self {
        let clock = RunClock::starting_at(at(0));
        let server = Server::new(clock.clone());
        let pace =
            Pace { operator: 3, driver: 30, finishing: 5, restart: 2, plugin: 4, parallel: 1 };
        let world = Self {
            server,
            clock,
            settings,
            pace,
            pod_skew: SignedDuration::ZERO,
            tasks: JoinSet::new(),
            plugins_come_back: false,
            originals: BTreeMap::new(),
        };
        for namespace in ["default", OPERATOR, DRA] {
            world.put(
                "namespaces",
                "",
                namespace,
                json!({"kind": "Namespace", "apiVersion": "v1"}),
            );
        }
        let settings = world.settings.clone();
        world.install(&settings, "job-1");
        world
    }

    /// Returns a settled world of nodes `gpu-0` … with driver, toolkit and plugin of one age. The
    /// hook's release is installed and its Job exists.
    pub(crate) fn at_rest(nodes: usize) -> Self {
        let mut world = Self::empty(settings());
        world.put("deployments", OPERATOR, names::OPERATOR_DEPLOYMENT, objects::deployment());
        world.operator_leads();
        world.put("clusterpolicies", "", names::CLUSTER_POLICY, objects::policy(OLD));
        for operand in [Operand::Driver, Operand::Toolkit, Operand::Validator, Operand::Plugin] {
            world.put(
                "daemonsets",
                operand.namespace(),
                operand.daemon_set(),
                objects::daemon_set(operand, OLD, nodes),
            );
        }
        for operand in [Operand::Driver, Operand::Toolkit, Operand::Validator] {
            let revision = objects::revision(operand, 1, "old");
            world.put(
                "controllerrevisions",
                OPERATOR,
                revision["metadata"]["name"].as_str().unwrap(),
                revision.clone(),
            );
        }
        for index in 0..nodes {
            world.join(&format!("gpu-{index}"), -100_000);
        }
        world
    }

    /// Adds a ready pod of the operator that leads, and renews its Lease every two seconds.
    pub(crate) fn operator_leads(&mut self) {
        let pod = OPERATOR_POD;
        self.put("pods", OPERATOR, pod, objects::operator_pod(pod));
        self.put(
            "leases",
            OPERATOR,
            names::OPERATOR_LEASE,
            objects::operator_lease(pod, self.clock.now()),
        );
        self.tasks.spawn(play::renewals(self.server.clone(), self.clock.clone()));
    }

    /// Adds a GPU node with all its pods.
    pub(crate) fn join(&mut self, name: &str, second: i64) {
        self.put("nodes", "", name, objects::node(name, at(second)));
        for (operand, second) in [
            (Operand::Driver, -5000),
            (Operand::Toolkit, -4990),
            (Operand::Validator, -4980),
            (Operand::Plugin, -4900),
        ] {
            let uid = play::start(&self.server, operand, name, "old", OLD, at(second));
            if operand == Operand::Plugin {
                self.originals.insert(name.to_owned(), uid);
            }
        }
    }

    /// Installs or upgrades a hook release, with a new Job.
    pub(crate) fn install(&self, settings: &Settings, job: &str) {
        let records = (0..OBJECTS).map(|index| {
            Key::new("configmaps", &settings.namespace, &object_name(&settings.record, index))
        });
        let now = self.clock.now();
        self.server.change(|state| {
            for record in records {
                if !state.store.objects.contains_key(&record) {
                    state.store.create(record, json!({"kind": "ConfigMap", "apiVersion": "v1"}), now);
                }
            }
            let key = Key::new("jobs", &settings.namespace, &settings.release);
            state.store.remove(&key);
            let job = json!({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"uid": job}, "status": {"startTime": text(now)}});
            state.store.create(key, job, now);
            for grant in grants(settings) {
                state.grants.push(grant);
            }
            state
                .node_changes
                .insert(settings.release.clone(), AllowedNodeChanges::of_job(settings));
        });
    }

    pub(crate) fn put(&self, resource: &str, namespace: &str, name: &str, object: Value) -> Value {
        let now = self.clock.now();
        self.server
            .change(|state| state.store.create(Key::new(resource, namespace, name), object, now))
    }

    pub(crate) fn remove(&self, resource: &str, namespace: &str, name: &str) {
        self.server.change(|state| state.store.remove(&Key::new(resource, namespace, name)));
    }

    /// Changes one object in place.
    pub(crate) fn edit(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        edit(&self.server, &Key::new(resource, namespace, name), change);
    }

    pub(crate) fn get(&self, resource: &str, namespace: &str, name: &str) -> Value {
        self.server
            .state()
            .store
            .objects
            .get(&Key::new(resource, namespace, name))
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the name of a DaemonSet's pod on a node.
    pub(crate) fn name_of_pod(&self, namespace: &str, daemon_set: &str, node: &str) -> String {
        let state = self.server.state();
        let mut pods = state
            .store
            .objects
            .iter()
            .filter(|(key, _)| key.resource == "pods" && key.namespace == namespace);
        let found = pods
            .find(|(key, pod)| key.name.starts_with(daemon_set) && pod["spec"]["nodeName"] == node);
        found.map(|(key, _)| key.name.clone()).unwrap()
    }

    /// Starts to recreate deleted plugins, at the current pace.
    pub(crate) fn plugins_come_back(&mut self) {
        if !std::mem::replace(&mut self.plugins_come_back, true) {
            self.tasks.spawn(play::plugins(self.server.clone(), self.pace));
        }
    }

    /// Sets the new driver version in the ClusterPolicy. The operator migrates one node after the
    /// other.
    pub(crate) fn upgrade(&mut self, order: &[usize]) {
        self.upgrade_nodes(order.iter().map(|index| format!("gpu-{index}")).collect());
    }

    /// As `upgrade`, for nodes with any names.
    pub(crate) fn upgrade_nodes(&mut self, nodes: Vec<String>) {
        self.edit("clusterpolicies", "", names::CLUSTER_POLICY, |policy| {
            policy["spec"]["driver"]["version"] = json!(NEW);
        });
        self.plugins_come_back();
        self.tasks.spawn(play::migration(self.server.clone(), self.pace, nodes));
    }

    /// Starts a hook pod of a Job.
    pub(crate) fn start(&self, pod: &str, job: &str) -> Pod {
        self.start_with(&self.settings, pod, job)
    }

    /// Starts a hook pod with other settings.
    pub(crate) fn start_with(&self, settings: &Settings, pod: &str, job: &str) -> Pod {
        let (stop, shutdown) = Shutdown::pair();
        let identity = PodIdentity { job: job.into(), pod: pod.into() };
        let clock = if self.pod_skew.is_zero() {
            self.clock.clone()
        } else {
            RunClock::starting_at(self.clock.now() + self.pod_skew)
        };
        let hook =
            HookProcess::new(self.server.client(pod), settings.clone(), identity, clock, shutdown);
        Pod { handle: tokio::task::spawn_local(hook.run()), stop }
    }

    /// Waits for a pod. It must end before Kubernetes terminates its Job.
    pub(crate) async fn ends(&self, pod: Pod) -> RunEnd {
        let ended =
            tokio::time::timeout(Duration::from_secs(self.settings.budget_seconds), pod.handle)
                .await;
        ended.expect("the hook ends within its Job's time").unwrap()
    }

    /// Starts a pod and waits for it.
    pub(crate) async fn run(&self, pod: &str, job: &str) -> RunEnd {
        self.ends(self.start(pod, job)).await
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Returns the seconds since the start of the story.
    pub(crate) fn second(&self) -> i64 {
        let elapsed: SignedDuration = self.clock.now().duration_since(at(0));
        elapsed.as_secs()
    }
}

/// Returns the reasons of a run's end as `node:Reason`, with `*` for the fleet.
pub(crate) fn named(ended: &RunEnd) -> Vec<String> {
    ended
        .reasons
        .iter()
        .map(|one| format!("{}:{}", one.node.as_deref().unwrap_or("*"), one.reason))
        .collect()
}
