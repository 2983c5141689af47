//! Records the results of writes, on which the next decision and the end of the run depend.

use k8s_openapi::api::authorization::v1::ResourceAttributes;

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use kube_io::access::is_allowed;
use kube_io::call::{CallError, is_of_authorizer};
use planner::decide::Action;
use planner::memory::RunMemory;
use planner::pods::listed;
use planner::write_refusals::RefusalKind;

use super::refused_request_timers::{RefusedRequestTimers, RequestKind};
use crate::{HookProcess, RunEnd};

/// Records the results of writes in the memory and in the refusal timers.
pub(super) struct WriteResults<'a> {
    pub(super) hook: &'a HookProcess,
    pub(super) memory: &'a mut RunMemory,
    pub(super) refusals: &'a mut RefusedRequestTimers,
}

impl WriteResults<'_> {
    /// Notes that the server refuses an action on its object. The next decision handles it.
    pub(super) fn note_refusal(&mut self, action: &Action, kind: RefusalKind, message: &str) {
        self.memory.note_refusal(action, kind, message, self.hook.clock.now());
    }

    /// Notes that admission changed a patch.
    pub(super) fn note_changed(&mut self, action: &Action, missing: &[String]) {
        let message =
            format!("the API server accepts the patch, but admission drops {}", listed(missing));
        tracing::warn!(node = action.node(), message, "admission changed a patch");
        self.note_refusal(action, RefusalKind::Changed, &message);
    }

    /// Handles a failed write. A refusal of the object is noted for the next decision. A missing
    /// right ends the run after a while. If the answer does not show whether a right is missing,
    /// the hook asks the server with a SelfSubjectAccessReview.
    pub(super) async fn note_error(
        &mut self,
        action: &Action,
        error: CallError,
    ) -> Result<(), RunEnd> {
        match &error {
            CallError::Denied { message, .. } => {
                self.note_refusal(action, RefusalKind::Denied, message);
            }
            CallError::Refused { message, .. } if error.is_of_webhook() => {
                self.note_refusal(action, RefusalKind::WebhookFailed, message);
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

    /// Whether the server allows the hook to perform the action. Without an answer the right counts
    /// as missing, because the run tolerates a missing right for some time.
    async fn has_right(&self, action: &Action) -> bool {
        match is_allowed(&self.hook.client, needed_right(action)).await {
            Ok(allowed) => allowed,
            Err(error) => {
                tracing::warn!(%error, "cannot check the right that a refused write needs");
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
            ("create", "pods", Some("eviction"), Some(&*eviction.namespace), &eviction.pod)
        }
        Action::DeleteDriver(deletion) | Action::DeleteAcceptancePod(deletion) => {
            ("delete", "pods", None, Some(&*deletion.namespace), &deletion.pod)
        }
        Action::ReplacePlugin { namespace, pod, .. } => {
            ("delete", "pods", None, Some(&**namespace), pod)
        }
        Action::CreateAcceptancePod(creation) => {
            ("create", "pods", None, Some(ACCEPTANCE_NAMESPACE), &creation.pod)
        }
        Action::ReadTestLog(reading) => {
            ("get", "pods", Some("log"), Some(ACCEPTANCE_NAMESPACE), &reading.pod)
        }
    };
    ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(String::new()),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        namespace: namespace.map(str::to_owned),
        name: Some(name.clone()),
        ..ResourceAttributes::default()
    }
}
