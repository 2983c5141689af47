//! Why an artifact cannot be pushed or pulled.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use oci_client::errors::{DigestError, OciDistributionError, OciEnvelope, OciErrorCode};

use super::reference::ArtifactReference;
use archive::ArchiveError;
use contract::exit::ExitCode;
use contract::grammar::shown;

/// What rustls reports about a server that does not answer with TLS.
const NOT_TLS: &str = "InvalidContentType";

/// Why an artifact cannot be pushed or pulled. References are texts as users write them.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A file with credentials, or the helper program that it names, cannot be used.
    #[error("cannot use the credentials in `{}`: {reason}", file.display())]
    Credentials {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A kind of credentials that this program does not support.
    #[error("the credentials for `{host}` in `{}` are an identity token, which is not supported", file.display())]
    IdentityToken {
        /// The registry.
        host: String,
        /// The file.
        file: PathBuf,
    },
    /// The client cannot be created, for example without any root certificate.
    #[error("cannot create an HTTPS client: {0}")]
    Client(String),
    /// The registry requires other credentials.
    #[error("`{host}` refuses access to `{reference}`: {reason}")]
    Unauthorized {
        /// The registry.
        host: String,
        /// The artifact.
        reference: String,
        /// The registry's reason.
        reason: String,
    },
    /// The registry's token server would get the password without TLS.
    #[error(
        "cannot log in to `{host}`: its token server `{realm}` would get the password without TLS"
    )]
    InsecureLogin {
        /// The registry.
        host: String,
        /// The address of the token server, without HTTPS.
        realm: String,
    },
    /// The artifact or its repository does not exist.
    #[error("the registry has no `{reference}`: {reason}")]
    Missing {
        /// The artifact.
        reference: String,
        /// The registry's reason.
        reason: String,
    },
    /// The registry refuses a request for another reason.
    #[error("the registry refuses `{reference}`: {reason}")]
    Refused {
        /// The artifact.
        reference: String,
        /// The registry's reason.
        reason: String,
        /// Whether the registry itself failed (5xx), so that the same request may succeed later.
        is_temporary: bool,
    },
    /// There is no connection to the registry, or it broke.
    #[error("cannot reach the registry of `{reference}`: {reason}")]
    Unreachable {
        /// The artifact.
        reference: String,
        /// The reason.
        reason: String,
        /// Whether the registry may speak HTTP without TLS.
        might_be_http: bool,
    },
    /// The content does not have its digest.
    #[error("the registry sends another content for `{reference}` than its digest says: {reason}")]
    Digest {
        /// The artifact.
        reference: String,
        /// The digests.
        reason: String,
    },
    /// An answer that this program does not understand.
    #[error("the registry gives an unexpected answer for `{reference}`: {reason}")]
    Answer {
        /// The artifact.
        reference: String,
        /// The reason.
        reason: String,
    },
    /// The artifact is not a bundle.
    #[error("`{reference}` is not a bundle of gpu-rollout: {reason}")]
    NotBundle {
        /// The artifact.
        reference: String,
        /// The reason.
        reason: String,
    },
    /// The archive in the artifact cannot be unpacked.
    #[error("cannot unpack `{reference}`: {source}")]
    Archive {
        /// The artifact.
        reference: String,
        /// The reason.
        source: ArchiveError,
    },
}

impl RegistryError {
    /// Converts an error of the client library.
    pub(super) fn from_client(
        reference: &ArtifactReference,
        plain_http: bool,
        error: &OciDistributionError,
    ) -> Self {
        use OciDistributionError as Client;
        if let Client::UnauthorizedError { .. } = error {
            Self::unauthorized(reference, "it requires a login".to_owned())
        } else if let Client::RegistryError { envelope, .. } = error {
            Self::from_codes(reference, envelope)
        } else if let Client::ServerError { code, message, .. } = error {
            Self::from_status(reference, *code, message)
        } else if let Client::RequestError(error) = error {
            Self::from_connection(reference, plain_http, error)
        } else if let Client::DigestError(error) = error {
            Self::from_digest(reference, error)
        } else {
            Self::Answer {
                reference: reference.to_string(),
                reason: shown(&root_cause(error).to_string()),
            }
        }
    }

    /// Converts an error while content is received.
    pub(super) fn from_stream(reference: &ArtifactReference, error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<DigestError>()) {
            Some(error) => Self::from_digest(reference, error),
            None => Self::Unreachable {
                reference: reference.to_string(),
                reason: root_cause(error).to_string(),
                might_be_http: false,
            },
        }
    }

    /// Converts an answer about an artifact with another status than 200.
    pub(super) fn from_answer(reference: &ArtifactReference, status: u16, answer: &[u8]) -> Self {
        let text = String::from_utf8_lossy(answer);
        match (status, serde_json::from_slice::<OciEnvelope>(answer)) {
            (401, _) => Self::unauthorized(reference, "it requires a login".to_owned()),
            (400..=499, Ok(envelope)) => Self::from_codes(reference, &envelope),
            _ => Self::from_status(reference, status, &text),
        }
    }

    /// Converts the answer of a token server that gives no token.
    pub(super) fn from_token_server(
        reference: &ArtifactReference,
        status: u16,
        answer: &[u8],
    ) -> Self {
        let text = String::from_utf8_lossy(answer);
        if status >= 500 {
            Self::from_status(reference, status, &text)
        } else {
            Self::unauthorized(reference, reason(&text))
        }
    }

    fn unauthorized(reference: &ArtifactReference, reason: String) -> Self {
        let host = reference.repository.host().to_owned();
        Self::Unauthorized { host, reference: reference.to_string(), reason }
    }

    /// Converts an answer with the codes of the OCI specification.
    fn from_codes(reference: &ArtifactReference, envelope: &OciEnvelope) -> Self {
        use OciErrorCode as Code;
        let reason = shown(&messages(envelope));
        let has = |codes: &[Code]| envelope.errors.iter().any(|error| codes.contains(&error.code));
        if has(&[Code::Unauthorized, Code::Denied]) {
            Self::unauthorized(reference, reason)
        } else if has(&[
            Code::ManifestUnknown,
            Code::NameUnknown,
            Code::BlobUnknown,
            Code::NotFound,
        ]) {
            Self::Missing { reference: reference.to_string(), reason }
        } else {
            Self::Refused { reference: reference.to_string(), reason, is_temporary: false }
        }
    }

    /// Converts an answer with another status than the expected one.
    fn from_status(reference: &ArtifactReference, status: u16, answer: &str) -> Self {
        let reason = reason(answer);
        match status {
            401 | 403 => Self::unauthorized(reference, reason),
            404 => Self::Missing { reference: reference.to_string(), reason },
            _ => Self::Refused {
                reference: reference.to_string(),
                reason: format!("status {status}: {reason}"),
                is_temporary: status >= 500,
            },
        }
    }

    /// Converts an error of a request without an answer.
    pub(super) fn from_connection(
        reference: &ArtifactReference,
        plain_http: bool,
        error: &(dyn Error + 'static),
    ) -> Self {
        let cause = root_cause(error);
        let reason = cause.to_string();
        let is_refused = cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        let is_local = reference.repository.is_loopback() && !is_refused;
        let might_be_http = !plain_http && (reason.contains(NOT_TLS) || is_local);
        Self::Unreachable { reference: reference.to_string(), reason, might_be_http }
    }

    fn from_digest(reference: &ArtifactReference, error: &DigestError) -> Self {
        Self::Digest { reference: reference.to_string(), reason: shown(&error.to_string()) }
    }

    /// Returns the hint: what to do about the error.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unauthorized { host, .. } => {
                return Some(format!(
                    "log in with `docker login {host}`, as a user with access to the repository"
                ));
            }
            Self::IdentityToken { host, .. } => {
                return Some(format!(
                    "log in with a password or an access token: `docker login --username USER {host}`"
                ));
            }
            Self::Credentials { .. } => "correct the file, or log in again with `docker login`",
            Self::Client(_) => {
                "install the root certificates of your system (package `ca-certificates`), or name a file with SSL_CERT_FILE"
            }
            Self::InsecureLogin { .. } => {
                "no password was sent: let the operator of the registry give its token server HTTPS; only in a test network, add --plain-http"
            }
            Self::Missing { .. } => {
                "check repository and tag; some registries require that the repository is created first"
            }
            Self::Unreachable { might_be_http: true, .. } => {
                "if the registry does not speak HTTPS, add --plain-http"
            }
            Self::Unreachable { .. } => {
                "check the address, the network, and HTTPS_PROXY and NO_PROXY; then run the command again"
            }
            Self::Refused { is_temporary: true, .. } => "run the command again later",
            Self::Digest { .. } => {
                "do not use the content; run the command again, and if it fails again, find out who changed the registry"
            }
            Self::NotBundle { .. } | Self::Archive { .. } => {
                "name an artifact that `gpu-rollout bundle push` pushed"
            }
            Self::Answer { .. } => "check that the address is that of an OCI registry",
            Self::Refused { .. } => return None,
        };
        Some(hint.to_owned())
    }

    /// Returns the exit code of a command that fails with this error.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Unauthorized { .. } => ExitCode::Rights,
            Self::Unreachable { .. } | Self::Refused { is_temporary: true, .. } => {
                ExitCode::ApiUnreachable
            }
            Self::Credentials { .. }
            | Self::IdentityToken { .. }
            | Self::Client(_)
            | Self::InsecureLogin { .. }
            | Self::Missing { .. }
            | Self::Refused { .. }
            | Self::Digest { .. }
            | Self::Answer { .. }
            | Self::NotBundle { .. }
            | Self::Archive { .. } => ExitCode::Input,
        }
    }
}

/// Returns the innermost cause of an error, which names the actual problem. The errors around it
/// only repeat the address.
pub(super) fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}

/// Returns the reason in an answer, on one line.
fn reason(answer: &str) -> String {
    let parsed: Result<OciEnvelope, _> = serde_json::from_str(answer);
    let text = parsed.map_or_else(|_| answer.to_owned(), |envelope| messages(&envelope));
    let text = text.trim();
    if text.is_empty() { "it gives no reason".to_owned() } else { shown(text) }
}

fn messages(envelope: &OciEnvelope) -> String {
    let texts: Vec<&str> = envelope.errors.iter().map(|error| error.message.as_str()).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::RegistryAddress;

    fn reference(host: &str) -> ArtifactReference {
        let address: RegistryAddress = format!("oci://{host}/gpu").parse().unwrap();
        address.repository.with_tag("v1").unwrap()
    }

    #[test]
    fn status_determines_exit_code_and_reason() {
        let envelope = r#"{"errors": [{"code": "DENIED", "message": "quota exceeded"}]}"#;
        for (status, answer, code, expected) in [
            (401, "", ExitCode::Rights, "`a.b` refuses access to `a.b/gpu:v1`: it gives no reason"),
            (
                403,
                envelope,
                ExitCode::Rights,
                "`a.b` refuses access to `a.b/gpu:v1`: quota exceeded",
            ),
            (404, "no\n", ExitCode::Input, "the registry has no `a.b/gpu:v1`: no"),
            (400, "a\nb", ExitCode::Input, r"the registry refuses `a.b/gpu:v1`: status 400: a\nb"),
            (
                502,
                "x",
                ExitCode::ApiUnreachable,
                "the registry refuses `a.b/gpu:v1`: status 502: x",
            ),
        ] {
            let error = RegistryError::from_status(&reference("a.b"), status, answer);
            assert_eq!((error.to_string().as_str(), error.exit_code()), (expected, code));
        }
    }

    #[test]
    fn codes_of_the_specification_are_recognized() {
        for (code, expected) in [
            ("UNAUTHORIZED", ExitCode::Rights),
            ("DENIED", ExitCode::Rights),
            ("MANIFEST_UNKNOWN", ExitCode::Input),
            ("TOOMANYREQUESTS", ExitCode::Input),
        ] {
            let answer = format!(r#"{{"errors": [{{"code": "{code}", "message": "m"}}]}}"#);
            let envelope = serde_json::from_str(&answer).unwrap();
            let error = RegistryError::from_codes(&reference("a.b"), &envelope);
            assert_eq!(error.exit_code(), expected, "{code}");
            let is_missing = matches!(error, RegistryError::Missing { .. });
            assert_eq!(is_missing, code == "MANIFEST_UNKNOWN");
        }
    }

    #[test]
    fn plain_http_is_suggested_only_where_it_may_help() {
        let not_tls = io::Error::other("received corrupt message of type InvalidContentType");
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        for (host, plain_http, error, expected) in [
            ("registry.example.com", false, &not_tls, true),
            ("registry.example.com", true, &not_tls, false),
            ("registry.example.com", false, &reset, false),
            ("localhost:5000", false, &reset, true),
            ("localhost:5000", false, &refused, false),
        ] {
            let error = RegistryError::from_connection(&reference(host), plain_http, error);
            assert!(
                matches!(error, RegistryError::Unreachable { might_be_http, .. } if might_be_http == expected),
                "{host} {error}"
            );
        }
    }
}
