//! Operands of a node that mode `drive` upgrades: those that keep it cordoned, and those that are
//! only reported.

use std::sync::Arc;

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::operand::Operand;
use contract::proof::Canary;
use contract::record::proof::DriverProof;
use contract::record::{NodeOutcome, Verdict};
use contract::settings::MissingGpus;
use contract::task::Task;
use observed::{ObservedRevision, ObservedTaint};
use planner::decide::{Action, Decision};
use planner::drive_upgrade::record::read;
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;

use crate::drive::Driven;
use crate::fleet::{Fleet, NEW, at, named, reason_of};
use crate::operands::{change, crashes, equip, offers, one_gpu_less};

/// Returns two nodes with all operands.
fn driven() -> Driven {
    let mut driven = Driven::new(2);
    equip(&mut driven.fleet);
    driven
}

/// Runs to the end. Calls `happens` when the first driver has been replaced.
fn runs(driven: &mut Driven, happens: impl Fn(&mut Fleet)) -> (Verdict, Decision) {
    let mut happened = false;
    while driven.tick() {
        assert!(driven.second < 10_000, "{}", driven.story.join("\n"));
        if !happened && driven.story.iter().any(|line| line.ends_with("driver ready")) {
            happened = true;
            happens(&mut driven.fleet);
        }
    }
    let last = driven.last.clone().expect("it has decided");
    (last.verdict.clone().expect("it is over"), last)
}

/// Regression: with `settle.gpusMissing: report`, the node failed at once and stayed cordoned.
#[test]
fn gpu_lost_in_upgrade_is_reported_or_fails() {
    for (setting, code) in
        [(MissingGpus::Report, ExitCode::Success), (MissingGpus::Fail, ExitCode::NodesFailed)]
    {
        let mut driven = driven();
        driven.fleet.settings.settle.gpus_missing = setting;
        let (verdict, decision) = runs(&mut driven, |fleet| offers(fleet, "gpu-1", "7", "7"));
        assert_eq!(verdict.code, code, "{}", verdict.message);
        if let Reason::Upgrading(UpgradeReason::Failed { message, .. }) =
            reason_of(&decision, "gpu-1")
        {
            assert_eq!(*message, one_gpu_less().to_string());
        } else {
            assert_eq!(reason_of(&decision, "gpu-1"), one_gpu_less());
        }
        let reason =
            if setting == MissingGpus::Fail { "gpu-1:UpgradeFailed" } else { "gpu-1:GpusDegraded" };
        assert_eq!(named(&verdict).last().map(String::as_str), Some(reason));
        let cordoned = driven.fleet.node("gpu-1").unschedulable;
        assert_eq!(cordoned, setting == MissingGpus::Fail, "{}", verdict.message);
    }
}

/// The kubelet updates a node's status every 10 s, so a node temporarily offers fewer GPUs than it
/// has.
#[test]
fn gpus_that_come_back_are_waited_for() {
    let mut driven = driven();
    driven.fleet.settings.settle.gpus_missing = MissingGpus::Fail;
    let mut back = None;
    while driven.tick() {
        if back.is_none() && driven.story.iter().any(|line| line.ends_with("driver ready")) {
            offers(&mut driven.fleet, "gpu-0", "2", "8");
            offers(&mut driven.fleet, "gpu-1", "2", "8");
            back = Some(driven.second + 20);
        }
        if back == Some(driven.second) {
            offers(&mut driven.fleet, "gpu-0", "8", "8");
            offers(&mut driven.fleet, "gpu-1", "8", "8");
        }
    }
    let verdict = driven.last.and_then(|last| last.verdict).expect("it is over");
    assert_eq!(named(&verdict), ["*:Settled"]);
}

/// Makes the validator of `gpu-1` unready.
fn unready_validator(fleet: &mut Fleet) {
    let pod = fleet.observed.validators.find_mut("gpu-1", |_| true).expect("its validator");
    (pod.ready, pod.containers_ready) = (false, false);
}

/// Has a user take a node as proven that has failed, and deploys the same again.
fn accept(driven: &mut Driven, node: &str) {
    let found = read(driven.fleet.node(node), Driver::Gpu.traits());
    let since = found.record().expect("its record").since;
    let digest = driven.fleet.settings.digest.clone();
    driven.deploy(&digest);
    driven.fleet.accept(node, since.as_second() - at(0).as_second());
}

/// Regression: the run waited for the validator of a node that a user had taken as proven, until
/// its time was over.
#[test]
fn validator_of_accepted_node_is_reported_and_not_awaited() {
    let mut driven = driven();
    let (verdict, _) = runs(&mut driven, |fleet| {
        unready_validator(fleet);
        change(fleet, Operand::Validator, "gpu-1", crashes);
    });
    assert_eq!(verdict.code, ExitCode::NodesFailed, "{}", verdict.message);
    for _ in 0..2 {
        let begin = driven.second;
        if driven.fleet.node("gpu-1").unschedulable {
            accept(&mut driven, "gpu-1");
        } else {
            // A run after this one does not wait for it either.
            driven.deploy("another");
        }
        let (verdict, _) = runs(&mut driven, |_| {});
        let expected = ["*:Settled", "gpu-1:FailedBefore"];
        assert_eq!(named(&verdict), expected, "{}", verdict.message);
        assert!(driven.second - begin < 60, "{} s", driven.second - begin);
        assert!(!driven.fleet.node("gpu-1").unschedulable);
    }
}

/// Regression: a canary that a user had taken as proven, and whose validator still failed, kept all
/// other nodes from their upgrade.
#[test]
fn accepted_canary_with_failing_validator_lets_others_start() {
    let mut driven = driven();
    driven.fleet.settings.upgrade.canary = Some(Canary::default());
    let (verdict, _) = runs(&mut driven, |fleet| {
        let pod = fleet.observed.validators.find_mut("gpu-0", |_| true).expect("its validator");
        (pod.ready, pod.containers_ready) = (false, false);
        change(fleet, Operand::Validator, "gpu-0", crashes);
    });
    assert_eq!(verdict.code, ExitCode::Halted, "{}", verdict.message);
    let proof = driven.fleet.memory.proof.clone().expect("it has halted");
    accept(&mut driven, "gpu-0");
    let accepted = vec!["gpu-0".to_owned()];
    let resumed = DriverProof { halt: None, accepted, ..(*proof).clone() };
    driven.fleet.memory.proof = Some(Arc::new(resumed));
    let (verdict, decision) = runs(&mut driven, |_| {});
    assert_eq!(named(&verdict), ["*:Settled", "gpu-0:FailedBefore"], "{}", verdict.message);
    assert_eq!(decision.outcomes["gpu-1"], NodeOutcome::Done);
}

/// A validator that failed before the run gets time on the new driver. Then the node is released
/// and reported.
#[test]
fn validator_that_was_broken_before_fails_no_upgrade() {
    let mut driven = driven();
    change(&mut driven.fleet, Operand::Validator, "gpu-1", crashes);
    unready_validator(&mut driven.fleet);
    let (verdict, _) = runs(&mut driven, |_| {});
    assert_eq!(
        (verdict.code, named(&verdict)),
        (ExitCode::Success, vec!["*:Settled".to_owned(), "gpu-1:FailedBefore".to_owned()])
    );
    assert!(!driven.fleet.node("gpu-1").unschedulable);
}

/// A validator that fails only on the new driver is a failure.
#[test]
fn failing_validator_on_new_driver_keeps_its_node() {
    let mut driven = driven();
    let (verdict, _) = runs(&mut driven, |fleet| {
        unready_validator(fleet);
        change(fleet, Operand::Validator, "gpu-1", crashes);
    });
    assert_eq!(verdict.code, ExitCode::NodesFailed, "{}", verdict.message);
    assert!(driven.fleet.node("gpu-1").unschedulable, "{}", verdict.message);
}

/// Regression: the next deployment started the failed node again and released it at once, because
/// its driver pod was the newest one.
#[test]
fn redeployment_keeps_cordon_of_node_that_failed_validation() {
    let mut driven = driven();
    let (verdict, _) = runs(&mut driven, |fleet| {
        unready_validator(fleet);
        change(fleet, Operand::Validator, "gpu-1", crashes);
    });
    assert_eq!(verdict.code, ExitCode::NodesFailed, "{}", verdict.message);
    driven.deploy("another");
    let (verdict, _) = runs(&mut driven, |_| {});
    assert_eq!(verdict.code, ExitCode::NodesFailed, "{}", verdict.message);
    let is_released = |line: &&String| line.contains("gpu-1") && line.contains("schedulable");
    assert_eq!(driven.story.iter().find(is_released), None, "{}", driven.story.join("\n"));
}

/// Regression: the next deployment had another driver, and a pod blocked the node. It was uncordoned
/// with the driver that had failed its validation.
#[test]
fn blocked_node_that_failed_validation_keeps_its_cordon() {
    let mut driven = driven();
    let (_, _) = runs(&mut driven, |fleet| {
        unready_validator(fleet);
        change(fleet, Operand::Validator, "gpu-1", crashes);
    });
    driven.deploy("another");
    driven.fleet.observed.revisions.push(ObservedRevision {
        owner: "driver-ds".into(),
        revision: 3,
        hash: "newest".into(),
    });
    driven.training("gpu-1").memory_dir = true;
    let policy = &mut driven.fleet.settings.upgrade.policy;
    (policy.max_parallel_upgrades, policy.max_unavailable) = (2, None);
    let begin = driven.story.len();
    driven.tick();
    let story = &driven.story[begin..];
    let is_failed = |line: &String| line.contains("gpu-1 upgrade-failed cordoned");
    assert!(story.iter().any(is_failed), "{story:?}");
    assert!(!story.iter().any(|line| line.contains("gpu-1") && line.contains("schedulable")));
}

/// Regression: the old driver pod was deleted, and no new one could be created.
#[test]
fn node_whose_taint_excludes_drivers_is_not_touched() {
    let mut driven = driven();
    driven.fleet.node("gpu-1").taints.push(ObservedTaint {
        key: "team".into(),
        value: "a".into(),
        effect: "NoSchedule".into(),
    });
    let (verdict, decision) = runs(&mut driven, |_| {});
    assert_eq!(
        (verdict.code, named(&verdict)),
        (ExitCode::Success, vec!["*:Settled".to_owned(), "gpu-1:NodeTainted".to_owned()])
    );
    assert_eq!(
        (decision.outcomes["gpu-0"], decision.outcomes["gpu-1"]),
        (NodeOutcome::Done, NodeOutcome::Deferred)
    );
    assert_eq!(
        driven.story.iter().filter(|line| line.contains("gpu-1")).collect::<Vec<_>>(),
        [""; 0]
    );
}

/// A failed node with 7 of 8 GPUs, with a policy that only reports this, is released after 30 s.
#[test]
fn missing_gpu_of_a_failed_node_is_timed_once() {
    let mut fleet = Driven::new(1).fleet;
    equip(&mut fleet);
    fleet.settings.tasks = vec![Task::Settle, Task::Drive];
    fleet.settings.settle.gpus_missing = MissingGpus::Report;
    fleet.driver("gpu-0", "new", NEW, -100);
    fleet.driver_pod("gpu-0").containers_ready = true;
    let (digest, attempts) = (fleet.settings.digest.clone(), fleet.settings.upgrade.attempts);
    let record = serde_json::json!({
        "version": 1, "state": "upgrade-failed", "since": at(-50), "started": at(-100), "digest": digest, "cordoned": true,
        "attempts": {"validation-timeout": attempts}, "failure": {"cause": "validation-timeout", "message": "no"},
    });
    let node = fleet.node("gpu-0");
    node.annotations.insert(Driver::Gpu.traits().own_record.into(), record.to_string());
    node.unschedulable = true;

    let mut apart = |second: i64, gpus: &str| {
        offers(&mut fleet, "gpu-0", gpus, "8");
        let decision = fleet.decide(second);
        let is_released = |action: &Action| matches!(action, Action::PatchNode(patch) if patch.unschedulable == Some(false));
        (fleet.memory.waiting_apart.get("gpu-0").copied(), decision.actions.iter().any(is_released))
    };
    let degraded = |since: i64| Some(("GpusDegraded", at(since)));
    assert_eq!(apart(0, "7"), (degraded(0), false));
    assert_eq!(apart(20, "7"), (degraded(0), false), "it is timed once");
    assert_eq!(
        apart(21, "0"),
        (Some(("GpusNotOffered", at(21))), false),
        "another reason has a time of its own"
    );
    assert_eq!(
        apart(25, "7"),
        (degraded(25), false),
        "and so has the first one when it comes back"
    );
    for second in [26, 35, 54] {
        assert_eq!(apart(second, "7"), (degraded(25), false), "at {second}");
    }
    assert_eq!(apart(55, "7"), (degraded(25), true));
}
