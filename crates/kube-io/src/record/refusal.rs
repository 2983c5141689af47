//! Writes of the run record that fail the same way each time. They end the run at once, with a
//! remedy.

use super::RecordError;
use crate::call::{CallError, is_admission};

/// Why no attempt can write the run record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordRefusal {
    /// All ConfigMaps of the record are full.
    #[error(
        "the run record is full: its ConfigMaps cannot hold what must survive of {nodes} nodes; hint: split the nodes over several hook releases"
    )]
    Full {
        /// Number of nodes with an entry.
        nodes: usize,
    },
    /// A further ConfigMap of the record is missing, or may not be patched: the chart is older than
    /// the image.
    #[error(
        "the run record needs the ConfigMap `{object}`, which the hook may not write ({message}); hint: deploy the hook release with the chart of \
         this version, which contains the ConfigMap and the right"
    )]
    NoObject {
        /// The ConfigMap.
        object: String,
        /// The server's message.
        message: String,
    },
    /// An admission policy, a webhook or a quota denies the write.
    #[error(
        "the ConfigMap `{object}` of the run record cannot be written: {message}; hint: change the admission policy (or quota) so that it allows \
         changes by the hook's ServiceAccount, then deploy again"
    )]
    Denied {
        /// The ConfigMap.
        object: String,
        /// The server's message.
        message: String,
    },
    /// The server rejects the request.
    #[error("the ConfigMap `{object}` of the run record cannot be written: the API server answers {code}: {message}; hint: {}", remedy(*code))]
    Invalid {
        /// The ConfigMap.
        object: String,
        /// HTTP status.
        code: u16,
        /// The server's message.
        message: String,
    },
}

fn remedy(code: u16) -> &'static str {
    if code == 413 {
        "raise the limit on request bodies of the proxy before the API server to 1 MiB or more, then deploy again"
    } else {
        "report it as a defect of gpu-rollout, with the output of `gpu-rollout support-bundle`; until then, delete the `data` of this ConfigMap and deploy again"
    }
}

/// Classifies the failure of a write by whether another attempt can help. A missing right may be
/// temporary, while roles are being changed.
pub(super) fn classify(error: CallError, object: &str, index: usize) -> RecordError {
    let object = || object.to_owned();
    RecordError::Refused(match error {
        CallError::Denied { message, .. } if is_admission(&message) => {
            RecordRefusal::Denied { object: object(), message }
        }
        CallError::Denied { code, message } => {
            RecordRefusal::Invalid { object: object(), code, message }
        }
        CallError::Forbidden(message) | CallError::NotFound(message) if index > 0 => {
            RecordRefusal::NoObject { object: object(), message }
        }
        CallError::Refused { code, message }
            if (400..500).contains(&code) && code != 408 && code != 429 =>
        {
            RecordRefusal::Invalid { object: object(), code, message }
        }
        error @ (CallError::Timeout
        | CallError::Forbidden(_)
        | CallError::NotFound(_)
        | CallError::Conflict(_)
        | CallError::Refused { .. }
        | CallError::Unreachable(_)) => return RecordError::Call(error, "write"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(error: CallError, index: usize) -> Option<RecordRefusal> {
        match classify(error, "record", index) {
            RecordError::Refused(refusal) => Some(refusal),
            RecordError::Call(..) | RecordError::Newer { .. } => None,
        }
    }

    #[test]
    fn write_that_can_never_succeed_is_refused() {
        let webhook = r#"admission webhook "no" denied the request: no"#;
        let policy = "configmaps \"r\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        for message in [webhook, policy] {
            assert!(
                matches!(
                    sorted(CallError::Denied { code: 403, message: message.into() }, 0),
                    Some(RecordRefusal::Denied { .. })
                ),
                "{message}"
            );
        }
        assert!(matches!(
            sorted(CallError::Denied { code: 400, message: webhook.into() }, 0),
            Some(RecordRefusal::Denied { .. })
        ));
        for code in [413, 422] {
            assert!(
                matches!(
                    sorted(CallError::Denied { code, message: "x".into() }, 0),
                    Some(RecordRefusal::Invalid { .. })
                ),
                "{code}"
            );
        }
        assert!(matches!(
            sorted(CallError::NotFound("x".into()), 1),
            Some(RecordRefusal::NoObject { .. })
        ));
    }

    #[test]
    fn write_that_may_succeed_later_is_tried_again() {
        let webhook_away = "Internal error occurred: failed calling webhook";
        let errors = [
            CallError::Timeout,
            CallError::Conflict("x".into()),
            CallError::Forbidden("User cannot patch resource".into()),
            CallError::NotFound("x".into()),
            CallError::Refused { code: 429, message: "x".into() },
            CallError::Refused { code: 500, message: webhook_away.into() },
        ];
        assert!(errors.into_iter().all(|error| sorted(error, 0).is_none()));
    }
}
