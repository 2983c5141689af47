//! When nodes will probably be done: those in progress first, then the others as slots get free. Nothing is promised of nodes that do not move.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::time::after;
use contract::record::{NodeOutcome, NodeRecord};

/// What is known of a rollout's pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPace {
    /// Seconds that one node takes.
    pub per_node_seconds: u64,
    /// From how many nodes of this run that was measured; 0: it is what the recipe expects.
    pub measured_nodes: usize,
}

impl RolloutPace {
    /// The median of the nodes that this run is done with, or what was expected.
    pub fn from_records<'a>(records: impl Iterator<Item = &'a NodeRecord>, expected_seconds: u64) -> Self {
        let took = |record: &NodeRecord| {
            let begun = record.steps.first()?.at;
            let ended = record.since.filter(|_| record.outcome == Some(NodeOutcome::Done))?;
            u64::try_from(ended.duration_since(begun).as_secs()).ok()
        };
        let mut all: Vec<u64> = records.filter_map(took).collect();
        all.sort_unstable();
        let median = all.get(all.len() / 2).copied();
        Self { per_node_seconds: median.unwrap_or(expected_seconds), measured_nodes: all.len() }
    }
}

/// A fleet in the middle of its rollout.
#[derive(Clone, Debug)]
pub struct FleetProgress<'a> {
    /// Nodes in progress that move, each with the time at which it was begun, if that is known.
    pub moving: Vec<(&'a str, Option<Timestamp>)>,
    /// Nodes that wait for their turn, in the order in which it comes.
    pub queued: Vec<&'a str>,
    /// Slots that are taken by nodes that do not move.
    pub stuck: usize,
    /// How many nodes go at once.
    pub parallel: usize,
    /// Seconds between the end of one node and the start of the next.
    pub soak_seconds: u64,
}

/// When each of the nodes will be done.
pub fn ends<'a>(fleet: &FleetProgress<'a>, pace: RolloutPace, now: Timestamp) -> BTreeMap<&'a str, Timestamp> {
    let mut ends = BTreeMap::new();
    let mut slots: BinaryHeap<Reverse<Timestamp>> = BinaryHeap::new();
    for (node, begun) in &fleet.moving {
        // One that is late is expected any moment.
        let end = after(begun.unwrap_or(now), pace.per_node_seconds).max(now);
        ends.insert(*node, end);
        slots.push(Reverse(after(end, fleet.soak_seconds)));
    }
    for _ in fleet.moving.len()..fleet.parallel.saturating_sub(fleet.stuck) {
        slots.push(Reverse(now));
    }
    for node in &fleet.queued {
        let Some(Reverse(free)) = slots.pop() else { break };
        let end = after(free, pace.per_node_seconds);
        ends.insert(node, end);
        slots.push(Reverse(after(end, fleet.soak_seconds)));
    }
    ends
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use contract::record::RecordedStep;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn seconds(fleet: &FleetProgress<'_>, per_node_seconds: u64) -> Vec<(String, i64)> {
        let pace = RolloutPace { per_node_seconds, measured_nodes: 0 };
        ends(fleet, pace, at(1000)).into_iter().map(|(node, end)| (node.to_owned(), end.as_second())).collect()
    }

    #[test]
    fn queued_nodes_follow_as_slots_get_free() {
        let fleet = FleetProgress {
            moving: vec![("a", Some(at(950))), ("b", Some(at(100)))],
            queued: vec!["c", "d", "e"],
            stuck: 0,
            parallel: 2,
            soak_seconds: 0,
        };
        let expected = [("a", 1050), ("b", 1000), ("c", 1100), ("d", 1150), ("e", 1200)];
        assert_eq!(seconds(&fleet, 100), expected.map(|(node, end)| (node.to_owned(), end)));
        let soaked = seconds(&FleetProgress { soak_seconds: 10, ..fleet }, 100);
        assert_eq!(soaked[2], ("c".to_owned(), 1110));
    }

    #[test]
    fn stuck_nodes_in_all_slots_leave_no_estimate() {
        let fleet = FleetProgress { moving: vec![], queued: vec!["c"], stuck: 2, parallel: 2, soak_seconds: 0 };
        assert_eq!(seconds(&fleet, 100), []);
    }

    #[test]
    fn pace_is_that_of_the_finished_nodes() {
        let record = |outcome, took: i64| NodeRecord {
            outcome,
            since: Some(at(took)),
            steps: vec![RecordedStep { state: "drain-required".into(), at: at(0) }],
            ..NodeRecord::default()
        };
        let records = [
            record(Some(NodeOutcome::Done), 100),
            record(Some(NodeOutcome::Done), 300),
            record(Some(NodeOutcome::Failed), 1),
            record(None, 2),
        ];
        assert_eq!(RolloutPace::from_records(records.iter(), 600), RolloutPace { per_node_seconds: 300, measured_nodes: 2 });
        assert_eq!(RolloutPace::from_records([].iter(), 600), RolloutPace { per_node_seconds: 600, measured_nodes: 0 });
    }
}
