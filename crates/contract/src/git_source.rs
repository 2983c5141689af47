//! The forms of the parts of a source in Git: repository, revision and path.

use super::grammar::{LONGEST_SUBDOMAIN, LONGEST_WORD, is_address, is_word};

/// Number of hexadecimal digits of a commit.
const COMMIT_LENGTH: usize = 40;

/// Returns whether a text is a whole commit, which cannot change, and not the name of a tag or
/// branch.
pub fn is_commit(text: &str) -> bool {
    text.len() == COMMIT_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a text is the URL of a Git repository without a password. The user in `ssh://git@host` is
/// no secret.
pub(super) fn is_git_repository(text: &str) -> bool {
    let rest =
        ["https://", "http://", "ssh://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let host = rest.unwrap_or_default().split('/').next().unwrap_or_default();
    let (user, host) = host.split_once('@').map_or((None, host), |(user, host)| (Some(user), host));
    let is_host = host.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
    let is_user = user.is_none_or(|user| {
        text.starts_with("ssh://") && !user.starts_with('-') && !user.contains(':')
    });
    is_host && is_user && is_address(text) && text.len() <= LONGEST_WORD
}

/// Whether a text is the name of a tag or a commit (git-check-ref-format), of characters that no tool
/// interprets.
pub(super) fn is_git_revision(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && is_word(text, LONGEST_SUBDOMAIN, "-._/+")
        && !text.contains("..")
        && !text.contains("//")
        && !text.ends_with(['.', '/'])
}

/// Whether a text is a path below the root of a repository.
pub(super) fn is_git_path(text: &str) -> bool {
    let is_part = |part: &str| part != ".." && is_word(part, LONGEST_SUBDOMAIN, "-._");
    text.len() <= LONGEST_WORD && !text.starts_with('-') && text.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_repositories_revisions_and_paths_are_told_from_others() {
        for good in
            ["https://git.example.com/a.git", "ssh://git@git.example.com:22/a", "http://[::1]/a"]
        {
            assert!(is_git_repository(good), "{good}");
        }
        for bad in [
            "",
            "git@a:b",
            "oci://a/b",
            "https://u@a/b",
            "ssh://u:p@a/b",
            "ssh://-o@a/b",
            "https:///a",
            "file:///a",
        ] {
            assert!(!is_git_repository(bad), "{bad}");
        }
        for (revision, fits) in [
            ("v1.2.3", true),
            ("release/1.2", true),
            ("bc05c6be7859cee7ce6680b93333ed03ba795f88", true),
            ("a..b", false),
            ("/a", false),
            ("a/", false),
            ("a^", false),
            ("", false),
        ] {
            assert_eq!(is_git_revision(revision), fits, "{revision}");
        }
        for (path, fits) in [
            ("deploy/base", true),
            (".", true),
            ("", false),
            ("../a", false),
            ("/a", false),
            ("a//b", false),
        ] {
            assert_eq!(is_git_path(path), fits, "{path}");
        }
    }
}
