//! How a run ends, for people and for programs. The reasons other than a verdict of the engine are one table.

use jiff::Timestamp;

use contract::exit::ExitCode;
use contract::record::{Verdict, VerdictReason};

/// How a run ended, for the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The code that the process ends with.
    pub code: ExitCode,
    /// Why, for people: the termination message.
    pub message: String,
    /// Why, for programs: what the message names.
    pub reasons: Vec<VerdictReason>,
}

/// Defines the reasons for which a run ends, each with its exit code.
macro_rules! end_reasons {
    ($($(#[$documentation:meta])+ $reason:ident => $code:ident,)+) => {
        /// Why a run ends, or the result of a task that is one step, apart from the engine's verdict.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(test, derive(strum::EnumIter))]
        pub enum EndReason {
            $($(#[$documentation])+ $reason,)+
        }

        impl EndReason {
            /// Returns a constant name, as in the run record.
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
    /// The task is done already, or there is nothing for it.
    NothingToDo => Success,
    /// Task `prepare-network`: the NicClusterPolicy survives the next chart.
    NicClusterPolicyKept => Success,
    /// Task `preflight`: nothing stops the upgrade.
    PreflightPassed => Success,
    /// Task `hold`: the nodes are held.
    NodesHeld => Success,
    /// Task `hold`: no node has to be held.
    NoNodeHeld => Success,
    /// The settings cannot be parsed.
    SettingsUnreadable => Input,
    /// The settings contradict themselves.
    SettingsContradictory => Input,
    /// The settings are of a newer format.
    SettingsNewer => NewerFormat,
    /// The run record is of a newer format.
    RecordNewer => NewerFormat,
    /// The ConfigMap of the run record is missing.
    RecordMissing => Input,
    /// The run record cannot be written.
    RecordNotWritable => Record,
    /// The self-check found rights missing.
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
    /// The API server gave an answer that this program does not know.
    UnexpectedAnswer => Internal,
    /// The process could not start its runtime, its signal handlers or its metrics server.
    StartFailed => Internal,
    /// A signal ended the process.
    SignalReceived => Interrupted,
    /// Task `preflight` found what would stop the upgrade.
    PreflightBlocked => Preflight,
    /// Task `prepare-network`: the NicClusterPolicy is being deleted.
    NicClusterPolicyDeleted => Precondition,
    /// Task `prepare-network`: somebody removes the annotations again.
    AnnotationsRemoved => Precondition,
    /// Task `prepare-network`: the API server refuses the annotations.
    AnnotationsRefused => Precondition,
    /// Task `hold`: the API server refuses to have nodes held.
    HoldRefused => NodesFailed,
    /// Task `hold`: the time budget was over before all nodes were held.
    HoldIncomplete => ApiUnreachable,
}

impl RunEnd {
    /// Ends a run for this reason.
    pub fn new(reason: EndReason, message: impl Into<String>) -> Self {
        Self {
            code: reason.code(),
            message: message.into(),
            reasons: vec![VerdictReason::new(None, reason.name())],
        }
    }

    /// Names more reasons.
    #[must_use]
    pub(super) fn with_reasons(mut self, reasons: impl IntoIterator<Item = VerdictReason>) -> Self {
        self.reasons.extend(reasons);
        self
    }

    /// Joins the results of tasks that are one step each, in their order.
    pub(super) fn joined(steps: Vec<Self>) -> Self {
        let messages: Vec<&str> = steps.iter().map(|step| step.message.as_str()).collect();
        let message = messages.join("; ");
        Self {
            code: ExitCode::Success,
            message,
            reasons: steps.into_iter().flat_map(|step| step.reasons).collect(),
        }
    }

    /// Returns the verdict that is recorded.
    pub(super) fn into_verdict(self, at: Timestamp) -> Verdict {
        Verdict { code: self.code, message: self.message, reasons: self.reasons, at }
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

    /// The messages of the engine are in the catalog of `crates/planner/src/tests/messages.rs`, and the engine knows no hook.
    #[test]
    fn names_and_codes_of_ends_are_as_reviewed() {
        let line = |reason: EndReason| format!("{} ({})", reason.name(), reason.code().name());
        let mut lines: Vec<String> = EndReason::iter().map(line).collect();
        lines.sort();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
