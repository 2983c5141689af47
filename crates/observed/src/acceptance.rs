//! Pods of acceptance tests.

use jiff::Timestamp;

use contract::acceptance::AcceptanceTime;

use crate::OnNode;

/// A pod of an acceptance test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptancePod {
    /// Its name.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// The node that it tests, whether it is bound or not.
    pub node: String,
    /// The name of its test.
    pub test: String,
    /// When it runs. `None`: its annotation is missing or unknown.
    pub time: Option<AcceptanceTime>,
    /// The first characters of the trigger digest under which it was created.
    pub digest: String,
    /// When the object was created, by the API server's clock.
    pub created: Timestamp,
    /// Being deleted.
    pub deleting: bool,
    /// How far it is.
    pub phase: AcceptancePhase,
}

/// How far a pod of an acceptance test is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AcceptancePhase {
    /// It has not started: why, if something is wrong.
    #[default]
    Pending,
    /// No scheduler can place it: the message.
    Unschedulable(String),
    /// An image cannot be pulled: the message.
    ImageNotPulled(String),
    /// Its containers run.
    Running,
    /// All containers succeeded.
    Succeeded {
        /// Seconds from its creation to the end of its last container, by one clock where the pod
        /// has the times.
        seconds: u64,
    },
    /// It failed: the reason with exit code and message.
    Failed {
        /// The exit code of the first container that failed, with the reason.
        message: String,
        /// Its own deadline ended it.
        timed_out: bool,
        /// Seconds from its creation to its end.
        seconds: u64,
    },
}

impl AcceptancePhase {
    /// Returns whether the pod has ended.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Succeeded { .. } | Self::Failed { .. })
    }
}

impl OnNode for AcceptancePod {
    fn on_node(&self) -> Option<&str> {
        Some(&self.node)
    }
}
