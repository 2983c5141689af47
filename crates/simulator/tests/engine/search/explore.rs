//! A breadth-first search of all reachable worlds, and a backward search from those in which the
//! run is over.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use planner::decide::{Planner, decide};
use simulator::setup::DecisionMutation;

use super::Engine;
use super::event::Event;
use super::step::settings;
use super::world::{Model, World, now};

/// The result of a search.
pub(super) struct Found {
    pub(super) states: usize,
    pub(super) steps: usize,
    pub(super) depth: usize,
    pub(super) seconds: f64,
    /// Whether all reachable states were visited.
    pub(super) complete: bool,
    /// A violation and the path to it.
    pub(super) wrong: Option<String>,
}

struct Reached {
    from: usize,
    by: Option<Event>,
    depth: usize,
    over: bool,
    /// The successors without a fault.
    next: Vec<u32>,
}

pub(super) fn explore(model: &Model, engine: Engine, most: usize) -> Found {
    let settings = settings(model);
    search(
        model,
        &mut |planner, observed, memory| engine(planner, observed, &settings, memory),
        most,
    )
}

/// Searches with a broken rule.
pub(super) fn explore_mutated(model: &Model, mutation: DecisionMutation, most: usize) -> Found {
    let settings = settings(model);
    search(
        model,
        &mut |_, observed, memory| {
            let mut decision = decide(observed, &settings, memory, now());
            mutation(&mut decision, observed);
            decision
        },
        most,
    )
}

type Decide<'a> = dyn FnMut(
        &mut Planner,
        &observed::Observed,
        &planner::memory::RunMemory,
    ) -> planner::decide::Decision
    + 'a;

fn search(model: &Model, decide: &mut Decide<'_>, most: usize) -> Found {
    let began = Instant::now();
    let mut first = World::new(model);
    first.ages(0);
    let mut numbers = HashMap::from([(first.key(), 0_usize)]);
    let mut reached = vec![Reached { from: 0, by: None, depth: 0, over: false, next: Vec::new() }];
    let mut queue = VecDeque::from([(0_usize, first)]);
    let mut steps = 0;
    let mut complete = true;
    let mut wrong = None;
    while let Some((number, world)) = queue.pop_front() {
        if reached.len() > most {
            complete = false;
            break;
        }
        for event in world.events(model) {
            let mut next = world.clone();
            steps += 1;
            if let Err(what) = next.happens(event, model, decide) {
                wrong = Some(format!("{what}\n  after {}", path(&reached, number, event)));
                break;
            }
            let key = next.key();
            let to = *numbers.entry(key).or_insert_with(|| {
                let depth = reached[number].depth + 1;
                reached.push(Reached {
                    from: number,
                    by: Some(event),
                    depth,
                    over: next.over,
                    next: Vec::new(),
                });
                let to = reached.len() - 1;
                queue.push_back((to, next));
                to
            });
            if !event.is_fault() {
                reached[number].next.push(u32::try_from(to).expect("few states"));
            }
        }
        if wrong.is_some() {
            break;
        }
    }
    if wrong.is_none() && complete {
        wrong = without_end(&reached);
    }
    Found {
        states: reached.len(),
        steps,
        depth: reached.iter().map(|state| state.depth).max().unwrap_or(0),
        seconds: began.elapsed().as_secs_f64(),
        complete,
        wrong,
    }
}

/// Returns a state from which no path without faults reaches the end of the run. If there is none,
/// every set of states without an exit contains an end.
fn without_end(reached: &[Reached]) -> Option<String> {
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); reached.len()];
    for (number, state) in reached.iter().enumerate() {
        for next in &state.next {
            before[*next as usize].push(u32::try_from(number).expect("few states"));
        }
    }
    let mut ends: Vec<bool> = reached.iter().map(|state| state.over).collect();
    let mut queue: VecDeque<usize> = (0..reached.len()).filter(|number| ends[*number]).collect();
    while let Some(number) = queue.pop_front() {
        for from in &before[number] {
            if !std::mem::replace(&mut ends[*from as usize], true) {
                queue.push_back(*from as usize);
            }
        }
    }
    let stuck = (0..reached.len()).find(|number| !ends[*number])?;
    Some(format!(
        "the run cannot end any more\n  after {}",
        path(reached, stuck, Event::TimeGoesOn)
    ))
}

/// Returns the path to a state.
fn path(reached: &[Reached], number: usize, last: Event) -> String {
    let mut events = vec![format!("{last:?}")];
    let mut at = number;
    while let Some(by) = reached[at].by {
        events.push(format!("{by:?}"));
        at = reached[at].from;
    }
    events.reverse();
    events.join(", ")
}
