//! The source from which a deployer in the cluster reads a bundle.

use serde::{Deserialize, Serialize};

use super::template_language::is_line_character;
use super::verification::SourceVerification;
use contract::git_source;
use contract::grammar::{is_address, is_digest, is_tag, shown};
use contract::image_reference::{self, is_repository_path};
use contract::user_info::user_info;

/// A repository, its revision, and the bundle's path in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleSource {
    /// `https://…`, `ssh://…`, `http://…`, `file:///…` (Git) or `oci://…` (an OCI registry, for
    /// Flux and `argocd`).
    pub url: String,
    /// Branch, tag or commit; for OCI a tag or a `sha256:` digest.
    pub revision: String,
    /// The bundle's directory in the repository, without `/` at either end. Empty means the root.
    pub path: String,
    /// The signers that the deployer trusts; `None`: it verifies nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<SourceVerification>,
}

/// Why texts are not a [`BundleSource`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleSourceError {
    /// An address of another kind.
    #[error(
        "expected an address that starts with https://, http://, ssh://, file:/// or oci://, found `{0}`"
    )]
    Scheme(String),
    /// An address in the short form of ssh, and the same address as a URL.
    #[error("`{0}` is the short form of ssh, not a URL")]
    Short(String, String),
    /// The address of a registry with a tag or digest: the address, and the tag or digest.
    #[error("the address contains the revision `{1}`")]
    Pinned(String, String),
    /// An address of a registry whose repository is missing or not valid.
    #[error(
        "`{0}` is not a repository: expected lower-case letters, digits, `.`, `_` and `-`, with `/` between the parts"
    )]
    Repository(String),
    /// A user or password in the address.
    #[error(
        "the address contains a password, which every reader of the bundle would see; give the deployer a Secret instead"
    )]
    Secret,
    /// Characters that are not allowed in an address, revision or path.
    #[error("`{1}` has a space, a quote, a brace or another character that is not allowed there")]
    Characters(BundleSourcePart, String),
    /// A text that a program would read as an option, or that is too long.
    #[error("`{1}` starts with a dash or is longer than {LONGEST} characters")]
    Form(BundleSourcePart, String),
    /// An empty revision.
    #[error("the revision is empty")]
    Revision,
    /// An invalid digest.
    #[error(
        "expected a tag or, for Flux only, `sha256:` and 64 hexadecimal digits in lower case, found `{0}`"
    )]
    Digest(String),
    /// An invalid tag of an OCI registry.
    #[error(
        "expected a tag (at most 128 letters, digits, `.`, `_` and `-`) or a `sha256:` digest, found `{0}`"
    )]
    Tag(String),
    /// A path that leaves the repository.
    #[error("expected a path below the repository's root without `..`, found `{0}`")]
    Path(String),
    /// A verification of a Git repository.
    #[error(
        "deployers verify cosign signatures only of artifacts in a registry, and the repository `{0}` is in Git"
    )]
    NoArtifacts(String),
}

/// The part of a source that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleSourcePart {
    /// The repository's address.
    Url,
    /// The revision.
    Revision,
    /// The bundle's path.
    Path,
    /// The trusted signers.
    Verification,
}

impl BundleSourceError {
    /// Returns the part that is wrong.
    pub fn part(&self) -> BundleSourcePart {
        match self {
            Self::Scheme(_)
            | Self::Short(..)
            | Self::Pinned(..)
            | Self::Repository(_)
            | Self::Secret => BundleSourcePart::Url,
            Self::Characters(part, _) | Self::Form(part, _) => *part,
            Self::Revision | Self::Digest(_) | Self::Tag(_) => BundleSourcePart::Revision,
            Self::Path(_) => BundleSourcePart::Path,
            Self::NoArtifacts(_) => BundleSourcePart::Verification,
        }
    }

    /// Returns a hint with the correct form, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Short(_, address) => Some(format!("write it as `{address}`")),
            Self::Pinned(url, revision) if revision.starts_with(DIGEST) => Some(format!(
                "write it as --repo {url} --revision TAG (or, for Flux only, with the complete digest as --revision)"
            )),
            Self::Pinned(url, tag) => Some(format!("write it as --repo {url} --revision {tag}")),
            Self::NoArtifacts(_) => {
                Some("push the bundle to a registry: --repo oci://…".to_owned())
            }
            Self::Scheme(_)
            | Self::Repository(_)
            | Self::Secret
            | Self::Characters(..)
            | Self::Form(..)
            | Self::Revision
            | Self::Digest(_)
            | Self::Tag(_)
            | Self::Path(_) => None,
        }
    }
}

/// The longest accepted text.
const LONGEST: usize = 1000;

/// The start of a digest.
const DIGEST: &str = "sha256:";
/// The scheme of registries.
const OCI: &str = "oci://";
const SCHEMES: [&str; 5] = ["https://", "http://", "ssh://", "file:///", OCI];

impl BundleSource {
    /// Creates a source from its checked parts.
    ///
    /// # Errors
    /// See [`BundleSourceError`].
    pub fn new(url: &str, revision: &str, path: &str) -> Result<Self, BundleSourceError> {
        // First, because the other errors repeat the address. The user in `ssh://git@host` is not a
        // secret; a password is.
        if user_info(url).is_some() {
            return Err(BundleSourceError::Secret);
        }
        for (part, text) in [
            (BundleSourcePart::Url, url),
            (BundleSourcePart::Revision, revision),
            (BundleSourcePart::Path, path),
        ] {
            if text.contains(|character: char| {
                character.is_whitespace()
                    || !is_line_character(character)
                    || "'\"`\\{}$|<>".contains(character)
            }) {
                return Err(BundleSourceError::Characters(part, shown(text)));
            }
            if text.starts_with('-') || text.len() > LONGEST {
                return Err(BundleSourceError::Form(part, shown(text)));
            }
        }
        let Some(rest) = SCHEMES
            .iter()
            .find_map(|scheme| url.strip_prefix(scheme))
            .filter(|rest| !rest.trim_end_matches('/').is_empty())
        else {
            return Err(match short_form(url) {
                Some(address) => BundleSourceError::Short(url.to_owned(), address),
                None => BundleSourceError::Scheme(url.to_owned()),
            });
        };
        if !is_address(url) {
            return Err(BundleSourceError::Characters(BundleSourcePart::Url, shown(url)));
        }
        if rest.starts_with('-') {
            return Err(BundleSourceError::Form(BundleSourcePart::Url, shown(url)));
        }
        if revision.is_empty() {
            return Err(BundleSourceError::Revision);
        }
        let url = url.trim_end_matches('/');
        if let Some(address) = url.strip_prefix(OCI) {
            check_registry(address)?;
            check_version(revision)?;
        }
        let path = without_dots(path);
        if path.starts_with('-') {
            return Err(BundleSourceError::Form(BundleSourcePart::Path, shown(&path)));
        }
        if path.split('/').any(|part| part == ".." || (part.is_empty() && !path.is_empty())) {
            return Err(BundleSourceError::Path(path));
        }
        Ok(Self { url: url.to_owned(), revision: revision.to_owned(), path, verification: None })
    }

    /// Returns the source with the signers that the deployer trusts.
    ///
    /// # Errors
    /// [`BundleSourceError::NoArtifacts`] for a Git repository.
    pub fn verified_by(self, signers: SourceVerification) -> Result<Self, BundleSourceError> {
        if !self.is_oci() {
            return Err(BundleSourceError::NoArtifacts(self.url));
        }
        Ok(Self { verification: Some(signers), ..self })
    }

    /// Converts a path of the bundle into a path of the repository.
    pub fn join(&self, path: &str) -> String {
        if self.path.is_empty() { path.to_owned() } else { format!("{}/{path}", self.path) }
    }

    /// Whether the revision is a Git commit, which cannot change.
    pub fn is_commit(&self) -> bool {
        !self.is_oci() && git_source::is_commit(&self.revision)
    }

    /// Whether the revision is the digest of an artifact, which cannot change.
    pub fn is_digest(&self) -> bool {
        self.is_oci() && self.revision.starts_with(DIGEST)
    }

    /// Whether it is an OCI registry.
    pub fn is_oci(&self) -> bool {
        self.url.starts_with(OCI)
    }
}

/// Returns a path without `.` parts, and without `/` at either end. Argo CD's own manifests name the
/// root `.`, and a directory `./x`.
fn without_dots(path: &str) -> String {
    let parts: Vec<&str> = path.trim_matches('/').split('/').filter(|part| *part != ".").collect();
    parts.join("/").trim_matches('/').to_owned()
}

/// Converts `git@host:path` into a URL.
fn short_form(url: &str) -> Option<String> {
    let (host, path) = url.split_once(':')?;
    let (user, name) = host.split_once('@')?;
    let fits = ![user, name].iter().any(|text| text.is_empty() || text.contains('/'))
        && !path.is_empty()
        && !path.starts_with("//");
    fits.then(|| format!("ssh://{host}/{}", path.trim_start_matches('/')))
}

/// Whether `text` consists of hexadecimal digits.
pub(super) fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Checks the address of a registry's repository, without its scheme.
fn check_registry(address: &str) -> Result<(), BundleSourceError> {
    let (host, rest) = address.split_once('/').unwrap_or((address, ""));
    let (path, tag, digest) = image_reference::split(rest);
    if let Some(revision) = digest.or(tag) {
        return Err(BundleSourceError::Pinned(format!("{OCI}{host}/{path}"), revision.to_owned()));
    }
    if is_repository_path(path) { Ok(()) } else { Err(BundleSourceError::Repository(shown(path))) }
}

/// Checks a revision of a registry: a tag or a digest.
fn check_version(revision: &str) -> Result<(), BundleSourceError> {
    if is_tag(revision) || is_digest(revision) {
        Ok(())
    } else if revision.starts_with(DIGEST) {
        Err(BundleSourceError::Digest(revision.to_owned()))
    } else {
        Err(BundleSourceError::Tag(revision.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_sources_are_taken_and_others_refused() {
        let source =
            BundleSource::new("https://example.com/fleet.git/", "main", "/clusters/a/").unwrap();
        assert_eq!(
            (source.url.as_str(), source.path.as_str()),
            ("https://example.com/fleet.git", "clusters/a")
        );
        assert_eq!(source.join("x.yaml"), "clusters/a/x.yaml");
        assert_eq!(BundleSource::new("ssh://git@example.com/a", "v1", "").unwrap().join("x"), "x");
        assert!(BundleSource::new("oci://example.com/a", "v1", "").unwrap().is_oci());
        for (url, revision, path) in [
            ("git@example.com:a", "main", ""),
            ("https://", "main", ""),
            ("https:///", "main", ""),
            ("oci:///", "v1", ""),
            ("https://u:p@example.com/a", "main", ""),
            ("https://token@example.com/a", "main", ""),
            ("ssh://git:p@example.com/a", "main", ""),
            ("https://example.com/a b", "main", ""),
            ("https://example.com/${X}", "main", ""),
            ("https://example.com/a", "", ""),
            ("https://example.com/a", "{{x}}", ""),
            ("https://example.com/a", "main", "../b"),
            ("https://example.com/a", "main", "a//b"),
            ("oci://example.com/a", "sha256:abc", ""),
            (
                "oci://example.com/a",
                "sha256:ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789",
                "",
            ),
            ("oci://example.com/a", "refs/tags/v1", ""),
            ("oci://example.com/a", "-v1", ""),
            ("https://example.com/a", "--upload-pack=x", ""),
            ("https://example.com/a", "main", "-o"),
            ("https://example.com/a", "main", "./-o"),
            ("https://example.com/a", "main", "/-o"),
            ("ssh://-oProxyCommand=x/a", "main", ""),
            ("https://example.com/a|b", "main", ""),
            ("oci://example.com", "v1", ""),
            ("oci://example.com/A", "v1", ""),
            ("oci://example.com/a//b", "v1", ""),
        ] {
            assert!(BundleSource::new(url, revision, path).is_err(), "{url} {revision} {path}");
        }
        let digest = format!("sha256:{}", "0a".repeat(32));
        let pinned = BundleSource::new("oci://example.com/a", &digest, "").unwrap();
        assert_eq!((pinned.revision.as_str(), pinned.is_digest()), (digest.as_str(), true));
        assert!(!BundleSource::new("oci://example.com/a", "sha256", "").unwrap().is_digest());
    }

    #[test]
    fn only_artifacts_of_a_registry_are_verified() {
        let signers = SourceVerification::Secret("cosign".to_owned());
        let source = |url| BundleSource::new(url, "v1", "").unwrap().verified_by(signers.clone());
        assert_eq!(source("oci://example.com/a").unwrap().verification, Some(signers.clone()));
        for url in ["https://example.com/a", "ssh://git@example.com/a", "file:///a"] {
            let error = source(url).unwrap_err();
            assert_eq!(error.part(), BundleSourcePart::Verification, "{url}");
            assert!(error.hint().is_some(), "{url}");
        }
    }

    #[test]
    fn path_in_argo_cds_form_is_accepted() {
        for (written, path) in [
            (".", ""),
            ("./", ""),
            ("/.", ""),
            ("./clusters/a", "clusters/a"),
            ("clusters/./a/.", "clusters/a"),
            (".hidden", ".hidden"),
        ] {
            let source = BundleSource::new("https://example.com/a", "main", written);
            assert_eq!(source.unwrap().path, path, "{written}");
        }
        for outside in ["..", "./..", "a/../..", "./../b"] {
            let source = BundleSource::new("https://example.com/a", "main", outside);
            assert_eq!(source.unwrap_err().part(), BundleSourcePart::Path, "{outside}");
        }
    }

    #[test]
    fn error_names_the_wrong_text_and_the_remedy() {
        let error = |url, revision, path| BundleSource::new(url, revision, path).unwrap_err();
        let short = error("git@github.com:a/b.git", "main", "");
        assert_eq!(
            (short.part(), short.hint().as_deref()),
            (BundleSourcePart::Url, Some("write it as `ssh://git@github.com/a/b.git`"))
        );
        for (url, revision) in [
            ("oci://example.com:5000/a/b:v1", "v1"),
            (
                "oci://example.com:5000/a/b@sha256:0a",
                "TAG (or, for Flux only, with the complete digest as --revision)",
            ),
        ] {
            let pinned = error(url, "main", "");
            let hint =
                format!("write it as --repo oci://example.com:5000/a/b --revision {revision}");
            assert_eq!(
                (pinned.part(), pinned.hint()),
                (BundleSourcePart::Url, Some(hint)),
                "{url}"
            );
        }
        for url in [
            "https://user:word@example.com/a b",
            "https://user:wo/rd@example.com/a",
            "ftp://user:word@example.com/a",
            "user:word@example.com/a",
            "-user:word@example.com/a",
        ] {
            assert_eq!(error(url, "main", ""), BundleSourceError::Secret, "{url}");
        }
        assert_eq!(error("example.com:a", "main", "").hint(), None);
        assert_eq!(error("https://example.com/a", "a b", "").part(), BundleSourcePart::Revision);
        assert_eq!(error("https://example.com/a", "main", "a b").part(), BundleSourcePart::Path);
        assert_eq!(error("https://example.com/a", "main", "..").part(), BundleSourcePart::Path);
    }
}
