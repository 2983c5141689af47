//! Nodes that cannot be upgraded, that other controllers work on, or that have leftovers of a run.

use std::sync::Arc;

use contract::driver::Driver;
use contract::names;
use contract::proof::Canary;
use contract::settings::Mode;
use observed::OptionalApi;
use observed::workload::NodeMaintenance;

use super::scene::PreflightScene;

fn found(change: impl FnOnce(&mut PreflightScene)) -> Vec<String> {
    let mut scene = PreflightScene::new(4);
    change(&mut scene);
    scene.texts()
}

fn none() -> Vec<String> {
    Vec::new()
}

fn label(scene: &mut PreflightScene, node: &str, key: &str, value: &str) {
    scene.node(node).labels.insert(key.into(), value.into());
}

#[test]
fn gpu_operator_715_fleet_without_ready_node_is_not_touched() {
    let all = |scene: &mut PreflightScene| {
        scene.observed.nodes.values_mut().for_each(|node| node.ready = false);
    };
    assert_eq!(
        found(all),
        ["no-ready-nodes: none of the 4 GPU nodes is ready: gpu-0, gpu-1, gpu-2, gpu-3"]
    );
    assert_eq!(
        found(|scene| scene.node("gpu-2").ready = false),
        ["not-ready-nodes: 1 of 4 GPU nodes is not ready: gpu-2"]
    );
    assert_eq!(
        found(|scene| scene.observed.nodes.clear()),
        none(),
        "a first install before any node has joined"
    );
}

#[test]
fn kubernetes_upgrade_in_progress_is_found() {
    let newer = |scene: &mut PreflightScene| scene.node("gpu-1").kubelet = "v1.34.0".into();
    assert_eq!(
        found(newer),
        [
            "kubernetes-upgrade: kubelets have different versions (v1.33.1 on 3 nodes, v1.34.0 on 1 node): an upgrade of Kubernetes may be in progress"
        ]
    );
    let cordoned = |scene: &mut PreflightScene| {
        newer(scene);
        scene.node("gpu-2").unschedulable = true;
    };
    let texts = found(cordoned);
    assert!(
        texts[0].ends_with("an upgrade of Kubernetes is probably in progress, with gpu-2 cordoned"),
        "{texts:?}"
    );
    let mut half = PreflightScene::new(2);
    half.node("gpu-1").kubelet = "v1.34.0".into();
    assert_eq!(
        half.findings()[0].nodes,
        ["gpu-1"],
        "of two that are equally common the newer one is the exception"
    );
    assert_eq!(
        found(|scene| scene.node("gpu-1").kubelet = String::new()),
        none(),
        "`unknown` is not a version"
    );
}

#[test]
fn gpu_operator_2820_nodes_that_others_cordoned_are_named() {
    let cordon = |scene: &mut PreflightScene| scene.node("gpu-0").unschedulable = true;
    let text = "foreign-cordons: foreign cordon on 1 node: gpu-0";
    assert_eq!(found(cordon), [text]);
    let with_state = |driver: Driver, state: &'static str| {
        move |scene: &mut PreflightScene| {
            cordon(scene);
            label(scene, "gpu-0", driver.traits().state_label, state);
        }
    };
    for driver in Driver::ALL.into_iter().filter(|driver| driver.has_operator()) {
        for state in ["upgrade-required", "upgrade-done", ""] {
            assert_eq!(
                found(with_state(driver, state)),
                [text],
                "{state}: NVIDIA's controller has not started, or has ended"
            );
        }
        for state in ["cordon-required", "drain-required", "pod-restart-required", "upgrade-failed"]
        {
            assert_eq!(
                found(with_state(driver, state)),
                none(),
                "{state}: NVIDIA's controller cordoned the node"
            );
        }
    }
    let before = |scene: &mut PreflightScene| {
        with_state(Driver::Gpu, "drain-required")(scene);
        scene
            .node("gpu-0")
            .annotations
            .insert(Driver::Gpu.traits().initially_unschedulable.into(), "true".into());
    };
    assert_eq!(found(before), [text], "it was cordoned before NVIDIA's controller started");
}

#[test]
fn our_own_cordon_is_not_called_foreign() {
    let record = |cordoned: bool| {
        move |scene: &mut PreflightScene| {
            let text = format!(
                r#"{{"version":1,"state":"drain-required","since":"2023-11-14T22:13:20Z","started":"2023-11-14T22:13:20Z","digest":"d","cordoned":{cordoned}}}"#
            );
            scene.node("gpu-0").unschedulable = true;
            scene.node("gpu-0").annotations.insert(Driver::Gpu.traits().own_record.into(), text);
        }
    };
    let left = "leftovers: labels or annotations of gpu-rollout on 1 node: gpu-0 (gpu-rollout.dev/gpu-driver-upgrade)";
    assert_eq!(found(record(true)), [left]);
    assert_eq!(
        found(record(false)),
        ["foreign-cordons: foreign cordon on 1 node: gpu-0", left],
        "we found it cordoned"
    );
}

#[test]
fn what_an_earlier_run_has_left_is_named() {
    let labels = |scene: &mut PreflightScene| {
        label(scene, "gpu-0", Driver::Gpu.traits().own_state_label, "drain-required");
        scene.node("gpu-1").annotations.insert(Driver::Gpu.traits().hold.into(), "true".into());
        label(scene, "gpu-2", "gpu-rollout.development/x", "somebody else's");
    };
    assert_eq!(
        found(labels),
        [
            "leftovers: labels or annotations of gpu-rollout on 2 nodes: gpu-0 (gpu-rollout.dev/gpu-driver-upgrade-state), gpu-1 (gpu-rollout.dev/gpu-driver-hold)"
        ]
    );
    let without_device = |scene: &mut PreflightScene| {
        label(scene, "gpu-0", Driver::Gpu.traits().own_state_label, "drain-required");
        scene.node("gpu-0").labels.remove(names::GPU_PRESENT_LABEL);
    };
    assert_eq!(found(without_device).len(), 1, "a node that lost its device keeps them too");
}

#[test]
fn libs_76_maintenance_that_others_asked_for_is_named() {
    let maintenance = |node: &str, requestor: &str, state: Option<&str>| NodeMaintenance {
        name: format!("m-{node}"),
        node: node.into(),
        requestor: requestor.into(),
        state: state.map(str::to_owned),
        ..NodeMaintenance::default()
    };
    let change = |scene: &mut PreflightScene| {
        scene.observed.workloads.maintenances = OptionalApi::Served(vec![
            maintenance("gpu-0", "nic.configuration.operator", Some("Draining")),
            maintenance("gpu-1", "admin", None),
            maintenance("gpu-2", "gpu-rollout.dev", Some("Ready")),
            maintenance("cpu-0", "admin", Some("Ready")),
        ]);
    };
    assert_eq!(
        found(change),
        [
            "node-maintenance: 2 NodeMaintenances: gpu-0 (requested by `nic.configuration.operator`, Draining), gpu-1 (requested by `admin`, not started)"
        ]
    );
}

#[test]
fn gpu_operator_316_operands_still_paused_after_upgrade_are_named() {
    let pause = |scene: &mut PreflightScene| {
        label(
            scene,
            "gpu-0",
            "nvidia.com/gpu.deploy.container-toolkit",
            "paused-for-driver-upgrade",
        );
        label(scene, "gpu-0", "nvidia.com/gpu.deploy.dcgm", "x_paused-for-driver-upgrade");
    };
    assert_eq!(
        found(pause),
        [
            "paused-operands: operands of 1 node are paused for an upgrade that has ended: gpu-0 (nvidia.com/gpu.deploy.container-toolkit, nvidia.com/gpu.deploy.dcgm)"
        ]
    );
    let starting = |scene: &mut PreflightScene| {
        pause(scene);
        Arc::make_mut(&mut scene.observed.pods.edit()[0]).ready = false;
    };
    assert_eq!(found(starting), none(), "the driver manager is running");
    let restarting = |scene: &mut PreflightScene| {
        pause(scene);
        scene.observed.pods.edit().remove(0);
        label(scene, "gpu-0", names::UPGRADE_STATE_LABEL, "pod-restart-required");
    };
    assert_eq!(found(restarting), none(), "its next pod is on its way");
    let failed = |scene: &mut PreflightScene| {
        restarting(scene);
        label(scene, "gpu-0", names::UPGRADE_STATE_LABEL, "upgrade-failed");
    };
    assert_eq!(found(failed).len(), 1);
}

#[test]
fn canary_label_that_no_node_has_is_found() {
    let per = |mode: Mode, labels: &'static [&'static str]| {
        move |scene: &mut PreflightScene| {
            scene.settings.mode = mode;
            let per = labels.iter().map(|label| (*label).to_owned()).collect();
            scene.settings.upgrade.canary = Some(Canary { per, ..Canary::default() });
            label(scene, "gpu-1", "zone", "a");
        }
    };
    let of_canary = |mode: Mode, labels: &'static [&'static str]| {
        let all = found(per(mode, labels)).into_iter();
        all.filter(|text| text.starts_with("canary-labels: ")).collect::<Vec<_>>()
    };
    assert_eq!(
        of_canary(Mode::Steer, &["zone", "rack"]),
        ["canary-labels: no GPU node has the label of canary.per: rack"]
    );
    assert_eq!(
        of_canary(Mode::Drive, &["row", "rack"]),
        ["canary-labels: no GPU node has the labels of canary.per: row, rack"]
    );
    assert_eq!(of_canary(Mode::Steer, &["zone"]), none());
    assert_eq!(of_canary(Mode::Assist, &["rack"]), none(), "the hook chooses no canaries");
}
