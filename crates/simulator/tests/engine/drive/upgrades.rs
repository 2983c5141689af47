//! The upgrade of nodes, from start to release.

use contract::count::Count;
use contract::driver::Driver;
use contract::policy::CompletionPolicy;
use contract::settings::Mode;
use contract::task::Task;
use observed::workload::{AwaitedPod, PodPhase};
use planner::decide::{Action, Decision};

use super::{Driven, about_to_evict};
use crate::fleet::{NEW, OLD, at};

/// Returns the lines of the story for one node: second and action.
fn told(story: &str, node: &str) -> Vec<String> {
    let about = |line: &str| {
        let (second, rest) = line.trim_start().split_once(' ')?;
        Some(format!("{second} {}", rest.strip_prefix(node)?.strip_prefix(' ')?))
    };
    story.lines().filter_map(about).collect()
}

#[test]
fn nodes_are_upgraded_and_released_one_by_one() {
    let mut driven = Driven::new(3);
    driven.training("gpu-1");
    let story = driven.run();
    assert_eq!(
        told(&story, "gpu-1"),
        [
            "31 pod-deletion-required cordoned",
            "31 evict train-uid-13",
            "31 pod-restart-required cordoned",
            "31 delete driver",
            "61 driver ready",
            "62 replace plugin",
            "62 - schedulable",
        ],
        "{story}"
    );
    assert!(
        story.ends_with("Success: settled: 3 of 3 nodes done; 3 DRA plugins replaced"),
        "{story}"
    );
    assert!(
        driven
            .fleet
            .observed
            .nodes
            .values()
            .all(|node| !node.unschedulable && node.annotations.is_empty())
    );
}

#[test]
fn forbidden_pod_is_named_and_node_released_untouched() {
    let mut driven = Driven::new(3);
    driven.fleet.settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
    driven.fleet.settings.upgrade.policy.max_parallel_upgrades = 2;
    driven.training("gpu-1").memory_dir = true;
    let story = driven.run();
    assert_eq!(
        told(&story, "gpu-1"),
        [
            "0 pod-deletion-required cordoned",
            "0 upgrade-failed schedulable",
            "60 pod-deletion-required cordoned",
            "60 upgrade-failed schedulable",
        ],
        "{story}"
    );
    assert!(
        story.contains(
            "NodesFailed: gpu-1: no pod was evicted: ml/train-uid-13 has an emptyDir in memory"
        ),
        "{story}"
    );
    assert!(!driven.fleet.node("gpu-1").unschedulable);
    assert_eq!(driven.fleet.driver_pod("gpu-1").revision.as_deref(), Some("old"));
}

/// Regression: with a limit of one node, and a server that answered the start with 429 or 500, the
/// node held the slot that it waited for until the end of the run.
#[test]
fn node_with_lost_start_does_not_block_itself() {
    let starts = |decision: &Decision| {
        let patches = decision.actions.iter().filter_map(|action| {
            if let Action::PatchNode(patch) = action { Some(patch) } else { None }
        });
        patches.map(|patch| patch.node.clone()).collect::<Vec<_>>()
    };
    for task in [Task::Drive, Task::Steer] {
        let mut fleet = Driven::new(3).fleet;
        fleet.settings.upgrade.policy.max_parallel_upgrades = 1;
        if task == Task::Steer {
            fleet.settings.mode = Mode::Steer;
            fleet.settings.tasks = vec![Task::Settle, Task::Steer, Task::Reroll];
            fleet.policy().upgrade_policy.auto_upgrade = true;
            for node in ["gpu-0", "gpu-1", "gpu-2"] {
                let traits = Driver::Gpu.traits();
                fleet.node(node).labels.insert(traits.skip_label.into(), "true".into());
                fleet.node(node).annotations.insert(traits.hold.into(), "true".into());
            }
        }
        assert_eq!(starts(&fleet.decide(0)), ["gpu-0"], "{task:?}");
        assert_eq!(starts(&fleet.decide(5)), [""; 0], "{task:?}: its answer may be on its way");
        assert_eq!(
            starts(&fleet.decide(10)),
            ["gpu-0"],
            "{task:?}: it is asked for again, and no other node is started"
        );
    }
}

#[test]
fn template_changed_after_restart_only_start_evicts_first() {
    let mut driven = Driven::new(1);
    driven.fleet.driver_pod("gpu-0").config_digest = Some("same".into());
    driver_set(&mut driven).config_digest = Some("same".into());
    driven.training("gpu-0");
    let decision = driven.fleet.decide(0);
    driven.perform(&decision.actions[0]);
    driver_set(&mut driven).config_digest = Some("another".into());
    let story = driven.run();
    let of = |what: &str| story.lines().position(|line| line.contains(what));
    assert!(of("evict").is_some() && of("evict") < of("delete driver"), "{story}");
}

/// Regression: the second attempt of an upgrade that was to leave all pods evicted a job for which
/// the policy waits.
#[test]
fn second_attempt_of_restart_only_upgrade_awaits_jobs() {
    let mut driven = Driven::new(1);
    driven.fleet.driver_pod("gpu-0").config_digest = Some("same".into());
    driver_set(&mut driven).config_digest = Some("same".into());
    driven.training("gpu-0");
    driven.fleet.observed.workloads.jobs = vec![AwaitedPod {
        namespace: "ml".into(),
        name: "train".into(),
        node: "gpu-0".into(),
        phase: PodPhase::Running,
    }];
    let upgrade = &mut driven.fleet.settings.upgrade;
    upgrade.start_seconds = 60;
    upgrade.policy.wait_for_completion =
        Some(CompletionPolicy { pod_selector: "app=train".into(), timeout_seconds: 3_600 });
    driven.driver_seconds = 10_000;
    while driven.second < 400 && driven.tick() {}
    let story = driven.story.join("\n");
    assert!(story.contains("gpu-0 upgrade-failed"), "{story}");
    assert!(story.contains("gpu-0 wait-for-jobs-required"), "{story}");
    assert!(!story.contains("evict"), "{story}");
}

/// Regression: others deleted the driver pod while the hook evicted the node's pods. As soon as the
/// new pod ran, the node was released, whatever its validator said.
#[test]
fn driver_replaced_by_others_is_validated_before_release() {
    let mut driven = about_to_evict();
    driven.fleet.driver("gpu-0", "new", NEW, 1);
    driven.fleet.driver_pod("gpu-0").containers_ready = true;
    let validates = |driven: &mut Driven, is_ready: bool| {
        let pod = driven.fleet.observed.validators.find_mut("gpu-0", |_| true);
        pod.expect("its validator").containers_ready = is_ready;
    };
    validates(&mut driven, false);
    driven.second = 1;
    driven.tick();
    assert!(driven.fleet.node("gpu-0").unschedulable, "{}", driven.story.join("\n"));
    validates(&mut driven, true);
    let story = driven.run();
    assert!(!driven.fleet.node("gpu-0").unschedulable, "{story}");
    assert!(!story.contains("evict"), "{story}");
}

/// Regression: a start whose answer was lost was repeated although the failure budget was exceeded
/// meanwhile.
#[test]
fn lost_start_is_not_repeated_after_failure_budget() {
    let mut fleet = Driven::new(2).fleet;
    fleet.settings.upgrade.policy.max_parallel_upgrades = 1;
    let starts = |decision: &Decision| {
        let is_start =
            |action: &&Action| matches!(action, Action::PatchNode(patch) if patch.starts);
        decision.actions.iter().filter(is_start).count()
    };
    assert_eq!(starts(&fleet.decide(0)), 1);
    // Zero nodes may fail, and one has.
    fleet.settings.upgrade.failure_budget = Count::Number(0);
    let (digest, attempts) = (fleet.settings.digest.clone(), fleet.settings.upgrade.attempts);
    let record = serde_json::json!({
        "version": 1, "state": "upgrade-failed", "since": at(1), "started": at(0),
        "digest": digest, "cordoned": true, "attempts": {"driver-failing": attempts},
        "failure": {"cause": "driver-failing", "message": "no"},
    });
    let node = fleet.node("gpu-1");
    node.annotations.insert(Driver::Gpu.traits().own_record.into(), record.to_string());
    node.unschedulable = true;
    assert_eq!(starts(&fleet.decide(10)), 0);
}

fn driver_set(driven: &mut Driven) -> &mut observed::ObservedDaemonSet {
    driven
        .fleet
        .observed
        .daemon_sets
        .iter_mut()
        .find(|set| set.uid == "driver-ds")
        .expect("the driver's DaemonSet")
}

#[test]
fn joined_node_with_old_driver_is_awaited() {
    let mut driven = Driven::new(1);
    driven.fleet.join("gpu-9", 1);
    driven.fleet.driver("gpu-9", "old", OLD, -5);
    driven.fleet.driver_pod("gpu-9").containers_ready = true;
    driven.fleet.toolkit("gpu-9", -4);
    driven.fleet.plugin("gpu-9", -3, OLD);
    driven.touch("gpu-9");
    let story = driven.run();
    assert!(!driven.fleet.node("gpu-9").unschedulable, "{story}");
    assert_eq!(driven.fleet.driver_pod("gpu-9").revision.as_deref(), Some("new"), "{story}");
}
