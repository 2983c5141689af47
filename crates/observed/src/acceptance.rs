//! Pods of acceptance tests.

use jiff::Timestamp;

use contract::acceptance::AcceptanceTime;
use contract::record::acceptance::AcceptanceVerdict;

use crate::OnNode;

/// A pod of an acceptance test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptancePod {
    /// Its name.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// The node on which it runs. If it is not bound, the node that it is to test.
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
    /// The container whose log says most: the first that failed, or else the first that runs.
    pub log_container: Option<String>,
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
    /// The kubelet refused it or ended it, for a reason that is not the test's: why. It will not run
    /// again.
    EndedByKubelet(String),
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
        matches!(self, Self::Succeeded { .. } | Self::Failed { .. } | Self::EndedByKubelet(_))
    }

    /// Returns whether the kubelet refused or ended the pod: it says nothing about its test.
    pub fn is_ended_by_kubelet(&self) -> bool {
        matches!(self, Self::EndedByKubelet(_))
    }

    /// Returns how a test ends whose pod has ended: the verdict, details, and seconds from the
    /// pod's creation to its end. `None`: the pod has not ended, or its end says nothing about the
    /// test.
    pub fn end(&self) -> Option<(AcceptanceVerdict, &str, u64)> {
        match self {
            Self::Succeeded { seconds } => Some((AcceptanceVerdict::Passed, "", *seconds)),
            Self::Failed { message, timed_out: false, seconds } => {
                Some((AcceptanceVerdict::Failed, message.as_str(), *seconds))
            }
            Self::Failed { message, timed_out: true, seconds } => {
                Some((AcceptanceVerdict::TimedOut, message.as_str(), *seconds))
            }
            Self::Pending
            | Self::Unschedulable(_)
            | Self::ImageNotPulled(_)
            | Self::Running
            | Self::EndedByKubelet(_) => None,
        }
    }

    /// Returns how a test ends whose time is over while its pod is in this phase: the verdict, and
    /// what keeps the pod from its end, if something is wrong.
    pub fn late(&self) -> (AcceptanceVerdict, Option<&str>) {
        match self {
            Self::Unschedulable(why) => (AcceptanceVerdict::Unschedulable, Some(why.as_str())),
            Self::ImageNotPulled(why) => (AcceptanceVerdict::ImageNotPulled, Some(why.as_str())),
            Self::EndedByKubelet(why) => (AcceptanceVerdict::EndedByKubelet, Some(why.as_str())),
            Self::Pending | Self::Running | Self::Succeeded { .. } | Self::Failed { .. } => {
                (AcceptanceVerdict::TimedOut, None)
            }
        }
    }
}

impl OnNode for AcceptancePod {
    fn on_node(&self) -> Option<&str> {
        Some(&self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_test_has_the_verdict_of_its_last_trouble() {
        let why = || "why".to_owned();
        for (phase, verdict, trouble) in [
            (AcceptancePhase::Pending, AcceptanceVerdict::TimedOut, None),
            (AcceptancePhase::Running, AcceptanceVerdict::TimedOut, None),
            (AcceptancePhase::Unschedulable(why()), AcceptanceVerdict::Unschedulable, Some("why")),
            (
                AcceptancePhase::ImageNotPulled(why()),
                AcceptanceVerdict::ImageNotPulled,
                Some("why"),
            ),
        ] {
            assert_eq!((phase.end(), phase.is_over()), (None, false), "{phase:?}");
            assert_eq!(phase.late(), (verdict, trouble), "{phase:?}");
        }
    }

    #[test]
    fn end_of_a_pod_is_the_end_of_its_test() {
        let failed = |timed_out| AcceptancePhase::Failed {
            message: "test: exit code 1".to_owned(),
            timed_out,
            seconds: 9,
        };
        for (phase, verdict, message) in [
            (AcceptancePhase::Succeeded { seconds: 9 }, AcceptanceVerdict::Passed, ""),
            (failed(false), AcceptanceVerdict::Failed, "test: exit code 1"),
            (failed(true), AcceptanceVerdict::TimedOut, "test: exit code 1"),
        ] {
            assert_eq!(phase.end(), Some((verdict, message, 9)), "{phase:?}");
            assert!(phase.is_over(), "{phase:?}");
        }
    }
}
