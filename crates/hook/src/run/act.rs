//! Performs what was decided, and tells what came of it.

use k8s_openapi::api::authorization::v1::ResourceAttributes;

use contract::task::Task;
use kube_io::access::is_allowed;
use kube_io::actions::{ActionResult, EvictionAnswer, delete_pod, evict, patch_node, perform};
use kube_io::call::{CallError, is_of_authorizer, is_webhook_failure};
use kube_io::lease::HeldLease;
use planner::action::NodePatch;
use planner::decide::{Action, WAKE_VALUE};
use planner::pods::eviction_retry::{BusyServer, EvictionHistory, EvictionReply};
use planner::pods::listed;
use planner::refused_write::RefusalKind;

use super::{LoopWrite, Occurrence, RunEnd, RunLoop};

/// Why an action was not done.
#[derive(Debug)]
enum ActionFailure {
    /// The call failed.
    Call(CallError),
    /// The server accepted it, and these parts are not as they were to be.
    Changed(Vec<String>),
}

impl From<CallError> for ActionFailure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// What became of an action.
enum ActionOutcome {
    /// It was done, or there was nothing left to do.
    Done,
    /// An eviction.
    Answered(EvictionAnswer),
}

impl RunLoop<'_> {
    /// Performs the actions: those of one node in their order, up to the first that fails. What is not done now is done by the next decision,
    /// of this pod or of the next one. The answer: whether a write was refused for its object.
    pub(super) async fn act(&mut self, actions: &[Action], held: &HeldLease) -> Result<bool, RunEnd> {
        let client = &self.hook.client;
        let may_write = || held.is_valid() && !self.hook.shutdown.is_requested();
        let act = async |action: &Action| match action {
            Action::ReplacePlugin { namespace, pod, uid, .. } => {
                delete_pod(client, namespace, pod, uid).await?;
                Ok(ActionOutcome::Done)
            }
            Action::DeleteDriver(deletion) => {
                delete_pod(client, &deletion.namespace, &deletion.pod, &deletion.uid).await?;
                Ok(ActionOutcome::Done)
            }
            Action::PatchNode(patch) => match patch_node(client, patch).await? {
                // What is behind it was decided on another node than there is: it is decided anew.
                ActionResult::Superseded => Err(CallError::Conflict(format!("node `{}` has changed", patch.node)).into()),
                ActionResult::Now | ActionResult::Already => Ok(ActionOutcome::Done),
                // What is behind it rests on it.
                ActionResult::Changed(missing) => Err(ActionFailure::Changed(missing)),
            },
            Action::Evict(eviction) => Ok(ActionOutcome::Answered(evict(client, eviction).await)),
        };
        let bounded = async |action: &Action| held.within(act(action)).await.unwrap_or(Err(CallError::Timeout.into()));
        let results = perform(actions, Action::node, may_write, bounded).await;
        self.note_busy(&results);
        let before = self.memory.refusals.clone();
        for (action, result) in actions.iter().zip(results) {
            match result {
                Some(Ok(ActionOutcome::Done)) => self.done(action).await,
                Some(Ok(ActionOutcome::Answered(answer))) => self.answered(action, answer).await?,
                Some(Err(failure)) => self.failed(action, failure).await?,
                None => self.memory.note_unbegun(action),
            }
        }
        Ok(self.memory.refusals.iter().any(|(object, refusal)| before.get(object) != Some(refusal)))
    }

    /// Whether the server is too busy for evictions: many answers of one turn say it once.
    fn note_busy(&mut self, results: &[Option<Result<ActionOutcome, ActionFailure>>]) {
        let answers = results.iter().flatten().filter_map(|result| match result {
            Ok(ActionOutcome::Answered(answer)) => Some(answer),
            Ok(ActionOutcome::Done) | Err(_) => None,
        });
        let answers: Vec<&EvictionAnswer> = answers.collect();
        let busy = answers.iter().filter_map(|answer| match answer {
            EvictionAnswer::Busy { retry_after, .. } => Some(retry_after.map(|pause| pause.as_secs())),
            EvictionAnswer::Accepted
            | EvictionAnswer::Gone
            | EvictionAnswer::Blocked { .. }
            | EvictionAnswer::Denied { .. }
            | EvictionAnswer::NamespaceTerminating
            | EvictionAnswer::Forbidden(_)
            | EvictionAnswer::Rejected(_)
            | EvictionAnswer::Refused { .. }
            | EvictionAnswer::Lost(_) => None,
        });
        if let Some(retry_after) = busy.max() {
            self.memory.busy = Some(BusyServer::after(self.memory.busy.as_ref(), self.now(), retry_after));
        } else if answers.iter().any(|answer| !matches!(answer, EvictionAnswer::Lost(_))) {
            self.memory.busy = None;
        }
    }

    async fn done(&mut self, action: &Action) {
        self.unwritten_since.remove(&kind(action));
        self.memory.note_accepted(action);
        if let Action::ReplacePlugin { plugin, .. } = action {
            self.hook.metrics.replaced(*plugin);
        }
        match action {
            Action::ReplacePlugin { node, pod, cause, .. } if self.hook.settings.has(Task::Drive) => {
                tracing::info!(node, pod, cause, "replacing a stale plugin pod");
            }
            Action::ReplacePlugin { plugin, node, pod, cause, .. } => {
                self.record(Occurrence::PluginReplaced { plugin: *plugin, node, pod, cause }).await;
            }
            Action::DeleteDriver(deletion) => {
                tracing::info!(node = deletion.node, pod = deletion.pod, "the driver pod is being replaced");
            }
            Action::PatchNode(patch) => self.patched(patch).await,
            Action::Evict(_) => {}
        }
    }

    async fn patched(&self, patch: &NodePatch) {
        let traits = self.hook.settings.driver.traits();
        let state = patch.labels.get(traits.own_state_label);
        let state = state.map(|state| state.as_deref().unwrap_or("done"));
        let skip = patch.labels.get(traits.skip_label).and_then(Option::as_deref);
        if skip.is_some_and(|value| value.starts_with(WAKE_VALUE)) {
            tracing::info!(node = patch.node, "woke the vendor's controller by the skip label of this node");
        } else {
            let labels = patch.labels.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            tracing::info!(node = patch.node, state, cordon = patch.unschedulable, labels, "the node was changed");
        }
        if let Some(news) = &patch.news {
            self.record(Occurrence::NodeNews { node: &patch.node, news }).await;
        }
    }

    /// Remembers the answer: it says when the pod is asked to leave again.
    async fn answered(&mut self, action: &Action, answer: EvictionAnswer) -> Result<(), RunEnd> {
        let Action::Evict(eviction) = action else { return Ok(()) };
        let pod = format!("{}/{}", eviction.namespace, eviction.pod);
        let seconds = |pause: Option<std::time::Duration>| pause.map(|pause| pause.as_secs());
        let (sorted, message) = match answer {
            EvictionAnswer::Accepted | EvictionAnswer::NamespaceTerminating => (EvictionReply::Accepted, None),
            EvictionAnswer::Gone => {
                self.memory.evictions.remove(&eviction.uid);
                return Ok(());
            }
            EvictionAnswer::Blocked { retry_after, message } => {
                (EvictionReply::Blocked { retry_after: seconds(retry_after) }, Some(message))
            }
            EvictionAnswer::Denied { message } => (EvictionReply::Denied, Some(message)),
            EvictionAnswer::Busy { message, .. } => (EvictionReply::Busy, Some(message)),
            EvictionAnswer::Forbidden(message) => {
                self.refused(action, CallError::Forbidden(message.clone())).await?;
                (EvictionReply::Refused, Some(message))
            }
            EvictionAnswer::Rejected(message) => {
                self.memory.note_refusal(action, RefusalKind::Denied, &message, self.hook.clock.now());
                (EvictionReply::Refused, Some(message))
            }
            EvictionAnswer::Refused { code, message } => {
                if is_webhook_failure(code, &message) {
                    self.memory.note_refusal(action, RefusalKind::WebhookFailed, &message, self.hook.clock.now());
                }
                (EvictionReply::Refused, Some(format!("{code}: {message}")))
            }
            EvictionAnswer::Lost(message) => (EvictionReply::Lost, Some(message)),
        };
        self.hook.metrics.evicted(sorted.name());
        match message {
            None => tracing::info!(node = eviction.node, pod = &*pod, "the pod is being evicted"),
            Some(message) => tracing::info!(node = eviction.node, pod = &*pod, message, "the pod was not evicted; trying again"),
        }
        let now = self.now();
        if sorted == EvictionReply::Accepted {
            self.memory.note_accepted(action);
        }
        if sorted == EvictionReply::Accepted
            && let Some(record) = self.memory.nodes.get_mut(&eviction.node)
        {
            record.evicts(pod, now);
        }
        let history = EvictionHistory::after(self.memory.evictions.get(&eviction.uid), now, sorted);
        self.memory.evictions.insert(eviction.uid.clone(), history);
        Ok(())
    }

    /// A later decision repeats it, or gives the node up.
    async fn failed(&mut self, action: &Action, failure: ActionFailure) -> Result<(), RunEnd> {
        let what = kind(action);
        self.hook.metrics.failed_write(what.name());
        match failure {
            ActionFailure::Changed(missing) => {
                self.note_changed(action, &missing);
                Ok(())
            }
            ActionFailure::Call(error) => {
                tracing::warn!(node = action.node(), ?what, %error, "unable to write");
                self.refused(action, error).await
            }
        }
    }

    /// Admission has changed a patch.
    pub(super) fn note_changed(&mut self, action: &Action, missing: &[String]) {
        let message = format!("the API server accepts the patch and admission drops {}", listed(missing));
        tracing::warn!(node = action.node(), message, "admission changes what is written");
        self.memory.note_refusal(action, RefusalKind::Changed, &message, self.now());
    }

    /// Sorts a failed write: one that is refused for its object is noted, for the next decision to judge. A right that is missing, of which
    /// the server is asked if it does not say so itself, ends the run after a while.
    pub(super) async fn refused(&mut self, action: &Action, error: CallError) -> Result<(), RunEnd> {
        match &error {
            CallError::Denied { message, .. } => self.memory.note_refusal(action, RefusalKind::Denied, message, self.now()),
            CallError::Refused { message, .. } if error.is_of_webhook() => {
                self.memory.note_refusal(action, RefusalKind::WebhookFailed, message, self.now());
            }
            CallError::Forbidden(message) if !is_of_authorizer(message) && self.has_right(action).await => {
                self.memory.note_refusal(action, RefusalKind::Denied, message, self.now());
            }
            CallError::Timeout
            | CallError::Forbidden(_)
            | CallError::NotFound(_)
            | CallError::Conflict(_)
            | CallError::Refused { .. }
            | CallError::Unreachable(_) => return self.unwritable(kind(action), &error).map_or(Ok(()), Err),
        }
        Ok(())
    }

    /// Whether the server allows us what the action does. It is not asked in vain: without an answer the right counts as missing, for which the
    /// run waits.
    async fn has_right(&self, action: &Action) -> bool {
        match is_allowed(&self.hook.client, right(action)).await {
            Ok(allowed) => allowed,
            Err(error) => {
                tracing::warn!(%error, "unable to ask for the right that a refused write needs");
                false
            }
        }
    }
}

/// The right that an action needs.
fn right(action: &Action) -> ResourceAttributes {
    let (verb, resource, subresource, namespace, name) = match action {
        Action::PatchNode(patch) => ("patch", "nodes", None, None, &patch.node),
        Action::Evict(eviction) => ("create", "pods", Some("eviction"), Some(&eviction.namespace), &eviction.pod),
        Action::DeleteDriver(deletion) => ("delete", "pods", None, Some(&deletion.namespace), &deletion.pod),
        Action::ReplacePlugin { namespace, pod, .. } => ("delete", "pods", None, Some(namespace), pod),
    };
    ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(String::new()),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        namespace: namespace.cloned(),
        name: Some(name.clone()),
        ..ResourceAttributes::default()
    }
}

fn kind(action: &Action) -> LoopWrite {
    match action {
        Action::ReplacePlugin { .. } | Action::DeleteDriver(_) => LoopWrite::Deletion,
        Action::PatchNode(_) => LoopWrite::Node,
        Action::Evict(_) => LoopWrite::Eviction,
    }
}
