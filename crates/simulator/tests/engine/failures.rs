//! Failures known from other projects. Each test is named after one ([`docs/failures.md`]).
//! Failures that a scenario file can describe are in `scenarios/`.

use std::sync::Arc;

use contract::exit::ExitCode;
use contract::names;
use contract::policy::DrainPolicy;
use observed::OptionalApi;
use planner::decide::Action;
use planner::memory::RunMemory;
use planner::reason::Reason;

use crate::drive::Driven;
use crate::fleet::{Fleet, NEW, OLD, at, named, reason_of, replaced, waits};

/// One failed node and five waiting ones, one at a time. The waits name the node that has the slot,
/// and show that it does not become free without help.
#[test]
fn gpu_operator_2509_waiting_nodes_name_the_failed_slot_holder() {
    let mut fleet = Fleet::migrating(6);
    fleet.is_assisted("v26.3.1");
    fleet.driver("gpu-0", "new", NEW, -50);
    let pod = fleet.driver_pod("gpu-0");
    (pod.ready, pod.containers_ready, pod.trouble) =
        (false, false, Some("nvidia-driver-ctr: CrashLoopBackOff".into()));
    fleet.state("gpu-0", "upgrade-failed");
    fleet.node("gpu-0").unschedulable = true;
    fleet.is_seen_by_controller();
    let decision = fleet.decide(0);
    for node in ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"] {
        let reason = &reason_of(&decision, node);
        let Reason::DriverOutOfDate { why: Some(why), .. } = reason else {
            panic!("{node}: {reason}")
        };
        let nvidia_upgrade::explain::ControllerWait::Parallel { holders, limit: 1, .. } = &**why
        else {
            panic!("{node}: {reason}")
        };
        assert_eq!(
            holders.iter().map(|holder| holder.node.as_str()).collect::<Vec<_>>(),
            ["gpu-0"],
            "{node}"
        );
    }
    fleet.pass(1000);
    let verdict = fleet.decide(3555).verdict.expect("the time is over");
    assert_ne!(verdict.code, ExitCode::Success);
    assert_eq!(named(&verdict)[0], "gpu-0:UpgradeFailed", "{}", verdict.message);
}

/// The state of the policy alternates between ready and not ready after the first node. The run
/// ends only with the last node and a quiet period after it.
#[test]
fn gpu_operator_1567_a_policy_that_flaps_is_not_believed() {
    let mut fleet = Fleet::migrating(3);
    for (node, second) in [("gpu-0", 100), ("gpu-1", 200), ("gpu-2", 300)] {
        fleet.policy().state = Some("notReady".into());
        fleet.pass(second - 50);
        fleet.migrate(node, second);
        fleet.toolkit(node, second + 5);
        fleet.plugin(node, second + 10, NEW);
        fleet.policy().state = Some("ready".into());
        for later in [20, 30] {
            assert!(fleet.decide(second + later).verdict.is_none(), "{node} after {later} s");
        }
        fleet.policy().state = Some("notReady".into());
        assert!(fleet.decide(second + 32).verdict.is_none(), "{node}");
        fleet.policy().state = Some("ready".into());
    }
    let verdict = fleet.decide(340).verdict.expect("settled");
    assert_eq!(verdict.code, ExitCode::Success, "{}", verdict.message);
}

/// Driver pods that are killed and recreated endlessly never count as done. The run ends at its
/// deadline and names the node.
#[test]
fn gpu_operator_1368_endlessly_replaced_driver_is_never_settled() {
    let mut fleet = Fleet::at_rest(2);
    fleet.memory = RunMemory::new(at(0), at(600));
    for second in (0..600).step_by(12) {
        fleet.driver("gpu-1", "old", OLD, second);
        for later in [0, 3, 6] {
            let decision = fleet.decide(second + later);
            assert!(
                decision.verdict.is_none(),
                "after {} s: {:?}",
                second + later,
                decision.verdict
            );
            if !replaced(&decision).is_empty() {
                fleet.plugin("gpu-1", second + later + 1, OLD);
            }
        }
    }
    let verdict = (600..800).find_map(|second| {
        if second % 12 == 0 {
            fleet.driver("gpu-1", "old", OLD, second);
        }
        fleet.decide(second).verdict
    });
    let verdict = verdict.expect("the time is over");
    assert_eq!(verdict.code, ExitCode::Budget);
    assert!(
        named(&verdict).iter().any(|one| one == "gpu-1:PluginsReplacedRepeatedly"),
        "{}",
        verdict.message
    );
}

/// Toolkit, plugin and validator restart before the driver. This is not the end, and a plugin that
/// restarted too early is stale later.
#[test]
fn gpu_operator_2047_operand_restarts_before_driver_are_not_final() {
    let mut fleet = Fleet::migrating(1);
    fleet.toolkit("gpu-0", 10);
    fleet.plugin("gpu-0", 20, OLD);
    assert_eq!(waits(&fleet.decide(40)), ["gpu-0:DriverOutOfDate"]);
    fleet.driver("gpu-0", "new", NEW, 100);
    fleet.state("gpu-0", "upgrade-done");
    fleet.pass(100);
    assert_eq!(
        replaced(&fleet.decide(102)),
        ["gpu-0"],
        "it is older than the driver that it serves"
    );
}

/// The driver container is ready, but the one for GPUDirect RDMA is not. The wait names the
/// container.
#[test]
fn gpu_operator_2619_a_peermem_container_that_crashes_is_named() {
    let mut driven = Driven::new(1);
    driven.driver_seconds = 100_000;
    (driven.fleet.settings.upgrade.start_seconds, driven.fleet.settings.upgrade.attempts) =
        (120, 1);
    driven.tick();
    let pod = driven.fleet.driver_pod("gpu-0");
    (pod.running, pod.unready_restarts, pod.trouble) =
        (true, 3, Some("nvidia-peermem-ctr: CrashLoopBackOff".into()));
    let story = driven.run();
    assert!(
        story.contains(
            "NodesFailed: gpu-0: the driver pod did not become ready within 120 s: nvidia-peermem-ctr: CrashLoopBackOff"
        ),
        "{story}"
    );
    assert!(driven.fleet.node("gpu-0").unschedulable, "{story}");
}

/// A validator hangs on the old driver. The failure names the container, and the node stays
/// cordoned.
#[test]
fn gpu_operator_898_hanging_validator_fails_its_node_by_name() {
    let mut driven = Driven::new(1);
    (driven.fleet.settings.upgrade.validation_seconds, driven.fleet.settings.upgrade.attempts) =
        (120, 1);
    let validators = &mut driven.fleet.observed.validators;
    let validator = validators.find_mut("gpu-0", |_| true).expect("its validator");
    (validator.containers_ready, validator.trouble) =
        (false, Some("driver-validation: CrashLoopBackOff".into()));
    let story = driven.run();
    assert!(story.contains("NodesFailed: gpu-0: driver-validation: CrashLoopBackOff"), "{story}");
    assert!(driven.fleet.node("gpu-0").unschedulable, "{story}");
}

/// A reboot installs the driver again in the same pod. This is not an upgrade: the hook cordons and
/// evicts nothing, and replaces the plugin.
#[test]
fn gpu_operator_831_a_reboot_is_no_upgrade() {
    let mut driven = Driven::new(2);
    driven.run();
    let second = driven.second;
    driven.training("gpu-0");
    driven.fleet.memory = RunMemory::new(at(second), at(second + 3555));
    let pod = driven.fleet.driver_pod("gpu-0");
    (pod.ready, pod.containers_ready, pod.unready_restarts) = (false, false, 1);
    (pod.containers[0].restarts, pod.containers[0].started) = (1, Some(at(second)));
    let decision = driven.fleet.decide(second + 10);
    assert_eq!(waits(&decision), ["gpu-0:DriverNotReady"]);
    assert_eq!(decision.actions, []);
    let pod = driven.fleet.driver_pod("gpu-0");
    (pod.ready, pod.containers_ready, pod.unready_restarts, pod.ready_since) =
        (true, true, 0, Some(at(second + 90)));
    driven.fleet.pass(second + 90);
    let decision = driven.fleet.decide(second + 92);
    assert_eq!(replaced(&decision), ["gpu-0"]);
    assert_eq!(decision.actions.len(), 1, "{:?}", decision.actions);
}

/// A missing driver pod blocks only its own node, and the wait names it. The others are upgraded.
#[test]
fn network_operator_387_missing_driver_pod_blocks_only_its_node() {
    let mut driven = Driven::new(3);
    driven.fleet.observed.daemon_sets[0].desired = 3;
    driven.fleet.observed.pods.edit().retain(|pod| {
        pod.node.as_deref() != Some("gpu-0") || pod.owner.as_deref() != Some("driver-ds")
    });
    for _ in 0..120 {
        driven.tick();
    }
    for node in ["gpu-1", "gpu-2"] {
        assert_eq!(
            driven.fleet.driver_pod(node).revision.as_deref(),
            Some("new"),
            "{}",
            driven.story.join("\n")
        );
        assert!(!driven.fleet.node(node).unschedulable);
    }
    assert_eq!(driven.last.as_ref().map(waits), Some(vec!["gpu-0:DriverPodMissing".to_owned()]));
}

/// The drain is disabled while a node is drained, and a pod on the node never leaves. The node
/// continues with the current policy.
#[test]
fn sriov_network_operator_225_step_disabled_midway_leaves_no_cordon() {
    for drained in [true, false] {
        let mut driven = Driven::new(1);
        if drained {
            driven.fleet.settings.upgrade.policy.pod_deletion = None;
            driven.fleet.settings.upgrade.policy.drain =
                Some(DrainPolicy { timeout_seconds: 0, ..DrainPolicy::default() });
        }
        driven.training("gpu-0").deleted_at = Some(at(100_000));
        for _ in 0..5 {
            driven.tick();
        }
        assert!(driven.fleet.node("gpu-0").unschedulable, "its pod is waited for");
        (
            driven.fleet.settings.upgrade.policy.pod_deletion,
            driven.fleet.settings.upgrade.policy.drain,
        ) = (None, None);
        driven.fleet.settings.digest = "another".into();
        let story = driven.run();
        assert!(
            story.ends_with("Success: settled: 1 of 1 nodes done; 1 DRA plugin replaced"),
            "{story}"
        );
        assert!(!driven.fleet.node("gpu-0").unschedulable, "{story}");
    }
}

/// A deployment in another mode finds the cordon of a failed node, and removes it.
#[test]
fn system_upgrade_controller_71_our_cordon_ends_with_its_mode() {
    let mut fleet = Fleet::at_rest(1);
    fleet.is_assisted("v26.7.0");
    let record = r#"{"version":1,"state":"upgrade-failed","since":"2026-01-01T00:00:00Z","started":"2026-01-01T00:00:00Z","digest":"d","cordoned":true}"#;
    let node = fleet.node("gpu-0");
    node.annotations.insert("gpu-rollout.dev/gpu-driver-upgrade".into(), record.into());
    node.labels.insert("gpu-rollout.dev/gpu-driver-upgrade-state".into(), "upgrade-failed".into());
    node.unschedulable = true;
    let decision = fleet.decide(0);
    let [Action::PatchNode(patch)] = &decision.actions[..] else {
        panic!("{:?}", decision.actions)
    };
    assert_eq!(patch.unschedulable, Some(false));
    assert_eq!(patch.annotations.get("gpu-rollout.dev/gpu-driver-upgrade"), Some(&None));
    assert_eq!(patch.labels.get("gpu-rollout.dev/gpu-driver-upgrade-state"), Some(&None));
}

/// Nodes with a driver in their image. The requested version reaches none of them, and the verdict
/// says so.
#[test]
fn gpu_operator_542_version_that_reaches_no_node_is_reported() {
    let mut fleet = Fleet::at_rest(2);
    fleet.bump();
    fleet.operator_observes();
    fleet.observed.pods.edit().retain(|pod| pod.owner.as_deref() != Some("driver-ds"));
    for node in ["gpu-0", "gpu-1"] {
        fleet.node(node).labels.insert(names::DEPLOY_DRIVER_LABEL.into(), "pre-installed".into());
    }
    fleet.pass(0);
    let verdict = fleet.decide(15).verdict.expect("settled");
    assert_eq!(verdict.code, ExitCode::Success);
    assert_eq!(named(&verdict), ["*:Settled", "*:DriverOfImage"]);
}

/// The record that is written before the restart of a plugin contains the taints that the restart
/// removes.
#[test]
fn dra_1455_taints_hidden_by_restart_are_recorded_first() {
    let mut fleet = Fleet::at_rest(1);
    fleet.driver("gpu-0", "old", OLD, -10);
    let OptionalApi::Served(slices) = &mut fleet.observed.dra.slices else {
        panic!("the fleet serves ResourceSlices")
    };
    Arc::make_mut(&mut slices.edit()[0]).taints =
        vec!["gpu-3 gpu.nvidia.com/xid=48:NoSchedule".into()];
    fleet.pass(0);
    let decision = fleet.decide(2);
    assert_eq!(replaced(&decision), ["gpu-0"]);
    let causes: Vec<&str> =
        fleet.memory.nodes["gpu-0"].replaced.values().map(|one| one.cause.as_str()).collect();
    assert!(
        matches!(causes[..], [cause] if cause.contains("gpu-3 gpu.nvidia.com/xid=48:NoSchedule")),
        "the taint is recorded: {causes:?}"
    );
}
