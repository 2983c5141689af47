//! Evictions. Whether a pod may go is up to the API server, which asks the PodDisruptionBudgets.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1 as policy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::api::PostParams;
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Client, Resource};

use crate::call::{CALL_TIMEOUT, is_denial};
use planner::action::PodEviction;

/// The cause that the server names when a PodDisruptionBudget is in the way (Kubernetes `policy/v1` `DisruptionBudgetCause`).
const BUDGET_CAUSE: &str = "DisruptionBudget";
/// The cause that it names when the namespace is being deleted (Kubernetes `core/v1` `NamespaceTerminatingCause`).
const NAMESPACE_CAUSE: &str = "NamespaceTerminating";

/// The API server's answer to an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionAnswer {
    /// The pod is being deleted, with its own grace period.
    Accepted,
    /// There is nothing to evict: the pod is gone, or is not the one that was observed.
    Gone,
    /// A PodDisruptionBudget is in the way; another attempt later may succeed.
    Blocked {
        /// How long the server asks to wait, if it does.
        retry_after: Option<Duration>,
        /// Which budget, and what it needs.
        message: String,
    },
    /// It is forbidden for now, and not by a PodDisruptionBudget: a webhook answers so that moves the workload first (KubeVirt), or the budget's
    /// status was changed by others too often.
    Denied {
        /// Who says so, and why.
        message: String,
    },
    /// The server is too busy and has done nothing.
    Busy {
        /// How long it asks to wait, if it does.
        retry_after: Option<Duration>,
        /// What it says.
        message: String,
    },
    /// The pod's namespace is being deleted: the pod goes without being evicted.
    NamespaceTerminating,
    /// The right is missing, or it is not told what is.
    Forbidden(String),
    /// Admission, validation or a quota rejects the eviction. Asking again does not help.
    Rejected(String),
    /// The server refuses otherwise, such as with 500 when several PodDisruptionBudgets select the pod.
    Refused {
        /// HTTP status.
        code: u16,
        /// What it says.
        message: String,
    },
    /// No answer, or none that could be read: it may have happened.
    Lost(String),
}

/// Asks once for the eviction of a pod, if it is still the one with this UID. RBAC: `create` on `pods/eviction` in its namespace.
pub async fn evict(client: &Client, eviction: &PodEviction) -> EvictionAnswer {
    // Not `Api::evict`: kube 5.0 sends its options under a key that the server does not know, and so no precondition.
    let body = policy::Eviction {
        metadata: ObjectMeta {
            namespace: Some(eviction.namespace.clone()),
            name: Some(eviction.pod.clone()),
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            preconditions: Some(Preconditions {
                uid: Some(eviction.uid.clone()),
                resource_version: None,
            }),
            ..DeleteOptions::default()
        }),
    };
    match tokio::time::timeout(CALL_TIMEOUT, request_eviction(client, eviction, &body)).await {
        Ok(Ok(None)) => EvictionAnswer::Accepted,
        Ok(Ok(Some((status, header)))) => classify(&status, header),
        Ok(Err(error)) => EvictionAnswer::Lost(error.to_string()),
        Err(_elapsed) => {
            EvictionAnswer::Lost(format!("no answer within {} s", CALL_TIMEOUT.as_secs()))
        }
    }
}

/// Sends the request; `Some`: it was refused, with what the header says of when to come again. A server that sheds load says it there alone, and
/// in plain text (Kubernetes `pkg/server/filters`), so kube's own reading of answers does not see it.
async fn request_eviction(
    client: &Client,
    eviction: &PodEviction,
    body: &policy::Eviction,
) -> kube::Result<Option<(Status, Option<Duration>)>> {
    let pods = Request::new(Pod::url_path(&(), Some(&eviction.namespace)));
    let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let request = pods
        .create_subresource("eviction", &eviction.pod, &PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    let answer = client.send(request.map(Body::from)).await?;
    let code = answer.status();
    if code.is_success() {
        return Ok(None);
    }
    let header =
        answer.headers().get("retry-after").and_then(|text| parse_seconds(text.to_str().ok()?));
    let body = answer.into_body().collect_bytes().await?;
    let status = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Status::failure(String::from_utf8_lossy(&body).trim(), ""));
    Ok(Some((status.with_code(code.as_u16()), header)))
}

/// Parses `Retry-After` in seconds: the server uses no other form.
fn parse_seconds(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// Returns what a refusal means.
fn classify(status: &Status, header: Option<Duration>) -> EvictionAnswer {
    let cause = |reason: &str| {
        status
            .details
            .iter()
            .flat_map(|details| &details.causes)
            .find(|cause| cause.reason == reason)
    };
    let retry_after = || {
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        (seconds > 0).then(|| Duration::from_secs(seconds.into())).or(header)
    };
    let message = status.message.clone();
    match (status.code, cause(BUDGET_CAUSE)) {
        (code, _) if is_denial(code, &status.message) => EvictionAnswer::Rejected(message),
        (404 | 409, _) => EvictionAnswer::Gone,
        (429, Some(cause)) => EvictionAnswer::Blocked {
            retry_after: retry_after(),
            message: format!("{message} {}", cause.message).trim().to_owned(),
        },
        // A server that sheds load says when to come again; a webhook speaks for this pod alone. 504: the budget's status was changed by
        // others too often (Kubernetes `pkg/registry/core/pod/storage/eviction.go`).
        (429, None) if retry_after().is_none() => EvictionAnswer::Denied { message },
        (504, _) => EvictionAnswer::Denied { message },
        (429 | 503, _) => EvictionAnswer::Busy { retry_after: retry_after(), message },
        (403, _) if cause(NAMESPACE_CAUSE).is_some() => EvictionAnswer::NamespaceTerminating,
        (401 | 403, _) => EvictionAnswer::Forbidden(message),
        (code, _) => EvictionAnswer::Refused { code, message },
    }
}
