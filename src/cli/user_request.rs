//! The reason of a command that changes a rollout, and its entry in the run record.

use std::fmt::Write;

use clap::Args;
use jiff::Timestamp;

use crate::printer::Printer;
use contract::settings::Settings;
use contract::user_request::{RequestCommand, UserRequest};
use ops::session::ClusterSession;
use ops::time::format_age;
use ops::user_request::record;

/// The option `--reason`.
#[derive(Clone, Debug, Args)]
pub(super) struct ReasonOption {
    /// Reason, such as a ticket: `status`, `why` and `report` show it with your user name
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
}

/// Writes the request into the run records of these hook releases, and prints which could not be
/// written. Returns whether all were written.
pub(super) async fn write_request(
    session: &ClusterSession,
    hooks: impl IntoIterator<Item = &Settings>,
    request: &UserRequest,
    printer: &mut Printer,
) -> bool {
    let warnings = record(session.client(), hooks, request).await;
    for warning in &warnings {
        printer.note(&format!("warning: {warning}"));
    }
    warnings.is_empty()
}

/// Formats the request for one line, such as `skip gpu-3 by ada 5 min ago: INC-4711`.
pub(super) fn request_text(request: &UserRequest, now: Timestamp) -> String {
    let UserRequest { command, nodes, other_nodes, selector, by, reason, at, .. } = request;
    let mut text = command.name().to_owned();
    if *command == RequestCommand::Resume && !nodes.is_empty() {
        text.push_str(" --accept");
    }
    // Writing to a String cannot fail.
    let _ = match (nodes.as_slice(), selector) {
        ([], None) => Ok(()),
        ([], Some(selector)) => write!(text, " nodes with {selector}"),
        ([node], _) if *other_nodes == 0 => write!(text, " {node}"),
        ([node, ..], _) => write!(text, " {} nodes ({node}, …)", nodes.len() + other_nodes),
    };
    let _ = write!(text, " by {by} {} ago", format_age(Some(*at), now));
    if let Some(reason) = reason {
        let _ = write!(text, ": {reason}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_text_names_node_user_age_and_reason() {
        let at = Timestamp::UNIX_EPOCH;
        let request = UserRequest {
            nodes: vec!["gpu-3".to_owned()],
            reason: Some("INC-4711".to_owned()),
            ..UserRequest::new(RequestCommand::Skip, "ada@example.com".to_owned(), at)
        };
        let now = Timestamp::from_second(300).unwrap_or_default();
        assert_eq!(
            request_text(&request, now),
            "skip gpu-3 by ada@example.com 5 min ago: INC-4711"
        );
        let resume = UserRequest { command: RequestCommand::Resume, ..request.clone() };
        assert!(request_text(&resume, now).starts_with("resume --accept gpu-3 by ada"));
        let many = request.with_nodes((0..120).map(|number| format!("gpu-{number}")).collect());
        assert!(request_text(&many, now).starts_with("skip 120 nodes (gpu-0, …) by"));
    }
}
