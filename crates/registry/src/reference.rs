//! Addresses of repositories and artifacts in a registry: `oci://HOST/REPOSITORY[:TAG|@DIGEST]`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use contract::grammar::{is_digest, is_tag, shown};
use contract::image_reference::{self, is_repository_path};
use contract::user_info::user_info;

/// The scheme of an address.
const SCHEME: &str = "oci://";

/// A repository of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactRepository {
    host: String,
    path: String,
}

/// What selects an artifact of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactVersion {
    /// A tag, which can be moved to another artifact.
    Tag(String),
    /// The digest of the artifact, with its algorithm.
    Digest(String),
}

/// An artifact of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactReference {
    /// The repository.
    pub repository: ArtifactRepository,
    /// The tag or digest.
    pub version: ArtifactVersion,
}

/// An address as a user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryAddress {
    /// The repository.
    pub repository: ArtifactRepository,
    /// The tag or digest, if the address has one. The digest precedes.
    pub version: Option<ArtifactVersion>,
}

/// Why a text is not an address, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It has another form.
    #[error("expected an address such as `oci://registry.example.com/team/bundle:v1`, found `{0}`")]
    Form(String),
    /// A user or password in the address.
    #[error("the address contains a user name or a password; use `docker login` instead")]
    Secret,
    /// An invalid path of a repository.
    #[error(
        "`{0}` is not a repository: expected lower-case letters, digits, `.`, `_` and `-`, with `/` between the parts"
    )]
    Repository(String),
    /// An invalid tag.
    #[error("expected a tag (at most 128 letters, digits, `.`, `_` and `-`), found `{0}`")]
    Tag(String),
    /// An invalid digest.
    #[error("expected `sha256:` and 64 hexadecimal digits in lower case, found `{0}`")]
    Digest(String),
}

impl ArtifactRepository {
    /// Creates a repository from its checked parts.
    ///
    /// # Errors
    /// The path is not that of a repository.
    fn new(host: &str, path: &str) -> Result<Self, AddressError> {
        if is_repository_path(path) {
            Ok(Self { host: host.to_owned(), path: path.to_owned() })
        } else {
            Err(AddressError::Repository(shown(path)))
        }
    }

    /// Returns the registry, with its port if the address has one.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the repository at `path` below this one.
    ///
    /// # Errors
    /// The path is not that of a repository.
    pub fn below(&self, path: &str) -> Result<Self, AddressError> {
        Self::new(&self.host, &format!("{}/{path}", self.path))
    }

    /// Returns the artifact with a tag.
    ///
    /// # Errors
    /// It is not a tag.
    pub fn with_tag(&self, tag: &str) -> Result<ArtifactReference, AddressError> {
        Ok(ArtifactReference { repository: self.clone(), version: ArtifactVersion::tag(tag)? })
    }

    /// Returns whether the registry is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.host.as_str();
        let in_brackets = host.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (name, _) = in_brackets.or_else(|| host.split_once(':')).unwrap_or((host, ""));
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl ArtifactVersion {
    fn tag(text: &str) -> Result<Self, AddressError> {
        if is_tag(text) {
            Ok(Self::Tag(text.to_owned()))
        } else {
            Err(AddressError::Tag(shown(text)))
        }
    }

    fn digest(text: &str) -> Result<Self, AddressError> {
        if is_digest(text) {
            Ok(Self::Digest(text.to_owned()))
        } else {
            Err(AddressError::Digest(shown(text)))
        }
    }
}

impl ArtifactReference {
    /// Converts the reference for the client library.
    pub(super) fn image(&self) -> oci_client::Reference {
        let ArtifactRepository { host, path } = self.repository.clone();
        match &self.version {
            ArtifactVersion::Tag(tag) => oci_client::Reference::with_tag(host, path, tag.clone()),
            ArtifactVersion::Digest(digest) => {
                oci_client::Reference::with_digest(host, path, digest.clone())
            }
        }
    }
}

impl FromStr for RegistryAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        // First, because the other errors repeat the text.
        if user_info(text).is_some() {
            return Err(AddressError::Secret);
        }
        let form = || AddressError::Form(shown(text));
        let (host, rest) =
            text.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(form)?;
        if host.contains('@') {
            return Err(AddressError::Secret);
        }
        let is_plain = |one: char| one.is_ascii_alphanumeric() || ".-:[]".contains(one);
        let is_host = host.starts_with(|one: char| one.is_ascii_alphanumeric() || one == '[')
            && host.chars().all(is_plain);
        if !is_host {
            return Err(form());
        }
        let (path, tag, digest) = image_reference::split(rest);
        let tag = tag.map(ArtifactVersion::tag).transpose()?;
        let digest = digest.map(ArtifactVersion::digest).transpose()?;
        Ok(Self { repository: ArtifactRepository::new(host, path)?, version: digest.or(tag) })
    }
}

impl fmt::Display for ArtifactRepository {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.host, self.path)
    }
}

impl fmt::Display for ArtifactReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            ArtifactVersion::Tag(tag) => write!(formatter, "{}:{tag}", self.repository),
            ArtifactVersion::Digest(digest) => write!(formatter, "{}@{digest}", self.repository),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_or_refused() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (text, repository, version) in [
            ("oci://registry.example.com/gpu", "registry.example.com/gpu", None),
            (
                "oci://r.example.com:5000/team/gpu_1:v1.2",
                "r.example.com:5000/team/gpu_1",
                Some("v1.2"),
            ),
            ("oci://localhost:5000/gpu:main", "localhost:5000/gpu", Some("main")),
            ("oci://[::1]:5000/gpu:A_b", "[::1]:5000/gpu", Some("A_b")),
            ("oci://registry/gpu:v1", "registry/gpu", Some("v1")),
            (&format!("oci://a.b/c@{digest}"), "a.b/c", Some(digest.as_str())),
            (&format!("oci://a.b/c:v1@{digest}"), "a.b/c", Some(digest.as_str())),
        ] {
            let address: RegistryAddress = text.parse().unwrap();
            assert_eq!(address.repository.to_string(), repository, "{text}");
            let found = address.version.map(|version| match version {
                ArtifactVersion::Tag(text) | ArtifactVersion::Digest(text) => text,
            });
            assert_eq!(found.as_deref(), version, "{text}");
        }
        let shape = |text: &str| text.parse::<RegistryAddress>().unwrap_err();
        for text in [
            "registry.example.com/gpu",
            "https://a/b",
            "oci://",
            "oci://a",
            "oci:///a",
            "oci://-a/b",
            "oci://a b/c",
        ] {
            assert_eq!(shape(text), AddressError::Form(text.to_owned()));
        }
        for (text, path) in [
            ("oci://a/", ""),
            ("oci://a/b/", "b/"),
            ("oci://a/B", "B"),
            ("oci://a/b//c", "b//c"),
            ("oci://a/../b", "../b"),
            ("oci://a/b c", "b c"),
            ("oci://a/b?c", "b?c"),
            ("oci://a/-b", "-b"),
        ] {
            assert_eq!(shape(text), AddressError::Repository(path.to_owned()));
        }
        for text in [
            "oci://user:word@a/b",
            "oci://user@a/b",
            "oci://user:word@A b/c",
            "oci://user:wo/rd@a/b:v1",
            "https://user:word@a/b",
            "user:word@a/b:v1",
        ] {
            assert_eq!(shape(text), AddressError::Secret, "{text}");
        }
        assert_eq!(shape("oci://a/b:"), AddressError::Tag(String::new()));
        assert_eq!(shape("oci://a/b:-x"), AddressError::Tag("-x".to_owned()));
        assert_eq!(shape("oci://a/b@sha256:0a"), AddressError::Digest("sha256:0a".to_owned()));
    }

    #[test]
    fn parts_below_a_repository_are_checked() {
        let RegistryAddress { repository, .. } = "oci://a:5000/gpu".parse().unwrap();
        let chart = repository.below("charts/gpu-rollout").unwrap();
        let reference = chart.with_tag("0.1.0_d1").unwrap();
        assert_eq!(reference.to_string(), "a:5000/gpu/charts/gpu-rollout:0.1.0_d1");
        assert_eq!(reference.image().whole(), reference.to_string());
        assert!(repository.below("charts/../x").is_err());
        assert!(repository.with_tag("0.1.0+d1").is_err());
    }

    #[test]
    fn registries_on_this_machine_are_recognized() {
        for (host, expected) in [
            ("localhost", true),
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("127.8.9.10", true),
            ("[::1]:5000", true),
            ("[::1]", true),
            ("[2001:db8::1]:5000", false),
            // A name of another machine, although it starts as an address of this one.
            ("127.0.0.1.example.com", false),
            ("127.anything.example:5000", false),
            ("registry.example.com", false),
            ("localhost.example.com", false),
        ] {
            let address: RegistryAddress = format!("oci://{host}/a").parse().unwrap();
            assert_eq!(address.repository.is_loopback(), expected, "{host}");
        }
    }
}
