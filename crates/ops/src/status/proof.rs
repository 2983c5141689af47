//! How far the new driver is proven: canaries, ramp, halt.

use jiff::Timestamp;
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;
use schemars::JsonSchema;
use serde::Serialize;

use contract::record::proof::{DriverProof, Halted};
use contract::user_request::UserRequest;

use super::super::observe::RolloutSnapshot;

/// The proof of the new driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProofStatus {
    /// The canaries, as far as they are chosen.
    pub canaries: Vec<String>,
    /// How many steps have ended, with their soaks.
    pub steps_ended: usize,
    /// Since when all nodes of the current step have been proven, which is when its soak started;
    /// absent while some are not proven.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven_at: Option<Timestamp>,
    /// Why no more nodes are started; absent: the rollout has not halted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt: Option<Halted>,
    /// What the nodes that are not started wait for, for people; absent: for no step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Returns whether there is a halt that no user has ended yet.
pub(super) fn is_open_halt(halt: Option<&Halted>, requests: &[UserRequest]) -> bool {
    halt.is_some_and(|halt| halt.ended_by(requests).is_none())
}

impl ProofStatus {
    /// Returns the proof that the last decision knows.
    pub(super) fn of(snapshot: &RolloutSnapshot) -> Option<Self> {
        let decision = &snapshot.decision;
        let proof = decision.memory.proof.as_deref()?;
        let DriverProof { canaries, ended_steps, proven_at, halt, .. } = proof.clone();
        let is_halted = |step: &UpgradeReason| matches!(step, UpgradeReason::Halted { .. });
        let is_step = |reason: &Reason| matches!(reason, Reason::Upgrading(step) if step.waits_for_proof() || is_halted(step));
        let waits = decision.waits.iter().chain(decision.ended.iter());
        let text = waits.map(|wait| wait.reason).find(|reason| is_step(reason));
        let text = text.map(|reason| reason.to_string());
        Some(Self { canaries, steps_ended: ended_steps.len(), proven_at, halt, text })
    }
}
