//! What the fleet comes to: counts, limits, and when it will probably be done.

use jiff::Timestamp;
use serde::Serialize;

use crate::contract::budget;
use crate::contract::count::Count;
use crate::rollout::vendor::state::State;

use super::super::estimate::{Fleet, Pace, ends};
use super::super::look::Sight;
use super::row::begun_at;
use super::{Row, Stage};

/// The fleet in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
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
    pub slots: Limit,
    /// Nodes that are cordoned or not ready, and how many may be (`maxUnavailable`).
    pub unavailable: Limit,
    /// What the projection goes by.
    pub pace: Pace,
    /// When all will probably be done; absent: nothing is to be done, or something does not move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
}

/// How much of a limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// How many are.
    pub used: usize,
    /// How many may be; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Whether the node gets there by itself.
fn moves(row: &Row) -> bool {
    row.waiting.as_ref().is_some_and(|waiting| waiting.resolves_itself && waiting.obstacles.is_empty())
}

/// Notes on each row when the node will probably be done.
pub(super) fn foresee(sight: &Sight, rows: &mut [Row], pace: Pace) {
    let driver = sight.settings.driver;
    let in_progress = |row: &&Row| row.stage == Stage::InProgress;
    let begun = |row: &Row| sight.observed.nodes.get(&row.node).and_then(|node| begun_at(node, driver));
    let fleet = Fleet {
        moving: rows.iter().filter(in_progress).filter(|row| moves(row)).map(|row| (row.node.as_str(), begun(row))).collect(),
        queued: rows.iter().filter(|row| row.stage == Stage::Pending && moves(row)).map(|row| row.node.as_str()).collect(),
        stuck: rows.iter().filter(in_progress).filter(|row| !moves(row)).count(),
        parallel: parallel(sight, rows.len()),
        soak_seconds: if sight.settings.mode.decides() { sight.settings.upgrade.soak_seconds } else { 0 },
    };
    let ends: Vec<(String, Timestamp)> = ends(&fleet, pace, sight.now).into_iter().map(|(node, end)| (node.to_owned(), end)).collect();
    for (node, end) in ends {
        if let Some(row) = rows.iter_mut().find(|row| row.node == node) {
            row.end = Some(end);
        }
    }
}

/// How many nodes go at once.
fn parallel(sight: &Sight, nodes: usize) -> usize {
    let settings = &sight.settings;
    if settings.mode.decides() {
        return settings.upgrade.fleet(nodes, settings.per_node_seconds).parallel();
    }
    budget::Fleet {
        nodes,
        max_parallel: sight.policy.max_parallel_upgrades,
        max_unavailable: sight.policy.max_unavailable.unwrap_or(Count::Percent(100)),
        per_node_seconds: settings.per_node_seconds,
        soak_seconds: 0,
    }
    .parallel()
}

/// Nodes that take a slot: to NVIDIA's controller a node that it has given up is one of them.
fn slots_used(sight: &Sight, rows: &[Row]) -> usize {
    let failed = |row: &Row| !sight.settings.mode.decides() && row.state.as_deref() == Some(State::Failed.label());
    rows.iter().filter(|row| row.stage == Stage::InProgress || failed(row)).count()
}

pub(super) fn totals(sight: &Sight, rows: &[Row], pace: Pace) -> Totals {
    let count = |stage| rows.iter().filter(|row| row.stage == stage).count();
    let node = |row: &&Row| sight.observed.nodes.get(&row.node).is_some_and(|node| node.unschedulable || !node.ready);
    let parallel = sight.policy.max_parallel_upgrades;
    let open = rows.iter().filter(|row| matches!(row.stage, Stage::InProgress | Stage::Pending));
    // Where one node has no end, neither has the whole.
    let end = open.map(|row| row.end).collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max());
    Totals {
        nodes: rows.len(),
        done: count(Stage::Done),
        in_progress: count(Stage::InProgress),
        pending: count(Stage::Pending),
        failed: count(Stage::Failed),
        deferred: count(Stage::Deferred),
        slots: Limit { used: slots_used(sight, rows), limit: (parallel > 0).then_some(parallel as usize) },
        unavailable: Limit {
            used: rows.iter().filter(node).count(),
            limit: sight.policy.max_unavailable.map(|limit| limit.of(rows.len())),
        },
        pace,
        end: end.filter(|_| sight.decision.ended.iter().all(|wait| wait.node.is_some())),
    }
}
