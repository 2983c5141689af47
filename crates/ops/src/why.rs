//! Explains why a node does not move: its status row, its upgrade so far, and what the whole fleet
//! waits for.

use schemars::JsonSchema;
use serde::Serialize;

use contract::record::RecordedStep;
use contract::record::acceptance::AcceptanceResult;
use contract::user_request::UserRequest;
use planner::drive_upgrade::record::{NodeRecordState, read};

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
    /// ended, with log lines of the last one that did not pass.
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
        acceptance: results(snapshot, node),
        requests: requests.into_iter().filter(is_named).collect(),
        fleet: fleet.into_iter().map(|waiting| waiting.text).collect(),
    })
}

/// Returns the results of the run record, with the log lines that only the node's own record has.
fn results(snapshot: &RolloutSnapshot, node: &str) -> Vec<AcceptanceResult> {
    let recorded = snapshot.record.nodes.get(node);
    let mut results = recorded.map(|record| record.acceptance.clone()).unwrap_or_default();
    let traits = snapshot.settings.driver.traits();
    let own = snapshot.observed.nodes.get(node).map(|node| read(node, traits));
    let own = own.as_ref().and_then(NodeRecordState::record);
    add_logs(&mut results, own.map_or(&[][..], |record| record.acceptance.as_slice()));
    results
}

/// Adds the log lines of a node's own results to the same results of the run record.
fn add_logs(results: &mut [AcceptanceResult], own: &[AcceptanceResult]) {
    for result in results {
        if let Some(known) = own.iter().find(|known| known.without_log() == *result) {
            result.log.clone_from(&known.log);
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::acceptance::AcceptanceTime;
    use contract::record::acceptance::AcceptanceVerdict;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn log_lines_are_those_of_the_same_result() {
        let result = |driver_pod: &str| AcceptanceResult {
            test: "dcgm".to_owned(),
            time: AcceptanceTime::After,
            driver_pod: driver_pod.to_owned(),
            verdict: AcceptanceVerdict::Failed,
            message: "exit code 1".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            seconds: 5,
            log: Vec::new(),
        };
        let with_log = AcceptanceResult { log: vec!["2 of 8 GPUs".to_owned()], ..result("second") };
        let mut results = [result("first"), result("second")];
        add_logs(&mut results, std::slice::from_ref(&with_log));
        assert_eq!(results, [result("first"), with_log]);
    }
}
