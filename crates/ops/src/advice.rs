//! What to do about everything in a fleet that does not end by itself: each thing once, with the nodes that it is about.

use super::remedy::Remedy;
use super::status::{BlockingCondition, RolloutStatus};

/// One thing to do.
#[derive(Debug)]
pub struct Advice<'a> {
    /// The nodes that it is about; empty: the fleet.
    pub nodes: Vec<&'a str>,
    /// What is in the way.
    pub obstacles: Vec<&'a str>,
    /// What to do, in this order.
    pub remedies: Vec<&'a Remedy>,
}

/// Collects the advice for a rollout: waits with the same remedies are one.
pub fn fleet_advice(status: &RolloutStatus) -> Vec<Advice<'_>> {
    let mut all: Vec<Advice<'_>> = Vec::new();
    let of_nodes = status
        .nodes
        .iter()
        .filter_map(|row| Some((Some(row.node.as_str()), row.waiting.as_ref()?)));
    for (node, waiting) in status.fleet.iter().map(|waiting| (None, waiting)).chain(of_nodes) {
        if waiting.resolves_itself && waiting.obstacles.is_empty() {
            continue;
        }
        let remedies = waiting.remedies();
        let texts = |remedies: &[&Remedy]| {
            remedies.iter().map(|remedy| remedy.text.clone()).collect::<Vec<_>>()
        };
        match all.iter_mut().find(|known| texts(&known.remedies) == texts(&remedies)) {
            Some(known) => known.nodes.extend(node),
            None => all.push(Advice {
                nodes: node.into_iter().collect(),
                obstacles: waiting
                    .obstacles
                    .iter()
                    .map(|obstacle| obstacle.text.as_str())
                    .collect(),
                remedies,
            }),
        }
    }
    all
}

impl BlockingCondition {
    /// Returns what to do about it. Pods that are in the way come first, because the node's own remedy applies after that; a node that goes on by
    /// itself then needs nothing else.
    pub fn remedies(&self) -> Vec<&Remedy> {
        let of_node = (!self.resolves_itself || self.obstacles.is_empty()).then_some(&self.remedy);
        self.obstacles.iter().map(|obstacle| &obstacle.remedy).chain(of_node).collect()
    }
}
