//! The hook is killed right before and right after every event of a story. Its successor must reach
//! the same end and do nothing twice.

use simulator::fault::{Fault, ScheduledFault};
use simulator::report::SimulationReport;
use simulator::setup::SimulationSetup;
use simulator::simulate;

use crate::script::read;

pub(crate) const STORIES: [(&str, &str); 11] = [
    ("pods leave", "nodes 2\ndriver 60s\nworkers train replicaset each 1"),
    (
        "jobs, then a drain",
        "nodes 2\ndriver 60s\nupgrade {policy: {drain: {}, waitForCompletion: {podSelector: \"wait=yes\"}}}\n\
         workers train job on gpu-0 ends 60s label wait=yes\nworkers exporter daemonset each 1",
    ),
    (
        "a driver that fails",
        "nodes 2\ndriver 60s\nupgrade {policy: {maxUnavailable: 2}, attempts: 2, startSeconds: 120}\nat 0s driver-fails gpu-0 4",
    ),
    (
        "an operator that is woken",
        "nodes 2\ndriver 60s\noperator assist v26.7.0\nworkers train replicaset each 1",
    ),
    (
        "an operator that is steered",
        "nodes 3\ndriver 60s\nupgrade {policy: {maxParallelUpgrades: 2, maxUnavailable: 2}}\noperator steer v26.3.1\n\
         workers train replicaset each 1",
    ),
    (
        "tests before and after",
        "nodes 2\ndriver 60s\nworkers train replicaset each 1\ntest dcgm before after\ntest nccl",
    ),
    (
        "a test that fails",
        "nodes 2\ndriver 60s\nupgrade {policy: {maxUnavailable: 2}}\noperator steer v26.7.0\n\
         test dcgm\ntest-fault dcgm gpu-0 fails 1",
    ),
    (
        "a canary, then a share",
        "nodes 4\ndriver 60s\nupgrade {policy: {maxParallelUpgrades: 4, maxUnavailable: 100%}, \
         canary: {soakSeconds: 60}, ramp: [50%]}\ntest dcgm on canaries",
    ),
    (
        "a canary that fails",
        "nodes 3\ndriver 60s\nupgrade {policy: {maxParallelUpgrades: 3, maxUnavailable: 100%}, \
         canary: {soakSeconds: 60}, ramp: [50%]}\ntest dcgm\ntest-fault dcgm gpu-0 fails 1",
    ),
    (
        "a canary that fails, with an operator that is steered",
        "nodes 3\ndriver 60s\noperator steer v26.7.0\n\
         upgrade {policy: {maxParallelUpgrades: 3, maxUnavailable: 100%}, \
         canary: {soakSeconds: 60}, ramp: [50%]}\ntest dcgm\ntest-fault dcgm gpu-0 fails 1",
    ),
    (
        "a pod that may not go",
        "nodes 2\ndriver 60s\nupgrade {attempts: 1}\nworkers notebook bare on gpu-0",
    ),
];

/// Returns the part of the report that must be the same.
pub(crate) fn end(report: &SimulationReport) -> String {
    let writes = |kind: &str| report.writes.get(kind).copied().unwrap_or(0);
    format!(
        "{:?}, {:?}, {} driver pods and {} plugins deleted",
        report.verdict.as_ref().map(|verdict| verdict.code),
        report.outcomes,
        writes("driver"),
        writes("plugin")
    )
}

#[test]
fn killed_before_and_after_everything_that_happens() {
    for (name, story) in STORIES {
        let setup = read(story);
        let undisturbed = simulate(&setup);
        assert_eq!(undisturbed.violations, Vec::<String>::new(), "{name}");
        let mut moments: Vec<u64> =
            undisturbed.story.iter().flat_map(|(at, _)| [at.saturating_sub(1), at + 1]).collect();
        moments.dedup();
        assert!(moments.len() > 10, "{name}: {} moments", moments.len());
        for at in moments {
            let mut faults = setup.faults.clone();
            faults.push(ScheduledFault { at, fault: Fault::KillHook(3_000) });
            let report = simulate(&SimulationSetup { faults, ..setup.clone() });
            assert_eq!(report.violations, Vec::<String>::new(), "{name}, killed at {at} ms");
            assert_eq!(end(&report), end(&undisturbed), "{name}, killed at {at} ms");
        }
    }
}
