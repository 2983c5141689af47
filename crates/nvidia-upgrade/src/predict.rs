//! Prediction of the controller's next steps.

use std::collections::BTreeMap;

use super::pass::{PassOutcome, PassWrite};
use super::snapshot::UpgradeSnapshot;
use super::state::ControllerState;

/// A step that continues the upgrade of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictedMove {
    /// The node.
    pub node: String,
    /// Its state.
    pub from: ControllerState,
    /// The step.
    pub step: PredictedStep,
}

/// A step of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredictedStep {
    /// The node enters this state.
    To(ControllerState),
    /// The driver pod is deleted.
    DeletePod,
    /// The eviction of its pods starts.
    Evict,
    /// Its drain starts.
    Drain,
    /// Its driver pod may load the driver.
    Load,
}

/// Returns the steps of a pass, without timers that it only starts.
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
        // These accompany a new state, or are timers and requests that continue nothing.
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
