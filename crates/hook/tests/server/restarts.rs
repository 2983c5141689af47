//! Task `restart-plugins`: after a change of a configuration, the pods of the nodes that use it
//! restart once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::digest::sha256;
use contract::exit::ExitCode;
use contract::names;
use contract::settings::{ConfigFallback, Settings};
use contract::task::{RIGHTS, Task, rights};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fake::Server;
use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Request;
use crate::fake::store::{Key, text};
use crate::settings::settings;
use crate::world::{World, at, named};

const NAMESPACE: &str = "nvidia-device-plugin";
/// DaemonSets of the stand-alone chart, each with its container.
const OPERANDS: [(&str, &str); 3] = [
    ("nvdp-nvidia-device-plugin", "nvidia-device-plugin-ctr"),
    ("nvdp-nvidia-device-plugin-gpu-feature-discovery", "gpu-feature-discovery-ctr"),
    ("nvdp-nvidia-device-plugin-mps-control-daemon", "mps-control-daemon-ctr"),
];

/// Returns settled nodes `gpu-0` … with plugin, discovery and MPS daemon. Even nodes use `default`,
/// odd ones `shared`.
fn stand_alone(nodes: usize) -> World {
    let mut settings = settings();
    settings.release = "nvidia-device-plugin-post".into();
    settings.record = "nvidia-device-plugin-post-record".into();
    settings.namespace = NAMESPACE.into();
    settings.component = "nvidia-device-plugin".into();
    settings.tasks = vec![Task::RestartPlugins];
    settings.device_plugin.namespace = NAMESPACE.into();
    settings.device_plugin.config_map = Some("plugins".into());
    settings.device_plugin.fallbacks = vec![ConfigFallback::Named, ConfigFallback::Single];
    settings.device_plugin.digests = Some(digests(&[("default", "a"), ("shared", "a")]));
    let world = World::empty(settings);
    let manager = json!([{"manager": "helm", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "time": text(at(-9000)), "fieldsV1": {"f:data": {}}}]);
    world.put(
        "configmaps",
        NAMESPACE,
        "plugins",
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"managedFields": manager}, "data": {"default": "a", "shared": "a"}}),
    );
    for (name, container) in OPERANDS {
        world.put("daemonsets", NAMESPACE, name, daemon_set(name, container, nodes));
        let revision = json!({
            "kind": "ControllerRevision", "apiVersion": "apps/v1", "revision": 1,
            "metadata": {"labels": {"controller-revision-hash": "1"}, "ownerReferences": owner(name)},
        });
        world.put("controllerrevisions", NAMESPACE, &format!("{name}-1"), revision);
    }
    for index in 0..nodes {
        let name = format!("gpu-{index}");
        let labels = if index % 2 == 0 {
            json!({})
        } else {
            json!({names::DEVICE_PLUGIN_CONFIG_LABEL: "shared"})
        };
        world.put(
            "nodes",
            "",
            &name,
            json!({"kind": "Node", "apiVersion": "v1", "metadata": {"creationTimestamp": text(at(-9000)), "labels": labels}, "spec": {},
                "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": text(at(-9000))}]}}),
        );
        for (operand, container) in OPERANDS {
            start(&world.server, operand, container, &name, at(-5000));
        }
    }
    tokio::task::spawn_local(kubelets(world.server.clone()));
    world
}

fn digests(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
    texts.iter().map(|(key, text)| ((*key).to_owned(), sha256(text.as_bytes()))).collect()
}

fn owner(daemon_set: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemon_set, "uid": daemon_set, "controller": true}])
}

fn daemon_set(name: &str, container: &str, nodes: usize) -> Value {
    // All three share selector and labels.
    let labels = json!({"app.kubernetes.io/name": "nvidia-device-plugin", "app.kubernetes.io/instance": "nvdp"});
    json!({
        "kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"uid": name, "generation": 1},
        "spec": {"selector": {}, "updateStrategy": {"type": "RollingUpdate"}, "template": {"metadata": {"labels": labels}, "spec": {
            "containers": [{"name": container, "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}],
            "volumes": [{"name": "available-configs", "configMap": {"name": "plugins"}}],
        }}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": nodes, "currentNumberScheduled": nodes, "numberMisscheduled": 0,
            "numberReady": nodes},
    })
}

/// Adds a pod that has been running since `since`.
fn start(server: &Server, operand: &str, container: &str, node: &str, since: Timestamp) {
    let started = text(since);
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"labels": {"controller-revision-hash": "1"}, "ownerReferences": owner(operand), "creationTimestamp": started},
        "spec": {"nodeName": node, "containers": [{"name": container, "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": started}],
            "containerStatuses": [{
                "name": container, "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": started}},
            }],
        },
    });
    server.change(|state| {
        let key = Key::new("pods", NAMESPACE, &format!("{operand}-{:05x}", state.store.unique()));
        state.store.create(key, pod, since)
    });
}

/// Plays the DaemonSet controller and the kubelets: deleted pods go and are recreated.
async fn kubelets(server: Server) {
    let mut changed = server.changes();
    let mut seen = BTreeSet::new();
    loop {
        let deleted: Vec<(Key, Value)> = {
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
        for (key, pod) in deleted.into_iter().filter(|(key, _)| seen.insert(key.clone())) {
            let server = server.clone();
            tokio::task::spawn_local(async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                server.change(|state| state.store.remove(&key));
                tokio::time::sleep(Duration::from_secs(3)).await;
                let word = |value: &Value| value.as_str().unwrap().to_owned();
                let operand = word(&pod["metadata"]["ownerReferences"][0]["name"]);
                let container = word(&pod["spec"]["containers"][0]["name"]);
                start(
                    &server,
                    &operand,
                    &container,
                    &word(&pod["spec"]["nodeName"]),
                    server.clock.now(),
                );
            });
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

/// Deploys a new text of the configuration, and installs the next Job with it.
fn configure(world: &mut World, key: &str, content: &str, job: &str) {
    let now = text(world.clock.now());
    world.edit("configmaps", NAMESPACE, "plugins", |map| {
        map["data"][key] = json!(content);
        map["metadata"]["managedFields"][0]["time"] = json!(now);
    });
    world
        .settings
        .device_plugin
        .digests
        .get_or_insert_default()
        .insert(key.into(), sha256(content.as_bytes()));
    world.settings.digest = format!("{key}-{content}");
    world.install(&world.settings, job);
}

/// Returns the number of deleted pods of each node.
fn restarted(world: &World) -> BTreeMap<String, usize> {
    let state = world.server.state();
    let marked: BTreeSet<(String, String)> = state
        .store
        .history
        .iter()
        .filter(|change| {
            change.key.resource == "pods"
                && change.object["metadata"]["deletionTimestamp"].is_string()
        })
        .map(|change| {
            (
                change.object["spec"]["nodeName"].as_str().unwrap().to_owned(),
                change.key.name.clone(),
            )
        })
        .collect();
    marked.into_iter().fold(BTreeMap::new(), |mut count, (node, _)| {
        *count.entry(node).or_default() += 1;
        count
    })
}

fn each(nodes: &[&str]) -> BTreeMap<String, usize> {
    nodes.iter().map(|node| ((*node).to_owned(), OPERANDS.len())).collect()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn unchanged_configuration_restarts_nothing_and_rerun_writes_nothing() {
    let world = stand_alone(3);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(named(&ended), ["*:Settled"]);
    world.install(&world.settings, "job-2");
    let again = world.run("pod-b", "job-2").await;
    assert_eq!(named(&again), ["*:NothingToDo"]);
    assert!(world.writes("pod-b").is_empty());
    assert_eq!(restarted(&world), each(&[]));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn changed_configuration_restarts_only_its_nodes_once() {
    let mut world = stand_alone(4);
    world.run("pod-a", "job-1").await;
    configure(&mut world, "shared", "b", "job-2");
    let ended = world.run("pod-b", "job-2").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(named(&ended), ["*:Settled"]);
    assert_eq!(restarted(&world), each(&["gpu-1", "gpu-3"]));
    assert!(world.events().iter().any(|(reason, _)| reason == "DevicePluginRestarted"));
    assert!(world.events().iter().any(|(reason, _)| reason == "DevicePluginBack"));

    world.install(&world.settings, "job-3");
    let again = world.run("pod-c", "job-3").await;
    assert_eq!(named(&again), ["*:NothingToDo"]);
    assert!(world.writes("pod-c").is_empty());

    // The hook fires for another reason, and restarts no pod again.
    configure(&mut world, "unused", "x", "job-4");
    assert_eq!(world.run("pod-d", "job-4").await.code, ExitCode::Success);
    assert_eq!(restarted(&world), each(&["gpu-1", "gpu-3"]));
}

/// Regression: the record that was written on a signal lost the time of each configuration, so all
/// of them seemed as new as the last edit.
#[tokio::test(flavor = "local", start_paused = true)]
async fn signal_before_record_keeps_known_configurations() {
    let mut world = stand_alone(2);
    world.run("pod-a", "job-1").await;
    world.pass(100).await;
    configure(&mut world, "shared", "b", "job-2");
    let is_record = |request: &Request| request.who == "pod-b" && request.is("patch", "configmaps");
    world.server.state().faults.push(Fault::new(is_record, 0, usize::MAX, Effect::Status(500)));
    let pod = world.start("pod-b", "job-2");
    world.pass(1).await;
    world.server.state().faults.clear();
    pod.stop.send_replace(true);
    world.ends(pod).await;
    assert_eq!(world.run("pod-c", "job-2").await.code, ExitCode::Success);
    assert_eq!(restarted(&world), each(&["gpu-1"]));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn hook_waits_for_config_map_of_the_values() {
    let mut world = stand_alone(2);
    world.run("pod-a", "job-1").await;
    world.settings.device_plugin.digests = Some(digests(&[("default", "b"), ("shared", "a")]));
    world.settings.digest = "ahead".into();
    world.install(&world.settings, "job-2");
    let pod = world.start("pod-b", "job-2");
    world.pass(60).await;
    assert_eq!(restarted(&world), each(&[]));
    configure(&mut world, "default", "b", "job-x");
    world.install(&world.settings, "job-2");
    assert_eq!(world.ends(pod).await.code, ExitCode::Success);
    assert_eq!(restarted(&world), each(&["gpu-0"]));

    let mut world = stand_alone(1);
    world.settings.device_plugin.digests = Some(digests(&[("default", "never")]));
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Precondition, "{}", ended.message);
    assert_eq!(named(&ended), ["*:ConfigNotApplied"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_crash_at_any_write_restarts_nothing_twice() {
    let changed = async || {
        let mut world = stand_alone(2);
        world.run("pod-0", "job-1").await;
        configure(&mut world, "default", "b", "job-2");
        world
    };
    let undisturbed = changed().await;
    assert_eq!(undisturbed.run("pod-a", "job-2").await.code, ExitCode::Success);
    let writes = undisturbed.writes("pod-a").len();
    assert!(writes > 8, "{writes}");
    for nth in 0..writes {
        for effect in [Effect::CrashBefore, Effect::CrashAfter] {
            let world = changed().await;
            world.server.state().faults.push(Fault::new(
                |request| request.who == "pod-a" && request.is_write(),
                nth,
                1,
                effect,
            ));
            let mut first = world.start("pod-a", "job-2");
            tokio::select! {
                () = world.server.told.notified() => {}
                _ = &mut first.handle => panic!("write {nth} of {writes} was not reached"),
            }
            first.handle.abort();
            world.pass(1).await;
            let ended = world.run("pod-b", "job-2").await;
            assert_eq!(
                ended.code,
                ExitCode::Success,
                "{effect:?} at write {nth}: {}",
                ended.message
            );
            assert_eq!(restarted(&world), each(&["gpu-0"]), "{effect:?} at write {nth}");
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn every_right_is_used_and_missing_ones_named() {
    let mut world = stand_alone(2);
    configure(&mut world, "default", "b", "job-2");
    let other = Settings {
        release: "other-post".into(),
        record: "other-post-record".into(),
        ..world.settings.clone()
    };
    world.install(&other, "job-x");
    let first = world.start("pod-a", "job-2");
    world.pass(1).await;
    let second = world.start_with(&other, "pod-x", "job-x");
    assert_eq!(world.ends(first).await.code, ExitCode::Success);
    assert_eq!(world.ends(second).await.code, ExitCode::Success);
    // Without a record, the ConfigMap's own time is used, which is that of the last change of any
    // key.
    assert_eq!(restarted(&world), each(&["gpu-0", "gpu-1"]), "two hooks, one restart");
    let used = world.server.state().used.clone();
    let granted: Vec<_> =
        rights(&Settings { tasks: vec![Task::RestartPlugins], ..Settings::default() }).collect();
    for (row, right) in RIGHTS.iter().enumerate().filter(|(_, right)| granted.contains(right)) {
        for verb in right.verbs {
            assert!(used.contains(&(row, verb)), "{verb} {}: {}", right.resource, right.why);
        }
    }
    for right in [
        "list nodes",
        "list configmaps",
        "watch daemonsets",
        "list controllerrevisions",
        "delete pods",
    ] {
        let mut world = stand_alone(1);
        configure(&mut world, "default", "b", "job-2");
        world.server.state().denied.insert(right.to_owned());
        let ended = world.run("pod-a", "job-2").await;
        assert_eq!(ended.code, ExitCode::Rights, "{right}: {}", ended.message);
        assert!(ended.message.contains(right), "{right}: {}", ended.message);
        assert!(world.writes("pod-a").is_empty(), "{right}");
    }
}
