//! User and password in an address that a user has written, so that no message repeats them. The
//! address may be wrong otherwise: without a scheme, or with characters that no address has.
//! [`super::secret_patterns`] finds secrets in texts of any kind, and must not change ordinary ones.

/// The end of a scheme.
const SCHEME_END: &str = "://";
/// The characters after the host of an address.
const PATH: [char; 3] = ['/', '?', '#'];
/// What follows `@` in the reference of an image.
const DIGESTS: [&str; 2] = ["sha256:", "sha512:"];

/// Returns user and password of an address, or a user without a password that may be a token;
/// `None` if there is neither. The address may follow `NAME=`.
pub fn user_info(text: &str) -> Option<&str> {
    let (scheme, rest) = match text.split_once(SCHEME_END) {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let rest = match rest.rsplit_once('@') {
        Some((name, digest)) if DIGESTS.iter().any(|start| digest.starts_with(start)) => name,
        Some(_) | None => rest,
    };
    let authority = rest.find(PATH).map_or(rest, |end| &rest[..end]);
    // The password itself may have a slash, although no address allows it.
    let user = &rest[..authority.rfind('@').or_else(|| rest.rfind('@'))?];
    let mut colons = user.match_indices(':').map(|(at, _)| at);
    let Some(colon) = colons.find(|at| !user[*at..].starts_with(SCHEME_END)) else {
        // The user of ssh is not a secret. Other programs take a token as the user.
        let may_be_token = scheme.is_some_and(|scheme| !scheme.ends_with("ssh"));
        return (may_be_token && !user.contains(PATH)).then_some(user);
    };
    // The `@` is in the path then.
    let is_host = user[..colon].contains(PATH) || is_port(&user[colon + 1..]);
    if is_host || user.starts_with('[') {
        return None;
    }
    let start = user[..colon].rfind('=').filter(|_| scheme.is_none()).map_or(0, |at| at + 1);
    Some(&user[start..])
}

/// Returns whether a text behind a colon is a port, with the path behind it.
fn is_port(text: &str) -> bool {
    text.split_once('/')
        .is_some_and(|(port, _)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns `text` without the user and password of `address`, wherever it repeats them.
pub fn mask_user_info(text: &str, address: &str) -> String {
    match user_info(address) {
        Some(user) if !user.is_empty() => text.replace(&format!("{user}@"), "***@"),
        Some(_) | None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_in_wrong_addresses_too() {
        for (text, user) in [
            ("https://user:word@example.com/a", "user:word"),
            ("oci://user:word@host/a:v1", "user:word"),
            ("nvidia=https://user:word@example.com", "user:word"),
            ("https://token@example.com/a", "token"),
            ("ssh://git:word@example.com/a", "git:word"),
            ("ftp://user:word@example.com", "user:word"),
            ("user:word@host/a:v1", "user:word"),
            ("user:12345@host", "user:12345"),
            ("nvidia=user:word@host/a", "user:word"),
            ("--repo=user:word@host/a", "user:word"),
            ("https:/user:word@host/a", "https:/user:word"),
            ("oci://user:wo/rd@host/a:v1", "user:wo/rd"),
            ("oci://user:wo'r d@host/a:v1", "user:wo'r d"),
            ("https://a@b:word@host/a", "a@b:word"),
            ("user:word@host/a@sha256:0a", "user:word"),
        ] {
            assert_eq!(user_info(text), Some(user), "{text}");
            assert!(!mask_user_info(&format!("found `{text}`"), text).contains(user), "{text}");
        }
    }

    #[test]
    fn addresses_without_a_password_are_not_changed() {
        for text in [
            "ssh://git@example.com/a",
            "git@github.com:team/a.git",
            "https://example.com:8443/a@b",
            "https://accounts.example.com/x=https://git.example.com/team/a@refs/tags/v1",
            "oci://localhost:5000/gpu:v1@sha256:0a",
            "gpu-rollout:v1@sha256:0a",
            "oci://registry/gpu:v1@latest",
            "oci://[::1]:5000/gpu@latest",
            "nvidia=/mnt/a:b@c",
            "file:///mnt/a@b",
            "localhost:5000/hook:test",
            "@",
            "",
        ] {
            assert_eq!(user_info(text), None, "{text}");
            assert_eq!(mask_user_info(text, text), text);
        }
    }
}
