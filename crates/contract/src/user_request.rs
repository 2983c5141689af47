//! What users ask of a rollout with a command, kept in the run record of each hook release that it
//! concerns: who asked for what, when and why. The hook does not write these entries. Of them, it
//! reads only `resume`, which ends a halt, and which may take failed nodes as proven.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_nodes: usize,
    /// Label selector of `pause` and `resume`; absent: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The user, as the API server knows it.
    pub by: String,
    /// The reason that the user gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the command ran.
    pub at: Timestamp,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl UserRequest {
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

/// Returns the failed nodes that users take as proven (`resume --accept`), each with the time of the
/// newest request: it is about a failure before that time.
pub fn accepted_nodes<'r>(
    requests: impl IntoIterator<Item = &'r UserRequest>,
) -> BTreeMap<String, Timestamp> {
    let requests = requests.into_iter();
    let resumes = requests.filter(|request| request.command == RequestCommand::Resume);
    let mut accepted = BTreeMap::new();
    for request in resumes {
        for node in &request.nodes {
            let at = accepted.entry(node.clone()).or_insert(request.at);
            *at = request.at.max(*at);
        }
    }
    accepted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(second: i64) -> UserRequest {
        UserRequest {
            command: RequestCommand::Skip,
            nodes: Vec::new(),
            other_nodes: 0,
            selector: None,
            by: "ada@example.com".to_owned(),
            reason: Some("INC-4711".to_owned()),
            at: Timestamp::from_second(second).unwrap_or_default(),
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
    fn only_resume_takes_nodes_as_proven() {
        let resume = |second, nodes: &[&str]| UserRequest {
            command: RequestCommand::Resume,
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            ..request(second)
        };
        let skip = request(9).with_nodes(vec!["gpu-0".to_owned()]);
        let requests =
            [resume(1, &["gpu-1", "gpu-2"]), resume(5, &["gpu-2"]), resume(7, &[]), skip];
        let at = |second| request(second).at;
        let expected = BTreeMap::from([("gpu-1".to_owned(), at(1)), ("gpu-2".to_owned(), at(5))]);
        assert_eq!(accepted_nodes(&requests), expected);
    }

    #[test]
    fn request_names_a_bounded_number_of_nodes() {
        let nodes = (0..150).map(|number| format!("gpu-{number}")).collect();
        let request = request(0).with_nodes(nodes);
        assert_eq!((request.nodes.len(), request.other_nodes), (100, 50));
    }
}
