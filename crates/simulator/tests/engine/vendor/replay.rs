//! Checks that the model does the same as the real controller: every step, its sleeps, and the next
//! node.
//!
//! A trace shows events, not passes, so three things are tolerated. A pass writes one node after
//! the other, about 0.1 s each, from what it saw when it began: a step may follow from what was to
//! be seen up to [`PASS`] earlier. Events of different kinds come over different watches: what
//! belongs to another kind may show up to [`ARRIVAL`] after the step that follows from it. And
//! after a failed pass the controller looks again within [`BACKOFF`], so it is known to that much
//! when it went to sleep.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::driver::Driver;
use nvidia_upgrade::background_task::{drain_ended, eviction_ended};
use nvidia_upgrade::explain::ControllerWait;
use nvidia_upgrade::operator::work;
use nvidia_upgrade::pass::PassWrite;
use nvidia_upgrade::pass_time::{CONFIRMATION, WRITE, lists_before};
use nvidia_upgrade::predict::{PredictedMove, PredictedStep as Next};
use nvidia_upgrade::{ControllerGeneration, ControllerState, explain_pass, pass};
use observed::Observed;

use super::story::{Moment, Step, Story, rules, snapshot, stories};

/// Seconds that a pass over four nodes may take.
const PASS: f64 = 0.3;
/// The largest delay of events of another kind, in seconds.
const ARRIVAL: f64 = 0.05;
/// Seconds after a failed pass.
const BACKOFF: f64 = 3.0;
/// Seconds between two passes without a trigger.
const TICK: f64 = 120.0;
/// The tolerance of the tick in seconds: its own pass, and the requests before its first write.
const GRAIN: f64 = 1.5;

impl Story {
    /// Returns the states that the controller may have observed when it decided on a step.
    fn views(&self, step: &Step) -> Vec<Observed> {
        let (before, after) = self.moments.split_at(step.moment);
        // Each state is valid until the next one.
        let until = |index: usize| self.moments[index + 1].second;
        let seen = before
            .iter()
            .enumerate()
            .filter(|(index, _)| step.second - until(*index) <= PASS)
            .map(|(_, moment)| moment.observed.clone());
        let nodes = &before.last().expect("a step is seen against something").observed.nodes;
        let late = after.iter().take_while(|moment| moment.second - step.second <= ARRIVAL);
        seen.chain(late.map(|moment| Observed { nodes: nodes.clone(), ..moment.observed.clone() }))
            .collect()
    }

    fn moves(&self, observed: &Observed, second: f64) -> Vec<PredictedMove> {
        let snapshot = snapshot(observed);
        explain_pass(
            &snapshot,
            &rules(observed),
            &self.options(second).seen_from_outside(&snapshot),
            None,
        )
        .moves
    }

    /// Returns for each moment the time since which the controller has had no trigger. Ticks
    /// without a visible effect are triggers.
    pub(crate) fn sleeps(&self) -> Vec<f64> {
        let mut since = 0.0;
        let mut all = vec![since];
        for pair in self.moments.windows(2) {
            let [before, after] = pair else { continue };
            // The controller meets the error only if it is awake.
            let awake = before.second - since <= BACKOFF;
            let failing = awake
                && pass(
                    &snapshot(&before.observed),
                    &rules(&before.observed),
                    &self.options(before.second),
                )
                .error
                .is_some();
            if self.generation.is_woken(&before.observed, &after.observed, Driver::Gpu) || failing {
                since = after.second;
            }
            while after.second - since > TICK + BACKOFF {
                since += TICK;
            }
            all.push(since);
        }
        all
    }

    /// Returns the steps before which the controller slept.
    fn first_steps(&self) -> impl Iterator<Item = (&Step, &Moment, f64)> {
        let since = &self.asleep_since;
        let slept = move |step: &Step| {
            (step.second - since[step.moment - 1] > 2.0 * BACKOFF).then(|| since[step.moment - 1])
        };
        self.steps
            .iter()
            .filter(|step| {
                !matches!(
                    step.from,
                    ControllerState::PodDeletionRequired | ControllerState::DrainRequired
                ) && step.to != ControllerState::Unknown
            })
            .filter_map(move |step| Some((step, &self.moments[step.moment - 1], slept(step)?)))
    }
}

#[test]
fn model_takes_every_step_of_real_controller() {
    // Counts in the pass, in the background, and with upgrades disabled, by the controller's
    // release.
    let mut counts: BTreeMap<ControllerGeneration, [usize; 3]> = BTreeMap::new();
    for (name, story) in stories() {
        let [foreground, background, cleaned] = counts.entry(story.generation).or_default();
        for step in &story.steps {
            let views = story.views(step);
            let taken = |observed: &Observed| {
                let outcome =
                    pass(&snapshot(observed), &rules(observed), &story.options(step.second));
                outcome
                    .writes
                    .contains(&PassWrite::State { node: step.node.clone(), state: step.to })
            };
            let ended = |observed: &Observed| {
                let policy = rules(observed).policy;
                let of = |from: ControllerState, end: &dyn Fn(bool) -> ControllerState| {
                    step.from == from && [end(true), end(false)].contains(&step.to)
                };
                of(ControllerState::PodDeletionRequired, &|well| eviction_ended(well, &policy))
                    || of(ControllerState::DrainRequired, &drain_ended)
            };
            let switched_off = |observed: &Observed| {
                step.to == ControllerState::Unknown
                    && work(observed, Driver::Gpu, story.generation, None)
                        .cleaned
                        .contains(&step.node)
            };
            if views.iter().any(taken) {
                *foreground += 1;
            } else if views.iter().any(ended) {
                *background += 1;
            } else if views.iter().any(switched_off) {
                *cleaned += 1;
            } else {
                panic!("{name}: the model does not do this: {step:?}");
            }
        }
    }
    assert_eq!(
        counts,
        [
            (ControllerGeneration::Gpu26_3, [112, 17, 0]),
            (ControllerGeneration::Gpu26_7, [255, 31, 4])
        ]
        .into(),
        "steps of all traces"
    );
}

/// When the controller goes to sleep, the model has nothing left to do. When a pass has no visible
/// effect, the model has none either.
#[test]
fn real_controller_sleeps_when_model_is_idle() {
    for (name, story) in stories() {
        let since = &story.asleep_since;
        for (index, pair) in story.moments.windows(2).enumerate() {
            let [moment, next] = pair else { continue };
            // Check at the end of the time in which it has certainly run, and at each tick without
            // a visible effect.
            let (begin, end) = (since[index] + BACKOFF, next.second - PASS);
            let looks = [begin, begin + TICK, begin + 2.0 * TICK]
                .into_iter()
                .filter(|look| moment.second < *look && *look < end);
            for look in looks {
                let moves = story.moves(&moment.observed, look);
                let late = moment.second > since[index] + ARRIVAL;
                assert!(
                    moves.is_empty() || (late && look < since[index] + TICK),
                    "{name}: at {look}: {moves:?}"
                );
            }
        }
    }
}

#[test]
fn step_after_sleep_is_predicted_with_its_time() {
    let mut counts: BTreeMap<ControllerGeneration, usize> = BTreeMap::new();
    for (name, story) in stories() {
        for (step, moment, since) in story.first_steps() {
            let snapshot = snapshot(&moment.observed);
            let options = story.options(step.second).seen_from_outside(&snapshot);
            let outlook =
                explain_pass(&snapshot, &rules(&moment.observed), &options, Some(story.at(since)));
            let first =
                outlook.moves.first().map(|moved| (moved.node.as_str(), moved.from, moved.step));
            assert_eq!(
                first,
                Some((step.node.as_str(), step.from, Next::To(step.to))),
                "{name} at {}",
                step.second
            );
            let wait = outlook
                .waits
                .iter()
                .find(|waiting| waiting.node == step.node)
                .map(|waiting| &waiting.wait);
            let Some(ControllerWait::Asleep { until: Some(at_latest), .. }) = wait else {
                panic!("{name}: {step:?}: {wait:?}")
            };
            let off = step.second - at_latest.duration_since(story.at(0.0)).as_secs_f64();
            assert!(
                (-GRAIN..BACKOFF + GRAIN).contains(&off),
                "{name}: {off} s from the tick: {step:?}"
            );
            *counts.entry(story.generation).or_default() += 1;
        }
    }
    assert_eq!(
        counts,
        [(ControllerGeneration::Gpu26_3, 16), (ControllerGeneration::Gpu26_7, 33)].into(),
        "sleeps of all traces"
    );
}

#[test]
fn next_node_to_start_is_predicted() {
    let mut counts: BTreeMap<ControllerGeneration, usize> = BTreeMap::new();
    for (name, story) in stories() {
        for step in story.steps.iter().filter(|step| {
            step.from == ControllerState::UpgradeRequired && step.to != ControllerState::Unknown
        }) {
            // A pass may start several nodes. Those before this one have already started.
            let pending = snapshot(&story.moments[step.moment - 1].observed);
            let waits = |node: &str| {
                pending
                    .entry(node)
                    .is_some_and(|entry| entry.state == ControllerState::UpgradeRequired)
            };
            let predicted = |observed: &Observed| {
                let moves = story.moves(observed, step.second);
                let next = moves.iter().find(|moved| {
                    moved.from == ControllerState::UpgradeRequired && waits(&moved.node)
                });
                next.is_some_and(|moved| moved.node == step.node && moved.step == Next::To(step.to))
            };
            assert!(story.views(step).iter().any(predicted), "{name}: {step:?}");
            *counts.entry(story.generation).or_default() += 1;
        }
    }
    assert_eq!(
        counts,
        [(ControllerGeneration::Gpu26_3, 16), (ControllerGeneration::Gpu26_7, 37)].into(),
        "starts of all traces"
    );
}

/// The times of simulations must equal those in the traces between two nodes that make the same
/// step in one pass: with a list before each write, and without.
#[test]
fn controller_steps_take_as_long_as_simulated() {
    for (lists, expected, least) in [(true, CONFIRMATION, 50), (false, WRITE, 30)] {
        let mut between: Vec<f64> = Vec::new();
        for (_, story) in stories() {
            let same = |pair: &&[Step]| {
                pair[0].to == pair[1].to
                    && pair[0].node != pair[1].node
                    && pair[1].second - pair[0].second < PASS
                    && lists_before(pair[0].to) == lists
            };
            let pairs = story.steps.windows(2).filter(same);
            between.extend(pairs.map(|pair| pair[1].second - pair[0].second));
        }
        between.sort_by(f64::total_cmp);
        let middle = Duration::from_secs_f64(between[between.len() / 2]);
        assert!(
            between.len() > least && middle.abs_diff(expected) < Duration::from_millis(15),
            "{middle:?} in the middle of {}, list: {lists}",
            between.len()
        );
    }
}
