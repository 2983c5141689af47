//! The steps of the proof: what counts as proven, and which nodes count.

use contract::acceptance::{AcceptanceGpus, AcceptanceNodes, AcceptanceTest, AcceptanceTime};
use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::proof::Canary;
use contract::record::cohort::Cohort;
use contract::record::proof::DriverProof;
use contract::task::Task;
use planner::decide::{Action, Decision};
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;
use planner::spec::driver_identity;
use simulator::simulate;

use crate::drive::Driven;
use crate::fleet::{Fleet, NEW, at, reason_of};
use crate::script::read;

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

/// Gives a node a record of this deployment in a state. `cause`: why its first attempt failed.
fn give_record(fleet: &mut Fleet, node: &str, state: &str, cause: Option<&str>) {
    let traits = Driver::Gpu.traits();
    let mut record = serde_json::json!({
        "version": 1, "state": state, "since": at(-5), "started": at(-10),
        "digest": fleet.settings.digest, "cordoned": true,
    });
    if let Some(cause) = cause {
        record["attempts"] = serde_json::json!({cause: 1});
        record["failure"] = serde_json::json!({"cause": cause, "message": "no"});
    }
    let node = fleet.node(node);
    node.unschedulable = true;
    node.annotations.insert(traits.own_record.into(), record.to_string());
    node.labels.insert(traits.own_state_label.into(), state.into());
}

/// Returns an acceptance test with the new driver.
fn acceptance_test(nodes: AcceptanceNodes) -> AcceptanceTest {
    AcceptanceTest {
        name: "smi".to_owned(),
        when: vec![AcceptanceTime::After],
        nodes,
        timeout_seconds: 60,
        gpus: AcceptanceGpus::All,
        log_lines: 0,
    }
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
    fleet.settings.upgrade.acceptance = vec![acceptance_test(AcceptanceNodes::All)];
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
    give_record(&mut fleet, "gpu-0", "pod-restart-required", None);
    let proof = fleet.memory.proof.take().expect("it was set");
    let accepted = vec!["gpu-0".to_owned(), "gpu-9".to_owned()];
    fleet.memory.proof = Some(DriverProof { accepted, ..(*proof).clone() }.into());
    let decision = fleet.decide(0);
    let proof = decision.memory.proof.as_ref().expect("the driver is being proven");
    assert_eq!(proof.accepted, ["gpu-9"]);
}

/// Regression: while the last node waited for its retry, no node had its old driver or was in
/// progress, and the proof was forgotten. The node then became a canary of a new proof.
#[test]
fn proof_stays_while_the_last_node_waits_for_its_retry() {
    let mut fleet = fleet(2);
    give_new_driver(&mut fleet, "gpu-0");
    give_new_driver(&mut fleet, "gpu-1");
    fleet.plugin("gpu-0", -30, NEW);
    let pod = fleet.driver_pod("gpu-1");
    (pod.ready, pod.containers_ready, pod.ready_since) = (false, false, None);
    give_record(&mut fleet, "gpu-1", "upgrade-failed", Some("driver-timeout"));
    choose_canary(&mut fleet, "gpu-0");
    let proof = fleet.memory.proof.take().expect("it was set");
    let ended_steps = vec!["1 canaries".to_owned()];
    fleet.memory.proof = Some(DriverProof { ended_steps, ..(*proof).clone() }.into());
    for (second, is_retried) in [(0, false), (60, true)] {
        let decision = fleet.decide(second);
        assert_eq!(!started(&decision).is_empty(), is_retried, "{second}: {:?}", decision.waits);
        let proof = decision.memory.proof.as_ref().expect("the driver is being proven");
        assert_eq!(proof.canaries, ["gpu-0"], "{second}");
        assert_eq!(proof.ended_steps, ["1 canaries"], "{second}");
    }
}

/// Regression: a node in progress that was released in the decision that chose it as a canary
/// counted as tested, although it had not run the tests of canaries.
#[test]
fn node_that_is_being_released_becomes_no_canary() {
    let mut fleet = fleet(2);
    fleet.settings.upgrade.acceptance = vec![acceptance_test(AcceptanceNodes::Canaries)];
    for node in ["gpu-0", "gpu-1"] {
        fleet.observed.workloads.pods.insert(node.to_owned(), Vec::new());
    }
    give_new_driver(&mut fleet, "gpu-0");
    fleet.plugin("gpu-0", -30, NEW);
    give_record(&mut fleet, "gpu-0", "validation-required", None);
    let decision = fleet.decide(0);
    assert_eq!(reason_of(&decision, "gpu-0"), Reason::Upgrading(UpgradeReason::Releasing));
    assert_eq!(started(&decision), ["gpu-1"]);
    let proof = decision.memory.proof.as_ref().expect("the driver is being proven");
    assert_eq!(proof.canaries, ["gpu-1"]);
    assert!(proof.tested.is_empty(), "{:?}", proof.tested);
}

/// Regression: nodes that joined with the new driver counted as reached, and a step of the ramp
/// started fewer nodes than its share, or ended without one.
#[test]
fn nodes_that_join_do_not_count_in_the_ramp() {
    let mut fleet = fleet(4);
    fleet.settings.upgrade.canary = None;
    fleet.settings.upgrade.ramp = vec!["50%".parse().expect("a share")];
    let uids = fleet.observed.nodes.values().map(|node| node.uid.as_str());
    let cohort = Cohort::from_uids(uids);
    fleet.memory.cohort = Some(cohort.into());
    for node in ["gpu-4", "gpu-5", "gpu-6", "gpu-7"] {
        fleet.join(node, -60);
        give_new_driver(&mut fleet, node);
        fleet.toolkit(node, -40);
        fleet.plugin(node, -30, NEW);
    }
    let decision = fleet.decide(0);
    assert_eq!(started(&decision).len(), 2, "50% of the four nodes of the run");
}

/// Regression: nodes in progress get the driver of the next deployment at once. Only one of them
/// was its canary, and all other nodes were started when this one was proven.
#[test]
fn nodes_in_progress_are_canaries_of_the_next_driver() {
    let mut fleet = fleet(4);
    for node in ["gpu-0", "gpu-1"] {
        give_record(&mut fleet, node, "pod-restart-required", None);
    }
    let (canaries, ended_steps) = (vec!["gpu-3".to_owned()], vec!["1 canaries".to_owned()]);
    let earlier = DriverProof { canaries, ended_steps, ..DriverProof::new("another".to_owned()) };
    fleet.memory.proof = Some(earlier.into());
    let decision = fleet.decide(0);
    assert!(started(&decision).is_empty(), "{:?}", decision.actions);
    let proof = decision.memory.proof.as_ref().expect("the driver is being proven");
    assert_eq!(proof.canaries, ["gpu-0", "gpu-1"]);
}

/// Regression: when a node was deferred, the canary of another model was chosen only after something
/// else had changed. Canaries are chosen before the outcomes of the same decision are known.
#[test]
fn canary_is_chosen_when_node_of_other_model_is_deferred() {
    let mut setup = read(
        "nodes 3\ndriver 60s\n\
         label gpu-0 nvidia.com/gpu.product NVIDIA-L4\n\
         label gpu-1 nvidia.com/gpu.product Tesla-T4\n\
         label gpu-2 nvidia.com/gpu.product Tesla-T4\n\
         upgrade {policy: {maxParallelUpgrades: 3, maxUnavailable: 100%}, canary: {nodes: 1, per: [nvidia.com/gpu.product]}}\n\
         at 1s not-ready gpu-0 for 20h\n",
    );
    setup.settings.tolerate_not_ready = Count::Number(1);
    let report = simulate(&setup);
    assert_eq!(report.violations, [""; 0]);
    let verdict = report.verdict.expect("ended");
    assert_eq!(verdict.code, ExitCode::Success, "{}", verdict.message);
}
