//! Evictions. The API server decides with the PodDisruptionBudgets whether a pod may be evicted.

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

/// The cause in the answer when a PodDisruptionBudget blocks the eviction (Kubernetes `policy/v1`
/// `DisruptionBudgetCause`).
const BUDGET_CAUSE: &str = "DisruptionBudget";
/// The cause in the answer when the namespace is being deleted (Kubernetes `core/v1`
/// `NamespaceTerminatingCause`).
const NAMESPACE_CAUSE: &str = "NamespaceTerminating";

/// The API server's answer to an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionAnswer {
    /// The pod is being deleted, with its own grace period.
    Accepted,
    /// There is nothing to evict: the pod was deleted, or is not the observed one.
    Gone,
    /// A PodDisruptionBudget blocks the eviction; a later attempt may succeed.
    Blocked {
        /// How long the server asks to wait, if it does.
        retry_after: Option<Duration>,
        /// The PodDisruptionBudget, and what it needs.
        message: String,
    },
    /// The eviction is denied for now, but not by a PodDisruptionBudget: a webhook moves the
    /// workload first (KubeVirt), or other clients changed the PodDisruptionBudget's status too
    /// often.
    Denied {
        /// Who denies it, and why.
        message: String,
    },
    /// The server is too busy and has done nothing.
    Busy {
        /// How long the server asks to wait, if it does.
        retry_after: Option<Duration>,
        /// The server's message.
        message: String,
    },
    /// The pod's namespace is being deleted, and the pod with it, without an eviction.
    NamespaceTerminating,
    /// The right is missing, or the server gives no other cause.
    Forbidden(String),
    /// Admission, validation or a quota rejects the eviction. Another attempt does not help.
    Rejected(String),
    /// The server refuses for another reason, such as with 500 when several PodDisruptionBudgets
    /// select the pod.
    Refused {
        /// HTTP status.
        code: u16,
        /// The server's message.
        message: String,
    },
    /// There was no readable answer: the pod may have been evicted.
    Lost(String),
}

/// Requests the eviction of a pod once, if it still has this UID. RBAC: `create` on `pods/eviction`
/// in its namespace.
pub async fn evict(client: &Client, eviction: &PodEviction) -> EvictionAnswer {
    // Not `Api::evict`: kube 5.0 sends its options under a key that the server does not know, so
    // there would be no precondition.
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

/// Sends the request. Returns `Some` if it was refused, with the header's time to wait. A server
/// that sheds load has the time only in the header, and its body is plain text (Kubernetes
/// `pkg/server/filters`), which kube's own parser does not read.
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

/// Parses `Retry-After` in seconds, the only form that the server uses.
fn parse_seconds(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// Classifies a refusal.
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
        // A server that sheds load sets a time to wait; without one, a webhook denies the eviction
        // of this pod. 504: other clients changed the PodDisruptionBudget's status too often
        // (Kubernetes `pkg/registry/core/pod/storage/eviction.go`).
        (429, None) if retry_after().is_none() => EvictionAnswer::Denied { message },
        (504, _) => EvictionAnswer::Denied { message },
        (429 | 503, _) => EvictionAnswer::Busy { retry_after: retry_after(), message },
        (403, _) if cause(NAMESPACE_CAUSE).is_some() => EvictionAnswer::NamespaceTerminating,
        (401 | 403, _) => EvictionAnswer::Forbidden(message),
        (code, _) => EvictionAnswer::Refused { code, message },
    }
}
