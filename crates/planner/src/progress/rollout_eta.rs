//! The estimated end of the rollout, or why there is none.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use strum::{EnumCount, IntoStaticStr};

use super::{NodeForecast, NodeProgress, NodeStage, RolloutPace};
use crate::reason::Wait;

/// Why there is no estimate of the end.
#[derive(Clone, Debug, PartialEq, Eq, EnumCount, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum NoEta {
    /// No hook is running: nothing measures the pace, and in modes `steer` and `drive` no node
    /// continues.
    NoHookRunning,
    /// The whole fleet waits, for this reason.
    FleetWaits {
        /// The reason's name.
        reason: &'static str,
    },
    /// A node is NotReady: it is unknown whether and when it comes back.
    NodeNotReady {
        /// The node.
        node: String,
    },
    /// A node needs manual action.
    NodeStuck {
        /// The node.
        node: String,
        /// The reason's name.
        reason: &'static str,
    },
    /// The driver of a node fails again and again.
    NodeFails {
        /// The node.
        node: String,
        /// The reason's name.
        reason: &'static str,
    },
    /// A node takes much longer than the nodes before it.
    NodeLate {
        /// The node.
        node: String,
    },
    /// The start of a node's upgrade, or of its wait, is not recorded.
    StartUnknown {
        /// The node.
        node: String,
    },
    /// A slot is free, and the node's upgrade has not started.
    NotStarted {
        /// The node.
        node: String,
    },
    /// Canaries, shares of the ramp or soaks come first.
    StepsLeft {
        /// The first node that waits for them.
        node: String,
    },
    /// Nodes that need manual action occupy all slots.
    NoSlot {
        /// The first node that waits for one.
        node: String,
    },
}

impl NoEta {
    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Returns the node that it is about; `None`: the fleet.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::NoHookRunning | Self::FleetWaits { .. } => None,
            Self::NodeNotReady { node }
            | Self::NodeStuck { node, .. }
            | Self::NodeFails { node, .. }
            | Self::NodeLate { node }
            | Self::StartUnknown { node }
            | Self::NotStarted { node }
            | Self::StepsLeft { node }
            | Self::NoSlot { node } => Some(node),
        }
    }
}

impl fmt::Display for NoEta {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHookRunning => write!(out, "no hook is running"),
            Self::FleetWaits { reason } => write!(out, "the whole fleet is waiting ({reason})"),
            Self::NodeNotReady { node } => write!(out, "node {node} is NotReady"),
            Self::NodeStuck { node, reason } => {
                write!(out, "node {node} needs manual action ({reason})")
            }
            Self::NodeFails { node, reason } => {
                write!(out, "the driver on node {node} keeps failing ({reason})")
            }
            Self::NodeLate { node } => write!(out, "node {node} takes longer than expected"),
            Self::StartUnknown { node } => {
                write!(
                    out,
                    "it is not recorded when the upgrade or the wait of node {node} started"
                )
            }
            Self::NotStarted { node } => {
                write!(out, "the upgrade of node {node} has not started although a slot is free")
            }
            Self::StepsLeft { node } => {
                write!(out, "canaries, a share of the ramp or a soak come before node {node}")
            }
            Self::NoSlot { node } => write!(out, "no slot becomes free for node {node}"),
        }
    }
}

/// Estimates the end of the rollout. `ends`: the forecast of each node; `has_job`: whether a
/// hook is running. Returns `Ok(None)` if no node is left.
///
/// # Errors
/// At least one node has no estimate.
pub fn rollout_eta(
    nodes: &[NodeProgress<'_>],
    ends: &BTreeMap<String, NodeForecast>,
    pace: RolloutPace,
    mut fleet_waits: impl Iterator<Item = Wait>,
    (has_job, now): (bool, Timestamp),
) -> Result<Option<Timestamp>, NoEta> {
    let mut open: Vec<&NodeProgress<'_>> = nodes.iter().filter(|node| node.is_open()).collect();
    if open.is_empty() {
        return Ok(None);
    }
    if !has_job {
        return Err(NoEta::NoHookRunning);
    }
    if let Some(wait) = fleet_waits.next() {
        return Err(NoEta::FleetWaits { reason: wait.reason.name() });
    }
    // Pending nodes have no estimate because of the nodes in progress.
    open.sort_by_key(|node| node.stage != NodeStage::InProgress);
    let mut last = None;
    for node in open {
        match ends.get(&node.node.name) {
            Some(NodeForecast::At(end)) => last = last.max(Some(*end)),
            Some(NodeForecast::NotStarted) => {
                return Err(NoEta::NotStarted { node: node.node.name.clone() });
            }
            None => return Err(no_eta(node, pace, now)),
        }
    }
    Ok(last)
}

fn no_eta(progress: &NodeProgress<'_>, pace: RolloutPace, now: Timestamp) -> NoEta {
    let node = progress.node.name.clone();
    if !progress.node.ready {
        return NoEta::NodeNotReady { node };
    }
    if !progress.moves {
        let reason = progress.wait.as_ref().map_or("Unknown", |wait| wait.reason.name());
        return if progress.wait.as_ref().is_some_and(super::is_failing) {
            NoEta::NodeFails { node, reason }
        } else {
            NoEta::NodeStuck { node, reason }
        };
    }
    match progress.clock_start() {
        _ if progress.waits_for_proof() => NoEta::StepsLeft { node },
        _ if progress.is_queued() => NoEta::NoSlot { node },
        None => NoEta::StartUnknown { node },
        Some(start) if pace.is_late(start, now) => NoEta::NodeLate { node },
        // It belongs to no pool, so nothing is known of its slots.
        Some(_) => NoEta::NoSlot { node },
    }
}
