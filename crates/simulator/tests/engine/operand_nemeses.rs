//! Operands that fail, are missing, get a new revision or lose a GPU, at any time of a run, in
//! every mode. A run must not succeed while a gating operand is not ready, and must end when all
//! operands are ready again.

use contract::exit::ExitCode;
use contract::operand::Operand;
use simulator::fault::{Fault, OperandFault, ScheduledFault};
use simulator::random::SeededRandom;
use simulator::report::SimulationReport;
use simulator::setup::SimulationSetup;
use simulator::simulate;

use crate::chance::drawn;
use crate::fleet::named;
use crate::parameters::{number, show};
use crate::script::{given, operated};
use crate::seeds::{is_permanent, wrong};

const MINUTE: u64 = 60_000;
const OPERANDS: [Operand; 3] = [Operand::Validator, Operand::DevicePlugin, Operand::DcgmExporter];

/// Returns a world with operands, some of them with faults.
fn world(seed: u64, operator: Option<&str>) -> SimulationSetup {
    let mut setup = drawn(seed, 6);
    if let Some(operator) = operator {
        operated(&mut setup, operator);
        setup.settings.budget_seconds = 12 * 3600;
    }
    setup.operands = true;
    let mut random = SeededRandom::stream(seed, "operands", 0);
    for _ in 0..=random.below(4) {
        let node = format!("gpu-{}", random.below(setup.nodes as u64));
        let operand = *random.choose(&OPERANDS).expect("not empty");
        let period = 1_000 + random.below(15 * MINUTE);
        let fault = match random.below(8) {
            0..=2 => OperandFault::Fails(node, operand, Some(period)),
            3 => OperandFault::Fails(node, operand, random.percent(50).then_some(period)),
            4 | 5 => OperandFault::Missing(node, operand, period),
            6 => OperandFault::Rolls(operand, period),
            _ => OperandFault::GpuDies(node),
        };
        // At the start, in the middle, and near the end of a run without work.
        let at = *random
            .choose(&[0, random.clone().below(20 * MINUTE), 10_000 + random.clone().below(20_000)])
            .expect("not empty");
        setup.faults.push(ScheduledFault { at, fault: Fault::Operand(fault) });
    }
    setup
}

/// Whether a run waited for operands until its deadline although each of them was repaired.
fn hangs(setup: &SimulationSetup, report: &SimulationReport) -> Option<String> {
    let verdict = report.verdict.as_ref().filter(|verdict| verdict.code == ExitCode::Budget)?;
    let for_ever = setup.faults.iter().any(|scheduled| is_permanent(&scheduled.fault));
    let operand =
        report.waits.iter().find(|wait| wait.reason.is_about_operands()).filter(|_| !for_ever)?;
    Some(format!("it waits indefinitely: {operand}: {}", verdict.message))
}

fn worlds(from: u64, count: u64, operator: Option<&str>) {
    let mut found = Vec::new();
    let (mut decisions, mut races, mut settled) = (0, 0, 0);
    for seed in from..from + count {
        let setup = world(seed, operator);
        let report = simulate(&setup);
        decisions += report.decisions;
        races += report.races;
        settled += usize::from(
            report.verdict.as_ref().is_some_and(|verdict| verdict.code == ExitCode::Success),
        );
        if let Some(wrong) = wrong(&setup, &report).or_else(|| hangs(&setup, &report)) {
            found.push(format!(
                "operands {seed} {operator:?}: {}",
                wrong.chars().take(700).collect::<String>()
            ));
        }
    }
    show(&format!(
        "{count} worlds with operands, {operator:?}: {decisions} decisions, {races} races, {settled} settled"
    ));
    assert!(found.is_empty(), "{} of {count}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn drive_fails_while_an_operand_is_down() {
    worlds(0, 25, None);
}

#[test]
fn assist_fails_while_an_operand_is_down() {
    worlds(0, 12, Some("assist v26.7.0"));
    worlds(12, 8, Some("assist v26.3.1"));
}

#[test]
fn steer_fails_while_an_operand_is_down() {
    worlds(0, 12, Some("steer v26.7.0"));
    worlds(12, 8, Some("steer v26.3.1"));
}

#[test]
fn observe_fails_while_an_operand_is_down() {
    worlds(0, 10, Some("observe v26.7.0"));
}

#[test]
#[ignore = "`make soak`"]
fn soak_operands() {
    for operator in [
        None,
        Some("assist v26.7.0"),
        Some("assist v26.3.1"),
        Some("steer v26.7.0"),
        Some("observe v26.3.1"),
    ] {
        worlds(10_000, number("RUNS", 10_000) / 10, operator);
    }
}

/// Returns a fleet without upgrades, so that the run waits only for operands.
fn at_rest(mode: Option<&str>, faults: &[(u64, OperandFault)]) -> SimulationReport {
    let mut setup = given(3, 1);
    if let Some(mode) = mode {
        operated(&mut setup, mode);
    }
    setup.to.clone_from(&setup.from);
    setup.operands = true;
    setup.faults = faults
        .iter()
        .map(|(at, fault)| ScheduledFault { at: *at, fault: Fault::Operand(fault.clone()) })
        .collect();
    simulate(&setup)
}

/// Returns the second at which a run ended, and its verdict.
fn ended(report: &SimulationReport) -> (u64, ExitCode, String) {
    assert_eq!(report.violations, Vec::<String>::new());
    let verdict = report.verdict.as_ref().expect("it ends");
    (report.duration / 1000, verdict.code, verdict.message.clone())
}

const MODES: [Option<&str>; 4] =
    [None, Some("observe v26.7.0"), Some("assist v26.7.0"), Some("steer v26.7.0")];

/// Each gating operand becomes unready, missing and old in turn near the end of the run. The run
/// ends after the last one is ready.
#[test]
fn each_unready_missing_or_old_operand_delays_success() {
    for mode in MODES {
        let (quick, code, message) = ended(&at_rest(mode, &[]));
        assert!(
            code == ExitCode::Success && quick < 60,
            "{mode:?}: {code:?} after {quick} s: {message}"
        );
        let period = 10 * MINUTE;
        for operand in [Operand::Validator, Operand::DevicePlugin] {
            let fault = OperandFault::Fails("gpu-1".to_owned(), operand, Some(period));
            let (second, code, message) = ended(&at_rest(mode, &[(5_000, fault)]));
            assert!(
                code == ExitCode::Success && second > 605,
                "{mode:?} {operand:?} unready: {code:?} after {second} s: {message}"
            );
        }
        for operand in [Operand::Validator, Operand::DevicePlugin] {
            let missing =
                |at, node: &str| (at, OperandFault::Missing(node.to_owned(), operand, period));
            let (second, code, message) =
                ended(&at_rest(mode, &[missing(5_000, "gpu-1"), missing(300_000, "gpu-2")]));
            assert!(
                code == ExitCode::Success && second > 900,
                "{mode:?} {operand:?} missing: {code:?} after {second} s: {message}"
            );
        }
        let rolls = OperandFault::Rolls(Operand::DevicePlugin, period);
        let (second, code, message) = ended(&at_rest(mode, &[(5_000, rolls)]));
        assert!(
            code == ExitCode::Success && second > 605,
            "{mode:?} old: {code:?} after {second} s: {message}"
        );
    }
}

/// A crashing exporter and a dead GPU are reported, but do not block success. Neither do operands
/// that were broken before.
#[test]
fn what_does_not_gate_holds_up_no_success() {
    let node = || "gpu-1".to_owned();
    let stories: [(&str, Vec<(u64, OperandFault)>); 4] = [
        (
            "*:OperandReported",
            vec![(5_000, OperandFault::Fails(node(), Operand::DcgmExporter, None))],
        ),
        ("*:OperandReported", vec![(0, OperandFault::Fails(node(), Operand::DcgmExporter, None))]),
        ("FailedBefore", vec![(0, OperandFault::Fails(node(), Operand::DevicePlugin, None))]),
        ("GpusDegraded", vec![(5_000, OperandFault::GpuDies(node()))]),
    ];
    for mode in MODES {
        for (told, faults) in &stories {
            let report = at_rest(mode, faults);
            let (second, code, message) = ended(&report);
            assert!(
                code == ExitCode::Success && second < 90,
                "{mode:?} {faults:?}: {code:?} after {second} s: {message}"
            );
            let reasons = report.verdict.as_ref().map(named).unwrap_or_default();
            assert!(reasons.iter().any(|one| one.ends_with(told)), "{mode:?}: {reasons:?}");
        }
    }
}
