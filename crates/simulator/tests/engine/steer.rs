//! Mode `steer`: nodes that the hook has released to NVIDIA's controller, and that do not come back.

use contract::driver::Driver;
use contract::names;
use contract::settings::Mode;
use contract::task::Task;
use planner::decide::{Action, Decision};
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;

use crate::drive::Driven;
use crate::fleet::{Fleet, NEW, at, reason_of};

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
    fleet.memory.accepted.insert(("gpu-0".to_owned(), at(limit - 1)));
    let (decision, _) = decide(&mut fleet, limit + 1);
    assert!(is_failed(&decision), "the request is about an earlier failure");
    fleet.memory.accepted.insert(("gpu-0".to_owned(), at(limit)));
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
    fleet.memory.accepted.insert(("gpu-0".to_owned(), at(limit)));
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
