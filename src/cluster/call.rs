//! One call to the API server: bounded in time, its failure sorted by what the caller can do about it.

use std::future::Future;
use std::time::Duration;

/// How long one call may take. kube sets no read timeout: on a dead connection a call would hang for ever.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a refusal of what was allowed before is waited out: roles may be being changed.
pub const REFUSAL: Duration = Duration::from_secs(60);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No answer in time.
    #[error("no answer from the API server within {} s", CALL_TIMEOUT.as_secs())]
    Timeout,
    /// The server refused: the right is missing.
    #[error("the API server refuses: {0}")]
    Forbidden(String),
    /// The object, or its API, is not there.
    #[error("not found: {0}")]
    NotFound(String),
    /// The object has changed in between, or a precondition does not hold.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The server answered otherwise.
    #[error("the API server answers {code}: {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// What it says.
        message: String,
    },
    /// It could not be reached, or its answer not be read.
    #[error("unable to reach the API server: {0}")]
    Unreachable(#[source] Box<kube::Error>),
}

impl From<kube::Error> for CallError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "kube's enum: whatever is no answer of the server is unreachable")]
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
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
    /// Whether trying again later can help.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Timeout | Self::Unreachable(_) => true,
            Self::Refused { code, .. } => *code == 429 || *code >= 500,
            Self::Forbidden(_) | Self::NotFound(_) | Self::Conflict(_) => false,
        }
    }
}

/// Performs a call within [`CALL_TIMEOUT`].
///
/// # Errors
/// What the server answered, or that it did not.
pub async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match tokio::time::timeout(CALL_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(CallError::from),
        Err(_elapsed) => Err(CallError::Timeout),
    }
}
