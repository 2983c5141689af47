//! The fleet in numbers: counts, limits, and when it will probably be done.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use planner::progress::{self, LimitUse, NodeProgress, NodeStage, PoolProgress, RolloutPace};

use super::super::observe::RolloutSnapshot;
use super::NodeRow;

/// The fleet in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetTotals {
    /// Nodes.
    pub nodes: usize,
    /// As the settings ask for.
    pub done: usize,
    /// Their upgrade is going on.
    pub in_progress: usize,
    /// They wait for their upgrade, or for something else that they need.
    pub pending: usize,
    /// Their upgrade has failed.
    pub failed: usize,
    /// They were not assessed, because of what the whole fleet waits for.
    pub unknown: usize,
    /// Left as they are.
    pub deferred: usize,
    /// Nodes that take a slot, and how many may (`maxParallelUpgrades`).
    pub slots: LimitUse,
    /// Nodes that are cordoned or not ready, and how many may be (`maxUnavailable`).
    pub unavailable: LimitUse,
    /// The same of each NVIDIADriver, where each has its own limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolTotals>,
    /// What the projection goes by.
    pub pace: RolloutPace,
    /// When all nodes will probably be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// Why there is no estimate of the end, where nodes are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_eta: Option<MissingEta>,
}

/// Why there is no estimate of the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MissingEta {
    /// The kind of reason: a constant name.
    pub reason: &'static str,
    /// In words.
    pub text: String,
}

/// The nodes of one NVIDIADriver in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolTotals {
    /// Name of the NVIDIADriver.
    pub nvidia_driver: String,
    /// Nodes.
    pub nodes: usize,
    /// Nodes that take a slot, and how many may.
    pub slots: LimitUse,
    /// Nodes that are cordoned or not ready, and how many may be.
    pub unavailable: LimitUse,
}

/// Empty where there is one policy for all nodes.
fn of_pools(stands: &[NodeProgress<'_>], snapshot: &RolloutSnapshot) -> Vec<PoolTotals> {
    if !snapshot.pools.is_split() {
        return Vec::new();
    }
    let of = |pool: &PoolProgress<'_, '_>| {
        Some(PoolTotals {
            nvidia_driver: pool.pool.owner.clone()?,
            nodes: pool.stands.len(),
            slots: pool.slots(&snapshot.settings),
            unavailable: pool.unavailable(),
        })
    };
    progress::by_pool(stands, &snapshot.pools).iter().filter_map(of).collect()
}

/// Counts, and notes in each row when the node will probably be done. Pods that are in the way keep a node from moving.
pub(super) fn totals(
    snapshot: &RolloutSnapshot,
    nodes: &mut [NodeProgress<'_>],
    rows: &mut [NodeRow],
    pace: RolloutPace,
) -> FleetTotals {
    for (node, row) in nodes.iter_mut().zip(&*rows) {
        node.moves &= row
            .waiting
            .as_ref()
            .is_some_and(|waiting| waiting.resolves_itself && waiting.obstacles.is_empty());
    }
    let (settings, pools, now) = (&snapshot.settings, &snapshot.pools, snapshot.now);
    let at_work = snapshot.phase().has_job();
    let ends = if at_work {
        progress::foresee(nodes, settings, pools, pace, now)
    } else {
        BTreeMap::new()
    };
    for row in &mut *rows {
        row.end = ends.get(&row.node).copied();
    }
    let eta =
        progress::rollout_eta(nodes, &ends, pace, snapshot.decided().fleet_waits(), (at_work, now));
    let count = |stage| rows.iter().filter(|row| row.stage == stage).count();
    FleetTotals {
        nodes: rows.len(),
        done: count(NodeStage::Done),
        in_progress: count(NodeStage::InProgress),
        pending: count(NodeStage::Pending),
        failed: count(NodeStage::Failed),
        unknown: count(NodeStage::Unknown),
        deferred: count(NodeStage::Deferred),
        slots: progress::slots(nodes, settings, pools),
        unavailable: progress::unavailable(nodes, pools),
        pools: of_pools(nodes, snapshot),
        pace,
        end: eta.as_ref().ok().copied().flatten(),
        no_eta: eta.err().map(|error| MissingEta { reason: error.name(), text: error.to_string() }),
    }
}
