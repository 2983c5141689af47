//! What the controller does next.

use std::collections::BTreeMap;

use super::pass::{PassOutcome, PassWrite};
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

/// What a pass moves. Timers that it only starts are not among it.
pub(super) fn moves(snapshot: &UpgradeSnapshot<'_>, outcome: &PassOutcome) -> Vec<PredictedMove> {
    let traits = snapshot.driver.traits();
    let step = |write: &PassWrite| match write {
        PassWrite::State { state, .. } => Some(PredictedStep::To(*state)),
        PassWrite::DeletePod { .. } => Some(PredictedStep::DeletePod),
        PassWrite::Evict { .. } => Some(PredictedStep::Evict),
        PassWrite::Drain { .. } => Some(PredictedStep::Drain),
        PassWrite::Annotate { key, value: None, .. } if *key == traits.safe_load => {
            Some(PredictedStep::Load)
        }
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
    let states: BTreeMap<&str, ControllerState> =
        snapshot.entries.iter().map(|entry| (entry.node, entry.state)).collect();
    let moved = |write: &PassWrite| {
        let from = states.get(write.node()).copied().unwrap_or_default();
        Some(PredictedMove { node: write.node().to_owned(), from, step: step(write)? })
    };
    outcome.writes.iter().filter_map(moved).collect()
}
