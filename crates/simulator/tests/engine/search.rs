//! Searches every interleaving of a small world and the engine: actions of nodes, kubelets and
//! DaemonSets, updates of caches, the hook's decisions and each of its writes, time, and a bounded
//! number of faults. The invariants hold in every state. From every state without further faults,
//! the run can reach its end, and no set of states is without an exit. So every fair path ends,
//! that is, every path that does not postpone a possible event forever. The bounds: time advances
//! in steps of ten seconds, and timestamps older than any limit count as equally old. All caches of
//! a node are updated together. There is one pod with a GPU, and one acceptance test in some of the
//! worlds. The driver's template changes once, before the start. Each test limits the number of
//! faults.

mod event;
mod explore;
mod key;
mod step;
mod world;

use explore::{Found, explore};
use world::Model;

use crate::parameters::{number, show};
use planner::decide::{Planner, decide};

/// The real engine, or one with a broken rule.
pub(crate) type Engine = fn(
    &mut Planner,
    &observed::Observed,
    &contract::settings::Settings,
    &planner::memory::RunMemory,
) -> planner::decide::Decision;

fn sound(
    planner: &mut Planner,
    observed: &observed::Observed,
    settings: &contract::settings::Settings,
    memory: &planner::memory::RunMemory,
) -> planner::decide::Decision {
    let decision = planner.decide(observed, settings, memory, world::now());
    let full = decide(observed, settings, memory, world::now());
    assert_eq!(decision, full, "what builds on the last decision and what looks at everything");
    decision
}

fn holds(name: &str, model: &Model, most: usize) -> Found {
    let found = explore(model, sound, most);
    show(&format!(
        "{name}: {} nodes, {} faults: {} states, {} steps, depth {}, {:.1} s{}",
        model.nodes,
        model.faults,
        found.states,
        found.steps,
        found.depth,
        found.seconds,
        if found.complete { "" } else { " (stopped at the limit: no statement on how runs end)" }
    ));
    assert!(found.wrong.is_none(), "{name}: {}", found.wrong.as_deref().unwrap_or_default());
    found
}

#[test]
fn one_node_and_a_fault() {
    assert!(
        holds(
            "one node",
            &Model { nodes: 1, faults: 1, lag: false, pod: true, test: false, parallel: 1 },
            400_000
        )
        .complete
    );
}

#[test]
fn two_nodes_without_faults() {
    assert!(
        holds(
            "two nodes",
            &Model { nodes: 2, faults: 0, lag: false, pod: true, test: false, parallel: 1 },
            400_000
        )
        .complete
    );
}

#[test]
fn one_node_with_a_test_and_a_fault() {
    let model = Model { nodes: 1, faults: 1, lag: false, pod: false, test: true, parallel: 1 };
    assert!(holds("one node, tested", &model, 400_000).complete);
}

#[test]
#[ignore = "`make soak`"]
fn soak_search_two_nodes_with_a_test() {
    let model = Model { nodes: 2, faults: 0, lag: false, pod: false, test: true, parallel: 1 };
    assert!(holds("two nodes, tested", &model, 400_000).complete);
}

#[test]
#[ignore = "`make soak`"]
fn soak_search_with_a_test() {
    let one = Model { nodes: 1, faults: 2, lag: false, pod: true, test: true, parallel: 1 };
    holds("two faults", &one, MOST);
    holds("a fault, caches that lag", &Model { faults: 1, lag: true, ..one }, MOST);
    holds("one fault, two nodes", &Model { nodes: 2, faults: 1, ..one }, MOST);
}

#[test]
#[ignore = "`make soak`"]
fn soak_search_one_node() {
    holds(
        "three faults",
        &Model { nodes: 1, faults: 3, lag: false, pod: true, test: false, parallel: 1 },
        MOST,
    );
    holds(
        "a fault, caches that lag",
        &Model { nodes: 1, faults: 1, lag: true, pod: true, test: false, parallel: 1 },
        MOST,
    );
    holds(
        "two faults, caches that lag",
        &Model { nodes: 1, faults: 2, lag: true, pod: true, test: false, parallel: 1 },
        MOST,
    );
}

#[test]
#[ignore = "`make soak`"]
fn soak_search_two_nodes() {
    holds(
        "one fault",
        &Model { nodes: 2, faults: 1, lag: false, pod: true, test: false, parallel: 1 },
        MOST,
    );
    holds(
        "one fault, both at once",
        &Model { nodes: 2, faults: 1, lag: false, pod: false, test: false, parallel: 2 },
        MOST,
    );
    holds(
        "caches that lag",
        &Model { nodes: 2, faults: 0, lag: true, pod: true, test: false, parallel: 1 },
        MOST,
    );
}

#[test]
#[ignore = "`make soak`"]
fn soak_search_three_nodes() {
    holds(
        "no fault",
        &Model { nodes: 3, faults: 0, lag: false, pod: true, test: false, parallel: 2 },
        MOST_OF_THREE,
    );
}

/// The maximum number of states of a search. Each state needs about two kilobytes.
const MOST: usize = 2_500_000;
/// The maximum for three nodes, which have about four million states.
const MOST_OF_THREE: usize = 4_500_000;

#[test]
#[ignore = "one world: NODES=… FAULTS=… PARALLEL=… MOST=… LAG=1 POD=1 TEST=1"]
fn search_this() {
    let model = Model {
        nodes: usize::try_from(number("NODES", 1)).expect("few nodes"),
        faults: u8::try_from(number("FAULTS", 0)).expect("few faults"),
        lag: number("LAG", 0) > 0,
        pod: number("POD", 0) > 0,
        test: number("TEST", 0) > 0,
        parallel: u32::try_from(number("PARALLEL", 1)).expect("few nodes"),
    };
    holds("this", &model, usize::try_from(number("MOST", 400_000)).expect("it fits"));
}

/// Checks the broken rules of the seeds that this world can detect.
#[test]
fn small_world_finds_every_broken_rule_too() {
    let one = Model { nodes: 1, faults: 1, lag: false, pod: true, test: false, parallel: 1 };
    let mut missed = Vec::new();
    for (name, mutation) in crate::mutations::for_search() {
        // A violation that one node can show appears within few states.
        let found = [one, Model { nodes: 2, ..one }].into_iter().find_map(|model| {
            let found = explore::explore_mutated(&model, mutation, 40_000);
            found.wrong.map(|wrong| (model.nodes, found.states, wrong))
        });
        match found {
            Some((nodes, states, wrong)) => {
                show(&format!(
                    "{name}: {nodes} nodes, {states} states: {}",
                    wrong.lines().next().unwrap_or_default()
                ));
            }
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
