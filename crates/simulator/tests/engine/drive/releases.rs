//! Which nodes are released before their upgrade is complete.

use contract::driver::Driver;
use contract::names;
use contract::user_request::AcceptedNode;
use planner::decide::{Action, Decision};
use planner::drive_upgrade::record::belongs_to_other_hook;

use super::{Driven, about_to_evict};
use crate::fleet::{Fleet, NEW, at, waits};

/// Whether the decision uncordons a node.
fn uncordons(decision: &Decision) -> bool {
    decision.actions.iter().any(
        |action| matches!(action, Action::PatchNode(patch) if patch.unschedulable == Some(false)),
    )
}

/// A node that failed under an earlier digest keeps its cordon and its broken driver. A new run
/// starts it and has no time left.
#[test]
fn deadline_releases_nodes_only_with_running_driver() {
    for broken in [false, true] {
        let mut driven = about_to_evict();
        driven.fleet.driver_pod("gpu-0").containers_ready = !broken;
        driven.fleet.memory.deadline = at(100);
        assert_eq!(uncordons(&driven.fleet.decide(100)), !broken, "broken: {broken}");
    }
}

/// Regression: the whole fleet waited at the deadline, and the hook did not check the nodes.
#[test]
fn deadline_releases_nodes_while_operator_is_awaited() {
    let mut driven = about_to_evict();
    driven.fleet.policy().driver.version = Some("999.99".into());
    driven.fleet.memory.deadline = at(100);
    assert!(!uncordons(&driven.fleet.decide(50)));
    let decision = driven.fleet.decide(100);
    assert!(uncordons(&decision), "{:?}", decision.actions);
}

#[test]
fn node_that_loses_its_device_is_released() {
    let mut driven = Driven::new(2);
    driven.tick();
    assert!(driven.fleet.node("gpu-0").unschedulable, "it is being upgraded");
    let node = driven.fleet.node("gpu-0");
    for label in [
        names::GPU_PRESENT_LABEL,
        names::DEPLOY_DRIVER_LABEL,
        "feature.node.kubernetes.io/pci-10de.present",
    ] {
        node.labels.remove(label);
    }
    driven.fleet.observed.pods.edit().retain(|pod| pod.node.as_deref() != Some("gpu-0"));
    driven.starting.remove("gpu-0");
    driven.touch("gpu-0");
    let story = driven.run();
    assert!(!driven.fleet.node("gpu-0").unschedulable, "{story}");
    assert!(driven.fleet.node("gpu-0").annotations.is_empty(), "{story}");
}

/// Regression: the hook waited endlessly for the list of a node's pods, and the node kept its slot.
#[test]
fn node_with_unlistable_pods_is_released_before_driver() {
    let mut fleet = Driven::new(1).fleet;
    let (started, digest) = (at(0), fleet.settings.digest.clone());
    let record = format!(
        r#"{{"version":1,"state":"pod-restart-required","since":"{started}","started":"{started}","digest":"{digest}","cordoned":true}}"#
    );
    let node = fleet.node("gpu-0");
    node.annotations.insert("gpu-rollout.dev/gpu-driver-upgrade".into(), record);
    node.labels
        .insert("gpu-rollout.dev/gpu-driver-upgrade-state".into(), "pod-restart-required".into());
    node.unschedulable = true;
    let patches = |decision: &Decision| {
        let patches = decision.actions.iter().filter_map(|action| {
            if let Action::PatchNode(patch) = action { Some(patch) } else { None }
        });
        patches
            .map(|patch| {
                (patch.unschedulable, patch.labels.values().flatten().cloned().collect::<Vec<_>>())
            })
            .collect::<Vec<_>>()
    };
    for second in [0, 60, 119] {
        let decision = fleet.decide(second);
        assert_eq!(waits(&decision), ["gpu-0:PodsNotListed"], "{second}");
        assert!(
            decision.focus.contains("gpu-0") && decision.actions.is_empty(),
            "{second}: {:?}",
            decision.actions
        );
    }
    assert_eq!(
        patches(&fleet.decide(120)),
        [(Some(false), vec!["upgrade-failed".to_owned()])],
        "its driver was not touched"
    );
}

#[test]
fn traces_of_another_daemon_set_are_not_adopted() {
    let mut driven = about_to_evict();
    let traits = Driver::DaemonSet.traits();
    let node = driven.fleet.node("gpu-0");
    let text = node.annotations["gpu-rollout.dev/gpu-driver-upgrade"].replacen(
        '{',
        r#"{"daemonSet":"one/driver","#,
        1,
    );
    node.annotations.insert(traits.own_record.into(), text);
    for (identity, is_other) in
        [(Some("two/driver"), true), (Some("one/driver"), false), (None, false)]
    {
        assert_eq!(
            belongs_to_other_hook(driven.fleet.node("gpu-0"), traits, identity),
            is_other,
            "{identity:?}"
        );
    }
}

#[test]
fn traces_of_another_drivers_hook_are_not_released() {
    let mut fleet = Fleet::at_rest(1);
    fleet.is_assisted("v26.7.0");
    let record = r#"{"version":1,"state":"upgrade-failed","since":"2026-01-01T00:00:00Z","started":"2026-01-01T00:00:00Z","digest":"d","cordoned":true}"#;
    let node = fleet.node("gpu-0");
    node.annotations.insert("gpu-rollout.dev/ofed-driver-upgrade".into(), record.into());
    node.labels.insert("gpu-rollout.dev/ofed-driver-upgrade-state".into(), "upgrade-failed".into());
    node.unschedulable = true;
    let decision = fleet.decide(0);
    assert!(
        !decision.actions.iter().any(|action| matches!(action, Action::PatchNode(_))),
        "{:?}",
        decision.actions
    );
}

/// A user takes a node as proven although its validator never succeeded.
#[test]
fn accepted_node_is_released_with_its_failed_proof() {
    let mut driven = Driven::new(1);
    let fleet = &mut driven.fleet;
    let traits = Driver::Gpu.traits();
    let record = serde_json::json!({
        "version": 1, "state": "upgrade-failed", "since": at(-20), "started": at(-60),
        "digest": fleet.settings.digest, "cordoned": true, "attempts": {"validation-timeout": 9},
        "failure": {"cause": "validation-timeout", "message": "the validator is not ready"},
    });
    fleet.driver("gpu-0", "new", NEW, -50);
    fleet.driver_pod("gpu-0").containers_ready = true;
    fleet.plugin("gpu-0", -30, NEW);
    let validator = fleet.observed.validators.find_mut("gpu-0", |_| true).expect("its validator");
    validator.containers_ready = false;
    let node = fleet.node("gpu-0");
    node.unschedulable = true;
    node.annotations.insert(traits.own_record.into(), record.to_string());
    node.labels.insert(traits.own_state_label.into(), "upgrade-failed".into());
    assert!(!uncordons(&fleet.decide(0)), "it stays failed");
    fleet.accept("gpu-0", -30);
    assert!(!uncordons(&fleet.decide(1)), "the request is about an earlier failure");
    fleet.memory.accepted.insert(AcceptedNode {
        node: "gpu-0".to_owned(),
        failed_at: at(-20),
        driver: "another".to_owned(),
    });
    assert!(!uncordons(&fleet.decide(2)), "the request is about another driver");
    fleet.accept("gpu-0", -20);
    assert!(uncordons(&fleet.decide(3)));
}

/// Regression: at the deadline of a later attempt or run, a node whose driver had been replaced was
/// released as unchanged, although its validator had not succeeded.
#[test]
fn node_with_replaced_driver_is_not_unchanged_later() {
    for is_deployed_again in [false, true] {
        let mut driven = Driven::new(1);
        let fleet = &mut driven.fleet;
        let validator = fleet.observed.validators.find_mut("gpu-0", |_| true);
        validator.expect("its validator").containers_ready = false;
        driven.tick();
        for _ in 0..3 {
            // Others uncordon it until the attempt fails.
            driven.fleet.node("gpu-0").unschedulable = false;
            driven.touch("gpu-0");
            driven.tick();
        }
        let story = driven.story.join("\n");
        assert!(story.ends_with("gpu-0 upgrade-failed schedulable"), "{story}");
        while driven.second < 40 {
            assert!(driven.tick(), "it is retried");
        }
        if is_deployed_again {
            driven.deploy("another");
        }
        while !driven.fleet.node("gpu-0").unschedulable {
            assert!(driven.tick() && driven.second < 100, "{}", driven.story.join("\n"));
        }
        let now = driven.second;
        driven.fleet.memory.deadline = at(now);
        let decision = driven.fleet.decide(now);
        assert!(!uncordons(&decision), "{is_deployed_again}: {:?}", decision.actions);
    }
}
