//! Plays the other actors: DaemonSet and ReplicaSet controllers, scheduler, disruption controller,
//! kubelets, driver manager, validator. One task with one queue of events makes each story
//! deterministic.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::driver::Driver;
use contract::names;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::objects::{self, JOBS, Kind, is_test};
use crate::fake::Server;
use crate::fake::store::Key;
use crate::world::{NEW, edit, objects::slice};

pub(crate) mod acceptance;

/// An action on the cluster.
pub(crate) type Deed = fn(&Server);

/// The behavior of the other actors in a story.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// Seconds that a driver takes to load.
    pub(crate) driver_seconds: u64,
    /// Nodes whose new driver never starts.
    pub(crate) failing: BTreeSet<&'static str>,
    /// Nodes whose driver starts only in the second pod.
    pub(crate) failing_once: BTreeSet<&'static str>,
    /// Nodes on which the acceptance tests fail.
    pub(crate) rejected: BTreeSet<&'static str>,
    /// Nodes that cannot pull the image of the acceptance tests.
    pub(crate) imageless: BTreeSet<&'static str>,
    /// Whether new driver pods wait until their annotation is removed.
    pub(crate) safe_load: bool,
    /// Seconds until a pod of a workload is ready, if not two.
    pub(crate) slow: BTreeMap<&'static str, u64>,
    /// Nodes that are removed from the cluster shortly after their cordon.
    pub(crate) leaving: BTreeSet<&'static str>,
    /// The actions of users, with their second of the story.
    pub(crate) people: Vec<(u64, Deed)>,
}

/// A scheduled event.
#[derive(Clone, Debug)]
enum Event {
    Remove(Key),
    Create(Kind, String),
    Runs(Key),
    Crashes(Key, usize),
    Ready(Key),
    TestEnds(Key),
    Leaves(String),
    People(Deed),
}

/// The other actors.
pub(crate) struct Play {
    server: Server,
    script: Script,
    due: BTreeMap<(Instant, u64), Event>,
    count: u64,
    position: usize,
    leaving: BTreeSet<String>,
    loading: BTreeSet<Key>,
}

/// The seconds between two restarts of a failing driver.
const CRASH_SECONDS: u64 = 2;
/// The number of restarts. The hook lets the node fail after more than ten.
const CRASHES: usize = 14;
/// The seconds from its cordon until a node leaves. Its driver is starting at that time.
const LEAVE_SECONDS: u64 = 6;

impl Play {
    pub(crate) fn new(server: &Server, script: Script) -> Self {
        let mut play = Self {
            server: server.clone(),
            script,
            due: BTreeMap::new(),
            count: 0,
            position: 0,
            leaving: BTreeSet::new(),
            loading: BTreeSet::new(),
        };
        for (second, deed) in play.script.people.clone() {
            play.after(second, Event::People(deed));
        }
        play
    }

    fn after(&mut self, seconds: u64, event: Event) {
        self.count += 1;
        self.due.insert((Instant::now() + Duration::from_secs(seconds), self.count), event);
    }

    pub(crate) async fn run(mut self) {
        let mut changed = self.server.changes();
        loop {
            self.react();
            let next = self.due.keys().next().map(|(at, _)| *at);
            let sleep = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                told = changed.changed() => {
                    if told.is_err() {
                        return;
                    }
                }
                () = sleep => {
                    let due: Vec<(Instant, u64)> = self.due.range(..=(Instant::now(), u64::MAX)).map(|(at, _)| *at).collect();
                    for at in due {
                        if let Some(event) = self.due.remove(&at) {
                            self.perform(event);
                        }
                    }
                }
            }
        }
    }

    /// Reacts to changes until no more changes follow.
    pub(crate) fn react(&mut self) {
        loop {
            let changes: Vec<(&'static str, Key, Value)> = {
                let state = self.server.state();
                self.position = self.position.min(state.store.history.len());
                let new = &state.store.history[self.position..];
                new.iter()
                    .map(|change| (change.kind, change.key.clone(), change.object.clone()))
                    .collect()
            };
            if changes.is_empty() {
                return;
            }
            self.position += changes.len();
            for (kind, key, object) in changes {
                match (key.resource.as_str(), kind) {
                    ("pods", "DELETED") => self.gone(&object),
                    ("pods", _) => self.leaves(&key, &object),
                    ("nodes", "MODIFIED") => {
                        self.loads(&key.name);
                        if object["spec"]["unschedulable"] == true
                            && self.script.leaving.remove(key.name.as_str())
                        {
                            self.after(LEAVE_SECONDS, Event::Leaves(key.name));
                        }
                    }
                    _ => {}
                }
            }
            self.schedule();
            self.start_tests();
            self.budgets();
        }
    }

    fn leaves(&mut self, key: &Key, pod: &Value) {
        let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
        if pod["metadata"]["deletionTimestamp"].is_string() && self.leaving.insert(uid) {
            let works = Kind::of(pod).is_none() && !is_test(pod);
            let grace = if works { 3 } else { 1 };
            if works {
                edit(&self.server, key, |pod| {
                    pod["status"]["conditions"][0]["status"] = json!("False");
                });
            }
            self.after(grace, Event::Remove(key.clone()));
        }
    }

    fn gone(&mut self, pod: &Value) {
        if let Some(kind) = Kind::of(pod) {
            // Toolkit and validator come back with the driver.
            if !matches!(kind, Kind::Toolkit | Kind::Validator) {
                self.after(
                    1,
                    Event::Create(kind, pod["spec"]["nodeName"].as_str().unwrap().to_owned()),
                );
            }
            return;
        }
        let owner = &pod["metadata"]["ownerReferences"][0];
        if owner["kind"] == "ReplicaSet" {
            let holds =
                pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"].is_string();
            workload(&self.server, ("ReplicaSet", owner["name"].as_str().unwrap()), holds);
        }
    }

    /// Makes a waiting driver pod load when the annotation is gone.
    fn loads(&mut self, node: &str) {
        let Some(object) =
            self.server.state().store.objects.get(&Key::new("nodes", "", node)).cloned()
        else {
            return;
        };
        let waits = |driver: Driver| {
            object["metadata"]["annotations"][driver.traits().safe_load].is_string()
        };
        if !self.script.safe_load {
            return;
        }
        let waiting = self.pods(|pod| {
            let driver = Kind::of(pod).and_then(Kind::installs);
            driver.is_some_and(|driver| !waits(driver))
                && pod["spec"]["nodeName"] == node
                && pod["status"]["phase"] == "Pending"
        });
        for (key, _) in waiting {
            if self.loading.insert(key.clone()) {
                self.after(self.script.driver_seconds, Event::Runs(key));
            }
        }
    }

    fn pods(&self, wanted: impl Fn(&Value) -> bool) -> Vec<(Key, Value)> {
        let state = self.server.state();
        let pods =
            state.store.objects.iter().filter(|(key, pod)| key.resource == "pods" && wanted(pod));
        pods.map(|(key, pod)| (key.clone(), pod.clone())).collect()
    }

    fn nodes(&self) -> Vec<(String, Value)> {
        let state = self.server.state();
        let nodes = state.store.objects.iter().filter(|(key, _)| key.resource == "nodes");
        nodes.map(|(key, node)| (key.name.clone(), node.clone())).collect()
    }

    /// Binds unbound pods to the schedulable node with the fewest pods.
    fn schedule(&mut self) {
        for (key, pod) in self.pods(|pod| pod["spec"]["nodeName"].is_null() && !is_test(pod)) {
            let busy = |node: &str| {
                self.pods(|pod| Kind::of(pod).is_none() && pod["spec"]["nodeName"] == node).len()
            };
            let free =
                self.nodes().into_iter().filter(|(_, node)| node["spec"]["unschedulable"] != true);
            let Some((_, node)) = free.map(|(name, _)| (busy(&name), name)).min() else { continue };
            edit(&self.server, &key, |pod| pod["spec"]["nodeName"] = json!(node));
            let app = pod["metadata"]["labels"]["app"].as_str().unwrap();
            let seconds = self.script.slow.get(app).copied().unwrap_or(2);
            self.after(seconds, Event::Ready(key));
        }
    }

    /// Updates the PodDisruptionBudgets, as the disruption controller does.
    fn budgets(&self) {
        let keys: Vec<Key> = {
            let state = self.server.state();
            state
                .store
                .objects
                .keys()
                .filter(|key| key.resource == "poddisruptionbudgets")
                .cloned()
                .collect()
        };
        for key in keys {
            let pods = self.pods(|pod| pod["metadata"]["labels"]["app"] == key.name);
            let healthy = pods
                .iter()
                .filter(|(_, pod)| {
                    pod["status"]["conditions"][0]["status"] == "True"
                        && pod["metadata"]["deletionTimestamp"].is_null()
                })
                .count();
            edit(&self.server, &key, |budget| {
                let desired =
                    usize::try_from(budget["spec"]["minAvailable"].as_u64().unwrap()).unwrap();
                budget["status"] = json!({
                    "observedGeneration": 1, "disruptionsAllowed": healthy.saturating_sub(desired), "currentHealthy": healthy,
                    "desiredHealthy": desired, "expectedPods": pods.len(),
                });
            });
        }
    }

    fn perform(&mut self, event: Event) {
        match event {
            Event::Remove(key) => self.server.change(|state| state.store.remove(&key)),
            Event::Create(kind, node) => self.create(kind, &node),
            Event::Runs(key) => self.runs(&key),
            Event::Crashes(key, restarts) => {
                edit(&self.server, &key, |pod| pod["status"] = objects::crashing(pod, restarts));
                if restarts < CRASHES && self.server.state().store.objects.contains_key(&key) {
                    self.after(CRASH_SECONDS, Event::Crashes(key, restarts + 1));
                }
            }
            Event::Ready(key) => {
                let now = self.server.clock.now();
                edit(&self.server, &key, |pod| pod["status"] = objects::running(pod, now));
            }
            Event::TestEnds(key) => self.end_test(&key),
            Event::Leaves(node) => self.leaves_cluster(&node),
            Event::People(deed) => deed(&self.server),
        }
    }

    /// Removes a node: its Node object, its pods, and its count in the status of the DaemonSets.
    fn leaves_cluster(&self, node: &str) {
        self.server.change(|state| state.store.remove(&Key::new("nodes", "", node)));
        for (key, _) in self.pods(|pod| pod["spec"]["nodeName"] == node) {
            self.server.change(|state| state.store.remove(&key));
        }
        let slice =
            Key::new("resourceslices", "", slice(node, NEW)["metadata"]["name"].as_str().unwrap());
        self.server.change(|state| state.store.remove(&slice));
        let sets: Vec<Key> = {
            let state = self.server.state();
            state.store.objects.keys().filter(|key| key.resource == "daemonsets").cloned().collect()
        };
        for key in sets {
            edit(&self.server, &key, |set| {
                for count in ["desiredNumberScheduled", "currentNumberScheduled", "numberReady"] {
                    let fewer = set["status"][count].as_u64().unwrap() - 1;
                    set["status"][count] = json!(fewer);
                }
            });
        }
    }

    fn create(&mut self, kind: Kind, node: &str) {
        let there = self.pods(|pod| Kind::of(pod) == Some(kind) && pod["spec"]["nodeName"] == node);
        if !there.is_empty()
            || !self.server.state().store.objects.contains_key(&Key::new("nodes", "", node))
        {
            return;
        }
        let key = create(&self.server, kind, node, "new", NEW);
        match kind {
            Kind::Driver => self.driver_starts(&key, node, Driver::Gpu),
            Kind::Mofed => self.driver_starts(&key, node, Driver::Ofed),
            Kind::Toolkit | Kind::Plugin => self.after(1, Event::Runs(key)),
            Kind::Validator => self.after(2, Event::Runs(key)),
        }
    }

    /// Removes the pods that depend on the driver, as the driver manager does, and loads the
    /// driver.
    fn driver_starts(&mut self, key: &Key, node: &str, driver: Driver) {
        if driver == Driver::Gpu {
            edit(&self.server, &Key::new("nodes", "", node), |object| {
                object["metadata"]["labels"][names::DEPLOY_TOOLKIT_LABEL] =
                    json!("paused-for-driver-upgrade");
            });
            for kind in [Kind::Toolkit, Kind::Validator] {
                for (key, _) in
                    self.pods(|pod| Kind::of(pod) == Some(kind) && pod["spec"]["nodeName"] == node)
                {
                    self.server.change(|state| state.store.remove(&key));
                }
            }
        }
        if self.script.failing.contains(node) || self.script.failing_once.remove(node) {
            self.after(CRASH_SECONDS, Event::Crashes(key.clone(), 0));
        } else if self.script.safe_load {
            let annotation = driver.traits().safe_load;
            edit(&self.server, &Key::new("nodes", "", node), |object| {
                object["metadata"]["annotations"][annotation] = json!("true");
            });
        } else {
            self.after(self.script.driver_seconds, Event::Runs(key.clone()));
        }
    }

    fn runs(&mut self, key: &Key) {
        let Some(pod) = self.server.state().store.objects.get(key).cloned() else { return };
        let node = pod["spec"]["nodeName"].as_str().unwrap().to_owned();
        let now = self.server.clock.now();
        edit(&self.server, key, |pod| pod["status"] = objects::running(pod, now));
        match Kind::of(&pod) {
            Some(Kind::Driver) => {
                edit(&self.server, &Key::new("nodes", "", &node), |object| {
                    object["metadata"]["labels"][names::DEPLOY_TOOLKIT_LABEL] = json!("true");
                });
                self.after(1, Event::Create(Kind::Toolkit, node.clone()));
                self.after(2, Event::Create(Kind::Validator, node));
            }
            Some(Kind::Plugin) => publish(&self.server, &node),
            Some(Kind::Mofed | Kind::Toolkit | Kind::Validator) | None => {}
        }
    }
}

/// Creates a pod of a DaemonSet that does not run yet.
pub(crate) fn create(server: &Server, kind: Kind, node: &str, hash: &str, version: &str) -> Key {
    let now = server.clock.now();
    server.change(|state| {
        let key = Key::new(
            "pods",
            kind.namespace(),
            &format!("{}-{:05x}", kind.name(), state.store.unique()),
        );
        state.store.create(key.clone(), kind.pod(node, hash, version), now);
        key
    })
}

/// Creates an unbound pod of a workload.
pub(crate) fn workload(server: &Server, owner: (&str, &str), holds_gpu: bool) -> Key {
    let now = server.clock.now();
    server.change(|state| {
        let key = Key::new("pods", JOBS, &format!("{}-{:05x}", owner.1, state.store.unique()));
        state.store.create(key.clone(), objects::workload(owner, holds_gpu), now);
        key
    })
}

/// Publishes the ResourceSlice of a plugin, with the loaded driver.
pub(crate) fn publish(server: &Server, node: &str) {
    let version = {
        let state = server.state();
        let on_node = |(key, pod): &(&Key, &Value)| {
            key.resource == "pods"
                && pod["spec"]["nodeName"] == node
                && Kind::of(pod) == Some(Kind::Driver)
        };
        let driver = state.store.objects.iter().rfind(on_node);
        let image = driver
            .map(|(_, pod)| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned())
            .unwrap_or_default();
        image
            .trim_start_matches("nvcr.io/nvidia/driver:")
            .trim_end_matches("-ubuntu22.04")
            .to_owned()
    };
    let now = server.clock.now();
    let slice = slice(node, &version);
    let key = Key::new("resourceslices", "", slice["metadata"]["name"].as_str().unwrap());
    server.change(|state| {
        state.store.remove(&key);
        state.store.create(key, slice, now);
    });
}

/// Ends a job. Its pod remains with phase Succeeded.
pub(crate) fn job_ends(server: &Server) {
    let keys: Vec<Key> = {
        let state = server.state();
        let of_job = |(key, pod): &(&Key, &Value)| {
            key.resource == "pods" && pod["metadata"]["ownerReferences"][0]["kind"] == "Job"
        };
        state.store.objects.iter().filter(of_job).map(|(key, _)| key.clone()).collect()
    };
    for key in keys {
        edit(server, &key, |pod| {
            pod["status"] =
                json!({"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]});
        });
    }
}
