//! Lines 14 to 28: the nodes that need an upgrade.

use nvidia_upgrade::{ControllerState, PolicyRules, pass};

use super::fixture::{cordoned, node, old, one, options, orphaned, rules, snapshot, with, writes};

const INITIALLY: &str = "a: nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable=true";
const NOTHING: [&str; 0] = [];

#[test]
fn line_014_and_015_without_a_policy_nothing_is_done() {
    let outcome = pass(
        &snapshot([
            old("a", ControllerState::Unknown),
            old("b", ControllerState::PodRestartRequired),
        ]),
        &PolicyRules::default(),
        &options(),
    );
    assert_eq!(writes(&outcome), NOTHING);
    let off = PolicyRules { auto_upgrade: false, ..rules() };
    assert_eq!(
        writes(&pass(&snapshot([old("a", ControllerState::Unknown)]), &off, &options())),
        NOTHING
    );
}

#[test]
fn line_016_a_new_node_in_sync_is_done() {
    assert_eq!(one(node("a", ControllerState::Unknown)), ["a: upgrade-done"]);
}

#[test]
fn line_017_new_node_out_of_sync_needs_upgrade() {
    assert_eq!(one(old("a", ControllerState::Unknown)), ["a: upgrade-required"]);
}

#[test]
fn line_018_and_028_done_node_in_sync_is_untouched() {
    assert_eq!(one(node("a", ControllerState::Done)), NOTHING);
    assert_eq!(one(cordoned(node("a", ControllerState::Done))), NOTHING);
}

#[test]
fn line_019_done_node_out_of_sync_needs_upgrade() {
    assert_eq!(one(old("a", ControllerState::Done)), ["a: upgrade-required"]);
}

#[test]
fn line_020_and_027_cordon_is_noted_before_the_label() {
    for state in [ControllerState::Unknown, ControllerState::Done] {
        assert_eq!(one(cordoned(old("a", state))), [INITIALLY, "a: upgrade-required"]);
    }
}

#[test]
fn line_021_cordon_of_node_in_sync_is_ignored() {
    assert_eq!(one(cordoned(node("a", ControllerState::Unknown))), ["a: upgrade-done"]);
}

#[test]
fn line_022_driver_waiting_to_load_needs_upgrade() {
    assert_eq!(
        one(with(node("a", ControllerState::Done), |entry| entry.notes.safe_load = Some("true"))),
        ["a: upgrade-required"]
    );
}

#[test]
fn line_023_an_orphaned_pod_alone_needs_nothing() {
    assert_eq!(one(orphaned("a", ControllerState::Unknown)), ["a: upgrade-done"]);
    assert_eq!(one(orphaned("a", ControllerState::Done)), NOTHING);
}

#[test]
fn line_024_request_for_orphaned_pod_counts() {
    for state in [ControllerState::Unknown, ControllerState::Done] {
        assert_eq!(
            one(with(orphaned("a", state), |entry| entry.notes.requested = Some("true"))),
            ["a: upgrade-required"]
        );
    }
}

#[test]
fn line_025_only_true_is_a_request() {
    for value in ["True", "1", "yes", ""] {
        assert_eq!(
            one(with(node("a", ControllerState::Done), |entry| entry.notes.requested = Some(value))),
            NOTHING,
            "{value}"
        );
    }
}

#[test]
fn line_026_request_for_pod_in_sync_counts() {
    assert_eq!(
        one(with(node("a", ControllerState::Done), |entry| entry.notes.requested = Some("true"))),
        ["a: upgrade-required"]
    );
}
