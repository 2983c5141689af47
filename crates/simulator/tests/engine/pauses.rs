//! A user pauses the fleet right after any event of a story, in each mode. From one second later
//! on, no node starts. After `resume`, or when the pause has ended by itself, the run reaches the
//! same end.

use simulator::fault::{Fault, ScheduledFault};
use simulator::report::SimulationReport;
use simulator::setup::SimulationSetup;
use simulator::simulate;

use crate::kills::end;
use crate::script::read;

/// The duration of a pause in milliseconds. It is longer than every limit of the stories.
const PAUSE: u64 = 25 * 60_000;
/// How long after the pause, in milliseconds, an action may still start that was decided before.
const AT_ONCE: u64 = 1_000;

const DRIVEN: &str = "nodes 3\ndriver 60s\nworkers train replicaset each 1";
const JOBS: &str = "nodes 3\ndriver 60s\nupgrade {policy: {drain: {}, waitForCompletion: {podSelector: \"wait=yes\", timeoutSeconds: 600}}}\n\
    workers train job on gpu-1 ends 60s label wait=yes\nworkers exporter daemonset each 1";
const TESTED: &str =
    "nodes 3\ndriver 60s\nworkers train replicaset each 1\ntest dcgm before after\ntest nccl";

/// One story for each mode and kind, with the operators' own controllers of two versions.
const STORIES: [(&str, &str, &str); 9] = [
    ("drive", DRIVEN, ""),
    ("drive, jobs and a drain", JOBS, ""),
    ("drive, tests", TESTED, ""),
    ("observe", DRIVEN, "operator observe v26.7.0"),
    ("assist", DRIVEN, "operator assist v26.7.0"),
    ("assist, jobs and a drain", JOBS, "operator assist v26.3.1"),
    ("steer", DRIVEN, "operator steer v26.3.1"),
    ("steer, jobs and a drain", JOBS, "operator steer v26.7.0"),
    ("steer, tests", TESTED, "operator steer v26.7.0"),
];

fn is_started(state: Option<&str>) -> bool {
    !matches!(state, None | Some("upgrade-done" | "upgrade-required" | "upgrade-failed"))
}

/// Returns when each node was started.
fn started(report: &SimulationReport) -> Vec<(u64, &str)> {
    let mut started = Vec::new();
    for (node, states) in &report.states {
        let mut before = false;
        for (at, state, _) in states {
            let now = is_started(state.as_deref());
            started.extend((now && !before).then_some((*at, node.as_str())));
            before = now;
        }
    }
    started
}

/// Pauses at many events of all stories. `step`: number of events between two pauses; `pause`: the
/// pause of this duration in milliseconds.
fn pause_at(step: usize, pause: fn(u64) -> Fault) {
    for (name, story, operator) in STORIES {
        let setup = read(&format!("{story}\nbudget 24h\n{operator}"));
        let undisturbed = simulate(&setup);
        assert_eq!(undisturbed.violations, Vec::<String>::new(), "{name}");
        assert_eq!(
            started(&undisturbed).len(),
            3,
            "{name}: each node once\n{}",
            undisturbed.describe()
        );
        let mut moments: Vec<u64> = undisturbed.story.iter().map(|(at, _)| at + 1).collect();
        moments.dedup();
        assert!(moments.len() > 20, "{name}: {} moments", moments.len());
        for at in moments.into_iter().step_by(step) {
            let mut faults = setup.faults.clone();
            faults.push(ScheduledFault { at, fault: pause(PAUSE) });
            let report = simulate(&SimulationSetup { faults, ..setup.clone() });
            let place = format!("{name}, paused at {at} ms\n{}", report.describe());
            assert_eq!(report.violations, Vec::<String>::new(), "{place}");
            let late: Vec<_> = started(&report)
                .into_iter()
                .filter(|(started, _)| (at + AT_ONCE..at + PAUSE).contains(started))
                .collect();
            assert!(late.is_empty(), "{late:?}: {place}");
            assert_eq!(end(&report), end(&undisturbed), "{place}");
        }
    }
}

#[test]
fn pause_after_any_event_keeps_the_end() {
    pause_at(3, Fault::Pause);
}

/// At its end, nothing else happens that wakes the hook.
#[test]
fn pause_that_ends_by_itself_keeps_the_end() {
    pause_at(5, Fault::Freeze);
}

#[test]
#[ignore = "soak: after everything that happens"]
fn soak_pause_after_any_event_keeps_the_end() {
    pause_at(1, Fault::Pause);
    pause_at(1, Fault::Freeze);
}
