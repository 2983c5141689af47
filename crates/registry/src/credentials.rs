//! Finds the credentials for a registry in the files of `docker login`, and in those of other
//! programs that write the same format: podman, skopeo and buildah.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use docker_credential::{CredentialRetrievalError, DockerCredential, get_credential_from_reader};
use oci_client::secrets::RegistryAuth;

use super::error::RegistryError;
use contract::grammar::shown;

/// The names of Docker Hub, and the name under which its credentials are stored.
const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";
/// What the credential helpers print if they know no credentials for a registry.
const UNKNOWN_TO_HELPER: &str = "credentials not found";

/// Returns the credentials for `host` from the first of `files` that has some. A missing file has
/// none. The file may name a helper program, which is run.
///
/// # Errors
/// A file or its helper cannot be used.
pub(super) fn find(files: &[PathBuf], host: &str) -> Result<RegistryAuth, RegistryError> {
    let key = if DOCKER_HUB.contains(&host) { DOCKER_HUB_KEY } else { host };
    for file in files {
        let content = match std::fs::read(file) {
            Ok(content) => content,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(unusable(file, error.to_string())),
        };
        match get_credential_from_reader(content.as_slice(), key) {
            Ok(DockerCredential::UsernamePassword(user, password)) => {
                return Ok(RegistryAuth::Basic(user, password));
            }
            Ok(DockerCredential::IdentityToken(_)) => {
                return Err(RegistryError::IdentityToken {
                    host: host.to_owned(),
                    file: file.clone(),
                });
            }
            Err(error) => {
                if let Some(reason) = reason(error) {
                    return Err(unusable(file, reason));
                }
            }
        }
    }
    Ok(RegistryAuth::Anonymous)
}

fn unusable(file: &Path, reason: String) -> RegistryError {
    RegistryError::Credentials { file: file.to_owned(), reason }
}

/// Returns why a file cannot be used; `None` if it only has no credentials for the registry.
fn reason(error: CredentialRetrievalError) -> Option<String> {
    use CredentialRetrievalError as Error;
    let reason = match error {
        Error::NoCredentialConfigured | Error::ConfigNotFound => return None,
        Error::HelperFailure { helper, stdout, stderr } => {
            if [&stdout, &stderr].iter().any(|text| text.contains(UNKNOWN_TO_HELPER)) {
                return None;
            }
            return Some(format!(
                "`{helper}` failed: {}",
                shown(format!("{stderr}{stdout}").trim())
            ));
        }
        Error::HelperCommunicationError => "its credential helper cannot be run",
        Error::MalformedHelperResponse => "its credential helper gives an unexpected answer",
        Error::CredentialDecodingError | Error::CredentialMismatchError => {
            "its entry for the registry is damaged"
        }
        Error::ConfigReadError => "it is not a configuration of Docker",
    };
    Some(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the credentials for `host` in a file with this text.
    fn found(text: &str, host: &str) -> Result<RegistryAuth, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.json");
        std::fs::write(&file, text).unwrap();
        let files = [directory.path().join("missing.json"), file];
        find(&files, host).map_err(|error| {
            if let RegistryError::Credentials { reason, .. } = error {
                reason
            } else {
                error.to_string().replace(&format!("{}", files[1].display()), "FILE")
            }
        })
    }

    #[test]
    fn credentials_are_those_of_the_registry() {
        let basic = |user: &str, password: &str| {
            Ok(RegistryAuth::Basic(user.to_owned(), password.to_owned()))
        };
        // `user:secret`
        let auths = r#"{"auths": {
            "registry.example.com": {"auth": "dXNlcjpzZWNyZXQ="},
            "https://index.docker.io/v1/": {"auth": "dXNlcjpzZWNyZXQ="},
            "127.0.0.1:5000": {"username": "me", "password": "word"},
            "token.example.com": {"auth": "dXNlcjpzZWNyZXQ=", "identitytoken": "t"},
            "damaged.example.com": {"auth": "dXNlcg=="},
            "empty.example.com": {}
        }}"#;
        for (host, expected) in [
            ("registry.example.com", basic("user", "secret")),
            ("docker.io", basic("user", "secret")),
            ("127.0.0.1:5000", basic("me", "word")),
            ("other.example.com", Ok(RegistryAuth::Anonymous)),
            ("empty.example.com", Ok(RegistryAuth::Anonymous)),
            ("damaged.example.com", Err("its entry for the registry is damaged".to_owned())),
            (
                "token.example.com",
                Err("the credentials for `token.example.com` in `FILE` are an identity token, which is not supported".to_owned()),
            ),
        ] {
            assert_eq!(found(auths, host), expected, "{host}");
        }
        assert_eq!(found("{}", "a"), Ok(RegistryAuth::Anonymous));
        assert_eq!(found("text", "a"), Err("it is not a configuration of Docker".to_owned()));
        assert_eq!(
            found(r#"{"credsStore": "there-is-no-such-helper"}"#, "a"),
            Err("its credential helper cannot be run".to_owned())
        );
    }

    #[test]
    fn helper_without_credentials_is_not_a_failure() {
        let failure = |stdout: &str| {
            reason(CredentialRetrievalError::HelperFailure {
                helper: "docker-credential-x".to_owned(),
                stdout: stdout.to_owned(),
                stderr: String::new(),
            })
        };
        assert_eq!(failure("credentials not found in native keychain\n"), None);
        assert_eq!(
            failure("the keychain\nis locked\n"),
            Some(r"`docker-credential-x` failed: the keychain\nis locked".to_owned())
        );
    }
}
