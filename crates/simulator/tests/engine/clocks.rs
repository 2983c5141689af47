//! Clocks that disagree: those of nodes by an hour, those of API servers and of the hook's
//! processes by seconds. Some of them are set or drift during the run. A run must reach the same
//! end with the same writes.

use simulator::clocks::SimulatedClocks;
use simulator::fault::{Fault, ScheduledFault};
use simulator::setup::SimulationSetup;
use simulator::simulate;

use crate::kills::{STORIES, end};
use crate::script::read;

#[test]
fn clocks_that_disagree_change_no_end() {
    for (name, story) in STORIES {
        let setup = read(story);
        let undisturbed = end(&simulate(&setup));
        for seed in 0..40 {
            let report = simulate(&SimulationSetup {
                clocks: SimulatedClocks { seed: Some(seed) },
                ..setup.clone()
            });
            assert_eq!(report.violations, Vec::<String>::new(), "{name}, seed {seed}");
            assert_eq!(end(&report), undisturbed, "{name}, seed {seed}");
        }
    }
}

/// Each process measures the server's time again.
#[test]
fn killed_hook_with_another_clock_ends_alike() {
    for (name, story) in STORIES {
        let setup = read(story);
        let undisturbed = end(&simulate(&setup));
        for seed in 0..20 {
            let kills = (1..6).map(|kill| ScheduledFault {
                at: kill * (20_000 + 1_700 * seed),
                fault: Fault::KillHook(3_000),
            });
            let faults = setup.faults.iter().cloned().chain(kills).collect();
            let report = simulate(&SimulationSetup {
                clocks: SimulatedClocks { seed: Some(seed) },
                faults,
                ..setup.clone()
            });
            assert_eq!(report.violations, Vec::<String>::new(), "{name}, seed {seed}");
            assert_eq!(end(&report), undisturbed, "{name}, seed {seed}");
        }
    }
}
