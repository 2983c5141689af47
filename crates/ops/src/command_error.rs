//! Errors of the operator commands.

use contract::exit::ExitCode;
use kube_io::call::CallError;
use kube_io::error_causes::with_causes;

use super::find_rollouts::UnreadableHooks;
use super::observe::ObserveError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The cluster cannot be observed.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// A write failed.
    #[error("cannot {action}: {error}")]
    Write {
        /// The write, as a verb with its object.
        action: String,
        /// The API server's error, or that there was no answer.
        #[source]
        error: CallError,
    },
    /// The command concerns every hook release, and cannot read one of them. Nothing was written.
    #[error("no changes made: {0}")]
    UnreadableHooks(UnreadableHooks),
    /// Another hook did not end in time.
    #[error("{obstacle} after {seconds} s")]
    HookRunning {
        /// What the other hook still does.
        obstacle: String,
        /// How long the command waited, in seconds.
        seconds: u64,
    },
}

impl CommandError {
    /// Returns a function that converts the error of a failed write. `action`: a verb with its
    /// object.
    pub(super) fn in_write(action: impl Into<String>) -> impl FnOnce(CallError) -> Self {
        let action = action.into();
        move |error| Self::Write { action, error }
    }

    /// Returns the exit code of a command that fails with this error.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Observe(error) => error.exit_code(),
            Self::Write { error, .. } => write_exit_code(error).unwrap_or(ExitCode::Internal),
            Self::UnreadableHooks(unreadable) => unreadable.exit_code(),
            Self::HookRunning { .. } => ExitCode::LeaseHeld,
        }
    }

    /// Returns the hint: what to do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Observe(error) => error.hint(),
            Self::Write { error, .. } => write_hint(error),
            Self::UnreadableHooks(unreadable) => unreadable.hint(),
            Self::HookRunning { .. } => {
                "find out what its pod waits for with `kubectl get jobs,pods -A -l app.kubernetes.io/name=gpu-rollout`, then run the command again"
            }
        }
    }

    /// Returns the message, followed by those of its causes that it does not repeat.
    pub fn with_causes(&self) -> String {
        with_causes(self)
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
            "get the right that docs/operate.md lists for this command, then run it again; what was done before the failure stays done"
        }
        CallError::Denied { .. } => {
            "change the admission policy, webhook, quota or validation that denies the write, then run the command again; what was done before the failure stays done"
        }
        CallError::Timeout | CallError::Refused { .. } | CallError::Unreachable(_) => {
            "check that the cluster answers (`kubectl get nodes` with the same kubeconfig and context), then run the command again; it continues with what is left"
        }
        CallError::NotFound(_) | CallError::Conflict(_) => {
            "the object has changed; run the command again, it continues with what is left"
        }
    }
}
