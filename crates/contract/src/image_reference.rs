//! References of container images: `REPOSITORY[:TAG][@DIGEST]`.

use super::grammar::{is_digest, is_image_name, is_tag};

/// The longest path of a repository that registries accept.
const LONGEST_REPOSITORY_PATH: usize = 255;

/// Splits a reference into repository, tag and digest.
pub fn split(text: &str) -> (&str, Option<&str>, Option<&str>) {
    let (name, digest) =
        text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    // A colon before the last slash belongs to the registry's port.
    let start = name.rfind('/').map_or(0, |slash| slash + 1);
    match name[start..].split_once(':') {
        Some((_, tag)) => (&name[..name.len() - tag.len() - 1], Some(tag), digest),
        None => (name, None, digest),
    }
}

/// Returns whether a text is the path of a repository in a registry: `team/image`.
pub fn is_repository_path(text: &str) -> bool {
    let is_plain = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_plain)
            && part.ends_with(is_plain)
            && part.chars().all(|one| is_plain(one) || "._-".contains(one))
    };
    text.len() <= LONGEST_REPOSITORY_PATH && text.split('/').all(is_part)
}

/// Returns whether the name of an image starts with a registry, by the rule with which container
/// runtimes distinguish a registry from a user of the default registry.
pub fn has_registry(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    first.contains(['.', ':']) || first == "localhost"
}

/// Returns whether a text is the reference of an image.
pub fn is_image_reference(text: &str) -> bool {
    let (repository, tag, digest) = split(text);
    is_image_name(repository) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

/// Returns whether a reference has a tag or a digest. Without them, each node pulls what is the
/// latest image at that moment.
pub fn is_pinned(text: &str) -> bool {
    let (_, tag, digest) = split(text);
    tag.is_some() || digest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_and_user_are_told_apart() {
        for (name, expected) in [
            ("gpu-rollout", false),
            ("tools/gpu-rollout", false),
            ("localhost/gpu-rollout", true),
            ("registry:5000/gpu-rollout", true),
            ("registry.example.com/tools/gpu-rollout", true),
        ] {
            assert_eq!(has_registry(name), expected, "{name}");
        }
    }

    #[test]
    fn port_tag_and_digest_are_told_apart() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (text, expected) in [
            ("r.example.com:5000/a/b", ("r.example.com:5000/a/b", None, None)),
            ("r.example.com:5000/a/b:1.2", ("r.example.com:5000/a/b", Some("1.2"), None)),
            ("a@sha256:0a", ("a", None, Some("sha256:0a"))),
            ("a:1@sha256:0a", ("a", Some("1"), Some("sha256:0a"))),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
        for (text, fits, pinned) in [
            ("nvcr.io/nvidia/cuda", true, false),
            ("nvcr.io/nvidia/cuda:12.9.1-base-ubuntu24.04", true, true),
            (&format!("nvcr.io/nvidia/cuda@{digest}"), true, true),
            (&format!("nvcr.io/nvidia/cuda:1@{digest}"), true, true),
            ("nvcr.io/nvidia/cuda@sha256:0a", false, true),
            ("https://nvcr.io/nvidia/cuda:1", false, true),
            ("-a:1", false, true),
            ("a:", false, true),
            ("a b", false, false),
        ] {
            assert_eq!((is_image_reference(text), is_pinned(text)), (fits, pinned), "{text}");
        }
    }
}
