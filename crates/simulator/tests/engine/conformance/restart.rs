//! Lines 95 to 110: the driver pod, and failed nodes.

use nvidia_upgrade::pass::{PassError, PassWrite, pass_with};
use nvidia_upgrade::snapshot::NodeEntry;
use nvidia_upgrade::{ControllerState, PassOptions, pass};

use super::fixture::{cordoned, node, old, one, options, orphaned, rules, snapshot, with, writes};

const NOTHING: [&str; 0] = [];
const INITIALLY_GONE: &str =
    "a: nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable removed";

fn restarting() -> NodeEntry<'static> {
    cordoned(node("a", ControllerState::PodRestartRequired))
}

fn unready(restarts: i32) -> NodeEntry<'static> {
    with(restarting(), |entry| {
        (entry.pod.containers_ready, entry.pod.unready_restarts) = (false, restarts);
    })
}

fn initially(entry: NodeEntry<'static>) -> NodeEntry<'static> {
    with(entry, |entry| entry.notes.initially_unschedulable = true)
}

fn without_validation(entry: NodeEntry<'static>) -> Vec<String> {
    writes(&pass(&snapshot([entry]), &rules(), &PassOptions { validation: false, ..options() }))
}

#[test]
fn line_095_an_older_pod_is_deleted_once() {
    assert_eq!(
        one(cordoned(old("a", ControllerState::PodRestartRequired))),
        ["a: delete pod/driver"]
    );
    assert_eq!(
        one(with(cordoned(old("a", ControllerState::PodRestartRequired)), |entry| entry
            .pod
            .deleting =
            true)),
        NOTHING
    );
}

#[test]
fn line_096_an_orphaned_pod_is_deleted() {
    assert_eq!(
        one(cordoned(orphaned("a", ControllerState::PodRestartRequired))),
        ["a: delete pod/driver"]
    );
}

#[test]
fn line_097_pods_go_last_and_refusal_ends_pass() {
    let named =
        |name| with(old(name, ControllerState::PodRestartRequired), |entry| entry.pod.name = name);
    let entries =
        || [named("a"), cordoned(node("b", ControllerState::PodRestartRequired)), named("c")];
    let all = pass(&snapshot(entries()), &rules(), &options());
    assert_eq!(writes(&all), ["b: validation-required", "a: delete pod/a", "c: delete pod/c"]);
    let outcome = pass_with(&snapshot(entries()), &rules(), &options(), &mut |write| {
        !matches!(write, PassWrite::DeletePod { .. })
    });
    assert!(
        matches!(outcome.error, Some(PassError::Refused { .. })),
        "one that is gone already is an error"
    );
    assert_eq!(outcome.writes.len(), 1);
}

#[test]
fn line_098_driver_in_sync_may_load() {
    let entry = with(unready(0), |entry| entry.notes.safe_load = Some("true"));
    assert_eq!(one(entry), ["a: nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load removed"]);
}

#[test]
fn line_099_ready_driver_without_validation_is_done() {
    assert_eq!(without_validation(restarting()), ["a: uncordon-required"]);
}

#[test]
fn line_100_node_cordoned_before_stays_cordoned() {
    assert_eq!(without_validation(initially(restarting())), ["a: upgrade-done", INITIALLY_GONE]);
}

#[test]
fn line_101_a_ready_driver_is_validated() {
    assert_eq!(one(restarting()), ["a: validation-required"]);
    assert_eq!(
        one(with(restarting(), |entry| entry.pod.deleting = true)),
        ["a: validation-required"],
        "even one on its way out"
    );
}

#[test]
fn line_102_and_105_unready_driver_is_awaited() {
    assert_eq!(one(unready(0)), NOTHING);
    assert_eq!(one(unready(10)), NOTHING);
    assert_eq!(one(with(restarting(), |entry| entry.pod.running = false)), NOTHING);
}

#[test]
fn line_103_and_104_crash_looping_driver_is_given_up() {
    assert_eq!(one(unready(11)), ["a: upgrade-failed"]);
}

#[test]
fn line_106_pod_without_container_statuses_is_not_ready() {
    let object = serde_json::json!({
        "metadata": {"name": "driver"}, "spec": {"containers": [{"name": "nvidia-driver-ctr"}], "nodeName": "a"}, "status": {"phase": "Running"},
    });
    let pod =
        observed::project::pod(&serde_json::from_value(object).expect("a pod")).expect("a view");
    assert!(pod.running && !pod.containers_ready);
}

#[test]
fn line_107_failed_node_continues_with_ready_driver() {
    assert_eq!(one(cordoned(node("a", ControllerState::Failed))), ["a: uncordon-required"]);
}

#[test]
fn line_108_failed_node_cordoned_before_is_done() {
    assert_eq!(
        one(initially(cordoned(node("a", ControllerState::Failed)))),
        ["a: upgrade-done", INITIALLY_GONE]
    );
}

#[test]
fn line_109_and_110_failed_node_with_old_driver_stays() {
    assert_eq!(one(cordoned(old("a", ControllerState::Failed))), NOTHING);
    assert_eq!(one(cordoned(orphaned("a", ControllerState::Failed))), NOTHING);
    assert_eq!(
        one(with(node("a", ControllerState::Failed), |entry| entry.pod.containers_ready = false)),
        NOTHING
    );
}
