//! What `status` prints in the situations that were once described wrongly.

mod situations;

use contract::settings::Mode;
use ops::advice::fleet_advice;
use ops::run_phase::RunPhase;
use ops::status::{Attention, RolloutStatus, WaitAnswer};

use super::status_text;
use situations::{
    cut_short, ended, ended_with_failed_node, ended_without_skipped_node, failing_and_paused,
    fleet_waits, frozen, frozen_in_progress, halted, held, moving, only_paused,
    operator_reports_error, outside_window, resumed, slot_kept_by_failure, tested,
};

const WIDTH: usize = 120;

/// Regression: an operator that could not create the driver's DaemonSet said why, and no command
/// passed that on.
#[test]
fn status_text_contains_operators_error_message() {
    let text = status_text(&operator_reports_error(), false, None);
    assert!(text.contains("Failed to reconcile state-driver: no kernel"), "{text}");
}

/// `status` advised only to end a colleague's pause, where the driver of a node kept failing.
#[test]
fn broken_node_comes_before_pause() {
    let status = failing_and_paused();
    let headline = status.headline();
    assert_eq!(headline.attention, Attention::ActionNeeded);
    assert!(matches!(headline.wait, Some(WaitAnswer::Unsafe(_))));
    let reasons: Vec<&str> = fleet_advice(&status).iter().map(|advice| advice.reason).collect();
    assert_eq!(reasons, ["DriverNotReady", "Paused"]);
}

/// The failed node and the node that waits for its slot had one advice each, for the same repair.
#[test]
fn node_behind_failed_node_has_no_advice() {
    let status = slot_kept_by_failure();
    let advised: Vec<Vec<&str>> =
        fleet_advice(&status).into_iter().map(|advice| advice.nodes).collect();
    assert_eq!(advised, [["gpu-0"]]);
}

#[test]
fn second_line_says_until_when_it_is_safe_to_wait() {
    let answer = |status: &RolloutStatus| match status.headline().wait {
        Some(WaitAnswer::Safe(text)) => format!("yes ({text})"),
        Some(WaitAnswer::SafeFor(text)) => text,
        Some(WaitAnswer::Unsafe(text)) => format!("no ({text})"),
        None => String::new(),
    };
    let mut observed = frozen(RunPhase::Running, 3_000, true);
    observed.mode = "observe";
    let by_hand = RolloutStatus { automatic_retry: None, ..frozen(RunPhase::Lost, 3_000, true) };
    for (status, expected) in [
        (only_paused(RunPhase::Running), "yes (until the time limit in 50 min)"),
        (
            only_paused(RunPhase::Lost),
            "yes (Flux tries again within 10 minutes after a failure; look at the Job before, because the retry deletes it; the next run starts no paused node until you run gpu-rollout resume)",
        ),
        (
            frozen(RunPhase::Running, 3_000, true),
            "yes (until the pause ends at 1970-01-01T00:50:00Z, before the time limit of the run)",
        ),
        (
            frozen(RunPhase::Running, 5_000, false),
            "yes (until the time limit in 50 min: the pause ends at 1970-01-01T01:23:20Z, so the run fails first)",
        ),
        (
            frozen(RunPhase::Lost, 3_000, true),
            "yes (Flux tries again within 10 minutes after a failure; look at the Job before, because the retry deletes it; the next run waits until the pause ends at 1970-01-01T00:50:00Z)",
        ),
        (
            by_hand,
            "yes (until the pause ends at 1970-01-01T00:50:00Z; then deploy the bundle again, because no hook Job is running)",
        ),
        (
            observed,
            "yes (until the pause ends at 1970-01-01T00:50:00Z; then run gpu-rollout resume, which releases the nodes that the pause holds)",
        ),
        (
            frozen_in_progress(),
            "no (gpu-0 is out of service, and its upgrade continues only when the pause ends at 1970-01-01T00:50:00Z)",
        ),
        (outside_window(3_000, None), "yes (until the window opens at 1970-01-01T00:50:00Z)"),
        (
            outside_window(5_000, Some(4_000)),
            "yes (no affected node is out of service; no more upgrades start in this run, which ends before the next window opens at 1970-01-01T01:23:20Z)",
        ),
        (tested(), "no (gpu-0 is out of service; act before the acceptance test times out)"),
        (
            halted(),
            "no (gpu-0 is out of service until you act; Flux tries again within 10 minutes after a failure; the next run halts again unless you run gpu-rollout resume before)",
        ),
        (resumed(), "no (gpu-0 is out of service until you act)"),
    ] {
        assert_eq!(answer(&status), expected);
    }
}

/// Where NVIDIA's controller decides, it upgrades the deferred nodes without a new deployment.
#[test]
fn only_modes_that_decide_ask_for_another_run() {
    for mode in Mode::ALL {
        let status = RolloutStatus { mode: mode.name(), ..ended_without_skipped_node() };
        let asks = status_text(&status, false, None).contains("\nto deploy again: ");
        assert_eq!(asks, mode.decides(), "{mode:?}");
    }
}

#[test]
fn headline_names_the_attention_of_each_situation() {
    let late_by_hand =
        RolloutStatus { automatic_retry: None, ..outside_window(5_000, Some(4_000)) };
    let situations = [
        (moving(), Attention::InProgress),
        (fleet_waits(None), Attention::Waiting),
        (only_paused(RunPhase::Running), Attention::Paused),
        (only_paused(RunPhase::Lost), Attention::Paused),
        (frozen(RunPhase::Running, 3_000, true), Attention::Paused),
        (frozen(RunPhase::Running, 5_000, false), Attention::Paused),
        (outside_window(3_000, None), Attention::InProgress),
        (outside_window(5_000, Some(4_000)), Attention::Waiting),
        (outside_window(8_000, Some(4_000)), Attention::ActionNeeded),
        (late_by_hand, Attention::ActionNeeded),
        (slot_kept_by_failure(), Attention::ActionNeeded),
        (cut_short(RunPhase::Lost), Attention::ActionNeeded),
        (cut_short(RunPhase::JobDeleted), Attention::ActionNeeded),
        (cut_short(RunPhase::Aborted), Attention::Aborted),
        (ended(), Attention::Done),
        (ended_without_skipped_node(), Attention::Done),
        (ended_with_failed_node(), Attention::ActionNeeded),
        (tested(), Attention::ActionNeeded),
        (halted(), Attention::ActionNeeded),
    ];
    let found = situations.each_ref().map(|(status, _)| status.headline().attention);
    assert_eq!(found, situations.map(|(_, attention)| attention));
}

#[test]
fn status_text_is_as_reviewed() {
    let mut between = moving();
    between.run.as_mut().expect("a run").phase = RunPhase::BetweenPods;
    let situations = vec![
        ("a node moves", moving()),
        ("the pod of the hook was killed", between),
        ("the whole fleet waits", fleet_waits(Some(880))),
        ("the whole fleet waits, since when is unknown", fleet_waits(None)),
        ("a hook holds a node, and none is running", held()),
        ("aborted", cut_short(RunPhase::Aborted)),
        ("all pods of the Job failed", cut_short(RunPhase::Lost)),
        ("the Job was deleted", cut_short(RunPhase::JobDeleted)),
        ("the run has ended", ended()),
        (
            "the run has ended, and a user keeps a node on its old driver",
            ended_without_skipped_node(),
        ),
        ("the run has failed", ended_with_failed_node()),
        ("a driver keeps failing, and a pause holds the others", failing_and_paused()),
        ("a pause holds a node", only_paused(RunPhase::Running)),
        ("a pause holds a node, and no hook is running", only_paused(RunPhase::Lost)),
        ("a freeze ends before the time limit", frozen(RunPhase::Running, 3_000, true)),
        ("a freeze ends after the time limit", frozen(RunPhase::Running, 5_000, false)),
        ("a freeze, and no hook is running", frozen(RunPhase::Lost, 3_000, true)),
        ("a freeze stopped a node in progress", frozen_in_progress()),
        ("a node waits for a maintenance window", outside_window(3_000, None)),
        ("the next window opens too late", outside_window(5_000, Some(4_000))),
        (
            "the next window opens too late for the next run, too",
            outside_window(8_000, Some(4_000)),
        ),
        ("without a hook, a failed node keeps the only slot", slot_kept_by_failure()),
        ("the operator reports an error", operator_reports_error()),
        ("the image of an acceptance test cannot be pulled", tested()),
        ("the canary failed its acceptance test", halted()),
    ];
    let texts: Vec<String> = situations
        .iter()
        .map(|(situation, status)| {
            format!("== {situation}\n{}", status_text(status, false, Some(WIDTH)))
        })
        .collect();
    insta::assert_snapshot!(texts.join("\n"));
}
