//! Lines 66 to 94: pods that use the device, and the drain. Evictions run in the background. A
//! table has their results.

use std::collections::BTreeSet;

use contract::driver::Driver;
use contract::policy::{DrainPolicy, Policy};
use nvidia_upgrade::background_task::{
    EvictionTask, drain_ended, drain_selector, eviction, eviction_ended,
};
use nvidia_upgrade::pass::{PassError, PassWrite, pass_with};
use nvidia_upgrade::snapshot::{NodeDevicePods, NodeEntry};
use nvidia_upgrade::{ControllerState, PassOptions, PolicyRules, pass};

use super::fixture::{cordoned, enabled, old, one, options, rules, snapshot, writes};

const NOTHING: [&str; 0] = [];

fn deleting() -> NodeEntry<'static> {
    cordoned(old("a", ControllerState::PodDeletionRequired))
}

fn draining(name: &'static str) -> NodeEntry<'static> {
    cordoned(old(name, ControllerState::DrainRequired))
}

fn drained() -> PolicyRules {
    enabled(Policy { drain: Some(DrainPolicy::default()), ..rules().policy })
}

fn users(wanted: usize, evictable: usize) -> NodeDevicePods {
    NodeDevicePods { wanted, evictable }
}

#[test]
fn line_066_without_pod_deletion_the_node_is_drained() {
    let no_filter = PassOptions { pod_deletion: false, ..options() };
    assert_eq!(writes(&pass(&snapshot([deleting()]), &rules(), &no_filter)), ["a: drain-required"]);
}

#[test]
fn line_067_and_070_pods_that_may_all_go_are_evicted() {
    assert_eq!(one(deleting()), ["a: evict"]);
    assert_eq!(eviction(&users(2, 2), &rules().policy), EvictionTask::Runs);
    assert_eq!(eviction_ended(true, &rules().policy), ControllerState::PodRestartRequired);
    assert_eq!(
        eviction_ended(true, &drained().policy),
        ControllerState::PodRestartRequired,
        "no drain follows"
    );
}

#[test]
fn line_068_and_071_and_074_forbidden_pod_fails_node_untouched() {
    assert_eq!(
        eviction(&users(2, 1), &rules().policy),
        EvictionTask::Ends(ControllerState::Failed)
    );
    assert_eq!(
        eviction(&users(1, 2), &rules().policy),
        EvictionTask::Ends(ControllerState::Failed),
        "numbers are compared, nothing else"
    );
}

#[test]
fn line_069_and_072_enabled_drain_replaces_pod_deletion() {
    assert_eq!(
        eviction(&users(2, 1), &drained().policy),
        EvictionTask::Ends(ControllerState::DrainRequired)
    );
}

#[test]
fn line_073_without_such_pods_the_driver_is_restarted() {
    assert_eq!(
        eviction(&users(0, 0), &rules().policy),
        EvictionTask::Ends(ControllerState::PodRestartRequired)
    );
    assert_eq!(
        eviction(&users(0, 0), &drained().policy),
        EvictionTask::Ends(ControllerState::PodRestartRequired)
    );
}

#[test]
fn line_075_a_node_is_not_begun_with_twice() {
    let busy = PassOptions { evicting: BTreeSet::from(["a".to_owned()]), ..options() };
    assert_eq!(writes(&pass(&snapshot([deleting()]), &rules(), &busy)), NOTHING);
    let busy = PassOptions { draining: BTreeSet::from(["a".to_owned()]), ..options() };
    assert_eq!(writes(&pass(&snapshot([draining("a")]), &drained(), &busy)), NOTHING);
}

#[test]
fn line_077_overdue_evictions_fail_the_node() {
    assert_eq!(eviction_ended(false, &rules().policy), ControllerState::Failed);
    assert_eq!(eviction_ended(false, &drained().policy), ControllerState::DrainRequired);
}

#[test]
fn line_078_missing_policy_stops_every_node() {
    let none = enabled(Policy { pod_deletion: None, ..rules().policy });
    let entries = [deleting(), old("b", ControllerState::PodRestartRequired)];
    let outcome = pass(&snapshot(entries), &none, &options());
    assert_eq!(outcome.error, Some(PassError::NoPodDeletion { node: "a".into() }));
    assert_eq!(outcome.writes, []);
    assert_eq!(
        writes(&pass(
            &snapshot([old("b", ControllerState::PodRestartRequired)]),
            &none,
            &options()
        )),
        ["b: delete pod/driver"]
    );
}

#[test]
fn line_084_and_085_without_a_drain_the_driver_is_restarted() {
    assert_eq!(one(draining("a")), ["a: pod-restart-required"]);
}

#[test]
fn line_086_and_088_and_089_every_node_is_drained() {
    let outcome =
        pass(&snapshot([draining("a"), draining("b"), draining("c")]), &drained(), &options());
    assert_eq!(writes(&outcome), ["a: drain", "b: drain", "c: drain"]);
    assert_eq!(writes(&pass(&snapshot([]), &drained(), &options())), NOTHING);
}

#[test]
fn line_087_impossible_drain_ends_the_pass() {
    let refused = PassWrite::Drain { node: "a".into() };
    let outcome = pass_with(
        &snapshot([draining("a"), draining("b")]),
        &drained(),
        &options(),
        &mut |write| *write != refused,
    );
    assert_eq!(outcome.error, Some(PassError::Refused { write: refused }));
}

#[test]
fn line_092_what_a_drain_comes_to() {
    assert_eq!(drain_ended(true), ControllerState::PodRestartRequired);
    assert_eq!(drain_ended(false), ControllerState::Failed);
}

#[test]
fn line_094_drain_selector_skips_marked_pods() {
    let label = Driver::Gpu.traits().drain_skip_label;
    assert_eq!(drain_selector("", label), "nvidia.com/gpu-driver-upgrade-drain.skip!=true");
    assert_eq!(
        drain_selector("app=train", label),
        "app=train,nvidia.com/gpu-driver-upgrade-drain.skip!=true"
    );
}
