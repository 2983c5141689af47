//! Determines the kind of a revision. Flux has different fields for branches, tags, commits and
//! full names.

use super::NAME;
use crate::source::{BundleSource, is_hexadecimal};
use crate::template::RenderError;

/// Git abbreviates a commit to seven digits or more.
const SHORTEST_COMMIT: usize = 7;
/// Names of branches that are never tags.
const MAIN: [&str; 2] = ["main", "master"];

/// Checks that Flux can find the revision of `source`. [`BundleSource`] has checked those of
/// registries.
///
/// # Errors
/// Flux cannot find the revision.
pub(super) fn check(source: &BundleSource) -> Result<(), RenderError> {
    let revision = source.revision.as_str();
    if source.is_oci() || source.is_commit() {
        return Ok(());
    }
    if revision == "HEAD" {
        return Err(RenderError::unable(
            NAME,
            "cannot follow `HEAD`, which is not a branch",
            "name the branch: --revision main",
        ));
    }
    if revision.len() >= SHORTEST_COMMIT && is_hexadecimal(revision) {
        return Err(RenderError::unable(
            NAME,
            format!("does not accept abbreviated commits, and `{revision}` looks like one"),
            "write all 40 digits of the commit, refs/heads/NAME for a branch, or refs/tags/NAME for a tag",
        ));
    }
    if !is_name(revision) {
        return Err(RenderError::unable(
            NAME,
            format!("cannot find `{revision}`, which is not a valid name of a Git branch or tag"),
            "name a branch, a tag or a commit",
        ));
    }
    Ok(())
}

/// Returns a note about how Flux reads the revision.
pub(super) fn note(source: &BundleSource) -> Option<String> {
    let revision = &source.revision;
    match kind(source) {
        "branch" if !MAIN.contains(&revision.as_str()) => Some(format!(
            "{NAME}: treating `{revision}` as a branch; for a tag, write --revision refs/tags/{revision}"
        )),
        "tag" if !source.is_oci() => Some(format!(
            "{NAME}: treating `{revision}` as a tag; for a branch, write --revision refs/heads/{revision}"
        )),
        _ => None,
    }
}

/// Returns the field for the revision. A name that looks like a version is a tag, any other a
/// branch.
pub(super) fn kind(source: &BundleSource) -> &'static str {
    let revision = &source.revision;
    let is_version = semver::Version::parse(revision.strip_prefix('v').unwrap_or(revision)).is_ok();
    match (source.is_oci(), revision.as_str()) {
        (true, _) if source.is_digest() => "digest",
        (true, _) => "tag",
        (false, _) if source.is_commit() => "commit",
        (false, revision) if revision.starts_with("refs/") => "name",
        (false, _) if is_version => "tag",
        (false, _) => "branch",
    }
}

/// Returns the name of the tag that the revision of a Git repository selects; `None` if it selects
/// anything else.
pub(super) fn tag(source: &BundleSource) -> Option<&str> {
    let revision = source.revision.as_str();
    match kind(source) {
        "tag" => Some(revision),
        "name" => revision.strip_prefix("refs/tags/"),
        _ => None,
    }
}

/// Whether Git allows a reference with this name (`git check-ref-format --branch`).
/// [`BundleSource`] has refused spaces and braces.
fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && part.strip_suffix(".lock").is_none()
    };
    !text.contains(['~', '^', ':', '?', '*', '['])
        && !text.contains("..")
        && !text.starts_with('-')
        && !text.ends_with('.')
        && text != "@"
        && text.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIT: &str = "https://example.com/a";

    fn source(url: &str, revision: &str) -> BundleSource {
        BundleSource::new(url, revision, "").unwrap()
    }

    #[test]
    fn revisions_are_told_apart() {
        let digest = format!("sha256:{}", "01".repeat(32));
        for (url, revision, expected) in [
            (GIT, "main", "branch"),
            (GIT, "release-1.2", "branch"),
            (GIT, "v1.2.3", "tag"),
            (GIT, "1.2.3-rc.1", "tag"),
            (GIT, "refs/tags/stable", "name"),
            (GIT, "0123456789abcdef0123456789abcdef01234567", "commit"),
            ("oci://example.com/a", "v1.2.3", "tag"),
            ("oci://example.com/a", &digest, "digest"),
        ] {
            assert_eq!(kind(&source(url, revision)), expected, "{revision}");
            check(&source(url, revision)).unwrap();
        }
    }

    #[test]
    fn ambiguous_branch_or_tag_is_noted() {
        for revision in ["v1.2", "2026.11", "prod-7"] {
            let note = note(&source(GIT, revision)).unwrap();
            assert!(
                note.contains(&format!("treating `{revision}` as a branch; for a tag, write --revision refs/tags/{revision}")),
                "{note}"
            );
        }
        assert!(
            note(&source(GIT, "1.2.3"))
                .unwrap()
                .contains("for a branch, write --revision refs/heads/1.2.3")
        );
        for (url, revision) in
            [(GIT, "main"), (GIT, "refs/tags/v1.2"), ("oci://example.com/a", "v1.2")]
        {
            assert_eq!(note(&source(url, revision)), None, "{revision}");
        }
    }

    #[test]
    fn revisions_that_flux_never_finds_are_refused() {
        for revision in [
            "HEAD",
            "0123abc",
            "0123456789",
            "a..b",
            "a//b",
            "/a",
            "a/",
            "a.lock",
            ".a",
            "v1.*",
            "^1",
            "a:b",
            "a.",
            "@",
        ] {
            assert!(check(&source(GIT, revision)).is_err(), "{revision}");
        }
        for revision in ["face", "feature/a", "refs/heads/0123abc", "a@b", "release-1.x"] {
            check(&source(GIT, revision)).unwrap();
        }
    }
}
