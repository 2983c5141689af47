//! A wait: a reason with its node and its start.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use contract::record::VerdictReason;

use super::Reason;

/// One wait: its reason, its node and its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The node, or the whole fleet.
    pub node: Option<Arc<str>>,
    /// The reason. Many nodes share it.
    pub reason: Arc<Reason>,
    /// Time since which it has been this reason.
    pub since: Timestamp,
}

impl Wait {
    /// Returns the reason for the verdict.
    pub fn verdict_reason(&self) -> VerdictReason {
        VerdictReason::new(self.node.as_deref(), self.reason.name())
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(formatter, "{node}: {}", self.reason),
            None => write!(formatter, "{}", self.reason),
        }
    }
}
