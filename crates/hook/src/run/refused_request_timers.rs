//! Timers for requests that the API server allowed before and now refuses. The hook tolerates a
//! refusal for a short time, because roles may be changing. Then the refusal ends the run.

use std::collections::BTreeMap;

use jiff::Timestamp;

use kube_io::call::{CallError, REFUSAL};
use planner::decide::Action;
use strum::IntoStaticStr;

use crate::clock::later;
use crate::start::record_missing;
use crate::{EndReason, RunEnd};

/// The kinds of requests that the loop sends to the API server, except for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum RequestKind {
    /// Lists and watches.
    Watch,
    /// Patches of the run record.
    Record,
    /// Deletions of pods: of plugins, drivers and acceptance tests.
    Deletion,
    /// Patches of nodes.
    Node,
    /// Evictions.
    Eviction,
    /// Creations of the pods of acceptance tests.
    AcceptancePod,
    /// Readings of the logs of acceptance tests.
    TestLog,
    /// Annotations of the NicClusterPolicy.
    Annotation,
}

impl RequestKind {
    /// Returns the value of the label `what` of the metric of failed writes.
    pub(super) fn name(self) -> &'static str {
        self.into()
    }
}

impl From<&Action> for RequestKind {
    fn from(action: &Action) -> Self {
        match action {
            Action::ReplacePlugin { .. }
            | Action::DeleteDriver(_)
            | Action::DeleteAcceptancePod(_) => Self::Deletion,
            Action::CreateAcceptancePod(_) => Self::AcceptancePod,
            Action::ReadTestLog(_) => Self::TestLog,
            Action::PatchNode(_) => Self::Node,
            Action::Evict(_) => Self::Eviction,
        }
    }
}

/// The time since which the API server has refused each kind of request.
pub(super) struct RefusedRequestTimers {
    /// Name of the hook release, for messages.
    release: String,
    since: BTreeMap<RequestKind, Timestamp>,
}

impl RefusedRequestTimers {
    pub(super) fn new(release: &str) -> Self {
        Self { release: release.to_owned(), since: BTreeMap::new() }
    }

    /// Clears the timer of a kind of request, because the server accepted one.
    pub(super) fn clear(&mut self, request: RequestKind) {
        self.since.remove(&request);
    }

    /// Starts the timer of a refused request if it does not run yet, and returns its end.
    pub(super) fn deadline(&mut self, request: RequestKind, now: Timestamp) -> Timestamp {
        later(*self.since.entry(request).or_insert(now), REFUSAL)
    }

    /// Notes a failed write. Returns the end of the run if the server has refused this kind of
    /// write for too long. Passing failures are ignored.
    pub(super) fn note(
        &mut self,
        write: RequestKind,
        error: &CallError,
        now: Timestamp,
    ) -> Option<RunEnd> {
        let ended = match error {
            CallError::Forbidden(message) | CallError::Denied { message, .. } => refused(message),
            CallError::NotFound(message) => record_missing(&self.release, message),
            CallError::Timeout
            | CallError::Conflict(_)
            | CallError::Refused { .. }
            | CallError::Unreachable(_) => return None,
        };
        (now >= self.deadline(write, now)).then_some(ended)
    }
}

/// Returns the end of a run whose requests the API server refuses.
pub(super) fn refused(message: &str) -> RunEnd {
    RunEnd::new(
        EndReason::RequestRefused,
        format!("the API server refuses a request that it allowed before: {message}"),
    )
}

#[cfg(test)]
mod tests {
    use contract::exit::ExitCode;

    use super::*;

    #[test]
    fn refusal_ends_the_run_after_a_minute_without_success() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let forbidden = CallError::Forbidden("no".to_owned());
        let mut timers = RefusedRequestTimers::new("gpu-operator-post");
        assert_eq!(timers.note(RequestKind::Node, &forbidden, at(0)), None);
        assert_eq!(
            timers.note(RequestKind::Record, &forbidden, at(30)),
            None,
            "each kind has its own time"
        );
        timers.clear(RequestKind::Record);
        assert_eq!(timers.note(RequestKind::Record, &forbidden, at(70)), None);
        assert_eq!(timers.note(RequestKind::Node, &CallError::Timeout, at(70)), None, "may pass");
        assert_eq!(timers.note(RequestKind::Node, &forbidden, at(59)), None);
        let ended = timers.note(RequestKind::Node, &forbidden, at(60));
        assert_eq!(ended.map(|ended| ended.code), Some(ExitCode::Rights));
    }

    #[test]
    fn missing_object_ends_the_run_as_a_missing_record() {
        let mut timers = RefusedRequestTimers::new("gpu-operator-post");
        let missing = CallError::NotFound("no".to_owned());
        assert_eq!(timers.note(RequestKind::Record, &missing, Timestamp::UNIX_EPOCH), None);
        let ended =
            timers.note(RequestKind::Record, &missing, later(Timestamp::UNIX_EPOCH, REFUSAL));
        assert_eq!(ended.map(|ended| ended.code), Some(ExitCode::Input));
    }
}
