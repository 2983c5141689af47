//! The results of writes, as the next decision and the run's end are judged by them.

use k8s_openapi::api::authorization::v1::ResourceAttributes;

use kube_io::access::is_allowed;
use kube_io::call::{CallError, is_of_authorizer};
use planner::decide::Action;
use planner::memory::RunMemory;
use planner::pods::listed;
use planner::refused_write::RefusalKind;

use super::refusal_timers::{RefusalTimers, RequestKind};
use crate::{HookProcess, RunEnd};

/// Notes the results of writes.
pub(super) struct WriteResults<'a> {
    pub(super) hook: &'a HookProcess,
    pub(super) memory: &'a mut RunMemory,
    pub(super) refusals: &'a mut RefusalTimers,
}

impl WriteResults<'_> {
    /// Notes that the server refuses an action for its object: the next decision judges it.
    pub(super) fn note_refusal(&mut self, action: &Action, kind: RefusalKind, message: &str) {
        self.memory.note_refusal(action, kind, message, self.hook.clock.now());
    }

    /// Notes that admission has changed a patch.
    pub(super) fn note_changed(&mut self, action: &Action, missing: &[String]) {
        let message =
            format!("the API server accepts the patch and admission drops {}", listed(missing));
        tracing::warn!(node = action.node(), message, "admission changes what is written");
        self.note_refusal(action, RefusalKind::Changed, &message);
    }

    /// Sorts a failed write: one that is refused for its object is noted, for the next decision to judge. A right that is missing, of which
    /// the server is asked if it does not say so itself, ends the run after a while.
    pub(super) async fn note_error(
        &mut self,
        action: &Action,
        error: CallError,
    ) -> Result<(), RunEnd> {
        match &error {
            CallError::Denied { message, .. } => {
                self.note_refusal(action, RefusalKind::Denied, message)
            }
            CallError::Refused { message, .. } if error.is_of_webhook() => {
                self.note_refusal(action, RefusalKind::WebhookFailed, message)
            }
            CallError::Forbidden(message)
                if !is_of_authorizer(message) && self.has_right(action).await =>
            {
                self.note_refusal(action, RefusalKind::Denied, message);
            }
            CallError::Timeout
            | CallError::Forbidden(_)
            | CallError::NotFound(_)
            | CallError::Conflict(_)
            | CallError::Refused { .. }
            | CallError::Unreachable(_) => {
                return self
                    .refusals
                    .note(RequestKind::from(action), &error, self.hook.clock.now())
                    .map_or(Ok(()), Err);
            }
        }
        Ok(())
    }

    /// Whether the server allows us what the action does. It is not asked in vain: without an answer the right counts as missing, for which the
    /// run waits.
    async fn has_right(&self, action: &Action) -> bool {
        match is_allowed(&self.hook.client, needed_right(action)).await {
            Ok(allowed) => allowed,
            Err(error) => {
                tracing::warn!(%error, "unable to ask for the right that a refused write needs");
                false
            }
        }
    }
}

/// Returns the right that an action needs.
fn needed_right(action: &Action) -> ResourceAttributes {
    let (verb, resource, subresource, namespace, name) = match action {
        Action::PatchNode(patch) => ("patch", "nodes", None, None, &patch.node),
        Action::Evict(eviction) => {
            ("create", "pods", Some("eviction"), Some(&eviction.namespace), &eviction.pod)
        }
        Action::DeleteDriver(deletion) => {
            ("delete", "pods", None, Some(&deletion.namespace), &deletion.pod)
        }
        Action::ReplacePlugin { namespace, pod, .. } => {
            ("delete", "pods", None, Some(namespace), pod)
        }
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
