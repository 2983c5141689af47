//! Remedies for the conditions in a fleet: each remedy once, with its nodes, and the most urgent
//! first.

use planner::reason::PAUSED;

use super::obstacle::PodObstacle;
use super::remedy::Remedy;
use super::status::{BlockingCondition, NodeRow, NodeStage, RolloutStatus};

/// How urgent an advice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// The whole fleet waits.
    Fleet,
    /// The upgrade of nodes failed.
    Failed,
    /// Nodes do not continue in the middle of their upgrade.
    Stuck,
    /// Nodes wait, and do not start by themselves.
    Waiting,
    /// Nodes wait for the end of a pause.
    Paused,
    /// Nothing needs action: the advice is an offer.
    Optional,
}

impl Urgency {
    fn of_row(row: &NodeRow, waiting: &BlockingCondition) -> Self {
        match row.stage {
            _ if waiting.reason == PAUSED => Self::Paused,
            _ if !waiting.is_stuck() => Self::Optional,
            NodeStage::Deferred | NodeStage::Done => Self::Optional,
            NodeStage::Failed => Self::Failed,
            NodeStage::InProgress => Self::Stuck,
            NodeStage::Pending | NodeStage::Unknown => Self::Waiting,
        }
    }
}

/// The remedies for nodes with the same problem.
#[derive(Debug)]
pub struct Advice<'a> {
    /// How urgent it is.
    pub urgency: Urgency,
    /// The constant name of the reason of the first of the nodes.
    pub reason: &'static str,
    /// The affected nodes; empty: the fleet.
    pub nodes: Vec<&'a str>,
    /// The obstacles on the first of the nodes.
    pub obstacles: Vec<&'a str>,
    /// The remedies, in the order in which to apply them.
    pub remedies: Vec<&'a Remedy>,
}

/// Collects the advice for a rollout, the most urgent first. Conditions with the same remedies
/// become one advice. Nodes that only wait for nodes with an advice of their own have none.
pub fn fleet_advice(status: &RolloutStatus) -> Vec<Advice<'_>> {
    let is_advised = |waiting: &BlockingCondition| {
        waiting.needs_action() || waiting.is_stuck() || waiting.whole_fleet
    };
    let rows = || status.nodes.iter().filter_map(|row| Some((row, row.waiting.as_ref()?)));
    let has_own = |node: &String| {
        rows().any(|(row, waiting)| {
            row.node == *node && is_advised(waiting) && waiting.blocked_by.is_empty()
        })
    };
    let is_out = |node: Option<&str>| {
        rows().any(|(row, _)| Some(row.node.as_str()) == node && row.is_paused_out_of_service())
    };
    let fleet = status.fleet.iter().map(|waiting| {
        let urgency = if waiting.is_stuck() { Urgency::Fleet } else { Urgency::Optional };
        (urgency, None, waiting)
    });
    // What the whole fleet waits for is listed once.
    let of_nodes = rows()
        .filter(|(_, waiting)| !waiting.whole_fleet)
        .map(|(row, waiting)| (Urgency::of_row(row, waiting), Some(row.node.as_str()), waiting));
    let mut all: Vec<(Urgency, Option<&str>, &BlockingCondition)> = fleet
        .chain(of_nodes)
        .filter(|(_, node, waiting)| is_advised(waiting) || is_out(*node))
        .filter(|(_, _, waiting)| {
            waiting.blocked_by.is_empty() || !waiting.blocked_by.iter().all(has_own)
        })
        .collect();
    all.sort_by_key(|(urgency, ..)| *urgency);
    merged(&all)
}

fn merged<'a>(all: &[(Urgency, Option<&'a str>, &'a BlockingCondition)]) -> Vec<Advice<'a>> {
    let texts = |remedies: &[&Remedy]| {
        remedies.iter().map(|remedy| remedy.text.clone()).collect::<Vec<_>>()
    };
    let mut merged: Vec<Advice<'a>> = Vec::new();
    for (urgency, node, waiting) in all {
        let remedies = waiting.remedies();
        match merged.iter_mut().find(|known| texts(&known.remedies) == texts(&remedies)) {
            Some(known) => known.nodes.extend(*node),
            None => merged.push(Advice {
                urgency: *urgency,
                reason: waiting.reason,
                nodes: node.iter().copied().collect(),
                obstacles: waiting
                    .obstacles
                    .iter()
                    .map(|obstacle| obstacle.text.as_str())
                    .collect(),
                remedies,
            }),
        }
    }
    merged
}

impl BlockingCondition {
    /// Returns whether the condition, or a pod that blocks the node, needs manual action. A pod may
    /// also leave by itself, but it is unknown when.
    pub fn needs_action(&self) -> bool {
        let blocks = |obstacle: &PodObstacle| !obstacle.kind.ends_in_time();
        !self.resolves_itself || self.obstacles.iter().any(blocks)
    }

    /// Returns whether the node, or the fleet, does not continue without manual action. A node that
    /// waits for a job continues when the job ends.
    pub fn is_stuck(&self) -> bool {
        let blocks = |obstacle: &PodObstacle| !obstacle.kind.ends_by_itself();
        !self.resolves_itself || self.stalled || self.obstacles.iter().any(blocks)
    }

    /// Returns the remedies for the condition. Those for obstacles come first, because the node's
    /// own remedy applies after them. If the condition then resolves itself, the node needs no
    /// other remedy.
    pub fn remedies(&self) -> Vec<&Remedy> {
        let of_node = (!self.resolves_itself || self.obstacles.is_empty()).then_some(&self.remedy);
        self.obstacles.iter().map(|obstacle| &obstacle.remedy).chain(of_node).collect()
    }
}
