//! What the controller does next, and when at the latest.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::controller_generation::TICK;
use super::pass::{PassError, PassOptions, PassOutcome, PassWrite, pass};
use super::rules::PolicyRules;
use super::snapshot::UpgradeSnapshot;
use super::state::ControllerState;

/// Something that moves a node on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictedMove {
    /// The node.
    pub node: String,
    /// The state that it is in.
    pub from: ControllerState,
    /// What is done.
    pub step: PredictedStep,
}

/// How a node moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredictedStep {
    /// It comes into this state.
    To(ControllerState),
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// What the next pass does, in its order; nothing: it only looks again.
    pub moves: Vec<PredictedMove>,
    /// What ends that pass before its end.
    pub error: Option<PassError>,
    /// When it runs at the latest. `None`: nothing but a change of the policy makes it run.
    pub at_latest: Option<Timestamp>,
}

/// What the controller does next. `asleep_since`: when it last had a reason to run; from then on its timer counts.
pub fn predict(snapshot: &UpgradeSnapshot<'_>, rules: &PolicyRules, options: &PassOptions, asleep_since: Timestamp) -> Prediction {
    let outcome = pass(snapshot, rules, options);
    Prediction {
        moves: moves(snapshot, &outcome),
        at_latest: rules.auto_upgrade.then(|| due(&outcome, options, asleep_since)),
        error: outcome.error,
    }
}

/// When the next pass is, at the latest: after one that fails there is only a short pause.
fn due(outcome: &PassOutcome, options: &PassOptions, asleep_since: Timestamp) -> Timestamp {
    let (since, pause) =
        if outcome.error.is_some() { (options.now, options.generation.features().backoff_last) } else { (asleep_since, TICK) };
    since.saturating_add(pause).unwrap_or(Timestamp::MAX)
}

/// What a pass that ran now would move: with this there is a point in waking the controller. Timers that it would only start are not
/// among it.
pub fn would_move(snapshot: &UpgradeSnapshot<'_>, rules: &PolicyRules, options: &PassOptions) -> Vec<PredictedMove> {
    moves(snapshot, &pass(snapshot, rules, options))
}

pub(super) fn moves(snapshot: &UpgradeSnapshot<'_>, outcome: &PassOutcome) -> Vec<PredictedMove> {
    let traits = snapshot.driver.traits();
    let step = |write: &PassWrite| match write {
        PassWrite::State { state, .. } => Some(PredictedStep::To(*state)),
        PassWrite::DeletePod { .. } => Some(PredictedStep::DeletePod),
        PassWrite::Evict { .. } => Some(PredictedStep::Evict),
        PassWrite::Drain { .. } => Some(PredictedStep::Drain),
        PassWrite::Annotate { key, value: None, .. } if *key == traits.safe_load => Some(PredictedStep::Load),
        // These come together with a new state, or are timers and requests that move nothing by themselves.
        PassWrite::Annotate { .. }
        | PassWrite::Cordon { .. }
        | PassWrite::Uncordon { .. }
        | PassWrite::CreateMaintenance { .. }
        | PassWrite::JoinMaintenance { .. }
        | PassWrite::LeaveMaintenance { .. }
        | PassWrite::DeleteMaintenance { .. } => None,
    };
    if outcome.writes.is_empty() {
        return Vec::new();
    }
    let states: BTreeMap<&str, ControllerState> = snapshot.entries.iter().map(|entry| (entry.node, entry.state)).collect();
    let moved = |write: &PassWrite| {
        let from = states.get(write.node()).copied().unwrap_or_default();
        Some(PredictedMove { node: write.node().to_owned(), from, step: step(write)? })
    };
    outcome.writes.iter().filter_map(moved).collect()
}
