//! Calls to the API server: bounded in time, with failures classified by what the caller can do
//! about them.

use std::future::Future;
use std::time::Duration;

/// The timeout of one call. The client has no read timeout, so a call on a dead connection would
/// hang indefinitely.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to tolerate a refusal of what was allowed before, because roles may be changing.
pub const REFUSAL: Duration = Duration::from_mins(1);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server did not answer in time.
    #[error("no answer from the API server within {} s", CALL_TIMEOUT.as_secs())]
    Timeout,
    /// The server refused the request because the right is missing.
    #[error("the API server refuses: {0}")]
    Forbidden(String),
    /// The server denied the request: admission denies it, it is invalid, or it exceeds a quota.
    #[error("the API server denies the request ({code}): {message}")]
    Denied {
        /// HTTP status.
        code: u16,
        /// The server's message.
        message: String,
    },
    /// The object or its API does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// The object has changed since it was read, or a precondition does not hold.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The server answered with another error.
    #[error("the API server answers {code}: {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// The server's message.
        message: String,
    },
    /// The server could not be reached, or its answer could not be read.
    #[error("cannot reach the API server: {0}")]
    Unreachable(#[source] Box<kube::Error>),
}

impl From<kube::Error> for CallError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "kube's enum: everything except an answer of the server counts as unreachable"
    )]
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                code if is_denial(code, &status.message) => {
                    Self::Denied { code, message: status.message }
                }
                401 | 403 => Self::Forbidden(status.message),
                404 => Self::NotFound(status.message),
                409 => Self::Conflict(status.message),
                code => Self::Refused { code, message: status.message },
            },
            other => Self::Unreachable(Box::new(other)),
        }
    }
}

impl CallError {
    /// Returns whether a later attempt can help.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Timeout | Self::Unreachable(_) => true,
            Self::Refused { code, .. } => *code == 429 || *code >= 500,
            Self::Forbidden(_) | Self::Denied { .. } | Self::NotFound(_) | Self::Conflict(_) => {
                false
            }
        }
    }

    /// Returns whether an admission webhook failed, which may be temporary.
    pub fn is_of_webhook(&self) -> bool {
        matches!(self, Self::Refused { code, message } if is_webhook_failure(*code, message))
    }
}

/// Returns whether the API server rejects the request for every user: validation (400, 413, 422 …),
/// or admission. Admission may answer with any code and is recognized by its message (Kubernetes
/// `pkg/admission/plugin/webhook/errors`, `…/policy/validating`, `pkg/quota`). A 429 and a failing
/// webhook are temporary.
pub(crate) fn is_denial(code: u16, message: &str) -> bool {
    matches!(code, 400 | 405 | 406 | 413 | 415 | 422)
        || is_admission(message) && code != 429 && code < 500
}

/// Returns whether an admission webhook did not answer, or answered with a failure of its own.
pub fn is_webhook_failure(code: u16, message: &str) -> bool {
    code >= 500 && (message.contains("failed calling webhook") || is_admission(message))
}

/// Returns whether the message is from a webhook, an admission policy or a quota.
pub(crate) fn is_admission(message: &str) -> bool {
    let webhook =
        message.contains("admission webhook \"") && message.contains("denied the request");
    let policy = message.contains("AdmissionPolicy '") && message.contains("denied request");
    let quota = message.contains("exceeded quota:") || message.contains("failed quota:");
    webhook || policy || quota
}

/// Returns whether the answer is the authorizer's, which only its message shows (Kubernetes
/// `pkg/endpoints/handlers/responsewriters`).
pub fn is_of_authorizer(message: &str) -> bool {
    message.contains("User \"") && message.contains(" cannot ") && message.contains(" resource \"")
}

/// Returns the object, or `None` if it does not exist.
///
/// # Errors
/// The call failed for another reason.
pub(crate) fn optional<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(CallError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Performs a call within [`CALL_TIMEOUT`].
///
/// # Errors
/// The server answered with an error, or did not answer.
pub async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match tokio::time::timeout(CALL_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(CallError::from),
        Err(_elapsed) => Err(CallError::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of real servers.
    const AUTHORIZER: &str = r#"nodes "gpu-1" is forbidden: User "system:serviceaccount:gpu-operator:gpu-operator-post" cannot patch resource "nodes" in API group "" at the cluster scope"#;
    const POLICY: &str = "nodes \"gpu-1\" is forbidden: ValidatingAdmissionPolicy 'no-cordon' with binding 'no-cordon' denied request: not in office hours";
    const WEBHOOK: &str =
        "admission webhook \"nodes.example.com\" denied the request: node gpu-1 is reserved";
    const QUOTA: &str = "pods \"a\" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4";
    const TIMEOUT: &str = "Internal error occurred: failed calling webhook \"nodes.example.com\": failed to call webhook: Post \"https://hooks.example.svc:443/?timeout=10s\": context deadline exceeded";

    fn sorted(code: u16, message: &str) -> CallError {
        kube::Error::Api(Box::new(kube::core::Status::failure(message, "").with_code(code))).into()
    }

    #[test]
    fn denial_by_admission_is_not_a_missing_right() {
        for (code, message) in [
            (403, POLICY),
            (422, POLICY),
            (401, POLICY),
            (403, WEBHOOK),
            (400, WEBHOOK),
            (409, WEBHOOK),
            (404, WEBHOOK),
            (403, QUOTA),
            (422, "invalid"),
        ] {
            assert!(matches!(sorted(code, message), CallError::Denied { .. }), "{code} {message}");
        }
        assert!(matches!(sorted(403, AUTHORIZER), CallError::Forbidden(_)));
        assert!(
            is_of_authorizer(AUTHORIZER)
                && [POLICY, WEBHOOK, QUOTA].iter().all(|message| !is_of_authorizer(message))
        );
    }

    #[test]
    fn failing_webhook_is_told_from_failing_server() {
        assert!(sorted(500, TIMEOUT).is_of_webhook());
        assert!(sorted(500, WEBHOOK).is_of_webhook());
        assert!(!sorted(500, "etcdserver: leader changed").is_of_webhook());
        assert!(!sorted(429, WEBHOOK).is_of_webhook());
    }
}
