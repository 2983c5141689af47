//! Operands of a node that mode `drive` upgrades: what keeps it cordoned, and what is reported and does not.

use gpu_rollout::contract::exit::ExitCode;
use gpu_rollout::contract::operand::Operand;
use gpu_rollout::contract::settings::MissingGpus;
use gpu_rollout::rollout::observed::Taint;

use crate::drive::Driven;
use crate::fleet::Fleet;
use crate::operands::{change, crashes, equip, offers};

/// Two nodes with all operands.
fn driven() -> Driven {
    let mut driven = Driven::new(2);
    equip(&mut driven.fleet);
    driven
}

/// Runs to its end; when the first driver has been replaced, something happens.
fn runs(driven: &mut Driven, happens: impl Fn(&mut Fleet)) -> (ExitCode, String) {
    let mut happened = false;
    while driven.tick() {
        assert!(driven.second < 10_000, "{}", driven.story.join("\n"));
        if !happened && driven.story.iter().any(|line| line.ends_with("driver ready")) {
            happened = true;
            happens(&mut driven.fleet);
        }
    }
    let verdict = driven.last.as_ref().and_then(|last| last.verdict.clone()).expect("it is over");
    (verdict.code, verdict.message)
}

/// With `settle.gpusMissing: report` the node failed at once, and stayed cordoned.
#[test]
fn gpu_that_died_in_an_upgrade_is_reported_or_fails() {
    for (setting, code) in [(MissingGpus::Report, ExitCode::Success), (MissingGpus::Fail, ExitCode::NodesFailed)] {
        let mut driven = driven();
        driven.fleet.settings.settle.gpus_missing = setting;
        let (ended, message) = runs(&mut driven, |fleet| offers(fleet, "gpu-1", "7", "7"));
        assert_eq!(ended, code, "{message}");
        assert!(message.contains("the node offers 7 nvidia.com/gpu, and had 8"), "{message}");
        let cordoned = driven.fleet.node("gpu-1").unschedulable;
        assert_eq!(cordoned, setting == MissingGpus::Fail, "{message}");
    }
}

/// The kubelet updates a node's status every 10 s: for a while a node offers fewer GPUs than it has.
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
    assert_eq!(verdict.message, "settled: 2 of 2 nodes done; 2 DRA plugins replaced");
}

/// A validator that failed before the run gets its time on the new driver; then the node is given back and reported.
#[test]
fn validator_that_was_broken_before_fails_no_upgrade() {
    let mut driven = driven();
    change(&mut driven.fleet, Operand::Validator, "gpu-1", crashes);
    let pod = driven.fleet.observed.validators.iter_mut().find(|pod| pod.node.as_deref() == Some("gpu-1")).expect("its validator");
    (pod.ready, pod.containers_ready) = (false, false);
    let (code, message) = runs(&mut driven, |_| {});
    assert_eq!(code, ExitCode::Success, "{message}");
    assert!(message.contains("gpu-1: ") && message.contains("as before the run"), "{message}");
    assert!(!driven.fleet.node("gpu-1").unschedulable);
}

/// The same that fails only on the new driver is a failure.
#[test]
fn validator_that_fails_on_the_new_driver_keeps_its_node() {
    let mut driven = driven();
    let (code, message) = runs(&mut driven, |fleet| {
        let pod = fleet.observed.validators.iter_mut().find(|pod| pod.node.as_deref() == Some("gpu-1")).expect("its validator");
        (pod.ready, pod.containers_ready) = (false, false);
        change(fleet, Operand::Validator, "gpu-1", crashes);
    });
    assert_eq!(code, ExitCode::NodesFailed, "{message}");
    assert!(driven.fleet.node("gpu-1").unschedulable, "{message}");
}

/// Its old driver pod was deleted, and no new one could come.
#[test]
fn node_whose_taint_keeps_drivers_off_is_not_touched() {
    let mut driven = driven();
    driven.fleet.node("gpu-1").taints.push(Taint { key: "team".into(), value: "a".into(), effect: "NoSchedule".into() });
    let (code, message) = runs(&mut driven, |_| {});
    assert_eq!(code, ExitCode::Success, "{message}");
    assert!(message.starts_with("settled: 1 of 2 nodes done, 1 deferred"), "{message}");
    assert!(message.contains("gpu-1: pods of daemonset/nvidia-driver-daemonset do not tolerate the taint"), "{message}");
    assert_eq!(driven.story.iter().filter(|line| line.contains("gpu-1")).collect::<Vec<_>>(), [""; 0]);
}
