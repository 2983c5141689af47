//! Plays the other actors: the operator, the DaemonSet controller, the kubelets.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::names;
use hook::RunClock;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fake::Server;
use crate::fake::store::Key;

use super::objects::{self, Operand};
use super::{NEW, Pace};
use crate::settings::{DRA, OPERATOR};

pub(crate) fn edit(server: &Server, key: &Key, change: impl FnOnce(&mut Value)) {
    server.change(|state| {
        let Some(mut object) = state.store.objects.get(key).cloned() else { return };
        change(&mut object);
        state.store.update(key, object);
    });
}

/// Renews the Lease of the operator's leader.
pub(super) async fn renewals(server: Server, clock: RunClock) {
    let key = Key::new("leases", OPERATOR, names::OPERATOR_LEASE);
    loop {
        seconds(2).await;
        edit(&server, &key, |lease| {
            lease["spec"]["renewTime"] = json!(objects::micro(clock.now()));
        });
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Creates a pod that does not run yet. Returns its key.
fn create(
    server: &Server,
    operand: Operand,
    node: &str,
    hash: &str,
    version: &str,
    now: Timestamp,
) -> Key {
    server.change(|state| {
        let name = format!("{}-{:05x}", operand.daemon_set(), state.store.unique());
        let key = Key::new("pods", operand.namespace(), &name);
        state.store.create(key.clone(), objects::pod(operand, &name, node, hash, version), now);
        key
    })
}

fn runs(server: &Server, operand: Operand, key: &Key, node: &str, version: &str, at: Timestamp) {
    let by_node = at + server.state().node_skew;
    edit(server, key, |pod| pod["status"] = objects::running(pod, by_node));
    if operand == Operand::Plugin {
        let slice = objects::slice(node, version);
        let key = Key::new("resourceslices", "", slice["metadata"]["name"].as_str().unwrap());
        server.change(|state| {
            state.store.remove(&key);
            state.store.create(key, slice, at);
        });
    }
}

/// Adds a pod that has been running since `since`. Returns its UID.
pub(super) fn start(
    server: &Server,
    operand: Operand,
    node: &str,
    hash: &str,
    version: &str,
    since: Timestamp,
) -> String {
    let key = create(server, operand, node, hash, version, since);
    runs(server, operand, &key, node, version, since);
    let state = server.state();
    state.store.objects[&key]["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Returns the pods of a DaemonSet on a node: one, or two during a replacement.
fn pods_of(server: &Server, operand: Operand, node: &str) -> Vec<(Key, Value)> {
    let state = server.state();
    let from = Key::new("pods", operand.namespace(), operand.daemon_set());
    let pods = state.store.objects.range(from..).take_while(|(key, _)| {
        key.resource == "pods" && key.name.starts_with(operand.daemon_set())
    });
    pods.filter(|(_, pod)| pod["spec"]["nodeName"] == node)
        .map(|(key, pod)| (key.clone(), pod.clone()))
        .collect()
}

/// Returns the version of the loaded driver on a node, which is that of its driver pod.
fn loaded(server: &Server, node: &str) -> String {
    let driver = pods_of(server, Operand::Driver, node).pop();
    let image = driver
        .map(|(_, pod)| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned())
        .unwrap_or_default();
    image.trim_start_matches("nvcr.io/nvidia/driver:").trim_end_matches("-ubuntu22.04").to_owned()
}

/// Plays the DaemonSet controller and the kubelets for DRA plugins: deleted pods go and are
/// recreated.
pub(super) async fn plugins(server: Server, pace: Pace) {
    let mut changed = server.changes();
    let mut restarts = JoinSet::new();
    let mut seen = BTreeSet::new();
    let mut position = 0;
    loop {
        {
            let state = server.state();
            for change in &state.store.history[position..] {
                let deleted = change.key.resource == "pods"
                    && change.object["metadata"]["deletionTimestamp"].is_string();
                if deleted && seen.insert(change.key.clone()) {
                    let node = change.object["spec"]["nodeName"].as_str().unwrap().to_owned();
                    restarts.spawn(restart(server.clone(), pace, change.key.clone(), node));
                }
            }
            position = state.store.history.len();
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

async fn restart(server: Server, pace: Pace, old: Key, node: String) {
    seconds(1).await;
    server.change(|state| state.store.remove(&old));
    seconds(pace.restart).await;
    if server.state().store.objects.contains_key(&Key::new(
        "daemonsets",
        DRA,
        Operand::Plugin.daemon_set(),
    )) {
        let key = create(&server, Operand::Plugin, &node, "plugin", "", server.clock.now());
        seconds(pace.plugin).await;
        let version = loaded(&server, &node);
        runs(&server, Operand::Plugin, &key, &node, &version, server.clock.now());
    }
}

/// Plays the operator, which notices the new driver and migrates one node after the other.
pub(super) async fn migration(server: Server, pace: Pace, nodes: Vec<String>) {
    seconds(pace.operator).await;
    let daemon_set = Key::new("daemonsets", OPERATOR, Operand::Driver.daemon_set());
    let revision = objects::revision(Operand::Driver, 2, "new");
    let name = revision["metadata"]["name"].as_str().unwrap().to_owned();
    edit(&server, &daemon_set, |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] =
            json!(format!("nvcr.io/nvidia/driver:{NEW}-ubuntu22.04"));
        object["metadata"]["generation"] = json!(2);
    });
    seconds(1).await;
    let now = server.clock.now();
    server.change(|state| {
        state.store.create(Key::new("controllerrevisions", OPERATOR, &name), revision, now)
    });
    edit(&server, &daemon_set, |object| object["status"]["observedGeneration"] = json!(2));
    for node in &nodes {
        state(&server, node, "upgrade-required");
    }
    let mut under_way = JoinSet::new();
    for node in nodes {
        if under_way.len() >= pace.parallel {
            under_way.join_next().await;
        }
        under_way.spawn(migrate(server.clone(), pace, node));
    }
    under_way.join_all().await;
}

fn state(server: &Server, node: &str, state: &str) {
    edit(server, &Key::new("nodes", "", node), |object| {
        object["metadata"]["labels"][names::UPGRADE_STATE_LABEL] = json!(state);
    });
}

/// Gives one node its new driver, as NVIDIA's controller does.
async fn migrate(server: Server, pace: Pace, node: String) {
    let key = Key::new("nodes", "", &node);
    state(&server, &node, "cordon-required");
    seconds(1).await;
    edit(&server, &key, |object| object["spec"]["unschedulable"] = json!(true));
    state(&server, &node, "pod-restart-required");
    for (old, _) in pods_of(&server, Operand::Driver, &node) {
        server.change(|state| state.store.remove(&old));
    }
    seconds(1).await;
    let pod = create(&server, Operand::Driver, &node, "new", NEW, server.clock.now());
    seconds(pace.driver).await;
    runs(&server, Operand::Driver, &pod, &node, NEW, server.clock.now());
    state(&server, &node, "uncordon-required");
    seconds(pace.finishing).await;
    edit(&server, &key, |object| object["spec"]["unschedulable"] = json!(false));
    state(&server, &node, "upgrade-done");
}
