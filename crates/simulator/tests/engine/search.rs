//! Every interleaving of a small world and the engine: what nodes, kubelets and DaemonSets do, what caches tell and when, the hook's decisions and
//! each of its writes, time, and a bounded number of faults. In every state the invariants hold; from every state in which no more faults come,
//! the run can come to its end, and there is no set of states without a way out of it (so every fair path ends: one on which nothing that stays
//! possible is put off for ever).
//!
//! What bounds it: time goes in steps of ten seconds and timestamps older than any limit count as equally old; all caches of a node are told
//! together; one pod with a GPU; the driver's template changes once, before the beginning; at most so many faults as a test says.

mod explore;
mod key;
mod step;
mod world;

use explore::{Found, explore};
use world::Model;

use crate::parameters::{number, show};
use planner::decide::{Planner, decide};

/// The engine as it is, or one with a broken rule.
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
    let anew = decide(observed, settings, memory, world::now());
    assert_eq!(decision, anew, "what builds on the last decision and what looks at everything");
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
            &Model { nodes: 1, faults: 1, lag: false, pod: true, parallel: 1 },
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
            &Model { nodes: 2, faults: 0, lag: false, pod: true, parallel: 1 },
            400_000
        )
        .complete
    );
}

#[test]
#[ignore = "`make soak`"]
fn soak_search_one_node() {
    holds("three faults", &Model { nodes: 1, faults: 3, lag: false, pod: true, parallel: 1 }, MOST);
    holds(
        "a fault, caches that lag",
        &Model { nodes: 1, faults: 1, lag: true, pod: true, parallel: 1 },
        MOST,
    );
    holds(
        "two faults, caches that lag",
        &Model { nodes: 1, faults: 2, lag: true, pod: true, parallel: 1 },
        MOST,
    );
}

#[test]
#[ignore = "`make soak`"]
fn soak_search_two_nodes() {
    holds("one fault", &Model { nodes: 2, faults: 1, lag: false, pod: true, parallel: 1 }, MOST);
    holds(
        "one fault, both at once",
        &Model { nodes: 2, faults: 1, lag: false, pod: false, parallel: 2 },
        MOST,
    );
    holds(
        "caches that lag",
        &Model { nodes: 2, faults: 0, lag: true, pod: true, parallel: 1 },
        MOST,
    );
}

#[test]
#[ignore = "`make soak`"]
fn soak_search_three_nodes() {
    holds(
        "no fault",
        &Model { nodes: 3, faults: 0, lag: false, pod: true, parallel: 2 },
        MOST_OF_THREE,
    );
}

/// Where a search stops: it takes some two kilobytes a state.
const MOST: usize = 2_500_000;
/// The same for three nodes, which have some four million states.
const MOST_OF_THREE: usize = 4_500_000;

#[test]
#[ignore = "one world: NODES=… FAULTS=… PARALLEL=… MOST=… LAG=1 POD=1"]
fn search_this() {
    let model = Model {
        nodes: usize::try_from(number("NODES", 1)).expect("few nodes"),
        faults: u8::try_from(number("FAULTS", 0)).expect("few faults"),
        lag: number("LAG", 0) > 0,
        pod: number("POD", 0) > 0,
        parallel: u32::try_from(number("PARALLEL", 1)).expect("few nodes"),
    };
    holds("this", &model, usize::try_from(number("MOST", 400_000)).expect("it fits"));
}

/// The same list of broken rules as for the seeds, as far as this world has what they are about.
#[test]
fn small_world_finds_every_broken_rule_too() {
    let one = Model { nodes: 1, faults: 1, lag: false, pod: true, parallel: 1 };
    let mut missed = Vec::new();
    for (name, mutation) in crate::mutations::for_search() {
        // What one node can show it shows in few states.
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
