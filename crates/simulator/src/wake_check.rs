//! Checks that a decision that does nothing names the time at which it changes: made again with the
//! same objects, one millisecond before that time, it still does nothing, and has the same result.

use jiff::{SignedDuration, Timestamp};

use contract::settings::Settings;
use observed::Observed;
use planner::decide::{Decision, decide};
use planner::memory::RunMemory;
use planner::reason::Wait;

use super::text_difference::where_they_differ;

/// Returns how the decision just before the next one differs from this one, although nothing has
/// changed but the Lease of the operator's leader, if there is one.
pub(super) fn difference(
    decision: &Decision,
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) -> Option<String> {
    let mut observed = observed.clone();
    let lease = observed.operator_lease.as_mut().filter(|lease| lease.renewed == Some(now));
    let due = if lease.is_some() { decision.wake_at_if_led } else { decision.wake_at };
    let until = due - SignedDuration::from_millis(1);
    if until <= now || !decision.actions.is_empty() || decision.verdict.is_some() {
        return None;
    }
    if let Some(lease) = lease {
        lease.renewed = Some(until);
    }
    let later = decide(&observed, settings, &decision.memory, until);
    if is_same(decision, &later) {
        return None;
    }
    let (ours, theirs) = where_they_differ(&format!("{decision:?}"), &format!("{later:?}"));
    let seconds = until.duration_since(now).as_secs_f64();
    Some(format!(
        "the decision is `…{ours}…`; {seconds} s later, and before it is due, it is `…{theirs}…`"
    ))
}

fn is_same(decision: &Decision, later: &Decision) -> bool {
    // What is remembered of requests is forgotten after a while.
    let memory = RunMemory {
        issued: later.memory.issued.clone(),
        test_logs: later.memory.test_logs.clone(),
        evictions: later.memory.evictions.clone(),
        refusals: later.memory.refusals.clone(),
        ..decision.memory.clone()
    };
    // Texts name the time that is left.
    let kind = |wait: Wait| (wait.node, wait.reason.name(), wait.since);
    memory == later.memory
        && decision.actions == later.actions
        && decision.waits.iter().map(kind).eq(later.waits.iter().map(kind))
        && decision.outcomes == later.outcomes
        && decision.verdict == later.verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::setup;
    use crate::hook_state::HookState;
    use crate::objects::timestamp;

    #[test]
    fn decision_that_is_due_too_late_is_found() {
        let HookState { settings, memory, .. } = HookState::new(&setup(1));
        let (observed, now) = (Observed::default(), timestamp(0));
        let mut decision = decide(&observed, &settings, &memory, now);
        let found = |decision: &Decision| difference(decision, &observed, &settings, now).is_some();
        assert!(!found(&decision));
        decision.wake_at = memory.deadline + SignedDuration::from_mins(1);
        assert!(found(&decision), "the run has failed at its deadline");
    }
}
