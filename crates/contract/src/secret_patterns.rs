//! Recognizes secrets by their names and their form. Recipes must not contain any, and support
//! bundles are redacted with it.

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
