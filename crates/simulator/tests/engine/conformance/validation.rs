//! Lines 111 to 125: validation, the end, and drivers that wait before they load.

use nvidia_upgrade::pass::{PassError, PassWrite, pass_with};
use nvidia_upgrade::snapshot::{NodeEntry, ValidatorPod};
use nvidia_upgrade::{ControllerState, PassOptions, pass};

use super::fixture::{NOW, cordoned, node, one, options, rules, snapshot, state_of, with, writes};

const NOTHING: [&str; 0] = [];
const STARTED: &str = "a: nvidia.com/gpu-driver-upgrade-validation-start-time";
const GONE: &str = "a: nvidia.com/gpu-driver-upgrade-validation-start-time removed";
const INITIALLY_GONE: &str =
    "a: nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable removed";
const LOADS: &str = "a: nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load removed";

fn validating(ready: &[bool], start: Option<&'static str>) -> NodeEntry<'static> {
    with(cordoned(node("a", ControllerState::ValidationRequired)), |entry| {
        entry.validators =
            ready.iter().map(|ready| ValidatorPod { name: "validator", ready: *ready }).collect();
        entry.notes.validation_start = start;
    })
}

#[test]
fn line_111_node_without_selector_is_valid_immediately() {
    let off = PassOptions { validation: false, ..options() };
    assert_eq!(
        writes(&pass(&snapshot([validating(&[], None)]), &rules(), &off)),
        ["a: uncordon-required"]
    );
}

#[test]
fn line_112_without_a_validator_no_time_runs() {
    assert_eq!(one(validating(&[], None)), NOTHING);
    assert_eq!(one(validating(&[], Some("1"))), NOTHING);
}

#[test]
fn line_113_and_117_and_118_a_ready_validator_is_the_end() {
    assert_eq!(one(validating(&[true], None)), [GONE, "a: uncordon-required"]);
    assert_eq!(one(validating(&[true], Some("1799999990"))), [GONE, "a: uncordon-required"]);
}

#[test]
fn line_114_and_115_unready_validator_starts_the_timer() {
    assert_eq!(one(validating(&[false], None)), [format!("{STARTED}={NOW}")]);
    assert_eq!(one(validating(&[false], Some("1799999990"))), NOTHING);
}

#[test]
fn line_116_node_is_given_up_after_ten_minutes() {
    assert_eq!(one(validating(&[false], Some("1799999395"))), ["a: upgrade-failed", GONE]);
    assert_eq!(one(validating(&[false], Some("1799999400"))), NOTHING, "not at the limit");
    // The next pass accepts the node without validation, because its driver is ready.
    assert_eq!(one(cordoned(node("a", ControllerState::Failed))), ["a: uncordon-required"]);
}

#[test]
fn line_119_node_cordoned_before_is_done() {
    let entry = with(validating(&[true], None), |entry| entry.notes.initially_unschedulable = true);
    assert_eq!(one(entry), [GONE, "a: upgrade-done", INITIALLY_GONE]);
}

/// World 1384 of `scenarios::agreement`: a node with an owned and an orphaned driver pod.
#[test]
fn duplicate_node_loses_its_cordon_note_first() {
    let entry =
        || with(validating(&[true], None), |entry| entry.notes.initially_unschedulable = true);
    let outcome = pass(&snapshot([entry(), entry()]), &rules(), &options());
    let writes: Vec<String> = outcome.writes.iter().map(ToString::to_string).collect();
    assert_eq!(writes, [GONE, "a: upgrade-done", INITIALLY_GONE, GONE, "a: uncordon-required"]);
}

#[test]
fn line_120_a_driver_that_waits_to_load_may() {
    let entry = with(validating(&[true], None), |entry| entry.notes.safe_load = Some("true"));
    assert_eq!(one(entry), [LOADS, GONE, "a: uncordon-required"]);
}

#[test]
fn ready_validator_resets_time_of_another() {
    assert_eq!(
        one(validating(&[true, false], Some("1"))),
        [GONE.to_owned(), format!("{STARTED}={NOW}")]
    );
    assert_eq!(one(validating(&[false, true], Some("1"))), ["a: upgrade-failed", GONE]);
}

#[test]
fn invalid_start_time_ends_the_pass() {
    let outcome = pass(&snapshot([validating(&[false], Some("soon"))]), &rules(), &options());
    assert!(matches!(outcome.error, Some(PassError::StartTime { .. })));
}

#[test]
fn line_121_the_last_step_is_the_uncordon() {
    assert_eq!(
        one(cordoned(node("a", ControllerState::UncordonRequired))),
        ["a: uncordon", "a: upgrade-done"]
    );
    assert_eq!(one(node("a", ControllerState::UncordonRequired)), ["a: upgrade-done"]);
}

#[test]
fn line_122_a_refused_uncordon_ends_the_pass() {
    let refused = PassWrite::Uncordon { node: "a".into() };
    let outcome = pass_with(
        &snapshot([cordoned(node("a", ControllerState::UncordonRequired))]),
        &rules(),
        &options(),
        &mut |write| *write != refused,
    );
    assert_eq!(outcome.error, Some(PassError::Refused { write: refused }));
    assert_eq!(state_of(&outcome, "a"), None);
}

#[test]
fn line_123_maintenance_operators_node_is_not_uncordoned() {
    assert_eq!(
        one(with(cordoned(node("a", ControllerState::UncordonRequired)), |entry| entry
            .notes
            .requestor =
            true)),
        NOTHING
    );
}

#[test]
fn line_124_and_125_an_empty_annotation_is_no_wait() {
    assert_eq!(
        one(with(node("a", ControllerState::Done), |entry| entry.notes.safe_load = Some(""))),
        NOTHING
    );
    let loaded = with(validating(&[true], None), |entry| entry.notes.safe_load = Some(""));
    assert_eq!(one(loaded), [GONE, "a: uncordon-required"]);
}
