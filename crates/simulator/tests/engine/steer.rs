//! Mode `steer`: nodes that the hook has released to NVIDIA's controller, and that do not come back.

use contract::driver::Driver;
use contract::names;
use contract::proof::Canary;
use contract::record::proof::DriverProof;
use contract::settings::Mode;
use contract::task::Task;
use observed::ObservedPod;
use planner::decide::{Action, Decision};
use planner::drive_upgrade::cause::FailureCause;
use planner::drive_upgrade::record::read;
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;
use planner::spec::driver_identity;

use crate::drive::Driven;
use crate::fleet::{Fleet, NEW, OLD, at, reason_of};

/// Returns two nodes with one slot: the hook has released `gpu-0`, which is in this state of
/// NVIDIA's controller with its new driver, and holds `gpu-1`.
fn released(state: &str) -> Fleet {
    let mut fleet = Driven::new(2).fleet;
    let traits = Driver::Gpu.traits();
    fleet.settings.mode = Mode::Steer;
    fleet.settings.tasks = vec![Task::Settle, Task::Steer, Task::Reroll];
    fleet.settings.upgrade.policy.max_parallel_upgrades = 1;
    fleet.settings.upgrade.policy.max_unavailable = None;
    fleet.policy().upgrade_policy.auto_upgrade = true;
    fleet.node("gpu-1").labels.insert(traits.skip_label.into(), "true".into());
    fleet.node("gpu-1").annotations.insert(traits.hold.into(), "true".into());
    let record = serde_json::json!({
        "version": 1, "state": "lifted", "since": at(-60), "started": at(-60),
        "digest": fleet.settings.digest, "cordoned": true,
    });
    fleet.driver("gpu-0", "new", NEW, -30);
    fleet.driver_pod("gpu-0").containers_ready = true;
    fleet.plugin("gpu-0", -10, NEW);
    let node = fleet.node("gpu-0");
    node.unschedulable = true;
    node.annotations.insert(traits.own_record.into(), record.to_string());
    node.labels.insert(traits.own_state_label.into(), "lifted".into());
    node.labels.insert(names::UPGRADE_STATE_LABEL.into(), state.into());
    fleet
}

/// Has `gpu-0` fail for this cause under a deployment.
fn fail(fleet: &mut Fleet, digest: &str, cause: &str) {
    let traits = Driver::Gpu.traits();
    let node = fleet.node("gpu-0");
    let record = serde_json::json!({
        "version": 1, "state": "upgrade-failed", "since": at(-60), "started": at(-600),
        "digest": digest, "cordoned": node.unschedulable, "attempts": {cause: 2},
        "failure": {"cause": cause, "message": "no"},
    });
    node.annotations.insert(traits.own_record.into(), record.to_string());
    node.labels.insert(traits.own_state_label.into(), "upgrade-failed".into());
}

/// Begins the proof with the canary `gpu-0`. `is_resumed`: a user has ended the halt.
fn choose_canary(fleet: &mut Fleet, is_resumed: bool) {
    let driver = driver_identity(&fleet.observed, Driver::Gpu);
    let canaries = vec!["gpu-0".to_owned()];
    let accepted = if is_resumed { canaries.clone() } else { Vec::new() };
    let proof = DriverProof { canaries, accepted, ..DriverProof::new(driver) };
    fleet.memory.proof = Some(proof.into());
    fleet.settings.upgrade.canary = Some(Canary::default());
    fleet.settings.upgrade.policy.max_parallel_upgrades = 2;
}

/// Has `gpu-0` use the driver of its operating system image: no DaemonSet creates a pod there.
fn loses_driver(fleet: &mut Fleet) {
    let (owner, node) = (Some("driver-ds"), Some("gpu-0"));
    let is_driver = |pod: &ObservedPod| pod.owner.as_deref() == owner;
    fleet.observed.pods.edit().retain(|pod| !is_driver(pod) || pod.node.as_deref() != node);
    let labels = &mut fleet.node("gpu-0").labels;
    labels.insert(names::DEPLOY_DRIVER_LABEL.into(), names::DRIVER_PRE_INSTALLED.into());
}

/// Decides at this second and performs the patches. Returns the decision, and whether `gpu-1` was
/// started.
fn decide(fleet: &mut Fleet, second: i64) -> (Decision, bool) {
    let decision = fleet.decide(second);
    let mut has_started = false;
    for action in &decision.actions {
        let Action::PatchNode(patch) = action else { continue };
        has_started |= patch.node == "gpu-1" && patch.starts;
        fleet.patch(patch);
        fleet.node(&patch.node).version = format!("{}-{second}", patch.node);
    }
    (decision, has_started)
}

fn is_failed(decision: &Decision) -> bool {
    matches!(reason_of(decision, "gpu-0"), Reason::Upgrading(UpgradeReason::Failed { .. }))
}

/// Regression: NVIDIA's controller waits without end for a driver whose image cannot be pulled. The
/// node kept the only slot until the end of the run, and `driverStart` had no effect.
#[test]
fn driver_that_does_not_start_frees_its_slot() {
    let mut fleet = released("pod-restart-required");
    let limit = i64::try_from(fleet.settings.upgrade.start_seconds).expect("short");
    let pod = fleet.driver_pod("gpu-0");
    (pod.ready, pod.containers_ready, pod.ready_since) = (false, false, None);
    let (decision, has_started) = decide(&mut fleet, 0);
    assert!(!is_failed(&decision) && !has_started);
    let (decision, _) = decide(&mut fleet, limit);
    assert!(is_failed(&decision), "{:?}", reason_of(&decision, "gpu-0"));
    let (decision, has_started) = decide(&mut fleet, limit + 1);
    assert!(is_failed(&decision) && has_started, "the slot is free");
    assert!(fleet.node("gpu-0").unschedulable);
}

/// Regression: NVIDIA's controller waits without end for an old driver pod that does not terminate.
/// The node kept the only slot until the end of the run. The new driver was not tried: its proof
/// has not failed.
#[test]
fn old_driver_that_does_not_terminate_frees_its_slot() {
    let mut fleet = released("pod-restart-required");
    let limit = i64::try_from(fleet.settings.upgrade.start_seconds).expect("short");
    fleet.driver("gpu-0", "old", OLD, -5000);
    fleet.driver_pod("gpu-0").deleting = true;
    let (decision, has_started) = decide(&mut fleet, 0);
    assert!(!is_failed(&decision) && !has_started);
    let (decision, _) = decide(&mut fleet, limit);
    let reason = reason_of(&decision, "gpu-0");
    let Reason::Upgrading(UpgradeReason::Failed { cause, .. }) = reason else {
        panic!("{reason:?}");
    };
    assert_eq!(cause, FailureCause::TerminationTimeout);
    let (_, has_started) = decide(&mut fleet, limit + 1);
    assert!(has_started, "the slot is free");
    assert!(fleet.node("gpu-0").unschedulable);
}

/// Regression: the record still claimed a cordon that others had removed. The hook then removed the
/// cordon that a user had set afterwards.
#[test]
fn cordon_that_others_removed_is_not_claimed() {
    let mut fleet = released("pod-restart-required");
    let ready = |fleet: &mut Fleet, is_ready: bool| {
        let pod = fleet.driver_pod("gpu-0");
        (pod.ready, pod.containers_ready) = (is_ready, is_ready);
    };
    let claims = |fleet: &mut Fleet| {
        let found = read(fleet.node("gpu-0"), Driver::Gpu.traits());
        found.record().map(|record| record.cordoned)
    };
    ready(&mut fleet, false);
    for second in [0, 20, 40] {
        fleet.node("gpu-0").unschedulable = false;
        let (_, _) = decide(&mut fleet, second);
    }
    assert_eq!(claims(&mut fleet), Some(false));
    fleet.node("gpu-0").unschedulable = true;
    ready(&mut fleet, true);
    fleet.state("gpu-0", "upgrade-done");
    for second in [60, 61] {
        let (_, _) = decide(&mut fleet, second);
    }
    assert_eq!(claims(&mut fleet), None, "it works");
    assert!(fleet.node("gpu-0").unschedulable, "a user has cordoned it");
}

/// Regression: the next deployment forgot why the hook had failed the node, whose new driver was
/// starting. As soon as the driver ran, the node was done.
#[test]
fn next_deployment_remembers_contested_node_with_new_driver() {
    let mut fleet = released("pod-restart-required");
    let pod = fleet.driver_pod("gpu-0");
    (pod.ready, pod.containers_ready) = (false, false);
    for second in [0, 20, 40] {
        fleet.node("gpu-0").unschedulable = false;
        let (_, _) = decide(&mut fleet, second);
    }
    fleet.settings.digest = "another".into();
    for second in [60, 61] {
        let (decision, _) = decide(&mut fleet, second);
        assert!(is_failed(&decision), "{:?}", reason_of(&decision, "gpu-0"));
    }
}

/// Regression: the acceptance test of a node had failed. The upgrade to the next driver failed
/// before the driver pod was replaced, and the hook uncordoned the node with its unproven driver.
#[test]
fn unproven_node_stays_cordoned_when_its_next_upgrade_fails_early() {
    let mut fleet = released("upgrade-required");
    fleet.settings.upgrade.policy.max_parallel_upgrades = 2;
    let traits = Driver::Gpu.traits();
    fleet.driver("gpu-0", "old", OLD, -400);
    fleet.driver_pod("gpu-0").containers_ready = true;
    fail(&mut fleet, "earlier", "acceptance-failed");
    let (_, _) = decide(&mut fleet, 0);
    assert_eq!(fleet.node("gpu-0").labels[traits.own_state_label], "lifted");
    fleet.state("gpu-0", "upgrade-failed");
    let (decision, _) = decide(&mut fleet, 10);
    assert!(is_failed(&decision), "{:?}", reason_of(&decision, "gpu-0"));
    assert!(fleet.node("gpu-0").unschedulable);
}

/// Regression: a node that others had uncordoned was tested next to its workloads, which NVIDIA's
/// controller does not evict. The test found no free GPU, and the rollout halted.
#[test]
fn uncordoned_node_is_not_tested_again() {
    for is_cordoned in [true, false] {
        let mut fleet = released("upgrade-done");
        fleet.settings.upgrade.policy.max_parallel_upgrades = 2;
        let traits = Driver::Gpu.traits();
        fail(&mut fleet, "earlier", "acceptance-failed");
        fleet.node("gpu-0").unschedulable = is_cordoned;
        let (decision, _) = decide(&mut fleet, 0);
        assert_eq!(is_failed(&decision), !is_cordoned, "{:?}", reason_of(&decision, "gpu-0"));
        let node = fleet.node("gpu-0");
        let state = if is_cordoned { "lifted" } else { "upgrade-failed" };
        assert_eq!(node.labels[traits.own_state_label], state);
        assert_eq!(node.unschedulable, is_cordoned);
    }
}

/// Regression: the next decision awaited the validator again, and so on until the end of the run.
#[test]
fn failed_validation_stays_failed_until_validator_works() {
    let mut fleet = released("upgrade-done");
    let limit = i64::try_from(fleet.settings.upgrade.validation_seconds).expect("short");
    let ready = |fleet: &mut Fleet, is_ready: bool| {
        let pod = fleet.observed.validators.find_mut("gpu-0", |_| true).expect("its validator");
        pod.containers_ready = is_ready;
    };
    ready(&mut fleet, false);
    assert!(!is_failed(&decide(&mut fleet, 0).0));
    for second in [limit, limit + 1, limit + 5, 2 * limit + 10] {
        let (decision, _) = decide(&mut fleet, second);
        assert!(is_failed(&decision), "{second}: {:?}", reason_of(&decision, "gpu-0"));
    }
    assert!(fleet.node("gpu-0").unschedulable);
    ready(&mut fleet, true);
    let (_, _) = decide(&mut fleet, 2 * limit + 11);
    assert!(!fleet.node("gpu-0").unschedulable);
}

/// A user takes the node as proven although its validator never succeeded.
#[test]
fn accepted_node_is_released_only_despite_the_accepted_failure() {
    let mut fleet = released("upgrade-done");
    let limit = i64::try_from(fleet.settings.upgrade.validation_seconds).expect("short");
    let pod = fleet.observed.validators.find_mut("gpu-0", |_| true).expect("its validator");
    pod.containers_ready = false;
    let (_, _) = decide(&mut fleet, 0);
    let (decision, _) = decide(&mut fleet, limit);
    assert!(is_failed(&decision));
    fleet.accept("gpu-0", limit - 1);
    let (decision, _) = decide(&mut fleet, limit + 1);
    assert!(is_failed(&decision), "the request is about an earlier failure");
    fleet.accept("gpu-0", limit);
    let (decision, _) = decide(&mut fleet, limit + 3);
    assert!(!is_failed(&decision), "{:?}", reason_of(&decision, "gpu-0"));
    assert!(!fleet.node("gpu-0").unschedulable);
}

/// A user cannot take a driver as proven that does not run.
#[test]
fn accepted_node_without_driver_stays_failed() {
    let mut fleet = released("pod-restart-required");
    let limit = i64::try_from(fleet.settings.upgrade.start_seconds).expect("short");
    let pod = fleet.driver_pod("gpu-0");
    (pod.ready, pod.containers_ready, pod.ready_since) = (false, false, None);
    let (_, _) = decide(&mut fleet, 0);
    let (_, _) = decide(&mut fleet, limit);
    fleet.accept("gpu-0", limit);
    let (decision, _) = decide(&mut fleet, limit + 2);
    assert!(is_failed(&decision), "{:?}", reason_of(&decision, "gpu-0"));
    assert!(fleet.node("gpu-0").unschedulable);
}

/// Regression: a node that an earlier deployment had released had an attempt left when it failed, so
/// it did not count, and the bad driver reached further nodes.
#[test]
fn node_of_earlier_deployment_counts_in_failure_budget() {
    let mut fleet = released("upgrade-failed");
    fleet.settings.upgrade.failure_budget = contract::count::Count::Number(0);
    fleet.settings.digest = "another".into();
    let pod = fleet.driver_pod("gpu-0");
    (pod.ready, pod.containers_ready, pod.ready_since) = (false, false, None);
    let (_, _) = decide(&mut fleet, 0);
    for second in [1, 2, 60] {
        let (decision, has_started) = decide(&mut fleet, second);
        assert!(is_failed(&decision) && !has_started, "{second}");
    }
}

/// Regression: a DaemonSet of another kernel disappeared with its last node. The request that had
/// taken the failed node as proven then counted as one about another driver.
#[test]
fn node_stays_accepted_when_a_daemon_set_disappears() {
    let mut fleet = released("upgrade-done");
    let digest = fleet.settings.digest.clone();
    fail(&mut fleet, &digest, "acceptance-failed");
    let mut other = fleet.observed.daemon_sets[0].clone();
    (other.name, other.uid) = ("nvidia-driver-daemonset-6.8".into(), "other-ds".into());
    other.images.insert("nvidia-driver-ctr".into(), "nvcr.io/nvidia/driver:6.8".into());
    fleet.observed.daemon_sets.push(other);
    fleet.accept("gpu-0", -60);
    drop(fleet.observed.daemon_sets.pop());
    let (decision, _) = decide(&mut fleet, 0);
    assert!(!is_failed(&decision), "{:?}", reason_of(&decision, "gpu-0"));
    assert!(!fleet.node("gpu-0").unschedulable);
}

/// Regression: a canary that had failed for another cause than a test stayed one under another
/// digest, and after `retry`. The run waited for it until its time limit.
#[test]
fn failed_canary_holds_up_no_others() {
    for (digest, is_resumed, is_requested) in
        [(Some("earlier"), true, false), (Some("earlier"), false, false), (None, false, true)]
    {
        let mut fleet = released("pod-restart-required");
        let pod = fleet.driver_pod("gpu-0");
        (pod.ready, pod.containers_ready, pod.ready_since) = (false, false, None);
        let current = fleet.settings.digest.clone();
        fail(&mut fleet, digest.unwrap_or(&current), "driver-timeout");
        if is_requested {
            let requested = Driver::Gpu.traits().requested;
            fleet.node("gpu-0").annotations.insert(requested.into(), "true".into());
        }
        choose_canary(&mut fleet, is_resumed);
        let (decision, has_started) = decide(&mut fleet, 0);
        let what = format!("{digest:?} {is_resumed} {is_requested}");
        assert!(is_failed(&decision), "{what}: {:?}", reason_of(&decision, "gpu-0"));
        assert!(has_started, "{what}: {:?}", reason_of(&decision, "gpu-1"));
        let proof = decision.memory.proof.as_ref().expect("the driver is being proven");
        assert_eq!(proof.canaries, ["gpu-1"], "{what}");
    }
}

/// Regression: a failed canary that a user had taken as proven was no longer a canary, and another
/// node had to prove the driver again.
#[test]
fn accepted_canary_proves_the_driver() {
    let mut fleet = released("upgrade-done");
    let digest = fleet.settings.digest.clone();
    fail(&mut fleet, &digest, "acceptance-failed");
    choose_canary(&mut fleet, true);
    fleet.accept("gpu-0", -60);
    let (decision, has_started) = decide(&mut fleet, 0);
    assert!(!has_started && !is_failed(&decision), "{:?}", reason_of(&decision, "gpu-0"));
    let starts = (1..20).map(|second| decide(&mut fleet, second)).find(|(_, starts)| *starts);
    let (decision, _) = starts.expect("the canary is proven");
    let proof = decision.memory.proof.as_ref().expect("the driver is being proven");
    assert_eq!(proof.canaries, ["gpu-0"]);
}

/// Regression: a failed node that no longer gets a driver failed every later run.
#[test]
fn unwanted_failed_node_is_released_after_one_minute() {
    for is_cordoned in [true, false] {
        let mut fleet = released("pod-restart-required");
        fleet.node("gpu-0").unschedulable = is_cordoned;
        fail(&mut fleet, "earlier", "driver-timeout");
        loses_driver(&mut fleet);
        let own_record = Driver::Gpu.traits().own_record;
        for (second, is_released) in [(0, false), (59, false), (60, true)] {
            let (decision, _) = decide(&mut fleet, second);
            let reason = reason_of(&decision, "gpu-0");
            assert_eq!(reason, Reason::Upgrading(UpgradeReason::Unwanted), "{second}");
            let node = fleet.node("gpu-0");
            assert_eq!(!node.annotations.contains_key(own_record), is_released, "{second}");
            assert_eq!(node.unschedulable, is_cordoned && !is_released, "{second}");
        }
    }
}

/// Regression: NVIDIA's controller never continues with a node that no longer gets a driver. The
/// node kept the only slot until the end of the run.
#[test]
fn unwanted_node_frees_its_slot() {
    let mut fleet = released("pod-restart-required");
    loses_driver(&mut fleet);
    let traits = Driver::Gpu.traits();
    let node = fleet.node("gpu-0");
    node.unschedulable = false;
    drop(node.annotations.remove(traits.own_record));
    drop(node.labels.remove(traits.own_state_label));
    let (_, has_started) = decide(&mut fleet, 0);
    assert!(has_started);
}
