//! Discovery before the watches start: which namespaces exist, and which version of an API the
//! server serves.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

use contract::settings::Settings;
use contract::task::Task;

use super::workloads::needs_claims;
use crate::call::{CallError, call, optional};

/// Versions of `resource.k8s.io` whose objects [`observed::project::slice`] and
/// [`observed::project::claim`] read, newest first.
const SLICE_VERSIONS: [&str; 3] = ["v1", "v1beta2", "v1beta1"];

/// Returns which of the DRA driver's configured namespaces exist. RBAC: `get` on `namespaces`,
/// named.
///
/// # Errors
/// A call failed.
pub async fn dra_namespaces(
    client: &Client,
    settings: &Settings,
) -> Result<Vec<String>, CallError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut present = Vec::new();
    for name in settings.dra.namespaces.iter().filter(|_| settings.has(Task::Reroll)) {
        let Some(namespace) = optional(call(api.get(name)).await)? else { continue };
        // A namespace that is being deleted accepts no new Role, and its content will be deleted.
        if namespace.status.and_then(|status| status.phase).as_deref() != Some("Terminating") {
            present.push(name.clone());
        }
    }
    Ok(present)
}

/// Returns the newest version of `resource.k8s.io` that both server and program support, if a task
/// needs it. Every authenticated user may ask.
///
/// # Errors
/// The call failed.
pub async fn slice_version(
    client: &Client,
    settings: &Settings,
) -> Result<Option<&'static str>, CallError> {
    if !settings.has(Task::Reroll) && !needs_claims(settings) {
        return Ok(None);
    }
    let groups = call(client.list_api_groups()).await?.groups;
    let served = groups
        .iter()
        .find(|group| group.name == "resource.k8s.io")
        .map(|group| group.versions.as_slice())
        .unwrap_or_default();
    Ok(SLICE_VERSIONS
        .into_iter()
        .find(|known| served.iter().any(|served| served.version == *known)))
}
