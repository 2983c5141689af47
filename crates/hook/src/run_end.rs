//! The end of a run: exit code, message and reasons. One table lists all reasons other than a
//! verdict of the engine.

use jiff::Timestamp;

use contract::exit::ExitCode;
use contract::record::{Verdict, VerdictReason};

/// How a run ended: the exit code, the termination message and the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The code that the process exits with.
    pub code: ExitCode,
    /// The termination message.
    pub message: String,
    /// The reasons, as constant names, and the nodes that the message names.
    pub reasons: Vec<VerdictReason>,
}

/// Defines the reasons why a run ends, each with its exit code.
macro_rules! end_reasons {
    ($($(#[$documentation:meta])+ $reason:ident => $code:ident,)+) => {
        /// Why a run ends, or the result of a single-step task. Verdicts of the engine have reasons
        /// of their own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(test, derive(strum::EnumIter))]
        pub enum EndReason {
            $($(#[$documentation])+ $reason,)+
        }

        impl EndReason {
            /// Returns the constant name that the run record contains.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => stringify!($reason),)+
                }
            }

            fn code(self) -> ExitCode {
                match self {
                    $(Self::$reason => ExitCode::$code,)+
                }
            }
        }
    };
}

end_reasons! {
    /// The work is already done, or there is none.
    NothingToDo => Success,
    /// Task `prepare-network`: the NicClusterPolicy survives the upgrade of the chart.
    NicClusterPolicyKept => Success,
    /// Task `preflight`: no finding blocks the upgrade.
    PreflightPassed => Success,
    /// Task `hold`: the nodes are held.
    NodesHeld => Success,
    /// Task `hold`: no node needs a hold.
    NoNodeHeld => Success,
    /// The settings cannot be parsed.
    SettingsUnreadable => Input,
    /// The settings contradict themselves.
    SettingsContradictory => Input,
    /// The settings have a newer format version.
    SettingsNewer => NewerFormat,
    /// The run record has a newer format version.
    RecordNewer => NewerFormat,
    /// The ConfigMap of the run record is missing.
    RecordMissing => Input,
    /// The run record cannot be written.
    RecordNotWritable => Record,
    /// The self-check found missing rights.
    RightsMissing => Rights,
    /// The API server refuses a request.
    RequestRefused => Rights,
    /// The API server refuses the Lease.
    LeaseRefused => Rights,
    /// Another hook Job held the Lease until the time budget was over.
    LeaseHeldByOther => LeaseHeld,
    /// The Lease could not be read or written in time.
    LeaseUnreachable => ApiUnreachable,
    /// The time budget was over before the engine could give a verdict.
    BudgetOver => Budget,
    /// The API server could not be reached, or read, in time.
    ApiServerUnreachable => ApiUnreachable,
    /// The API server gave an answer that the hook does not expect.
    UnexpectedAnswer => Internal,
    /// The process could not start its runtime, its signal handlers or its metrics server.
    StartFailed => Internal,
    /// A signal ended the process.
    SignalReceived => Interrupted,
    /// Task `preflight`: at least one finding blocks the upgrade.
    PreflightBlocked => Preflight,
    /// Task `prepare-network`: the NicClusterPolicy is being deleted.
    NicClusterPolicyDeleted => Precondition,
    /// Task `prepare-network`: another client removes the annotations again.
    AnnotationsRemoved => Precondition,
    /// Task `prepare-network`: the API server refuses the annotations.
    AnnotationsRefused => Precondition,
    /// Task `hold`: the API server refuses to hold nodes.
    HoldRefused => NodesFailed,
    /// Task `hold`: the time budget was over before all nodes were held.
    HoldIncomplete => ApiUnreachable,
}

impl RunEnd {
    /// Returns an end for this reason, with the reason's exit code.
    pub fn new(reason: EndReason, message: impl Into<String>) -> Self {
        Self {
            code: reason.code(),
            message: message.into(),
            reasons: vec![VerdictReason::new(None, reason.name())],
        }
    }

    /// Adds reasons.
    #[must_use]
    pub(super) fn with_reasons(mut self, reasons: impl IntoIterator<Item = VerdictReason>) -> Self {
        self.reasons.extend(reasons);
        self
    }

    /// Merges the results of single-step tasks, in their order.
    pub(super) fn joined(steps: Vec<Self>) -> Self {
        let messages: Vec<&str> = steps.iter().map(|step| step.message.as_str()).collect();
        let message = messages.join("; ");
        Self {
            code: ExitCode::Success,
            message,
            reasons: steps.into_iter().flat_map(|step| step.reasons).collect(),
        }
    }

    /// Converts the end to the verdict in the run record.
    pub(super) fn into_verdict(self, at: Timestamp) -> Verdict {
        Verdict { code: self.code, message: self.message, reasons: self.reasons, at, hint: None }
    }
}

impl From<Verdict> for RunEnd {
    fn from(verdict: Verdict) -> Self {
        Self { code: verdict.code, message: verdict.message, reasons: verdict.reasons }
    }
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator;

    use super::*;

    /// The messages of the engine have a snapshot of their own:
    /// `crates/planner/src/tests/messages.rs`.
    #[test]
    fn names_and_codes_of_ends_are_as_reviewed() {
        let line = |reason: EndReason| format!("{} ({})", reason.name(), reason.code().name());
        let mut lines: Vec<String> = EndReason::iter().map(line).collect();
        lines.sort();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
