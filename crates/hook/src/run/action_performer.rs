//! Performs the actions of a decision, and records the results.

use std::time::Duration;

use contract::task::Task;
use kube_io::actions::{
    ActionResult, EvictionAnswer, create_acceptance_pod, delete_pod, evict, patch_node, perform,
    read_test_log,
};
use kube_io::call::{CallError, is_webhook_failure};
use kube_io::lease::HeldLease;
use planner::action::{NodePatch, PodEviction, TestLogReading};
use planner::decide::{Action, WAKE_VALUE};
use planner::pods::eviction_retry::{BusyServer, EvictionHistory, EvictionReply};
use planner::write_refusals::RefusalKind;

use super::refused_request_timers::RequestKind;
use super::write_results::WriteResults;
use crate::run_events::RunEvents;
use crate::{HookProcess, RunEnd};

/// Why an action failed.
#[derive(Debug)]
enum ActionFailure {
    /// The call failed.
    Call(CallError),
    /// The server accepted the patch, but these parts were changed by admission.
    Changed(Vec<String>),
}

impl From<CallError> for ActionFailure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// The result of an action that did not fail.
enum ActionOutcome {
    /// The action was done, or nothing was left to do.
    Done,
    /// The server answered an eviction.
    Answered(EvictionAnswer),
    /// The last lines of a log, or why they could not be read: this stops no later action.
    LogRead(Result<Vec<String>, CallError>),
}

/// Performs the actions of one decision.
pub(super) struct ActionPerformer<'a> {
    pub(super) hook: &'a HookProcess,
    pub(super) events: &'a RunEvents,
    pub(super) results: WriteResults<'a>,
}

impl ActionPerformer<'_> {
    /// Performs the actions. Those of one node are performed in their order, up to the first
    /// failure. The next decision, of this pod or of its replacement, repeats the others if they
    /// are still needed. Returns whether the server refused a write to its object.
    pub(super) async fn perform(
        &mut self,
        actions: &[Action],
        held: &HeldLease,
    ) -> Result<bool, RunEnd> {
        let hook = self.hook;
        let may_write = || held.is_valid() && !hook.shutdown.is_requested();
        let bounded = async |action: &Action| {
            held.within(request(hook, action)).await.unwrap_or(Err(CallError::Timeout.into()))
        };
        let results = perform(actions, Action::node, may_write, bounded).await;
        self.note_busy(&results);
        let before = self.results.memory.refusals.clone();
        for (action, result) in actions.iter().zip(results) {
            match result {
                Some(Ok(ActionOutcome::Done)) => self.note_done(action).await,
                Some(Ok(ActionOutcome::Answered(answer))) => {
                    if let Action::Evict(eviction) = action {
                        self.note_answer(action, eviction, answer).await?;
                    }
                }
                Some(Ok(ActionOutcome::LogRead(answer))) => {
                    if let Action::ReadTestLog(reading) = action {
                        self.note_log(reading, answer);
                    }
                }
                Some(Err(failure)) => self.note_failure(action, failure).await?,
                None => self.results.memory.note_unbegun(action),
            }
        }
        Ok(self
            .results
            .memory
            .refusals
            .iter()
            .any(|(object, refusal)| before.get(object) != Some(refusal)))
    }

    /// Notes whether the server is too busy for evictions. All answers of one turn together count
    /// once.
    fn note_busy(&mut self, results: &[Option<Result<ActionOutcome, ActionFailure>>]) {
        let (mut busy, mut answered) = (None, false);
        for result in results.iter().flatten() {
            if let Ok(ActionOutcome::Answered(answer)) = result {
                answered |= !matches!(answer, EvictionAnswer::Lost(_));
                if let EvictionAnswer::Busy { retry_after, .. } = answer {
                    busy = busy.max(Some(retry_after.map(|pause| pause.as_secs())));
                }
            }
        }
        let memory = &mut *self.results.memory;
        if let Some(retry_after) = busy {
            memory.busy =
                Some(BusyServer::after(memory.busy.as_ref(), self.hook.clock.now(), retry_after));
        } else if answered {
            memory.busy = None;
        }
    }

    async fn note_done(&mut self, action: &Action) {
        self.results.refusals.clear(RequestKind::from(action));
        self.results.memory.note_accepted(action);
        match action {
            Action::ReplacePlugin { plugin, node, pod, cause, .. } => {
                self.hook.metrics.count_replacement(*plugin);
                if self.hook.settings.has(Task::Drive) {
                    tracing::info!(node, pod, cause, "replacing a stale plugin pod");
                } else {
                    self.events.plugin_replaced(*plugin, node, pod, cause).await;
                }
            }
            Action::DeleteDriver(deletion) => {
                tracing::info!(
                    node = deletion.node,
                    pod = deletion.pod,
                    "replacing the driver pod"
                );
            }
            Action::PatchNode(patch) => self.report_patch(patch).await,
            Action::CreateAcceptancePod(creation) => {
                self.events.acceptance_test_started(creation).await;
            }
            Action::DeleteAcceptancePod(deletion) => {
                tracing::info!(
                    node = deletion.node,
                    pod = deletion.pod,
                    "deleting the pod of an acceptance test"
                );
            }
            Action::Evict(_) | Action::ReadTestLog(_) => {}
        }
    }

    /// Records what was read of a log, unless a later decision may read it again. The lines are in
    /// the log of the hook, and in no event: events are read more widely.
    fn note_log(&mut self, reading: &TestLogReading, answer: Result<Vec<String>, CallError>) {
        let TestLogReading { node, test, pod, container, .. } = reading;
        let lines = match answer {
            Ok(lines) => {
                let log = lines.join("\n");
                tracing::warn!(
                    node,
                    pod,
                    container,
                    log,
                    "the last lines of acceptance test {test}"
                );
                lines
            }
            Err(error) => {
                tracing::warn!(node, pod, container, %error, "cannot read the log of acceptance test {test}");
                if error.is_passing() {
                    return;
                }
                Vec::new()
            }
        };
        self.results.memory.note_test_log(reading, lines, self.hook.clock.now());
    }

    async fn report_patch(&self, patch: &NodePatch) {
        let traits = self.hook.settings.driver.traits();
        let state = patch.labels.get(traits.own_state_label);
        let state = state.map(|state| state.as_deref().unwrap_or("done"));
        let skip = patch.labels.get(traits.skip_label).and_then(Option::as_deref);
        if skip.is_some_and(|value| value.starts_with(WAKE_VALUE)) {
            tracing::info!(
                node = patch.node,
                "woke NVIDIA's controller through the skip label of this node"
            );
        } else {
            let labels = patch.labels.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            tracing::info!(
                node = patch.node,
                state,
                cordon = patch.unschedulable,
                labels,
                "patched the node"
            );
        }
        if let Some(news) = &patch.news {
            self.events.node_news(&patch.node, news).await;
        }
    }

    /// Records the answer to an eviction. It determines when the eviction is requested again.
    async fn note_answer(
        &mut self,
        action: &Action,
        eviction: &PodEviction,
        answer: EvictionAnswer,
    ) -> Result<(), RunEnd> {
        if let EvictionAnswer::Forbidden(message) = &answer {
            self.results.note_error(action, CallError::Forbidden(message.clone())).await?;
        } else if let EvictionAnswer::Rejected(message) = &answer {
            self.results.note_refusal(action, RefusalKind::Denied, message);
        } else if let EvictionAnswer::Refused { code, message } = &answer
            && is_webhook_failure(*code, message)
        {
            self.results.note_refusal(action, RefusalKind::WebhookFailed, message);
        }
        let memory = &mut *self.results.memory;
        let Some((reply, message)) = sort_answer(answer) else {
            memory.evictions.remove(&eviction.uid);
            return Ok(());
        };
        self.hook.metrics.count_eviction(reply.name());
        let (node, pod, now) = (
            &eviction.node,
            format!("{}/{}", eviction.namespace, eviction.pod),
            self.hook.clock.now(),
        );
        match message {
            None => tracing::info!(node, pod = &*pod, "evicting the pod"),
            Some(message) => {
                tracing::info!(node, pod = &*pod, message, "the pod was not evicted; retrying");
            }
        }
        if reply == EvictionReply::Accepted {
            memory.note_accepted(action);
            if let Some(record) = memory.nodes.get_mut(node) {
                record.evicts(pod, now);
            }
        }
        let history = EvictionHistory::after(memory.evictions.get(&eviction.uid), now, reply);
        memory.evictions.insert(eviction.uid.clone(), history);
        Ok(())
    }

    /// Records a failed action. A later decision repeats it or lets the node fail.
    async fn note_failure(
        &mut self,
        action: &Action,
        failure: ActionFailure,
    ) -> Result<(), RunEnd> {
        if let Action::ReadTestLog(reading) = action {
            if let ActionFailure::Call(error) = failure {
                self.note_log(reading, Err(error));
            }
            return Ok(());
        }
        let what = RequestKind::from(action);
        self.hook.metrics.count_failed_write(what.name());
        match failure {
            ActionFailure::Changed(missing) => {
                self.results.note_changed(action, &missing);
                Ok(())
            }
            ActionFailure::Call(error) => {
                tracing::warn!(node = action.node(), ?what, %error, "a write failed");
                self.results.note_error(action, error).await
            }
        }
    }
}

/// Sends the request of an action.
async fn request(hook: &HookProcess, action: &Action) -> Result<ActionOutcome, ActionFailure> {
    let client = &hook.client;
    match action {
        Action::ReplacePlugin { namespace, pod, uid, .. } => {
            delete_pod(client, namespace, pod, uid).await?;
        }
        Action::DeleteDriver(deletion) | Action::DeleteAcceptancePod(deletion) => {
            delete_pod(client, &deletion.namespace, &deletion.pod, &deletion.uid).await?;
        }
        Action::CreateAcceptancePod(creation) => {
            match create_acceptance_pod(client, creation, &hook.settings.digest).await? {
                ActionResult::Now | ActionResult::Already => {}
                // The pod of this name is being deleted: the next decision waits for its end.
                ActionResult::Superseded | ActionResult::Changed(_) => {
                    let message = format!("pod `{}` is being deleted", creation.pod);
                    return Err(CallError::Conflict(message).into());
                }
            }
        }
        Action::PatchNode(patch) => match patch_node(client, patch).await? {
            // The following actions of the node were decided for a state that is out of date.
            ActionResult::Superseded => {
                return Err(
                    CallError::Conflict(format!("node `{}` has changed", patch.node)).into()
                );
            }
            ActionResult::Now | ActionResult::Already => {}
            // The following actions of the node rely on the complete patch.
            ActionResult::Changed(missing) => return Err(ActionFailure::Changed(missing)),
        },
        Action::Evict(eviction) => {
            return Ok(ActionOutcome::Answered(evict(client, eviction).await));
        }
        Action::ReadTestLog(reading) => {
            return Ok(ActionOutcome::LogRead(read_test_log(client, reading).await));
        }
    }
    Ok(ActionOutcome::Done)
}

/// Classifies the answer to an eviction, with a message if the pod was not evicted. `None`: the pod
/// is gone.
fn sort_answer(answer: EvictionAnswer) -> Option<(EvictionReply, Option<String>)> {
    let seconds = |pause: Option<Duration>| pause.map(|pause| pause.as_secs());
    Some(match answer {
        EvictionAnswer::Gone => return None,
        EvictionAnswer::Accepted | EvictionAnswer::NamespaceTerminating => {
            (EvictionReply::Accepted, None)
        }
        EvictionAnswer::Blocked { retry_after, message } => {
            (EvictionReply::Blocked { retry_after: seconds(retry_after) }, Some(message))
        }
        EvictionAnswer::Denied { message } => (EvictionReply::Denied, Some(message)),
        EvictionAnswer::Busy { message, .. } => (EvictionReply::Busy, Some(message)),
        EvictionAnswer::Forbidden(message) | EvictionAnswer::Rejected(message) => {
            (EvictionReply::Refused, Some(message))
        }
        EvictionAnswer::Refused { code, message } => {
            (EvictionReply::Refused, Some(format!("{code}: {message}")))
        }
        EvictionAnswer::Lost(message) => (EvictionReply::Lost, Some(message)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eviction_answers_are_sorted_by_when_to_ask_again() {
        let message = || "no".to_owned();
        let minute = Some(Duration::from_mins(1));
        for (answer, expected) in [
            (EvictionAnswer::Accepted, Some((EvictionReply::Accepted, None))),
            (EvictionAnswer::NamespaceTerminating, Some((EvictionReply::Accepted, None))),
            (EvictionAnswer::Gone, None),
            (
                EvictionAnswer::Blocked { retry_after: minute, message: message() },
                Some((EvictionReply::Blocked { retry_after: Some(60) }, Some(message()))),
            ),
            (
                EvictionAnswer::Busy { retry_after: minute, message: message() },
                Some((EvictionReply::Busy, Some(message()))),
            ),
            (EvictionAnswer::Rejected(message()), Some((EvictionReply::Refused, Some(message())))),
            (
                EvictionAnswer::Refused { code: 500, message: message() },
                Some((EvictionReply::Refused, Some("500: no".to_owned()))),
            ),
        ] {
            assert_eq!(sort_answer(answer), expected);
        }
    }
}
