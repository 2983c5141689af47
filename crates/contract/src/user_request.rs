//! What users ask of a rollout with a command, kept in the run record of each hook release that it
//! concerns: who asked for what, when and why. The hook does not write these entries. Of them, it
//! reads only `resume`, which ends a halt, and which may take failed nodes as proven.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::omitted::is_default;

/// Prefix of the data keys of [`UserRequest`]s in the run record. Nanoseconds since 1970 follow, so
/// that keys sort by time and two commands do not overwrite each other's entries.
pub const REQUEST_KEY_PREFIX: &str = "request.";
/// How many requests a run record keeps: the newest ones.
pub const MOST_REQUESTS: usize = 32;
/// How many nodes a request names.
pub const MOST_NODES: usize = 100;

/// The command of a request.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum RequestCommand {
    /// `gpu-rollout pause`
    Pause,
    /// `gpu-rollout resume`
    Resume,
    /// `gpu-rollout skip`
    Skip,
    /// `gpu-rollout unskip`
    Unskip,
    /// `gpu-rollout retry`
    Retry,
    /// `gpu-rollout abort`
    Abort,
}

impl RequestCommand {
    /// Returns its name, as on the command line.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What a user asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserRequest {
    /// The command.
    pub command: RequestCommand,
    /// The nodes of `skip`, `unskip`, `retry` and `resume --accept`, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Number of nodes of the request that `nodes` does not name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_nodes: usize,
    /// Label selector of `pause` and `resume`; absent: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The user, as the API server knows it.
    pub by: String,
    /// The reason that the user gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the command ran, by the clock of the workstation.
    pub at: Timestamp,
    /// Of `resume`: the halt that it ends, by the time since which the rollout has halted. Of
    /// another halt, the user did not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halt: Option<Timestamp>,
    /// Of `resume --accept`: since when each of the nodes has failed, as its own record says. Of a
    /// later failure, the user did not know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub accepts: BTreeMap<String, Timestamp>,
    /// Of `resume --accept`: the driver with which the nodes are taken as proven, as the images of
    /// its DaemonSets. With another driver, they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}

/// A failed node that a user takes as proven.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AcceptedNode {
    /// Its name.
    pub node: String,
    /// Since when it has failed, as its own record says.
    pub failed_at: Timestamp,
    /// The driver with which it is taken as proven ([`UserRequest::driver`]).
    pub driver: String,
}

impl UserRequest {
    /// Returns a request of a user at this time, without details.
    pub fn new(command: RequestCommand, by: String, at: Timestamp) -> Self {
        Self {
            command,
            nodes: Vec::new(),
            other_nodes: 0,
            selector: None,
            by,
            reason: None,
            at,
            halt: None,
            accepts: BTreeMap::new(),
            driver: None,
        }
    }

    /// Returns the request with its nodes.
    #[must_use]
    pub fn with_nodes(mut self, mut nodes: Vec<String>) -> Self {
        self.other_nodes = nodes.len().saturating_sub(MOST_NODES);
        nodes.truncate(MOST_NODES);
        self.nodes = nodes;
        self
    }

    /// Returns its data key.
    pub fn key(&self) -> String {
        format!("{REQUEST_KEY_PREFIX}{:020}", self.at.as_nanosecond())
    }
}

/// Returns the requests among the data of a run record, oldest first. An entry that cannot be parsed
/// is left out: it is a report, and a halt that it might have ended stays.
pub fn requests<'d>(data: impl IntoIterator<Item = (&'d String, &'d String)>) -> Vec<UserRequest> {
    let entries = data.into_iter().filter(|(key, _)| key.starts_with(REQUEST_KEY_PREFIX));
    let mut requests: Vec<UserRequest> =
        entries.filter_map(|(_, text)| serde_json::from_str(text).ok()).collect();
    requests.sort_by_key(|request| request.at);
    requests
}

/// Returns the failed nodes that users take as proven (`resume --accept`).
pub fn accepted_nodes<'r>(
    requests: impl IntoIterator<Item = &'r UserRequest>,
) -> BTreeSet<AcceptedNode> {
    let with_driver = |request: &'r UserRequest| Some((request.driver.as_ref()?, &request.accepts));
    let accepts = requests.into_iter().filter_map(with_driver).flat_map(|(driver, accepts)| {
        accepts.iter().map(move |(node, failed_at)| AcceptedNode {
            node: node.clone(),
            failed_at: *failed_at,
            driver: driver.clone(),
        })
    });
    accepts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(second: i64) -> UserRequest {
        let at = Timestamp::from_second(second).unwrap_or_default();
        UserRequest {
            reason: Some("INC-4711".to_owned()),
            ..UserRequest::new(RequestCommand::Skip, "ada@example.com".to_owned(), at)
        }
    }

    #[test]
    fn requests_are_read_back_oldest_first() {
        let written = [request(2_000_000_000), request(1_000_000_000)];
        let data: Vec<(String, String)> = written
            .iter()
            .map(|request| (request.key(), serde_json::to_string(request).unwrap_or_default()))
            .chain([
                ("run".to_owned(), "{}".to_owned()),
                (format!("{REQUEST_KEY_PREFIX}0"), "broken".to_owned()),
            ])
            .collect();
        let read = requests(data.iter().map(|(key, text)| (key, text)));
        assert_eq!(read, [request(1_000_000_000), request(2_000_000_000)]);
        assert!(request(1_000_000_000).key() < request(2_000_000_000).key());
    }

    #[test]
    fn node_is_taken_as_proven_despite_one_failure_with_one_driver() {
        let at = |second| request(second).at;
        let accepts = |driver: Option<&str>, nodes: &[(&str, i64)]| UserRequest {
            command: RequestCommand::Resume,
            accepts: nodes.iter().map(|(node, failed)| ((*node).to_owned(), at(*failed))).collect(),
            driver: driver.map(str::to_owned),
            ..request(20)
        };
        let requests = [
            accepts(Some("a"), &[("gpu-1", 1), ("gpu-2", 2)]),
            accepts(Some("b"), &[("gpu-2", 15)]),
            accepts(None, &[("gpu-3", 3)]),
        ];
        let expected = [("gpu-1", 1, "a"), ("gpu-2", 2, "a"), ("gpu-2", 15, "b")];
        let expected = expected.map(|(node, failed, driver)| AcceptedNode {
            node: node.to_owned(),
            failed_at: at(failed),
            driver: driver.to_owned(),
        });
        assert_eq!(accepted_nodes(&requests), BTreeSet::from(expected));
    }

    #[test]
    fn request_names_a_bounded_number_of_nodes() {
        let nodes = (0..150).map(|number| format!("gpu-{number}")).collect();
        let request = request(0).with_nodes(nodes);
        assert_eq!((request.nodes.len(), request.other_nodes), (100, 50));
    }
}
