//! What the controller does next, and when at the latest.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::generation::TICK;
use super::pass::{Options, PassError, PassOutcome, Write, pass};
use super::rules::Rules;
use super::snapshot::Snapshot;
use super::state::State;

/// Something that moves a node on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The node.
    pub node: String,
    /// The state that it is in.
    pub from: State,
    /// What is done.
    pub step: Step,
}

/// How a node moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// It comes into this state.
    To(State),
    /// Its driver pod is deleted.
    DeletePod,
    /// Its pods begin to be evicted.
    Evict,
    /// Its drain begins.
    Drain,
    /// Its driver pod may load the driver.
    Load,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// What the next pass does, in its order; nothing: it only looks again.
    pub moves: Vec<Move>,
    /// What ends that pass before its end.
    pub error: Option<PassError>,
    /// When it runs at the latest. `None`: nothing but a change of the policy makes it run.
    pub at_latest: Option<Timestamp>,
}

/// What the controller does next. `asleep_since`: when it last had a reason to run; from then on its timer counts.
pub fn predict(snapshot: &Snapshot<'_>, rules: &Rules, options: &Options, asleep_since: Timestamp) -> Prediction {
    let outcome = pass(snapshot, rules, options);
    Prediction {
        moves: moves(snapshot, &outcome),
        at_latest: rules.auto_upgrade.then(|| due(&outcome, options, asleep_since)),
        error: outcome.error,
    }
}

/// When the next pass is, at the latest: after one that fails there is only a short pause.
fn due(outcome: &PassOutcome, options: &Options, asleep_since: Timestamp) -> Timestamp {
    let (since, pause) =
        if outcome.error.is_some() { (options.now, options.generation.features().backoff_last) } else { (asleep_since, TICK) };
    since.saturating_add(pause).unwrap_or(Timestamp::MAX)
}

/// What a pass that ran now would move: with this there is a point in waking the controller. Timers that it would only start are not
/// among it.
pub fn would_move(snapshot: &Snapshot<'_>, rules: &Rules, options: &Options) -> Vec<Move> {
    moves(snapshot, &pass(snapshot, rules, options))
}

pub(super) fn moves(snapshot: &Snapshot<'_>, outcome: &PassOutcome) -> Vec<Move> {
    let traits = snapshot.driver.traits();
    let step = |write: &Write| match write {
        Write::State { state, .. } => Some(Step::To(*state)),
        Write::DeletePod { .. } => Some(Step::DeletePod),
        Write::Evict { .. } => Some(Step::Evict),
        Write::Drain { .. } => Some(Step::Drain),
        Write::Annotate { key, value: None, .. } if *key == traits.safe_load => Some(Step::Load),
        // These come together with a new state, or are timers and requests that move nothing by themselves.
        Write::Annotate { .. }
        | Write::Cordon { .. }
        | Write::Uncordon { .. }
        | Write::CreateMaintenance { .. }
        | Write::JoinMaintenance { .. }
        | Write::LeaveMaintenance { .. }
        | Write::DeleteMaintenance { .. } => None,
    };
    if outcome.writes.is_empty() {
        return Vec::new();
    }
    let states: BTreeMap<&str, State> = snapshot.entries.iter().map(|entry| (entry.node, entry.state)).collect();
    let moved = |write: &Write| {
        let from = states.get(write.node()).copied().unwrap_or_default();
        Some(Move { node: write.node().to_owned(), from, step: step(write)? })
    };
    outcome.writes.iter().filter_map(moved).collect()
}
