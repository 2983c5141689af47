//! Remedies for all conditions in a fleet that do not resolve themselves: each remedy once, with
//! its nodes.

use super::remedy::Remedy;
use super::status::{BlockingCondition, RolloutStatus};

/// The remedies for nodes with the same problem.
#[derive(Debug)]
pub struct Advice<'a> {
    /// The affected nodes; empty: the fleet.
    pub nodes: Vec<&'a str>,
    /// The obstacles on the first of the nodes.
    pub obstacles: Vec<&'a str>,
    /// The remedies, in the order in which to apply them.
    pub remedies: Vec<&'a Remedy>,
}

/// Collects the advice for a rollout. Conditions with the same remedies become one advice.
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
    /// Returns the remedies for the condition. Those for obstacles come first, because the node's
    /// own remedy applies after them. If the condition then resolves itself, the node needs no
    /// other remedy.
    pub fn remedies(&self) -> Vec<&Remedy> {
        let of_node = (!self.resolves_itself || self.obstacles.is_empty()).then_some(&self.remedy);
        self.obstacles.iter().map(|obstacle| &obstacle.remedy).chain(of_node).collect()
    }
}
