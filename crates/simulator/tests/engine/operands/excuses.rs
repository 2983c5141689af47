//! Operands that failed before the run, which excuses their nodes.

use contract::exit::ExitCode;
use contract::operand::Operand;
use contract::record::{NodeOutcome, Verdict};

use super::{change, crashes, ends, fleet, offers, works};
use crate::fleet::{at, named, reason_of, waits};

fn assert_excused(verdict: &Verdict) {
    assert_eq!(
        (verdict.code, named(verdict)),
        (ExitCode::Success, vec!["*:Settled".to_owned(), "gpu-1:FailedBefore".to_owned()])
    );
}

#[test]
fn failure_from_before_the_run_never_gates() {
    let mut fleet = fleet(3);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", crashes);
    offers(&mut fleet, "gpu-1", "0", "0");
    let decision = fleet.decide(0);
    assert_eq!(decision.outcomes.get("gpu-1"), Some(&NodeOutcome::Deferred));
    let (verdict, decision) = ends(&mut fleet);
    assert_excused(&verdict);
    assert_eq!(
        decision.outcomes.values().filter(|outcome| **outcome == NodeOutcome::Deferred).count(),
        1
    );
}

/// An operand that was broken before must not hide one that broke since.
#[test]
fn excuse_of_one_operand_covers_no_other() {
    for (before, since) in
        [(Operand::Validator, Operand::DevicePlugin), (Operand::DevicePlugin, Operand::Validator)]
    {
        let mut fleet = fleet(2);
        change(&mut fleet, before, "gpu-1", crashes);
        fleet.pass(0);
        change(&mut fleet, since, "gpu-1", crashes);
        let (verdict, decision) = ends(&mut fleet);
        assert_eq!(verdict.code, ExitCode::Budget, "{}", verdict.message);
        assert_eq!(
            reason_of(&decision, "gpu-1").operand().and_then(|operand| operand.known),
            Some(since)
        );
    }
}

/// Regression: the excuse was lost as soon as the node waited for another operand.
#[test]
fn excuse_outlasts_what_else_is_waited_for() {
    for (before, meanwhile) in
        [(Operand::Validator, Operand::DevicePlugin), (Operand::DevicePlugin, Operand::Validator)]
    {
        let mut fleet = fleet(2);
        change(&mut fleet, before, "gpu-1", crashes);
        fleet.pass(0);
        change(&mut fleet, meanwhile, "gpu-1", |pod| pod.ready = false);
        fleet.pass(1);
        change(&mut fleet, meanwhile, "gpu-1", |pod| pod.ready = true);
        assert_excused(&ends(&mut fleet).0);
    }
}

/// A device plugin that was broken before the run offered no GPU then either.
#[test]
fn node_with_broken_plugin_before_owes_no_gpus() {
    let mut fleet = fleet(2);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", crashes);
    offers(&mut fleet, "gpu-1", "0", "8");
    assert_excused(&ends(&mut fleet).0);
}

#[test]
fn failure_of_new_revision_is_not_excused() {
    let mut fleet = fleet(3);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", |pod| {
        crashes(pod);
        pod.created = at(-60);
    });
    assert_eq!(ends(&mut fleet).0.code, ExitCode::Budget);
}

#[test]
fn operand_that_recovered_is_not_excused_again() {
    let mut fleet = fleet(3);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", crashes);
    fleet.pass(0);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", works);
    fleet.pass(1);
    fleet.pass(61);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", crashes);
    assert_eq!(waits(&fleet.decide(62)), ["gpu-1:OperandNotReady"]);
}

/// Regression: a container without a probe is briefly ready at each start, and the excuse was lost
/// at the first one.
#[test]
fn crash_loop_with_ready_moments_stays_excused() {
    let mut fleet = fleet(3);
    // Another node keeps the run from ending.
    change(&mut fleet, Operand::DevicePlugin, "gpu-2", |pod| pod.ready = false);
    for second in 0..900 {
        change(
            &mut fleet,
            Operand::DevicePlugin,
            "gpu-1",
            if second % 300 == 299 { works } else { crashes },
        );
        fleet.pass(second);
    }
    assert_eq!(waits(&fleet.decide(900)), ["gpu-2:OperandNotReady"]);
}
