//! The results of acceptance tests on a node, in the node's own record and in the run record.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::acceptance::AcceptanceTime;

/// The result of one test on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptanceResult {
    /// The name of the test.
    pub test: String,
    /// When it ran.
    pub time: AcceptanceTime,
    /// UID of the driver pod with which it ran: the result says nothing about another one.
    pub driver_pod: String,
    /// What came out.
    pub verdict: AcceptanceVerdict,
    /// Details: an exit code, the message of the kubelet or of the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the hook observed the end.
    pub at: Timestamp,
    /// Seconds from the creation of the pod to its end.
    pub seconds: u64,
    /// The last lines of the log, without secrets, if the test asks for them and did not pass. Only
    /// the node's own record has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
}

impl AcceptanceResult {
    /// Returns the result without log lines, as the run record has it.
    #[must_use]
    pub fn without_log(&self) -> Self {
        Self { log: Vec::new(), ..self.clone() }
    }
}

/// What came out of a test.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum AcceptanceVerdict {
    /// The pod succeeded.
    Passed,
    /// A container ended with an exit code other than 0.
    Failed,
    /// The pod did not end within the time of the test.
    TimedOut,
    /// An image could not be pulled.
    ImageNotPulled,
    /// The API server refused the pod: a quota, Pod Security, a webhook, a template that is wrong.
    Refused,
    /// No scheduler placed the pod: the node does not offer what the pod requests.
    Unschedulable,
    /// The kubelet refused or ended each of its pods, for a reason that is not the test's.
    EndedByKubelet,
    /// The driver or the node went down, or others deleted the pod or uncordoned the node.
    Lost,
    /// The test was not started, and the node is not the reason.
    NotRun,
}

impl AcceptanceVerdict {
    /// Returns whether the node is accepted as far as this test is concerned.
    pub fn accepts(self) -> bool {
        matches!(self, Self::Passed | Self::NotRun)
    }

    /// Returns the name in records and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the message.
    pub fn text(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::TimedOut => "did not end in time",
            Self::ImageNotPulled => "could not pull its image",
            Self::Refused => "was refused by the API server",
            Self::Unschedulable => "could not be scheduled",
            Self::EndedByKubelet => "was refused or ended by the kubelet",
            Self::Lost => "was lost",
            Self::NotRun => "was not run",
        }
    }
}

impl fmt::Display for AcceptanceVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}
