//! Halts of a rollout: which failures count, and how the run ends.

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::proof::Halt;
use contract::record::{NodeOutcome, NodeRecord, RefusedWrite, WriteKind};
use planner::decide::Action;
use simulator::report::SimulationReport;
use simulator::simulate;

use crate::drive::Driven;
use crate::fleet::at;
use crate::script::read;

/// Returns the outcomes of the nodes of a story, in the order of their names, and its report.
fn outcomes(story: &str) -> (Vec<NodeOutcome>, SimulationReport) {
    let report = simulate(&read(story));
    assert_eq!(report.violations, Vec::<String>::new(), "{}", report.describe());
    (report.outcomes.values().copied().collect(), report)
}

/// Regression: a node that could not be started when the rollout halted, because it was paused or
/// not ready, kept the run from its end until the time budget had expired.
#[test]
fn halted_run_does_not_wait_for_nodes_that_have_not_started() {
    let story = "nodes 3\ndriver 60s\nupgrade {policy: {maxParallelUpgrades: 3, \
        maxUnavailable: 100%}, attempts: 1, startSeconds: 300, canary: {nodes: 1}}\n\
        at 0s driver-fails gpu-0 ever";
    let steered = "operator steer v26.7.0\nat 20s not-ready gpu-2";
    for wait in [
        "at 20s not-ready gpu-2",
        "at 100s pause for 10h",
        "at 100s maintenance gpu-2 for 10h",
        steered,
    ] {
        let (outcomes, report) = outcomes(&format!("{story}\n{wait}"));
        let verdict = report.verdict.as_ref().expect("it is over");
        assert_eq!(verdict.code, ExitCode::Halted, "{wait}: {}", report.describe());
        assert!(report.duration < 400_000, "{wait}: {}", report.describe());
        let expected = [NodeOutcome::Failed, NodeOutcome::Deferred, NodeOutcome::Deferred];
        assert_eq!(outcomes, expected, "{wait}: {}", report.describe());
    }
}

/// Regression: a node that had failed with its new driver, and was to be retried, stayed cordoned
/// when no more nodes were started. It counted as deferred, and the verdict did not name it.
#[test]
fn cordoned_node_that_is_not_retried_has_failed() {
    for (limit, code) in
        [("halt: {failedProofs: 1}", ExitCode::Halted), ("failureBudget: 0", ExitCode::NodesFailed)]
    {
        let (outcomes, report) = outcomes(&format!(
            "nodes 4\ndriver 60s\nupgrade {{policy: {{maxParallelUpgrades: 2, \
             maxUnavailable: 100%}}, attempts: 2, startSeconds: 300, {limit}}}\n\
             test dcgm\ntest-fault dcgm gpu-1 fails 1\nat 0s driver-fails gpu-0 ever"
        ));
        let verdict = report.verdict.as_ref().expect("it is over");
        assert_eq!(verdict.code, code, "{limit}: {}", report.describe());
        let (failed, deferred) = (NodeOutcome::Failed, NodeOutcome::Deferred);
        let expected = [failed, failed, deferred, deferred];
        assert_eq!(outcomes, expected, "{limit}: {}", report.describe());
        let named: Vec<&str> =
            verdict.reasons.iter().filter_map(|reason| reason.node.as_deref()).collect();
        assert_eq!(named, ["gpu-0", "gpu-1"], "{limit}: {}", verdict.message);
    }
}

/// Regression: a node had failed with an earlier driver, and a write to it was refused. The rollout
/// of the new driver halted, although this driver had failed nowhere.
#[test]
fn refused_write_with_old_failure_does_not_halt_a_new_driver() {
    let mut fleet = Driven::new(2).fleet;
    fleet.settings.upgrade.halt = Some(Halt::default());
    fleet.settings.upgrade.policy.max_unavailable = None;
    let traits = Driver::Gpu.traits();
    let record = serde_json::json!({
        "version": 1, "state": "upgrade-failed", "since": at(-60), "started": at(-600),
        "digest": "earlier", "cordoned": true, "attempts": {"driver-failing": 2},
        "failure": {"cause": "driver-failing", "message": "no"},
    });
    let node = fleet.node("gpu-0");
    node.unschedulable = true;
    node.annotations.insert(traits.own_record.into(), record.to_string());
    node.labels.insert(traits.own_state_label.into(), "upgrade-failed".into());
    let refused = RefusedWrite {
        write: WriteKind::Node,
        message: "denied".into(),
        stays: true,
        cordon: false,
        requested: false,
    };
    let known =
        NodeRecord { uid: node.uid.clone(), refused: Some(refused), ..NodeRecord::default() };
    fleet.memory.nodes.insert("gpu-0", known);
    let decision = fleet.decide(0);
    let proof = decision.memory.proof.as_ref().expect("the driver is being proven");
    assert_eq!(proof.halt, None);
    let is_start = |action: &&Action| matches!(action, Action::PatchNode(patch) if patch.starts);
    let started: Vec<&str> = decision.actions.iter().filter(is_start).map(Action::node).collect();
    assert_eq!(started, ["gpu-1"]);
}

/// Regression: a test that passed on no node drained and deferred one node after another, in vain.
/// If a node passes it, the others failed for reasons of their own.
#[test]
fn test_that_passes_nowhere_halts_the_rollout() {
    let story = "nodes 6\ndriver 60s\nupgrade {policy: {maxParallelUpgrades: 6, \
        maxUnavailable: 100%}, canary: {nodes: 1}}\ntest smi before\ntest dcgm before after";
    let on_two = "test-fault dcgm gpu-1 fails 127 before\ntest-fault dcgm gpu-2 fails 127 before";
    for (faults, code, canaries, deferred) in [
        ("test-fault dcgm all fails 127 before", ExitCode::Halted, 2, 6),
        (on_two, ExitCode::Success, 1, 2),
    ] {
        let (outcomes, report) = outcomes(&format!("{story}\n{faults}"));
        let verdict = report.verdict.as_ref().expect("it is over");
        assert_eq!(verdict.code, code, "{faults}: {}", report.describe());
        assert_eq!(report.canaries.len(), canaries, "{faults}: {}", report.describe());
        let is_deferred = |outcome: &&NodeOutcome| **outcome == NodeOutcome::Deferred;
        assert_eq!(outcomes.iter().filter(is_deferred).count(), deferred, "{faults}");
    }
}
