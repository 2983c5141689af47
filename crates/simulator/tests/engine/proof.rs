//! The steps of the proof: what counts as proven, and which nodes count.

use contract::acceptance::{AcceptanceGpus, AcceptanceNodes, AcceptanceTest, AcceptanceTime};
use contract::driver::Driver;
use contract::names;
use contract::proof::Canary;
use contract::record::proof::DriverProof;
use contract::task::Task;
use planner::decide::{Action, Decision};
use planner::spec::driver_identity;

use crate::drive::Driven;
use crate::fleet::{Fleet, NEW, at};

/// Returns a fleet that may start all nodes at once, after one canary.
fn fleet(nodes: usize) -> Fleet {
    let mut fleet = Driven::new(nodes).fleet;
    let upgrade = &mut fleet.settings.upgrade;
    upgrade.policy.max_parallel_upgrades = 0;
    upgrade.policy.max_unavailable = None;
    upgrade.canary = Some(Canary::default());
    fleet
}

/// Gives a node the new driver, without a trace of the hook.
fn give_new_driver(fleet: &mut Fleet, node: &str) {
    fleet.driver(node, "new", NEW, -50);
    fleet.driver_pod(node).containers_ready = true;
}

/// Begins the proof with a canary.
fn choose_canary(fleet: &mut Fleet, node: &str) {
    let driver = driver_identity(&fleet.observed, Driver::Gpu);
    let canaries = vec![node.to_owned()];
    fleet.memory.proof = Some(DriverProof { canaries, ..DriverProof::new(driver) }.into());
}

/// Returns the nodes that a decision starts.
fn started(decision: &Decision) -> Vec<&str> {
    let is_start = |action: &&Action| matches!(action, Action::PatchNode(patch) if patch.starts);
    let mut nodes: Vec<&str> = decision.actions.iter().filter(is_start).map(Action::node).collect();
    nodes.sort_unstable();
    nodes
}

/// Regression: an abort, or NVIDIA's controller, had given the canary its driver without its tests.
/// It counted as proven, and all other nodes were started.
#[test]
fn canary_without_its_tests_is_not_proven() {
    let mut fleet = fleet(4);
    fleet.settings.upgrade.acceptance = vec![AcceptanceTest {
        name: "smi".to_owned(),
        when: vec![AcceptanceTime::After],
        nodes: AcceptanceNodes::All,
        timeout_seconds: 60,
        gpus: AcceptanceGpus::All,
        log_lines: 0,
    }];
    give_new_driver(&mut fleet, "gpu-0");
    fleet.plugin("gpu-0", -30, NEW);
    choose_canary(&mut fleet, "gpu-0");
    drop(fleet.decide(0));
    let decision = fleet.decide(40);
    assert_eq!(started(&decision), ["gpu-1"]);
    let proof = decision.memory.proof.as_ref().expect("the driver is being proven");
    assert_eq!(proof.canaries, ["gpu-1"]);
}

/// Regression: with `dra.reroll: off`, plugins keep serving the old driver, and no canary was ever
/// proven: the run waited until its time limit.
#[test]
fn canary_with_tolerated_plugin_is_proven() {
    let mut fleet = fleet(3);
    fleet.settings.tasks.retain(|task| *task != Task::Reroll);
    give_new_driver(&mut fleet, "gpu-0");
    choose_canary(&mut fleet, "gpu-0");
    let decision = fleet.decide(0);
    assert_eq!(started(&decision), ["gpu-1", "gpu-2"], "{:?}", decision.waits);
}

/// Regression: nodes with a driver of their own counted in the ramp, as if they had been upgraded:
/// its first steps ended at once.
#[test]
fn nodes_without_a_driver_pod_do_not_count_in_the_ramp() {
    let mut fleet = fleet(4);
    fleet.settings.upgrade.canary = None;
    fleet.settings.upgrade.ramp = vec!["50%".parse().expect("a share")];
    for node in ["gpu-2", "gpu-3"] {
        fleet.observed.pods.edit().retain(|pod| pod.node.as_deref() != Some(node));
        let labels = &mut fleet.node(node).labels;
        labels.insert(names::DEPLOY_DRIVER_LABEL.into(), "pre-installed".into());
    }
    let decision = fleet.decide(0);
    assert_eq!(started(&decision).len(), 1, "50% of the two nodes that get the driver");
}

/// Regression: a user retried the node past whose failure the rollout had been resumed. When it
/// failed again, the rollout did not halt.
#[test]
fn node_that_is_started_again_is_no_longer_accepted() {
    let mut fleet = fleet(2);
    choose_canary(&mut fleet, "gpu-0");
    let traits = Driver::Gpu.traits();
    let record = serde_json::json!({
        "version": 1, "state": "pod-restart-required", "since": at(-5), "started": at(-10),
        "digest": fleet.settings.digest, "cordoned": true,
    });
    let node = fleet.node("gpu-0");
    node.unschedulable = true;
    node.annotations.insert(traits.own_record.into(), record.to_string());
    node.labels.insert(traits.own_state_label.into(), "pod-restart-required".into());
    let proof = fleet.memory.proof.take().expect("it was set");
    let accepted = vec!["gpu-0".to_owned(), "gpu-9".to_owned()];
    fleet.memory.proof = Some(DriverProof { accepted, ..(*proof).clone() }.into());
    let decision = fleet.decide(0);
    let proof = decision.memory.proof.as_ref().expect("the driver is being proven");
    assert_eq!(proof.accepted, ["gpu-9"]);
}
