//! Explains why a node does not move: its status row, its upgrade so far, and what the whole fleet
//! waits for.

use schemars::JsonSchema;
use serde::Serialize;

use contract::record::RecordedStep;
use contract::record::acceptance::AcceptanceResult;
use contract::user_request::UserRequest;

use super::observe::RolloutSnapshot;
use super::status::{NodeRow, RolloutStatus, status};
use super::upgrade_steps::upgrade_steps;

/// The explanation of a node in one rollout.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// The title of the rollout, for people.
    pub title: String,
    /// The status of the node.
    pub row: NodeRow,
    /// The upgrade so far: each state with the time at which the node entered it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<RecordedStep>,
    /// The results of the acceptance tests on the node in the last run, in the order in which they
    /// ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<AcceptanceResult>,
    /// What users asked of this node with commands, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<UserRequest>,
    /// What the whole fleet waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fleet: Vec<String>,
}

/// Explains a node. Returns `None` if the rollout does not include it.
pub fn explain_node(snapshot: &RolloutSnapshot, node: &str) -> Option<NodeExplanation> {
    let RolloutStatus { title, nodes, fleet, requests, .. } = status(snapshot);
    let row = nodes.into_iter().find(|row| row.node == node)?;
    let is_named = |request: &UserRequest| request.nodes.iter().any(|name| name == node);
    Some(NodeExplanation {
        title,
        row,
        steps: upgrade_steps(snapshot, node),
        acceptance: snapshot
            .record
            .nodes
            .get(node)
            .map(|record| record.acceptance.clone())
            .unwrap_or_default(),
        requests: requests.into_iter().filter(is_named).collect(),
        fleet: fleet.into_iter().map(|waiting| waiting.text).collect(),
    })
}
