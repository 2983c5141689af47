//! Task `prepare-network`: one step under the Lease, before the loop. It fails closed: if the hook
//! cannot make the deployer retain the NicClusterPolicy, the operator's release must not be
//! deployed.

use std::time::Duration;

use jiff::Timestamp;

use contract::settings::Settings;
use kube_io::call::CallError;
use kube_io::lease::HeldLease;
use kube_io::network;
use kube_io::repeated_warning::RepeatedWarning;
use planner::retain::{KeyValues, RetainDecision, RetainState, keeping};

use super::refused_request_timers::{RefusedRequestTimers, RequestKind};
use super::{RETRY, StepEnd, interrupted};
use crate::clock::later;
use crate::run_events::RunEvents;
use crate::{EndReason, HookProcess, RunEnd};

/// How often the hook writes the annotations. Then the step fails, because another client removes
/// them again.
const ATTEMPTS: u32 = 3;

/// Annotates the NicClusterPolicy so that it survives the upgrade of the chart.
pub(super) struct NetworkPreparation<'a> {
    pub(super) hook: &'a HookProcess,
    pub(super) held: &'a HeldLease,
    pub(super) events: &'a RunEvents,
    pub(super) refusals: &'a mut RefusedRequestTimers,
    pub(super) deadline: Timestamp,
}

impl NetworkPreparation<'_> {
    /// Annotates the policy until the API server shows all annotations.
    pub(super) async fn run(mut self) -> Result<RunEnd, StepEnd> {
        let (client, settings, clock) = (&self.hook.client, &self.hook.settings, &self.hook.clock);
        let lost_at =
            later(clock.now(), Duration::from_secs(settings.grace_seconds)).min(self.deadline);
        let mut written = 0;
        let mut warning = RepeatedWarning::new(
            "cannot annotate the NicClusterPolicy; retrying",
            "annotated the NicClusterPolicy",
        );
        loop {
            if !self.held.is_valid() {
                return Err(StepEnd::LeaseLost);
            }
            if self.hook.shutdown.is_requested() {
                return Err(interrupted().into());
            }
            let answer = match network::read_policy(client).await {
                Ok(policy) => match next_step(
                    decide(policy.as_ref(), settings),
                    policy,
                    written,
                    clock.now() < lost_at,
                ) {
                    PolicyStep::Done(end) => return Ok(end),
                    PolicyStep::Fail(end) => return Err(StepEnd::Verdict(end)),
                    PolicyStep::Wait => {
                        tokio::time::sleep(RETRY).await;
                        continue;
                    }
                    PolicyStep::Annotate(policy, annotations) => {
                        let answer = self
                            .held
                            .within(network::annotate(client, &policy, &annotations))
                            .await;
                        answer.unwrap_or(Err(CallError::Timeout)).map(|()| annotations)
                    }
                },
                Err(error) => Err(error),
            };
            match answer {
                Ok(annotations) => {
                    written += 1;
                    warning.end();
                    self.refusals.clear(RequestKind::Annotation);
                    self.events.policy_annotated(&annotations).await;
                }
                Err(error) => {
                    self.note_error(&error, &mut warning)?;
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Notes a failed call; `Err`: the step ends.
    fn note_error(
        &mut self,
        error: &CallError,
        warning: &mut RepeatedWarning,
    ) -> Result<(), StepEnd> {
        if let CallError::Denied { message, .. } = error {
            let message = format!(
                "the API server refuses the annotations of the NicClusterPolicy: {message}"
            );
            return Err(StepEnd::Verdict(not_retained(EndReason::AnnotationsRefused, &message)));
        }
        warning.note(error);
        let now = self.hook.clock.now();
        // The policy has changed or is gone: read it again.
        let in_between = matches!(error, CallError::Conflict(_) | CallError::NotFound(_));
        if !in_between && let Some(ended) = self.refusals.note(RequestKind::Annotation, error, now)
        {
            return Err(ended.into());
        }
        if now >= self.deadline {
            let message = format!("cannot annotate the NicClusterPolicy in time: {error}");
            return Err(RunEnd::new(EndReason::ApiServerUnreachable, message).into());
        }
        Ok(())
    }
}

/// The next step of the task.
#[derive(Debug, PartialEq, Eq)]
enum PolicyStep {
    Done(RunEnd),
    Fail(RunEnd),
    /// The client that deletes the policy may create it again.
    Wait,
    Annotate(RetainState, KeyValues),
}

fn decide(policy: Option<&RetainState>, settings: &Settings) -> RetainDecision {
    keeping(policy, &settings.component, settings.component_version.as_deref())
}

/// Returns the next step after `written` writes. `may_return`: a policy that is being deleted may
/// still be created again.
fn next_step(
    decision: RetainDecision,
    policy: Option<RetainState>,
    written: u32,
    may_return: bool,
) -> PolicyStep {
    match (decision, policy) {
        (RetainDecision::Nothing(_), _) if written > 0 => PolicyStep::Done(RunEnd::new(
            EndReason::NicClusterPolicyKept,
            "the deployer retains the NicClusterPolicy",
        )),
        (RetainDecision::Nothing(why), _) => {
            PolicyStep::Done(RunEnd::new(EndReason::NothingToDo, why))
        }
        (RetainDecision::Lost, _) if may_return => PolicyStep::Wait,
        (RetainDecision::Lost, _) | (RetainDecision::Annotate(_), None) => {
            let message =
                "the NicClusterPolicy is being deleted; wait until it is gone, or restore it";
            PolicyStep::Fail(not_retained(EndReason::NicClusterPolicyDeleted, message))
        }
        (RetainDecision::Annotate(annotations), Some(_)) if written >= ATTEMPTS => {
            let names = annotations.into_keys().collect::<Vec<_>>().join(", ");
            let message = format!(
                "another client removes the annotations {names} from the NicClusterPolicy; find and stop it"
            );
            PolicyStep::Fail(not_retained(EndReason::AnnotationsRemoved, &message))
        }
        (RetainDecision::Annotate(annotations), Some(policy)) => {
            PolicyStep::Annotate(policy, annotations)
        }
    }
}

fn not_retained(reason: EndReason, message: &str) -> RunEnd {
    RunEnd::new(
        reason,
        format!(
            "{message}; the upgrade to the Network Operator's new chart would delete the NicClusterPolicy"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(step: PolicyStep) -> Option<String> {
        match step {
            PolicyStep::Done(end) | PolicyStep::Fail(end) => {
                end.reasons.into_iter().next().map(|reason| reason.reason)
            }
            PolicyStep::Wait | PolicyStep::Annotate(..) => None,
        }
    }

    #[test]
    fn policy_is_annotated_three_times_at_most() {
        let annotate = || {
            RetainDecision::Annotate(
                [("helm.sh/resource-policy".to_owned(), "keep".to_owned())].into(),
            )
        };
        let step =
            |decision, written| next_step(decision, Some(RetainState::default()), written, false);
        assert!(matches!(step(annotate(), ATTEMPTS - 1), PolicyStep::Annotate(..)));
        assert_eq!(
            reason(step(annotate(), ATTEMPTS)).as_deref(),
            Some(EndReason::AnnotationsRemoved.name())
        );
        assert_eq!(
            reason(step(RetainDecision::Nothing("kept"), 0)).as_deref(),
            Some(EndReason::NothingToDo.name())
        );
        assert_eq!(
            reason(step(RetainDecision::Nothing("kept"), 1)).as_deref(),
            Some(EndReason::NicClusterPolicyKept.name())
        );
    }

    #[test]
    fn deleted_policy_is_awaited_while_it_may_return() {
        let step = |may_return| {
            next_step(RetainDecision::Lost, Some(RetainState::default()), 0, may_return)
        };
        assert_eq!(step(true), PolicyStep::Wait);
        assert_eq!(reason(step(false)).as_deref(), Some(EndReason::NicClusterPolicyDeleted.name()));
    }
}
