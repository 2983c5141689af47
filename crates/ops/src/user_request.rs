//! Records what users ask for: who, when and why, in the run record of each rollout that it concerns.

use kube::Client;

use contract::settings::Settings;
use contract::user_request::{RequestCommand, UserRequest};
use kube_io::call::CallError;
use kube_io::user_request::record_request;

use super::session::ClusterSession;

/// Makes the request of a command, in the name of the user that the API server takes this client for.
pub async fn new_request(
    session: &ClusterSession,
    command: RequestCommand,
    selector: Option<String>,
    reason: Option<String>,
) -> UserRequest {
    let by = super::pause::user(session.client()).await;
    UserRequest { selector, reason, ..UserRequest::new(command, by, session.now()) }
}

/// Writes the request into the run record of each of these hook releases, before the command acts.
/// Returns a warning for each record that could not be written: that must not keep a user from a
/// pause or an abort. RBAC: `get` and `patch` on the ConfigMaps of the run records.
pub async fn record(
    client: &Client,
    hooks: impl IntoIterator<Item = &Settings>,
    request: &UserRequest,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for hook in hooks.into_iter().filter(|hook| !hook.record.is_empty()) {
        match record_request(client, &hook.namespace, &hook.record, request).await {
            // A hook release that is not deployed has no record.
            Ok(()) | Err(CallError::NotFound(_)) => {}
            Err(error) => warnings.push(format!(
                "user and reason are not in the run record {}/{}: {error}",
                hook.namespace, hook.record
            )),
        }
    }
    warnings
}
