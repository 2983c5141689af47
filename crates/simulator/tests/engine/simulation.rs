//! Seeded runs of a small fleet. Nodes migrate in any order and at any pace, and the hook is killed
//! at any decision. Rules that are independent of the engine check its actions.

use std::collections::BTreeMap;

use contract::count::Count;
use contract::exit::ExitCode;
use planner::decide::Action;
use proptest::prelude::*;

use crate::fleet::{Fleet, NEW};

/// The course of one node's migration.
#[derive(Clone, Debug)]
struct Course {
    /// Second at which the new driver is ready.
    driver_ready: i64,
    /// Seconds until NVIDIA's controller has finished with the node.
    finishing: i64,
    /// Seconds until a new plugin serves.
    plugin_start: i64,
    /// Whether the plugin is fresh beforehand (an eager administrator deleted it).
    fresh: bool,
}

fn course() -> impl Strategy<Value = Course> {
    (20..300_i64, 0..130_i64, 1..40_i64, prop::bool::weighted(0.2)).prop_map(
        |(driver_ready, finishing, plugin_start, fresh)| Course {
            driver_ready,
            finishing,
            plugin_start,
            fresh,
        },
    )
}

/// Runs the story second by second until there is a verdict. The process dies at the seconds in
/// `kills`. At those in `lost` it dies after it wrote the record and before it acts.
fn run(
    courses: &[Course],
    kills: &[i64],
    lost: &[i64],
    limit: u32,
) -> (ExitCode, BTreeMap<String, Vec<i64>>, i64) {
    let mut fleet = Fleet::at_rest(courses.len());
    fleet.settings.dra.max_unavailable = Count::Number(limit);
    fleet.bump();
    let mut deleted: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let mut serves_at: BTreeMap<String, i64> = BTreeMap::new();
    for second in 0..3000 {
        if second == 3 {
            fleet.migration_begins();
        }
        for (index, course) in courses.iter().enumerate() {
            let node = format!("gpu-{index}");
            if second == course.driver_ready {
                fleet.driver(&node, "new", NEW, second);
                fleet.state(&node, "uncordon-required");
            }
            if course.fresh && second == course.driver_ready + 1 {
                fleet.plugin(&node, second, NEW);
            }
            if second == course.driver_ready + course.finishing {
                fleet.state(&node, "upgrade-done");
            }
            if serves_at.get(&node) == Some(&second) {
                fleet.plugin(&node, second, NEW);
            }
        }
        let decision = fleet.decide(second);
        if lost.contains(&second) || kills.contains(&second) {
            fleet.restart();
        }
        if !lost.contains(&second) {
            for action in &decision.actions {
                let Action::ReplacePlugin { node, uid, .. } = action else {
                    panic!("only plugins are replaced: {action:?}")
                };
                let pod = fleet.plugin_pod(node);
                if pod.uid == *uid && !pod.deleting {
                    pod.deleting = true;
                    deleted.entry(node.clone()).or_default().push(second);
                    let index: usize = node.trim_start_matches("gpu-").parse().expect("a number");
                    serves_at.insert(node.clone(), second + courses[index].plugin_start);
                }
            }
        }
        let away = serves_at.values().filter(|at| **at > second).count();
        assert!(away <= limit as usize, "{away} plugins away at second {second}");
        if let Some(verdict) = decision.verdict {
            return (verdict.code, deleted, second);
        }
    }
    panic!("no verdict");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stale_plugins_are_replaced_once_after_their_driver(
        courses in prop::collection::vec(course(), 1..6),
        kills in prop::collection::vec(0..400_i64, 0..6),
        lost in prop::collection::vec(0..400_i64, 0..6),
        limit in 1..4_u32,
    ) {
        let (code, deleted, settled) = run(&courses, &kills, &lost, limit);
        prop_assert_eq!(code, ExitCode::Success);
        for (index, course) in courses.iter().enumerate() {
            let times = deleted.get(&format!("gpu-{index}")).cloned().unwrap_or_default();
            if course.fresh {
                prop_assert!(times.is_empty(), "a fresh plugin was replaced");
            } else {
                prop_assert_eq!(times.len(), 1, "node {}: {:?}", index, times);
                prop_assert!(times[0] > course.driver_ready);
            }
            prop_assert!(settled >= course.driver_ready + course.finishing, "settled before node {} was done", index);
        }
    }
}
