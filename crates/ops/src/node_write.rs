//! Failed writes to nodes by the operator commands: the reason for each node, the exit code of the
//! command, and what to do.

use contract::exit::ExitCode;
use kube_io::actions::ActionResult;
use kube_io::call::CallError;

use super::command_error::{write_exit_code, write_hint};

/// Why a node was not changed as requested.
#[derive(Debug, thiserror::Error)]
pub enum NodeWriteError {
    /// The write failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Admission accepted the write without these parts.
    #[error("admission removed parts of the write: {}", .0.join(", "))]
    Dropped(Vec<String>),
    /// The node was deleted.
    #[error("the node was deleted")]
    Gone,
    /// Another client changed the node between each observation and its write.
    #[error("another client changed the node before each write")]
    Contended,
}

/// A node that was not changed as requested.
#[derive(Debug, thiserror::Error)]
#[error("{node}: {error}")]
pub struct NodeWriteFailure {
    /// Name of the node.
    pub node: String,
    /// The reason.
    #[source]
    pub error: NodeWriteError,
}

impl NodeWriteFailure {
    /// Creates the failure of a node.
    pub fn new(node: &str, error: impl Into<NodeWriteError>) -> Self {
        Self { node: node.to_owned(), error: error.into() }
    }

    /// Returns the failure in the answer to a patch, or `None` if the patch was applied or the node
    /// is observed again.
    pub(super) fn from_answer(node: &str, answer: Result<ActionResult, CallError>) -> Option<Self> {
        match answer {
            Ok(ActionResult::Changed(missing)) => {
                Some(Self::new(node, NodeWriteError::Dropped(missing)))
            }
            Ok(ActionResult::Now | ActionResult::Already | ActionResult::Superseded) => None,
            Err(error) => Some(Self::new(node, error)),
        }
    }

    fn exit_code(&self) -> ExitCode {
        match &self.error {
            NodeWriteError::Call(error) => write_exit_code(error).unwrap_or(ExitCode::NodesFailed),
            NodeWriteError::Dropped(_) | NodeWriteError::Gone | NodeWriteError::Contended => {
                ExitCode::NodesFailed
            }
        }
    }

    fn hint(&self) -> &'static str {
        match &self.error {
            NodeWriteError::Call(error) => write_hint(error),
            NodeWriteError::Dropped(_) => {
                "find the admission webhook or policy that changes nodes; what was done before the failure stays done"
            }
            NodeWriteError::Gone => "`kubectl get nodes` lists the nodes",
            NodeWriteError::Contended => {
                "another client keeps changing the node; run the command again, it continues with what is left"
            }
        }
    }
}

/// Returns the failure that determines the exit code: a refused write before an unreachable API
/// server, and these before all others.
fn decisive(failures: &[NodeWriteFailure]) -> Option<&NodeWriteFailure> {
    let with = |code: ExitCode| failures.iter().find(move |failure| failure.exit_code() == code);
    [ExitCode::Rights, ExitCode::ApiUnreachable].into_iter().find_map(with).or(failures.first())
}

/// Returns the exit code of a command that could not change these nodes.
pub fn exit_code(failures: &[NodeWriteFailure]) -> ExitCode {
    decisive(failures).map_or(ExitCode::Success, NodeWriteFailure::exit_code)
}

/// Returns the hint of the failure that determines the exit code.
pub fn hint(failures: &[NodeWriteFailure]) -> Option<&'static str> {
    decisive(failures).map(NodeWriteFailure::hint)
}

/// Returns the texts of the failures, each with its node.
pub fn texts(failures: &[NodeWriteFailure]) -> Vec<String> {
    failures.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(error: impl Into<NodeWriteError>) -> NodeWriteFailure {
        NodeWriteFailure::new("gpu-1", error)
    }

    #[test]
    fn refused_write_outweighs_unreachable_server_and_other_failures() {
        let denied = || failure(CallError::Denied { code: 422, message: "no".to_owned() });
        let forbidden = || failure(CallError::Forbidden("no".to_owned()));
        let refused = || failure(CallError::Refused { code: 503, message: "no".to_owned() });
        let cases = [
            (vec![failure(NodeWriteError::Gone)], ExitCode::NodesFailed),
            (
                vec![failure(NodeWriteError::Dropped(vec!["label a".to_owned()]))],
                ExitCode::NodesFailed,
            ),
            (
                vec![failure(NodeWriteError::Gone), failure(CallError::Timeout)],
                ExitCode::ApiUnreachable,
            ),
            (vec![failure(NodeWriteError::Contended), refused()], ExitCode::ApiUnreachable),
            (vec![failure(CallError::Timeout), forbidden()], ExitCode::Rights),
            (vec![failure(NodeWriteError::Gone), denied(), refused()], ExitCode::Rights),
            (Vec::new(), ExitCode::Success),
        ];
        for (failures, code) in cases {
            assert_eq!(exit_code(&failures), code, "{failures:?}");
        }
    }
}
