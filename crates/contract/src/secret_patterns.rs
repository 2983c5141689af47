//! Recognizes secrets by their names and their form. Recipes must not contain any, findings do not
//! show them, and support bundles are redacted with it.
//!
//! No list of forms is complete: [`redact`] removes what `tests/data/secrets.txt` has, and texts
//! like it. It is no guarantee.

use std::ops::Range;

mod blocks;
mod fields;
mod names;
mod random;
mod tokens;
mod urls;

/// The replacement of a removed text.
pub const REDACTED: &str = "[redacted]";

/// Returns whether the name of a field suggests a secret, such as `dbPassword` or `API_KEY`. Wider
/// than [`is_secret_key`], which must not refuse a valid recipe.
pub fn names_secret(name: &str) -> bool {
    use names::NameClass::{Ambiguous, Header, Password, Signature, Token};
    match names::class(name) {
        Some(Password | Token | Header) => true,
        Some(Ambiguous | Signature) | None => false,
    }
}

/// Returns the ranges of all secrets in a text of any kind: a log, YAML, JSON, a script. They are
/// sorted and do not overlap.
pub fn find_secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    blocks::find(text, &mut found);
    fields::find(text, &mut found);
    tokens::find(text, &mut found);
    urls::find(text, &mut found);
    found.sort_unstable_by_key(|range| (range.start, range.end));
    found.retain(|range| !range.is_empty());
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in found {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            Some(_) | None => merged.push(range),
        }
    }
    merged
}

/// Returns at most `most` bytes of a text from `start` on. Rules look no further, so that the time
/// for a hostile text grows with its length, and not with its square.
fn window(text: &str, start: usize, most: usize) -> &str {
    let mut end = text.len().min(start + most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[start..end]
}

/// Returns at most `most` bytes of a text before `end`.
fn window_before(text: &str, end: usize, most: usize) -> &str {
    let mut start = end.saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..end]
}

/// Returns a text without its secrets, and the number of removed texts.
pub fn redact(text: &str) -> (String, usize) {
    let secrets = find_secrets(text);
    let mut clean = String::with_capacity(text.len());
    let mut end = 0;
    for secret in &secrets {
        clean.push_str(&text[end..secret.start]);
        clean.push_str(REDACTED);
        end = secret.end;
    }
    clean.push_str(&text[end..]);
    (clean, secrets.len())
}

/// Endings of the names of keys that contain secrets, in lower case and without separators.
const SECRET_KEYS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "apikey",
    "secretkey",
    "accesskey",
    "privatekey",
    "clientsecret",
    "sharedsecret",
    "credentials",
    "dockerconfigjson",
];

/// Prefixes of well-known tokens, each with the minimum length of the token. Sources: the issuers'
/// documentation.
const TOKEN_SHAPES: [(&str, usize); 10] = [
    ("nvapi-", 30),
    ("ghp_", 36),
    ("gho_", 36),
    ("ghs_", 36),
    ("github_pat_", 40),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("AKIA", 20),
    ("hf_", 30),
];

/// Returns whether the name of a key suggests a secret.
pub fn is_secret_key(key: &str) -> bool {
    let bare: String = key
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|character| character.to_ascii_lowercase())
        .collect();
    SECRET_KEYS.iter().any(|ending| bare.ends_with(ending))
}

/// Returns what kind of secret a text looks like; `None` if it does not look like a secret.
pub fn secret_shape(text: &str) -> Option<&'static str> {
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return Some("a private key");
    }
    let word = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+/=".contains(&byte))
    };
    let trimmed = text.trim();
    if TOKEN_SHAPES.iter().any(|(start, length)| {
        trimmed.starts_with(start) && trimmed.len() >= *length && word(trimmed)
    }) {
        return Some("an access token");
    }
    if trimmed.starts_with("eyJ")
        && trimmed.matches('.').count() == 2
        && trimmed.contains(".eyJ")
        && word(trimmed)
    {
        return Some("a JSON web token");
    }
    let credentials = trimmed
        .split_once("://")
        .and_then(|(_, rest)| rest.split('/').next())
        .and_then(|host| host.split_once('@'));
    credentials
        .is_some_and(|(user, _)| {
            user.split_once(':').is_some_and(|(_, password)| !password.is_empty())
        })
        .then_some("an address with a password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shapes() {
        for key in ["password", "registryPassword", "NGC_API_KEY", "aws-secret-key", "licenseToken"]
        {
            assert!(is_secret_key(key), "{key}");
        }
        for key in [
            "secretName",
            "imagePullSecrets",
            "secretEnv",
            "tokenSecretName",
            "key",
            "config",
            "passwordSecretRef",
        ] {
            assert!(!is_secret_key(key), "{key}");
        }
        let web_token = ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJ4In0", "c2lnbmF0dXJl"].join(".");
        assert_eq!(secret_shape(&web_token), Some("a JSON web token"));
        assert_eq!(secret_shape(&format!("nvapi-{}", "a".repeat(40))), Some("an access token"));
        assert_eq!(
            secret_shape("https://user:word@registry.example"),
            Some("an address with a password")
        );
        for text in
            ["https://registry.example/a@sha256:b", "580.126.20", "nvapi-", "user@example.org"]
        {
            assert_eq!(secret_shape(text), None, "{text}");
        }
    }
}
