//! Mode `drive` for a driver DaemonSet that no operator upgrades.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::settings::{Mode, Settings};
use contract::task::Task;
use serde_json::{Value, json};

use crate::fake::Server;
use crate::fake::store::{Key, text};
use crate::settings::settings;
use crate::world::{World, at, named};

const NAMESPACE: &str = "accelerators";
const DRIVER: &str = "accelerator-driver";

fn driving() -> Settings {
    let mut settings = Settings {
        driver: Driver::DaemonSet,
        mode: Mode::Drive,
        tasks: vec![Task::Settle, Task::Drive],
        operator_namespace: NAMESPACE.into(),
        daemon_set: Some(DRIVER.into()),
        ..settings()
    };
    settings.upgrade.policy.max_unavailable = Some(Count::Number(1));
    settings.upgrade.extra_consumers = vec!["app=train".into()];
    settings
}

fn owner(daemon_set: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemon_set, "uid": daemon_set, "controller": true}])
}

fn daemon_set(name: &str, strategy: &str) -> Value {
    json!({
        "kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": name, "uid": name, "generation": 2},
        "spec": {"selector": {}, "updateStrategy": {"type": strategy}, "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": []}}},
        "status": {"observedGeneration": 2, "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2},
    })
}

/// Returns a pod of a DaemonSet that has been ready since `since`.
fn operand(daemon_set: &str, node: &str, hash: &str, since: jiff::Timestamp) -> Value {
    let labels = json!({"app": daemon_set, "controller-revision-hash": hash});
    json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"labels": labels, "ownerReferences": owner(daemon_set)},
        "spec": {"nodeName": node, "containers": [{"name": "driver", "image": "x"}]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": text(since)}],
            "containerStatuses": [{
                "name": "driver", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": text(since)}},
            }],
        },
    })
}

/// Returns two nodes with pods of two DaemonSets, and a third node without. A job and a web server
/// run on the first node. The driver's template has changed.
fn world(settings: Settings) -> World {
    let world = World::empty(settings);
    for name in [DRIVER, "exporter"] {
        world.put("daemonsets", NAMESPACE, name, daemon_set(name, "OnDelete"));
        for (number, hash) in [(1, "old"), (2, "new")] {
            let revision = format!("{name}-{hash}");
            let metadata = json!({"name": revision, "labels": {"controller-revision-hash": hash}, "ownerReferences": owner(name)});
            let object = json!({"kind": "ControllerRevision", "apiVersion": "apps/v1", "revision": number, "metadata": metadata});
            world.put("controllerrevisions", NAMESPACE, &revision, object);
        }
    }
    for name in ["node-0", "node-1", "node-2"] {
        let ready =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": text(at(-9000))}]);
        let metadata = json!({"name": name, "creationTimestamp": text(at(-9000))});
        world.put(
            "nodes",
            "",
            name,
            json!({"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {}, "status": {"conditions": ready}}),
        );
        if name != "node-2" {
            for daemon_set in [DRIVER, "exporter"] {
                world.put(
                    "pods",
                    NAMESPACE,
                    &format!("{daemon_set}-{name}"),
                    operand(daemon_set, name, "old", at(-5000)),
                );
            }
        }
    }
    for app in ["train", "web"] {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}]);
        let metadata = json!({"labels": {"app": app}, "ownerReferences": owner});
        let pod = json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"nodeName": "node-0", "containers": []}, "status": {"phase": "Running"},
        });
        world.put("pods", "jobs", app, pod);
    }
    world
}

/// Plays the DaemonSet controller and the kubelets: deleted pods go, and the driver's pod is
/// recreated from the new template.
async fn kubelets(server: Server) {
    let mut changed = server.changes();
    let mut seen = BTreeSet::new();
    loop {
        let pods: Vec<(Key, Value)> = {
            let state = server.state();
            let deleted = |(key, pod): &(&Key, &Value)| {
                key.resource == "pods" && pod["metadata"]["deletionTimestamp"].is_string()
            };
            state
                .store
                .objects
                .iter()
                .filter(deleted)
                .map(|(key, pod)| (key.clone(), pod.clone()))
                .collect()
        };
        for (key, pod) in pods {
            if seen.insert(pod["metadata"]["uid"].as_str().unwrap().to_owned()) {
                tokio::spawn(goes(server.clone(), key, pod));
            }
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

async fn goes(server: Server, key: Key, pod: Value) {
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.change(|state| state.store.remove(&key));
    if key.namespace != NAMESPACE {
        return;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let now = server.clock.now();
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    let fresh = Key::new("pods", NAMESPACE, &format!("{}-new", key.name));
    server.change(|state| state.store.create(fresh, operand(DRIVER, node, "new", now), now));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn pods_are_replaced_per_node_after_users_left() {
    let world = world(driving());
    tokio::spawn(kubelets(world.server.clone()));
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(named(&ended), ["*:Settled"]);
    let names = |namespace: &str| {
        let state = world.server.state();
        let pods = state
            .store
            .objects
            .keys()
            .filter(|key| key.resource == "pods" && key.namespace == namespace);
        pods.map(|key| key.name.clone()).collect::<Vec<_>>()
    };
    let driver = |node: &str| format!("{DRIVER}-{node}-new");
    assert_eq!(
        names(NAMESPACE),
        [driver("node-0"), driver("node-1"), "exporter-node-0".into(), "exporter-node-1".into()]
    );
    assert_eq!(names("jobs"), ["web"], "pods that the policy does not name stay");
    for name in ["node-0", "node-1", "node-2"] {
        let node = world.get("nodes", "", name);
        assert!(node["spec"]["unschedulable"].as_bool() != Some(true), "{name}");
        let metadata = [&node["metadata"]["annotations"], &node["metadata"]["labels"]];
        assert!(
            !metadata.into_iter().any(|map| map.to_string().contains("gpu-rollout.dev/")),
            "{node}"
        );
    }
    let writes: Vec<(String, String)> = world
        .log()
        .into_iter()
        .filter(|entry| {
            entry.applied
                && ["pods", "pods/eviction"].contains(&entry.request.resource.as_str())
                && entry.request.is_write()
        })
        .map(|entry| (entry.request.verb.to_owned(), entry.request.name.clone()))
        .collect();
    let of = |verb: &str, name: &str| (verb.to_owned(), name.to_owned());
    let expected = [
        of("create", "train"),
        of("delete", "accelerator-driver-node-0"),
        of("delete", "accelerator-driver-node-1"),
    ];
    assert_eq!(writes, expected);
    let read: BTreeSet<String> =
        world.log().into_iter().map(|entry| entry.request.resource).collect();
    for of_operators in ["deployments", "clusterpolicies", "nicclusterpolicies", "nvidiadrivers"] {
        assert!(!read.contains(of_operators), "{read:?}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn daemon_set_that_replaces_pods_itself_is_refused() {
    let world = world(driving());
    world.put("daemonsets", NAMESPACE, DRIVER, daemon_set(DRIVER, "RollingUpdate"));
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Precondition, "{}", ended.message);
    assert_eq!(named(&ended), ["*:Precondition"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn modes_without_vendors_controller_are_refused_with_reason() {
    for mode in [Mode::Assist, Mode::Steer] {
        let settings = Settings { mode, tasks: vec![Task::Settle], ..driving() };
        let ended = World::empty(settings).run("pod-a", "job-1").await;
        assert_eq!(
            (ended.code, named(&ended)),
            (ExitCode::Input, vec!["*:SettingsContradictory".to_owned()])
        );
    }
    let ended =
        World::empty(Settings { daemon_set: None, ..driving() }).run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Input);
}
