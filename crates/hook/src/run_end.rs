//! How a run ends: why, for people and for programs. What ends it apart from a verdict of the engine is in one table.

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

/// Why a run ends, or what a task that is one step came to, apart from the engine's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(strum::EnumIter))]
pub enum EndReason {
    /// The task is done already, or there is nothing for it.
    NothingToDo,
    /// Task `prepare-network`: the NicClusterPolicy survives the next chart.
    NicClusterPolicyKept,
    /// Task `preflight`: nothing stops the upgrade.
    PreflightPassed,
    /// Task `hold`: the nodes are held.
    NodesHeld,
    /// Task `hold`: no node has to be held.
    NoNodeHeld,
    /// The settings cannot be parsed.
    SettingsUnreadable,
    /// The settings contradict themselves.
    SettingsContradictory,
    /// The settings are of a newer format.
    SettingsNewer,
    /// The run record is of a newer format.
    RecordNewer,
    /// The ConfigMap of the run record is missing.
    RecordMissing,
    /// The run record cannot be written.
    RecordNotWritable,
    /// The self-check found rights missing.
    RightsMissing,
    /// The API server refuses a request.
    RequestRefused,
    /// The API server refuses the Lease.
    LeaseRefused,
    /// Another hook Job held the Lease until the time budget was over.
    LeaseHeldByOther,
    /// The Lease could not be read or written in time.
    LeaseUnreachable,
    /// The time budget was over before the engine could give a verdict.
    BudgetOver,
    /// The API server could not be reached, or read, in time.
    ApiServerUnreachable,
    /// The API server gave an answer that this program does not know.
    UnexpectedAnswer,
    /// The process could not start its runtime, its signal handlers or its metrics server.
    StartFailed,
    /// A signal ended the process.
    SignalReceived,
    /// Task `preflight` found what would stop the upgrade.
    PreflightBlocked,
    /// Task `prepare-network`: the NicClusterPolicy is being deleted.
    NicClusterPolicyDeleted,
    /// Task `prepare-network`: somebody removes the annotations again.
    AnnotationsRemoved,
    /// Task `prepare-network`: the API server refuses the annotations.
    AnnotationsRefused,
    /// Task `hold`: the API server refuses to have nodes held.
    HoldRefused,
    /// Task `hold`: the time budget was over before all nodes were held.
    HoldIncomplete,
}

impl EndReason {
    /// The table: a constant name, and the exit code of a run that ends for it.
    fn row(self) -> (&'static str, ExitCode) {
        match self {
            Self::NothingToDo => ("NothingToDo", ExitCode::Success),
            Self::NicClusterPolicyKept => ("NicClusterPolicyKept", ExitCode::Success),
            Self::PreflightPassed => ("PreflightPassed", ExitCode::Success),
            Self::NodesHeld => ("NodesHeld", ExitCode::Success),
            Self::NoNodeHeld => ("NoNodeHeld", ExitCode::Success),
            Self::SettingsUnreadable => ("SettingsUnreadable", ExitCode::Input),
            Self::SettingsContradictory => ("SettingsContradictory", ExitCode::Input),
            Self::SettingsNewer => ("SettingsNewer", ExitCode::NewerFormat),
            Self::RecordNewer => ("RecordNewer", ExitCode::NewerFormat),
            Self::RecordMissing => ("RecordMissing", ExitCode::Input),
            Self::RecordNotWritable => ("RecordNotWritable", ExitCode::Record),
            Self::RightsMissing => ("RightsMissing", ExitCode::Rights),
            Self::RequestRefused => ("RequestRefused", ExitCode::Rights),
            Self::LeaseRefused => ("LeaseRefused", ExitCode::Rights),
            Self::LeaseHeldByOther => ("LeaseHeldByOther", ExitCode::LeaseHeld),
            Self::LeaseUnreachable => ("LeaseUnreachable", ExitCode::ApiUnreachable),
            Self::BudgetOver => ("BudgetOver", ExitCode::Budget),
            Self::ApiServerUnreachable => ("ApiServerUnreachable", ExitCode::ApiUnreachable),
            Self::UnexpectedAnswer => ("UnexpectedAnswer", ExitCode::Internal),
            Self::StartFailed => ("StartFailed", ExitCode::Internal),
            Self::SignalReceived => ("SignalReceived", ExitCode::Interrupted),
            Self::PreflightBlocked => ("PreflightBlocked", ExitCode::Preflight),
            Self::NicClusterPolicyDeleted => ("NicClusterPolicyDeleted", ExitCode::Precondition),
            Self::AnnotationsRemoved => ("AnnotationsRemoved", ExitCode::Precondition),
            Self::AnnotationsRefused => ("AnnotationsRefused", ExitCode::Precondition),
            Self::HoldRefused => ("HoldRefused", ExitCode::NodesFailed),
            Self::HoldIncomplete => ("HoldIncomplete", ExitCode::ApiUnreachable),
        }
    }

    /// A constant name, as in the run record.
    pub fn name(self) -> &'static str {
        self.row().0
    }
}

impl RunEnd {
    /// Ends a run for this reason.
    pub fn new(reason: EndReason, message: impl Into<String>) -> Self {
        Self { code: reason.row().1, message: message.into(), reasons: vec![VerdictReason::new(None, reason.name())] }
    }

    /// Names more reasons.
    #[must_use]
    pub(super) fn with_reasons(mut self, reasons: impl IntoIterator<Item = VerdictReason>) -> Self {
        self.reasons.extend(reasons);
        self
    }

    /// Joins what tasks of one step came to, in their order.
    pub(super) fn joined(steps: Vec<Self>) -> Self {
        let messages: Vec<&str> = steps.iter().map(|step| step.message.as_str()).collect();
        let message = messages.join("; ");
        Self { code: ExitCode::Success, message, reasons: steps.into_iter().flat_map(|step| step.reasons).collect() }
    }

    /// As it is recorded.
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

    /// What the engine says stands in the catalog of `crates/planner/src/tests/messages.rs`, and the engine knows no hook.
    #[test]
    fn names_and_codes_of_ends_are_as_reviewed() {
        let line = |reason: EndReason| format!("{} ({})", reason.name(), reason.row().1.name());
        let mut lines: Vec<String> = EndReason::iter().map(line).collect();
        lines.sort();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
