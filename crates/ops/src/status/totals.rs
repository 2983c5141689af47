//! The fleet in numbers: counts, limits, and when it will probably be done.

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
    /// As asked for.
    pub done: usize,
    /// Somebody is at work on them.
    pub in_progress: usize,
    /// Out of date, and nobody is.
    pub pending: usize,
    /// They will not get there by themselves.
    pub failed: usize,
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
    /// When all will probably be done; absent: nothing is to be done, or something does not move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
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

/// The rows as the engine's room knows them.
fn progress_of_rows<'a>(snapshot: &'a RolloutSnapshot, rows: &[NodeRow]) -> Vec<NodeProgress<'a>> {
    let moves = |row: &NodeRow| row.waiting.as_ref().is_some_and(|waiting| waiting.resolves_itself && waiting.obstacles.is_empty());
    let stand = |row: &NodeRow| {
        let node = snapshot.observed.nodes.get(&row.node)?;
        Some(NodeProgress { node, stage: row.stage, state: row.state.clone(), moves: moves(row) })
    };
    rows.iter().filter_map(stand).collect()
}

/// Counts, and notes on each row when the node will probably be done.
pub(super) fn totals(snapshot: &RolloutSnapshot, rows: &mut [NodeRow], pace: RolloutPace) -> FleetTotals {
    let stands = progress_of_rows(snapshot, rows);
    let (settings, pools) = (&snapshot.settings, &snapshot.pools);
    let ends = progress::foresee(&stands, settings, pools, pace, snapshot.now);
    for row in &mut *rows {
        row.end = ends.get(&row.node).copied();
    }
    let count = |stage| rows.iter().filter(|row| row.stage == stage).count();
    FleetTotals {
        nodes: rows.len(),
        done: count(NodeStage::Done),
        in_progress: count(NodeStage::InProgress),
        pending: count(NodeStage::Pending),
        failed: count(NodeStage::Failed),
        deferred: count(NodeStage::Deferred),
        slots: progress::slots(&stands, settings, pools),
        unavailable: progress::unavailable(&stands, pools),
        pools: of_pools(&stands, snapshot),
        pace,
        end: progress::end(&stands, &ends, snapshot.decision.ended.iter().any(|wait| wait.node.is_none())),
    }
}
