//! Computes the totals of a fleet: counts, limits, and the ETA.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::settings::Mode;
use planner::progress::{
    self, LimitUse, NoEta, NodeProgress, NodeStage, PoolProgress, RolloutPace,
};
use planner::reason::{NO_TIME_LEFT, OUTSIDE_WINDOW};

use super::super::observe::RolloutSnapshot;
use super::{BlockingCondition, NodeRow, RolloutStatus};

impl NodeRow {
    /// Returns whether the node counts as failed only because it cannot be started in this run.
    pub fn is_not_started(&self) -> bool {
        let reason = self.waiting.as_ref().map(|waiting| waiting.reason);
        self.stage == NodeStage::Failed && matches!(reason, Some(OUTSIDE_WINDOW | NO_TIME_LEFT))
    }
}

impl RolloutStatus {
    /// Returns how many nodes count as failed only because they cannot be started in this run.
    pub fn not_started(&self) -> usize {
        self.nodes.iter().filter(|row| row.is_not_started()).count()
    }

    /// Returns how many nodes have failed in their upgrade.
    pub fn failed_upgrades(&self) -> usize {
        self.totals.failed.saturating_sub(self.not_started())
    }
}

/// Totals of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetTotals {
    /// The number of nodes.
    pub nodes: usize,
    /// Nodes that match the settings.
    pub done: usize,
    /// Nodes that are being upgraded.
    pub in_progress: usize,
    /// Nodes that wait for their upgrade, or for something else that they need.
    pub pending: usize,
    /// Nodes whose upgrade has failed, or could not be started in this run.
    pub failed: usize,
    /// Nodes that were not assessed, because the whole fleet waits for something.
    pub unknown: usize,
    /// Nodes that are left unchanged for a reason that the policy tolerates.
    pub deferred: usize,
    /// Nodes that take a slot, and the limit (`maxParallelUpgrades`).
    pub slots: LimitUse,
    /// Nodes that are cordoned or not ready, and the limit (`maxUnavailable`).
    pub unavailable: LimitUse,
    /// Totals of each NVIDIADriver, if each has its own limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolTotals>,
    /// The pace from which the ETA is computed.
    pub pace: RolloutPace,
    /// The ETA: when all nodes will probably be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    /// Why there is no ETA although nodes are not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_eta: Option<MissingEta>,
}

/// Why there is no ETA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MissingEta {
    /// The constant name of the reason.
    pub reason: &'static str,
    /// The node that it is about; absent: the fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The reason, for people.
    pub text: String,
}

/// Totals of the nodes of one NVIDIADriver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolTotals {
    /// Name of the NVIDIADriver.
    pub nvidia_driver: String,
    /// The number of nodes.
    pub nodes: usize,
    /// Nodes that take a slot, and the limit.
    pub slots: LimitUse,
    /// Nodes that are cordoned or not ready, and the limit.
    pub unavailable: LimitUse,
}

/// Returns the totals of each NVIDIADriver; empty if one policy applies to all nodes.
fn of_pools(nodes: &[NodeProgress<'_>], snapshot: &RolloutSnapshot) -> Vec<PoolTotals> {
    if !snapshot.pools.is_split() {
        return Vec::new();
    }
    let of = |pool: &PoolProgress<'_, '_>| {
        Some(PoolTotals {
            nvidia_driver: pool.pool.owner.clone()?,
            nodes: pool.nodes.len(),
            slots: pool.slots(&snapshot.settings),
            unavailable: pool.unavailable(),
        })
    };
    progress::by_pool(nodes, &snapshot.pools).iter().filter_map(of).collect()
}

/// Describes why there is no ETA. Without a hook, NVIDIA's controller continues, unless a node
/// blocks it.
fn missing_eta(error: NoEta, mode: Mode, rows: &[NodeRow]) -> MissingEta {
    let is_broken = |row: &&NodeRow| {
        row.waiting.as_ref().is_some_and(BlockingCondition::is_stuck)
            && matches!(row.stage, NodeStage::Failed | NodeStage::InProgress)
    };
    let named = |node: &str| rows.iter().find(|row| row.node == node);
    let error = match (error, rows.iter().find(is_broken)) {
        (NoEta::NoHookRunning, Some(row)) if !mode.decides() => NoEta::NodeStuck {
            node: row.node.clone(),
            reason: row.waiting.as_ref().map_or("", |waiting| waiting.reason),
        },
        (error, _) => error,
    };
    let moves = |node: &str| {
        let waiting = named(node).and_then(|row| row.waiting.as_ref());
        waiting.is_some_and(|waiting| !waiting.is_stuck())
    };
    let text = if let NoEta::NodeStuck { node, reason } = &error
        && moves(node)
    {
        format!("it is unknown how long node {node} waits ({reason})")
    } else {
        error.to_string()
    };
    MissingEta { reason: error.name(), node: error.node().map(str::to_owned), text }
}

/// Computes the totals, and sets the ETA of each row. A node with obstacles does not move,
/// unless they end in time.
pub(super) fn totals(
    snapshot: &RolloutSnapshot,
    nodes: &mut [NodeProgress<'_>],
    rows: &mut [NodeRow],
    pace: RolloutPace,
) -> FleetTotals {
    for (node, row) in nodes.iter_mut().zip(&*rows) {
        // A wait that a command observes for the first time is older.
        node.waits_since = row.waiting.as_ref().and_then(|waiting| waiting.since.at);
        let moves = |waiting: &BlockingCondition| !waiting.needs_action() && !waiting.stalled;
        node.moves &= row.waiting.as_ref().is_some_and(moves);
    }
    let (settings, pools, now) = (&snapshot.settings, &snapshot.pools, snapshot.now);
    let has_job = snapshot.phase().has_job();
    let ends = if has_job {
        progress::foresee(nodes, settings, pools, pace, now)
    } else {
        BTreeMap::new()
    };
    for row in &mut *rows {
        row.end = ends.get(&row.node).and_then(|end| end.at());
    }
    let eta =
        progress::rollout_eta(nodes, &ends, pace, snapshot.decided().fleet_waits(), (has_job, now));
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
        no_eta: eta.err().map(|error| missing_eta(error, settings.mode, rows)),
    }
}
