//! Acceptance tests in seeded worlds: each world has tests, and faults of their pods.

use contract::record::NodeOutcome;
use simulator::acceptance::{AcceptanceEffect, AcceptanceFault};
use simulator::random::SeededRandom;
use simulator::setup::SimulationSetup;
use simulator::simulate;

use crate::chance::{acceptance, drawn};
use crate::fleet::NEW;
use crate::parameters::{number, show};
use crate::script::{operated, read};
use crate::seeds::wrong;

/// Returns a world with tests. `operator`: mode and version, if NVIDIA's controller performs the
/// upgrades.
fn world(seed: u64, operator: Option<&str>) -> SimulationSetup {
    let mut setup = drawn(seed, 6);
    if setup.settings.upgrade.acceptance.is_empty() {
        acceptance(&mut setup, &mut SeededRandom::stream(seed, "acceptance", 1));
    }
    if let Some(operator) = operator {
        operated(&mut setup, operator);
        setup.settings.budget_seconds = 12 * 3600;
    }
    setup
}

fn worlds(from: u64, count: u64, operator: Option<&str>) {
    let (mut found, mut pods) = (Vec::new(), 0);
    for seed in from..from + count {
        let setup = world(seed, operator);
        let report = simulate(&setup);
        pods += report.writes.get("test pod").copied().unwrap_or(0);
        if let Some(wrong) = wrong(&setup, &report) {
            let text: String = wrong.chars().take(700).collect();
            found.push(format!("seed {seed}: {text}"));
        }
    }
    show(&format!("{count} worlds with tests, {operator:?}: {pods} writes of their pods"));
    assert!(found.is_empty(), "{} of {count}:\n{}", found.len(), found.join("\n"));
    assert!(pods > 0, "no test has run");
}

#[test]
fn worlds_with_tests_keep_every_promise() {
    worlds(0, 40, None);
    worlds(0, 20, Some("steer v26.7.0"));
}

#[test]
#[ignore = "`make soak`"]
fn soak_worlds_with_tests() {
    worlds(1_000, number("RUNS", 10_000) / 5, None);
    for operator in ["steer v26.3.1", "steer v26.7.0"] {
        worlds(1_000, number("RUNS", 10_000) / 20, Some(operator));
    }
}

/// A driver that is bad on one GPU model fails exactly the nodes with this model, in each mode.
#[test]
fn bad_driver_fails_the_nodes_of_its_model() {
    const MODEL: &str = "nvidia.com/gpu.product";
    let story = "nodes 4\ndriver 60s\ntest dcgm\nupgrade {policy: {maxParallelUpgrades: 4, \
        maxUnavailable: 100%}, failureBudget: 100%}";
    for operator in ["", "operator steer v26.7.0"] {
        let mut setup = read(&format!("{story}\n{operator}"));
        for (index, model) in ["NVIDIA-L4", "Tesla-T4", "NVIDIA-L4", "Tesla-T4"].iter().enumerate()
        {
            let labels = setup.labels.entry(format!("gpu-{index}")).or_default();
            labels.insert(MODEL.to_owned(), (*model).to_owned());
        }
        let nodes = format!("{MODEL}=Tesla-T4").parse().expect("a label with its value");
        setup.acceptance.faults.push(AcceptanceFault {
            version: Some(NEW.to_owned()),
            ..AcceptanceFault::new(AcceptanceEffect::Fails { exit_code: 1 }, nodes)
        });
        let report = simulate(&setup);
        assert_eq!(report.violations, Vec::<String>::new(), "{}", report.describe());
        let failed: Vec<&str> = report
            .outcomes
            .iter()
            .filter(|(_, outcome)| **outcome == NodeOutcome::Failed)
            .map(|(node, _)| node.as_str())
            .collect();
        assert_eq!(failed, ["gpu-1", "gpu-3"], "{}", report.describe());
    }
}

/// The log of a failed test is read once. Without an answer, the result waits for half a minute.
#[test]
fn log_of_failed_test_is_read() {
    let story = "nodes 3\ndriver 60s\ntest dcgm log 20\ntest-fault dcgm gpu-0 fails 1\n\
        test-fault dcgm gpu-1 hangs\nupgrade {policy: {maxParallelUpgrades: 3, \
        maxUnavailable: 100%}, failureBudget: 100%}";
    for operator in ["", "operator steer v26.7.0"] {
        for (fault, reads) in
            [("", 2), ("log-fault all unreadable", 2), ("log-fault all no-answer", 6)]
        {
            let report = simulate(&read(&format!("{story}\n{operator}\n{fault}")));
            assert_eq!(report.violations, Vec::<String>::new(), "{}", report.describe());
            assert_eq!(report.log_reads, reads, "{operator} {fault}: {}", report.describe());
            let outcomes: Vec<NodeOutcome> = report.outcomes.values().copied().collect();
            let expected = [NodeOutcome::Failed, NodeOutcome::Failed, NodeOutcome::Done];
            assert_eq!(outcomes, expected, "{operator} {fault}: {}", report.describe());
        }
    }
}
