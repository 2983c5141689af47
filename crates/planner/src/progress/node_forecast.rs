//! Estimates when nodes will be done: first those in progress, then the others as slots become
//! free. There is no estimate for nodes that need manual action, nor for a node that takes much
//! longer than the nodes before it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::NodeProgress;
use crate::time::after;
use contract::record::{MOST_INTERRUPTIONS, NodeOutcome, NodeRecord};
use contract::window::{self, MaintenanceWindow};

/// Seconds that a node may always take longer than expected: for nodes that take only seconds, half
/// of the expected time is too little.
const LEAST_MARGIN: u64 = 30;

/// The pace of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPace {
    /// Seconds that one node takes.
    pub per_node_seconds: u64,
    /// Number of nodes of this run that were measured; 0 if it is the value of the recipe.
    pub measured_nodes: usize,
}

impl RolloutPace {
    /// Returns the median of the nodes that this run has completed, or the expected value. A node is
    /// not measured if its start is unknown, or if the run was interrupted during its upgrade.
    /// `interruptions`: the ends of interruptions, in which no hook or no operator was at work.
    pub fn from_records<'a>(
        records: impl Iterator<Item = &'a NodeRecord>,
        interruptions: &[Timestamp],
        expected_seconds: u64,
    ) -> Self {
        // Earlier interruptions are not known any more.
        let known_since =
            interruptions.first().filter(|_| interruptions.len() >= MOST_INTERRUPTIONS);
        let took = |record: &NodeRecord| {
            let started = record.steps.first().filter(|step| !step.or_earlier)?.at;
            let ended = record.since.filter(|_| record.outcome == Some(NodeOutcome::Done))?;
            let is_unknown = known_since.is_some_and(|since| started < *since);
            if is_unknown || interruptions.iter().any(|at| started < *at && *at <= ended) {
                return None;
            }
            u64::try_from(ended.duration_since(started).as_secs()).ok()
        };
        let mut all: Vec<u64> = records.filter_map(took).collect();
        all.sort_unstable();
        let median = all.get(all.len() / 2).copied();
        Self { per_node_seconds: median.unwrap_or(expected_seconds), measured_nodes: all.len() }
    }

    /// Returns whether a node that was started at this time takes more than one and a half times as
    /// long as expected.
    pub(super) fn is_late(self, started: Timestamp, now: Timestamp) -> bool {
        let expected = self.per_node_seconds;
        now > after(started, expected.saturating_add((expected / 2).max(LEAST_MARGIN)))
    }

    /// Returns whether a node that could start at this time would be done by now: the end of a node
    /// that has not started is unknown then.
    fn is_overdue(self, free: Timestamp, now: Timestamp) -> bool {
        now > after(free, self.per_node_seconds.max(LEAST_MARGIN))
    }

    /// Returns when a node that was started at this time ends. A node that is slightly late is
    /// expected at any time.
    pub(super) fn end(self, started: Timestamp, now: Timestamp) -> Timestamp {
        after(started, self.per_node_seconds).max(now)
    }

    /// Returns whether the end of a node that waits for no slot can be estimated: it moves, its
    /// start is known, and it is not late.
    pub(super) fn is_expected(self, node: &NodeProgress<'_>, now: Timestamp) -> bool {
        node.moves && node.clock_start().is_some_and(|started| !self.is_late(started, now))
    }
}

/// When a node will be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeForecast {
    /// At this time, probably.
    At(Timestamp),
    /// It is unknown: a slot has been free for the node for too long, and its upgrade has not
    /// started.
    NotStarted,
}

impl NodeForecast {
    /// Returns the time, if there is one.
    pub fn at(self) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(at),
            Self::NotStarted => None,
        }
    }
}

/// A fleet in the middle of its rollout.
#[derive(Clone, Debug)]
pub struct FleetProgress<'a> {
    /// Nodes in progress that move, each with the time at which its upgrade started.
    pub moving: Vec<(&'a str, Timestamp)>,
    /// Nodes that wait, in the order in which they will start, each with the end of its pause.
    pub queued: Vec<(&'a str, Option<Timestamp>)>,
    /// Slots that are occupied by nodes that need manual action.
    pub stuck: usize,
    /// How many nodes are upgraded at once.
    pub parallel: usize,
    /// Since when the free slots are free and nodes wait for them.
    pub free_since: Timestamp,
    /// Seconds between the end of one node and the start of the next.
    pub soak_seconds: u64,
    /// When nodes may be started.
    pub windows: &'a [MaintenanceWindow],
}

/// Returns when each of the nodes will be done. A node that gets no slot is missing.
pub fn ends<'a>(
    fleet: &FleetProgress<'a>,
    pace: RolloutPace,
    now: Timestamp,
) -> BTreeMap<&'a str, NodeForecast> {
    let mut ends = BTreeMap::new();
    let mut slots: BinaryHeap<Reverse<Timestamp>> = BinaryHeap::new();
    for (node, started) in &fleet.moving {
        let end = pace.end(*started, now);
        ends.insert(*node, NodeForecast::At(end));
        slots.push(Reverse(after(end, fleet.soak_seconds)));
    }
    for _ in fleet.moving.len()..fleet.parallel.saturating_sub(fleet.stuck) {
        slots.push(Reverse(fleet.free_since));
    }
    for (node, paused_until) in &fleet.queued {
        let Some(Reverse(free)) = slots.pop() else { break };
        let free = window::opening(fleet.windows, paused_until.map_or(free, |end| end.max(free)));
        if pace.is_overdue(free, now) {
            ends.insert(*node, NodeForecast::NotStarted);
            continue;
        }
        let end = pace.end(free, now);
        ends.insert(*node, NodeForecast::At(end));
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
        ends(fleet, pace, at(1000))
            .into_iter()
            .filter_map(|(node, end)| Some((node.to_owned(), end.at()?.as_second())))
            .collect()
    }

    #[test]
    fn queued_nodes_follow_as_slots_get_free() {
        let fleet = FleetProgress {
            moving: vec![("a", at(950)), ("b", at(890))],
            queued: vec![("c", None), ("d", None), ("e", None)],
            stuck: 0,
            parallel: 2,
            free_since: at(1000),
            soak_seconds: 0,
            windows: &[],
        };
        let expected = [("a", 1050), ("b", 1000), ("c", 1100), ("d", 1150), ("e", 1200)];
        assert_eq!(seconds(&fleet, 100), expected.map(|(node, end)| (node.to_owned(), end)));
        let soaked = seconds(&FleetProgress { soak_seconds: 10, ..fleet }, 100);
        assert_eq!(soaked[2], ("c".to_owned(), 1110));
    }

    /// `status` expected a node in 4 s for minutes, because a late node was expected at any time.
    #[test]
    fn late_node_is_not_expected() {
        let pace = |per_node_seconds| RolloutPace { per_node_seconds, measured_nodes: 1 };
        for (per_node, took, late) in
            [(100, 100, false), (100, 150, false), (100, 151, true), (3, 33, false), (3, 34, true)]
        {
            assert_eq!(
                pace(per_node).is_late(at(1000 - took), at(1000)),
                late,
                "{took} s, where a node takes {per_node} s"
            );
        }
    }

    /// A queued node with a free slot was expected later and later while no controller started it.
    #[test]
    fn node_that_is_not_started_becomes_late() {
        let fleet = |free_since| FleetProgress {
            moving: vec![],
            queued: vec![("c", None)],
            stuck: 0,
            parallel: 1,
            free_since: at(free_since),
            soak_seconds: 0,
            windows: &[],
        };
        let end = |free_since| seconds(&fleet(free_since), 100).first().map(|(_, end)| *end);
        assert_eq!(end(1000), Some(1100), "the slot has just become free");
        assert_eq!(end(960), Some(1060), "the end does not move with the clock");
        assert_eq!(end(900), Some(1000));
        assert_eq!(end(899), None, "it would be done, and has not started");
    }

    /// The window opens an hour after the start of the clock.
    #[test]
    fn queued_nodes_wait_for_a_window() {
        let windows = ["daily 01:00-01:02 UTC".parse().expect("a valid window")];
        let fleet = FleetProgress {
            moving: vec![("a", at(950))],
            queued: vec![("b", None), ("c", None), ("d", None)],
            stuck: 0,
            parallel: 1,
            free_since: at(1000),
            soak_seconds: 0,
            windows: &windows,
        };
        let day = 24 * 3600;
        let expected = [("a", 1050), ("b", 3700), ("c", 3800), ("d", day + 3700)];
        assert_eq!(seconds(&fleet, 100), expected.map(|(node, end)| (node.to_owned(), end)));
    }

    #[test]
    fn paused_nodes_start_when_their_pause_ends() {
        let fleet = FleetProgress {
            moving: vec![("a", at(950))],
            queued: vec![("b", None), ("c", Some(at(1040))), ("d", Some(at(2000)))],
            stuck: 0,
            parallel: 1,
            free_since: at(1000),
            soak_seconds: 0,
            windows: &[],
        };
        let expected = [("a", 1050), ("b", 1150), ("c", 1250), ("d", 2100)];
        assert_eq!(seconds(&fleet, 100), expected.map(|(node, end)| (node.to_owned(), end)));
    }

    #[test]
    fn stuck_nodes_in_all_slots_leave_no_estimate() {
        let fleet = FleetProgress {
            moving: vec![],
            queued: vec![("c", None)],
            stuck: 2,
            parallel: 2,
            free_since: at(1000),
            soak_seconds: 0,
            windows: &[],
        };
        assert_eq!(seconds(&fleet, 100), []);
    }

    #[test]
    fn pace_is_that_of_the_finished_nodes() {
        let step =
            |or_earlier| RecordedStep { state: "drain-required".into(), at: at(0), or_earlier };
        let record = |outcome, took: i64| NodeRecord {
            outcome,
            since: Some(at(took)),
            steps: vec![step(false)],
            ..NodeRecord::default()
        };
        let records = [
            record(Some(NodeOutcome::Done), 100),
            record(Some(NodeOutcome::Done), 300),
            record(Some(NodeOutcome::Failed), 1),
            record(None, 2),
        ];
        let pace = |records: &[NodeRecord], interruptions: &[Timestamp]| {
            let pace = RolloutPace::from_records(records.iter(), interruptions, 600);
            (pace.per_node_seconds, pace.measured_nodes)
        };
        assert_eq!(pace(&records, &[]), (300, 2));
        assert_eq!(pace(&[], &[]), (600, 0));
        // The pace took the time of an outage for that of a node.
        assert_eq!(pace(&records, &[at(0), at(200)]), (100, 1), "the second node was interrupted");
        assert_eq!(pace(&records, &[at(50)]), (600, 0), "both nodes were interrupted");
        let full = [at(1_000); MOST_INTERRUPTIONS];
        assert_eq!(pace(&records, &full), (600, 0), "interruptions were forgotten");
        let half = NodeRecord { steps: vec![step(true)], ..record(Some(NodeOutcome::Done), 10) };
        assert_eq!(pace(&[half], &[]), (600, 0), "its start is unknown");
    }
}
