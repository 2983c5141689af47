//! Task `settle` for the Network Operator's driver.

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::task::{RIGHTS, Task, rights};
use serde_json::{Value, json};

use crate::fake::store::text;
use crate::settings::settings;
use crate::world::{World, at, named};

const NETWORK: &str = "nvidia-network-operator";
const MOFED: &str = "mofed-ubuntu22.04-5b8c-ds";
const OLD: &str = "24.10-0.7.0.0-0";
const NEW: &str = "25.01-0.6.0.0-0";

fn image(version: &str) -> String {
    format!("nvcr.io/nvidia/mellanox/doca-driver:{version}-ubuntu22.04-amd64")
}

/// Returns settled nodes `nic-0` … with their driver.
fn network(nodes: usize) -> World {
    let mut settings = settings();
    settings.tasks = vec![Task::Settle];
    settings.driver = Driver::Ofed;
    settings.component = "network-operator".into();
    settings.operator_namespace = NETWORK.into();
    settings.expected.nic_cluster_policy = true;
    let world = World::empty(settings);
    world.put("deployments", NETWORK, "network-operator", deployment());
    world.put("nicclusterpolicies", "", names::NIC_CLUSTER_POLICY, policy());
    world.put("daemonsets", NETWORK, MOFED, daemon_set(nodes));
    revision(&world, 1, "old");
    for index in 0..nodes {
        let labels = json!({names::NIC_PRESENT_LABEL: "true"});
        let name = format!("nic-{index}");
        world.put("nodes", "", &name, node(&name, &labels));
        driver(&world, &name, "old", OLD);
    }
    world
}

fn deployment() -> Value {
    json!({
        "kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "network-operator", "generation": 1},
        "spec": {"replicas": 1, "selector": {}, "template": {}},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
    })
}

fn policy() -> Value {
    json!({
        "kind": "NicClusterPolicy", "apiVersion": "mellanox.com/v1alpha1",
        "metadata": {"name": names::NIC_CLUSTER_POLICY, "uid": "policy", "generation": 1},
        "spec": {"ofedDriver": {
            "repository": "nvcr.io/nvidia/mellanox", "image": "doca-driver", "version": OLD,
            "upgradePolicy": {"autoUpgrade": true, "maxParallelUpgrades": 1},
        }},
        // The status that the operator writes for a policy without nodes, with a state that it no
        // longer has.
        "status": {"state": "notReady", "appliedStates": [{"name": "state-pod-security-policy", "state": "error"}]},
    })
}

fn daemon_set(nodes: usize) -> Value {
    json!({
        "kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": MOFED, "uid": "mofed", "generation": 1},
        "spec": {
            "selector": {}, "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": {names::OFED_DRIVER_LABEL: "", "ds-owner": "NicClusterPolicy"}}, "spec": {
                "nodeSelector": {names::NIC_PRESENT_LABEL: "true"},
                "containers": [{"name": "mofed-container", "image": image(OLD)}],
            }},
        },
        "status": {
            "observedGeneration": 1, "desiredNumberScheduled": nodes, "currentNumberScheduled": nodes, "numberMisscheduled": 0,
            "numberReady": nodes,
        },
    })
}

fn revision(world: &World, number: i64, hash: &str) {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": MOFED, "uid": "mofed", "controller": true}]);
    let name = format!("{MOFED}-{hash}");
    let metadata = json!({"name": name, "labels": {"controller-revision-hash": hash}, "ownerReferences": owner});
    let revision = json!({"kind": "ControllerRevision", "apiVersion": "apps/v1", "revision": number, "metadata": metadata});
    world.put("controllerrevisions", NETWORK, &name, revision);
}

fn node(name: &str, labels: &Value) -> Value {
    let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": text(at(-9000))}]);
    json!({
        "kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "creationTimestamp": text(at(-9000)), "labels": labels},
        "spec": {}, "status": {"conditions": ready},
    })
}

/// Replaces the driver pod of a node by one that is ready now.
fn driver(world: &World, node: &str, hash: &str, version: &str) {
    let now = text(world.clock.now());
    world.remove("pods", NETWORK, &format!("mofed-{node}-old"));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": MOFED, "uid": "mofed", "controller": true}]);
    let name = format!("mofed-{node}-{hash}");
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "ownerReferences": owner, "labels": {names::OFED_DRIVER_LABEL: "", "controller-revision-hash": hash},
        },
        "spec": {"nodeName": node, "containers": [{"name": "mofed-container", "image": image(version)}]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
            "containerStatuses": [{
                "name": "mofed-container", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": now}},
            }],
        },
    });
    world.put("pods", NETWORK, &name, pod);
}

fn state(world: &World, node: &str, state: &str) {
    world.edit("nodes", "", node, |object| {
        object["metadata"]["labels"][names::OFED_UPGRADE_STATE_LABEL] = json!(state);
    });
}

/// Sets the new version in the policy. The operator renders its template.
fn bump(world: &World) {
    world.edit("nicclusterpolicies", "", names::NIC_CLUSTER_POLICY, |policy| {
        policy["spec"]["ofedDriver"]["version"] = json!(NEW);
    });
    world.edit("daemonsets", NETWORK, MOFED, |daemon_set| {
        daemon_set["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image(NEW));
    });
    revision(world, 2, "new");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn hook_waits_for_nodes_and_rerun_writes_nothing() {
    let mut world = network(2);
    world.settings.expected.ofed_driver_version = Some(NEW.into());
    let pod = world.start("pod-a", "job-1");
    world.pass(20).await;
    bump(&world);
    for name in ["nic-0", "nic-1"] {
        for step in
            ["upgrade-required", "cordon-required", "drain-required", "pod-restart-required"]
        {
            state(&world, name, step);
            world.pass(20).await;
            assert!(!pod.handle.is_finished(), "{name} {step}");
        }
        driver(&world, name, "new", NEW);
        state(&world, name, "uncordon-required");
        world.pass(30).await;
        assert!(!pod.handle.is_finished(), "{name}");
        state(&world, name, "upgrade-done");
    }
    let ended = world.ends(pod).await;
    assert_eq!((ended.code, named(&ended)), (ExitCode::Success, vec!["*:Settled".to_owned()]));

    world.install(&world.settings, "job-2");
    let again = world.run("pod-b", "job-2").await;
    assert_eq!(named(&again), ["*:NothingToDo"]);
    assert!(world.writes("pod-b").is_empty());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_failed_node_fails_the_run_by_name() {
    let world = network(2);
    bump(&world);
    driver(&world, "nic-0", "new", NEW);
    state(&world, "nic-0", "upgrade-done");
    state(&world, "nic-1", "upgrade-failed");
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::NodesFailed);
    assert_eq!(named(&ended), ["nic-1:UpgradeFailed"]);
    assert!(world.second() < 700, "{} s", world.second());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn missing_nic_nodes_or_driver_settle_at_once() {
    let world = network(0);
    world.put(
        "nodes",
        "",
        "cpu-0",
        node("cpu-0", &json!({"feature.node.kubernetes.io/cpu-model.family": "6"})),
    );
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(named(&ended), ["*:Settled", "*:NoNodesWithDevice"]);

    let world = network(1);
    world.edit("nicclusterpolicies", "", names::NIC_CLUSTER_POLICY, |policy| {
        policy["spec"] = json!({"nvIpam": {}});
    });
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(named(&ended), ["*:Settled", "*:OfedOfHost"]);
    assert!(world.second() < 60, "{} s", world.second());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn every_right_is_used_without_gpu_operators_ones() {
    let world = network(1);
    let other = contract::settings::Settings {
        release: "other-post".into(),
        record: "other-post-record".into(),
        ..world.settings.clone()
    };
    world.install(&other, "job-x");
    let first = world.start("pod-a", "job-1");
    let second = world.start_with(&other, "pod-x", "job-x");
    bump(&world);
    state(&world, "nic-0", "upgrade-failed");
    assert_eq!(world.ends(first).await.code, ExitCode::NodesFailed);
    assert_eq!(world.ends(second).await.code, ExitCode::NodesFailed);
    let used = world.server.state().used.clone();
    let granted: Vec<_> = rights(&world.settings).collect();
    assert!(granted.iter().all(|right| right.group != "nvidia.com"));
    for (row, right) in RIGHTS.iter().enumerate().filter(|(_, right)| granted.contains(right)) {
        for verb in right.verbs {
            assert!(used.contains(&(row, verb)), "{verb} {}: {}", right.resource, right.why);
        }
    }
}
