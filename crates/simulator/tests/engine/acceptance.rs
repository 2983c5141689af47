//! Acceptance tests in seeded worlds: each world has tests, and faults of their pods.

use std::collections::{BTreeSet, HashSet};

use contract::exit::ExitCode;
use contract::record::NodeOutcome;
use simulator::acceptance::{AcceptanceEffect, AcceptanceFault, FaultyNodes};
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

const MODEL: &str = "nvidia.com/gpu.product";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns a fleet with two GPU models in two zones. The new driver fails its test on these nodes.
fn models(story: &str, bad: FaultyNodes) -> SimulationSetup {
    let mut setup = read(story);
    for index in 0..setup.nodes {
        let labels = setup.labels.entry(format!("gpu-{index}")).or_default();
        labels.insert(MODEL.to_owned(), ["NVIDIA-L4", "Tesla-T4"][index % 2].to_owned());
        labels.insert(ZONE.to_owned(), ["a", "b"][index / 2 % 2].to_owned());
    }
    setup.acceptance.faults.push(AcceptanceFault {
        version: Some(NEW.to_owned()),
        ..AcceptanceFault::new(AcceptanceEffect::Fails { exit_code: 1 }, bad)
    });
    setup
}

/// The nodes with one of the two GPU models.
fn one_model() -> FaultyNodes {
    format!("{MODEL}=Tesla-T4").parse().expect("a label with its value")
}

/// A driver that is bad on one GPU model fails exactly the nodes with this model, in each mode.
#[test]
fn bad_driver_fails_the_nodes_of_its_model() {
    let story = "nodes 4\ndriver 60s\ntest dcgm\nupgrade {policy: {maxParallelUpgrades: 4, \
        maxUnavailable: 100%}, failureBudget: 100%}";
    for operator in ["", "operator steer v26.7.0"] {
        let report = simulate(&models(&format!("{story}\n{operator}"), one_model()));
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

/// Of a thousand nodes, a bad driver reaches only the canaries: one of each GPU model in each zone.
/// If it is bad on one model, the halt names this model, and the canaries of the other one pass.
#[test]
fn bad_driver_reaches_only_the_canaries_of_a_thousand_nodes() {
    let story = format!(
        "nodes 1000\ndriver 60s\ntest dcgm\nupgrade {{policy: {{maxParallelUpgrades: 8, \
         maxUnavailable: 100%}}, canary: {{per: [{MODEL}, {ZONE}]}}}}"
    );
    for operator in ["", "operator steer v26.7.0"] {
        for bad in [FaultyNodes::All, one_model()] {
            let is_everywhere = bad == FaultyNodes::All;
            let mut setup = models(&format!("{story}\n{operator}"), bad);
            (setup.tells, setup.thorough) = (false, false);
            let report = simulate(&setup);
            assert_eq!(report.violations, Vec::<String>::new(), "{operator}");
            let verdict = report.verdict.expect("it is over");
            assert_eq!(verdict.code, ExitCode::Halted, "{operator}: {}", verdict.message);
            let is_reached = |outcome: NodeOutcome| outcome != NodeOutcome::Deferred;
            let reached = report.outcomes.iter().filter(|(_, outcome)| is_reached(**outcome));
            let reached: BTreeSet<String> = reached.map(|(node, _)| node.clone()).collect();
            assert_eq!(reached, report.canaries, "{operator}: {}", verdict.message);
            let mut combinations = HashSet::new();
            for canary in &report.canaries {
                let labels = &setup.labels[canary];
                combinations.insert(labels.clone());
                let is_bad = is_everywhere || labels.has(MODEL, "Tesla-T4");
                let expected = if is_bad { NodeOutcome::Failed } else { NodeOutcome::Done };
                assert_eq!(report.outcomes[canary], expected, "{operator}: {canary}");
            }
            assert_eq!((combinations.len(), report.canaries.len()), (4, 4), "{operator}");
            if !is_everywhere {
                let names = |model: &str| verdict.message.contains(&format!("{MODEL}={model}"));
                assert!(names("Tesla-T4") && !names("NVIDIA-L4"), "{}", verdict.message);
            }
        }
    }
}

/// Regression: others had uncordoned a node that had failed its test. When it was tested again, its
/// workloads stayed, the test found no free GPU, and the node failed again.
#[test]
fn workloads_leave_before_a_node_is_tested_again() {
    let story = "nodes 2\ndriver 60s\nworkers train replicaset on gpu-1\ntest dcgm\n\
        test-fault dcgm gpu-0 fails 1\n\
        upgrade {policy: {maxParallelUpgrades: 1, maxUnavailable: 2}}\n\
        at 150s uncordon gpu-0\nat 200s tests-pass";
    for again in
        ["at 201s deploy 2", "at 201s annotate gpu-0 nvidia.com/gpu-driver-upgrade-requested true"]
    {
        let report = simulate(&read(&format!("{story}\n{again}")));
        assert_eq!(report.violations, Vec::<String>::new(), "{}", report.describe());
        let outcomes: Vec<NodeOutcome> = report.outcomes.values().copied().collect();
        assert_eq!(outcomes, [NodeOutcome::Done; 2], "{again}: {}", report.describe());
        assert_eq!(report.pods_evicted, 2, "{again}: {}", report.describe());
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
