//! The log of a test that did not pass, if the test asks for lines of it. The result waits for the
//! answer for a short time, and is recorded without it afterwards.

use jiff::Timestamp;

use crate::action::TestLogReading;
use crate::decide::Action;
use crate::decide::node_draft::{NodeDraft, REPEAT_SECONDS};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::time::{after, before};
use contract::acceptance::AcceptanceTest;
use contract::record::acceptance::AcceptanceVerdict;
use observed::acceptance::AcceptancePod;

/// Seconds within which the log must have been read.
pub(super) const LOG_SECONDS: u64 = 30;

/// What is known about the log of a test.
pub(super) enum LogProgress {
    /// The lines; none if the test asks for none, or the log cannot be read.
    Known(Vec<String>),
    /// It is being read: the action that reads it, if that is due.
    Awaited(Vec<Action>),
}

/// Returns the reason of a node whose pod has ended.
pub(super) fn ending(pod: &str) -> Reason {
    Reason::Upgrading(UpgradeReason::AcceptanceEnding { pod: pod.to_owned() })
}

/// Returns the log lines of a test with this verdict. `since`: when its time was over; `None`: the
/// pod has ended.
pub(super) fn test_log(
    draft: &mut NodeDraft<'_>,
    test: &AcceptanceTest,
    pod: &AcceptancePod,
    verdict: AcceptanceVerdict,
    since: Option<Timestamp>,
) -> LogProgress {
    let memory = draft.fleet.memory;
    let is_readable = test.log_lines > 0 && !verdict.accepts() && draft.node.ready;
    let Some(container) = pod.log_container.as_ref().filter(|_| is_readable) else {
        return LogProgress::Known(Vec::new());
    };
    if let Some(log) = memory.test_logs.get(&pod.uid) {
        return LogProgress::Known(log.lines.clone());
    }
    let since = since.unwrap_or_else(|| draft.waits(&ending(&pod.name)));
    // A result that the run has no time to record is worse than one without lines.
    let has_time = after(draft.now(), REPEAT_SECONDS) < memory.deadline;
    if draft.alarm.passed(since, LOG_SECONDS) || !has_time {
        return LogProgress::Known(Vec::new());
    }
    draft.alarm.set(before(memory.deadline, REPEAT_SECONDS));
    let reading = TestLogReading {
        node: pod.node.clone(),
        test: test.name.clone(),
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        container: container.clone(),
        lines: test.log_lines,
    };
    if draft.is_just_requested(&reading.request()) {
        return LogProgress::Awaited(Vec::new());
    }
    LogProgress::Awaited(vec![Action::ReadTestLog(reading)])
}
