//! Where a deployer that runs in the cluster reads a bundle from.

use serde::{Deserialize, Serialize};

/// A repository, a revision of it, and the bundle's place in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// `https://…`, `ssh://…`, `http://…`, `file:///…` (Git) or `oci://…` (an OCI registry, Flux only).
    pub url: String,
    /// Branch, tag or commit; for OCI a tag or a `sha256:` digest.
    pub revision: String,
    /// The bundle's directory in the repository, without `/` at either end; empty: its root.
    pub path: String,
}

/// Why three texts are no [`Source`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// An address of another kind.
    #[error("expected an address that starts with https://, http://, ssh://, file:/// or oci://, found `{0}`")]
    Scheme(String),
    /// A user or password in the address.
    #[error("the address carries a password, which would stand in the bundle for everyone to read; give the deployer a Secret instead")]
    Secret,
    /// Characters that no address, revision or path has.
    #[error("`{0}` has a space, a quote, a brace or a control character in it")]
    Characters(String),
    /// An empty revision.
    #[error("the revision is empty")]
    Revision,
    /// A path that leaves the repository.
    #[error("expected a path below the repository's root without `.` and `..`, found `{0}`")]
    Path(String),
}

const SCHEMES: [&str; 5] = ["https://", "http://", "ssh://", "file:///", "oci://"];

impl Source {
    /// Checks the three parts.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub fn new(url: &str, revision: &str, path: &str) -> Result<Self, SourceError> {
        for text in [url, revision, path] {
            if text.contains(|character: char| character.is_whitespace() || character.is_control() || "'\"`\\{}$".contains(character)) {
                return Err(SourceError::Characters(text.to_owned()));
            }
        }
        let Some(rest) = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme)).filter(|rest| !rest.is_empty()) else {
            return Err(SourceError::Scheme(url.to_owned()));
        };
        // `ssh://git@host` names a user, which is no secret; a password is one.
        let user = rest.split('/').next().and_then(|host| host.split_once('@')).map(|(user, _)| user);
        if user.is_some_and(|user| user.contains(':') || !url.starts_with("ssh://")) {
            return Err(SourceError::Secret);
        }
        if revision.is_empty() {
            return Err(SourceError::Revision);
        }
        let path = path.trim_matches('/');
        if path.split('/').any(|part| matches!(part, "." | "..") || (part.is_empty() && !path.is_empty())) {
            return Err(SourceError::Path(path.to_owned()));
        }
        Ok(Self { url: url.trim_end_matches('/').to_owned(), revision: revision.to_owned(), path: path.to_owned() })
    }

    /// A path of the bundle as a path of the repository.
    pub fn join(&self, path: &str) -> String {
        if self.path.is_empty() { path.to_owned() } else { format!("{}/{path}", self.path) }
    }

    /// Whether it is an OCI registry.
    pub fn is_oci(&self) -> bool {
        self.url.starts_with("oci://")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_sources_are_taken_and_others_refused() {
        let source = Source::new("https://example.com/fleet.git/", "main", "/clusters/a/").unwrap();
        assert_eq!((source.url.as_str(), source.path.as_str()), ("https://example.com/fleet.git", "clusters/a"));
        assert_eq!(source.join("x.yaml"), "clusters/a/x.yaml");
        assert_eq!(Source::new("ssh://git@example.com/a", "v1", "").unwrap().join("x"), "x");
        assert!(Source::new("oci://example.com/a", "v1", "").unwrap().is_oci());
        for (url, revision, path) in [
            ("git@example.com:a", "main", ""),
            ("https://", "main", ""),
            ("https://u:p@example.com/a", "main", ""),
            ("https://token@example.com/a", "main", ""),
            ("ssh://git:p@example.com/a", "main", ""),
            ("https://example.com/a b", "main", ""),
            ("https://example.com/${X}", "main", ""),
            ("https://example.com/a", "", ""),
            ("https://example.com/a", "{{x}}", ""),
            ("https://example.com/a", "main", "../b"),
            ("https://example.com/a", "main", "a//b"),
        ] {
            assert!(Source::new(url, revision, path).is_err(), "{url} {revision} {path}");
        }
    }
}
