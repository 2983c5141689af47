//! Why an operator command ends without doing what it was asked for.

use std::error::Error;

use contract::exit::ExitCode;
use kube_io::call::CallError;

use super::observe::ObserveError;

/// Why a command ended.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The cluster cannot be observed.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// A write failed.
    #[error("unable to {action}: {error}")]
    Write {
        /// The write, as a verb with its object.
        action: String,
        /// The API server's answer, or that there was none.
        #[source]
        error: CallError,
    },
    /// Another hook did not end in time.
    #[error("{obstacle} after {seconds} s")]
    HookAtWork {
        /// What it still does.
        obstacle: String,
        /// For so long it was waited for.
        seconds: u64,
    },
}

impl CommandError {
    /// Returns what makes an error of a failed write. `action`: a verb with its object.
    pub(super) fn in_write(action: impl Into<String>) -> impl FnOnce(CallError) -> Self {
        let action = action.into();
        move |error| Self::Write { action, error }
    }

    /// Returns the exit code of a command that ends with it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Observe(error) => error.exit_code(),
            Self::Write { error, .. } => write_exit_code(error).unwrap_or(ExitCode::Internal),
            Self::HookAtWork { .. } => ExitCode::LeaseHeld,
        }
    }

    /// Returns what to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Observe(error) => error.hint(),
            Self::Write { error, .. } => write_hint(error),
            Self::HookAtWork { .. } => {
                "see what its pod waits for: kubectl get jobs,pods -A -l app.kubernetes.io/name=gpu-rollout; then repeat the command"
            }
        }
    }

    /// Returns the message, followed by those of its causes that it does not repeat.
    pub fn with_causes(&self) -> String {
        let causes = std::iter::successors(self.source(), |cause: &&(dyn Error + 'static)| {
            (*cause).source()
        });
        causes.map(ToString::to_string).fold(self.to_string(), |text, cause| {
            if text.contains(&cause) { text } else { format!("{text}: {cause}") }
        })
    }
}

/// A failed read.
impl From<CallError> for CommandError {
    fn from(error: CallError) -> Self {
        Self::Observe(error.into())
    }
}

/// Returns the exit code for a failed write, where the write itself decides it.
pub(super) fn write_exit_code(error: &CallError) -> Option<ExitCode> {
    match error {
        CallError::Forbidden(_) | CallError::Denied { .. } => Some(ExitCode::Rights),
        CallError::Timeout | CallError::Refused { .. } | CallError::Unreachable(_) => {
            Some(ExitCode::ApiUnreachable)
        }
        CallError::NotFound(_) | CallError::Conflict(_) => None,
    }
}

/// Returns what to do about a failed write.
pub(super) fn write_hint(error: &CallError) -> &'static str {
    match error {
        CallError::Forbidden(_) => {
            "docs/operate.md lists the rights that each command needs; what was done before stays done: with the right, repeat the command"
        }
        CallError::Denied { .. } => {
            "an admission policy, a webhook, a quota or validation denies it; what was done before stays done: change that, then repeat the command"
        }
        CallError::Timeout | CallError::Refused { .. } | CallError::Unreachable(_) => {
            "see whether the cluster answers: kubectl get nodes; then repeat the command: it goes on with what is left"
        }
        CallError::NotFound(_) | CallError::Conflict(_) => {
            "it has changed meanwhile; repeat the command: it goes on with what is left"
        }
    }
}
