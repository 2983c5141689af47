//! `resume --accept`: failed nodes that a user takes as proven. The next run of the hook releases
//! them, and they count neither as failed proofs nor as failed nodes.

use jiff::Timestamp;

use contract::record::proof::Halted;
use planner::drive_upgrade::cause::FailureCause;
use planner::drive_upgrade::failed_proof::{NoFailedProof, failed_proof};
use planner::drive_upgrade::record::{belongs_to_other_hook, read};
use planner::node::DriverOperands;

use super::observe::RolloutSnapshot;

/// Returns the halt of a rollout that no user has ended yet.
pub fn open_halt(snapshot: &RolloutSnapshot) -> Option<&Halted> {
    let halt = snapshot.record.run.as_ref()?.proof.as_ref()?.halt.as_ref()?;
    halt.ended_by(&snapshot.record.requests).is_none().then_some(halt)
}

/// A failed node that a user may take as proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvableNode {
    /// Name of the node.
    pub node: String,
    /// Why its proof failed, for people.
    pub failure: String,
    /// Since when it has failed, by the hook's clock.
    pub failed_at: Timestamp,
    /// Whether the hook cordoned it, and uncordons it then.
    pub is_cordoned: bool,
}

/// Why a user cannot take a node as proven.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProvable {
    /// The node is not in the cluster.
    #[error("not found")]
    Unknown,
    /// The upgrade of the node has not failed.
    #[error("its upgrade by a hook has not failed")]
    NotFailed,
    /// The node failed before its new driver ran.
    #[error("it failed for another reason than its proof: {cause}: {message}")]
    OtherCause {
        /// The cause.
        cause: FailureCause,
        /// Its details.
        message: String,
    },
    /// The new driver of the node does not run.
    #[error("its new driver does not run")]
    NoDriver,
}

impl From<NoFailedProof<'_>> for NotProvable {
    fn from(reason: NoFailedProof<'_>) -> Self {
        match reason {
            NoFailedProof::NotFailed => Self::NotFailed,
            NoFailedProof::OtherCause(failure) => {
                Self::OtherCause { cause: failure.cause, message: failure.message.clone() }
            }
            NoFailedProof::NoDriver => Self::NoDriver,
        }
    }
}

impl NotProvable {
    /// Returns the hint: what to do instead.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unknown => "`kubectl get nodes` lists the nodes",
            Self::NotFailed => "`gpu-rollout status` shows what the node waits for",
            Self::OtherCause { .. } | Self::NoDriver => {
                "repair the node and run `gpu-rollout retry NODE`; if the driver is bad, deploy the previous one"
            }
        }
    }

    /// How much the reason says about the node: of several rollouts, the one with the most is
    /// printed.
    fn weight(&self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::NotFailed => 1,
            Self::OtherCause { .. } | Self::NoDriver => 2,
        }
    }
}

/// Returns the node, if a user may take it as proven in this rollout.
///
/// # Errors
/// Why not.
pub fn provable(snapshot: &RolloutSnapshot, name: &str) -> Result<ProvableNode, NotProvable> {
    let RolloutSnapshot { settings, observed, .. } = snapshot;
    let node = observed.nodes.get(name).ok_or(NotProvable::Unknown)?;
    let traits = settings.driver.traits();
    if belongs_to_other_hook(node, traits, settings.own_daemon_set().as_deref()) {
        return Err(NotProvable::NotFailed);
    }
    let found = read(node, traits);
    let record = found.record().map(|record| &**record);
    let operands = DriverOperands::new(observed, settings.driver);
    let (record, failure) = failed_proof(record, operands.driver_pod(node).as_ref())?;
    Ok(ProvableNode {
        node: name.to_owned(),
        failure: format!("{}: {}", failure.cause, failure.message),
        failed_at: record.since,
        is_cordoned: record.cordoned && node.unschedulable,
    })
}

/// Returns the nodes that a user may take as proven, for each of the rollouts.
///
/// # Errors
/// The first node that is provable in no rollout, with the reason.
pub fn provable_in_any<'n>(
    snapshots: &[RolloutSnapshot],
    nodes: &'n [String],
) -> Result<Vec<Vec<ProvableNode>>, (&'n str, NotProvable)> {
    let mut all: Vec<Vec<ProvableNode>> = snapshots.iter().map(|_| Vec::new()).collect();
    for name in nodes {
        let mut is_provable = false;
        let mut refusal = NotProvable::Unknown;
        for (snapshot, of_rollout) in snapshots.iter().zip(&mut all) {
            match provable(snapshot, name) {
                Ok(node) => {
                    of_rollout.push(node);
                    is_provable = true;
                }
                Err(reason) if reason.weight() > refusal.weight() => refusal = reason,
                Err(_) => {}
            }
        }
        if !is_provable {
            return Err((name, refusal));
        }
    }
    Ok(all)
}
