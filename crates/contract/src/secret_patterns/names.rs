//! Names of secrets: what the name of a field, variable, option or header tells about its value.

/// What a name tells about the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameClass {
    /// A password: every value is a secret.
    Password,
    /// A token or key: a value is a secret unless it is a number, a path, or the name of an object.
    Token,
    /// A word that also has other meanings, such as `auth`: short words are not secrets.
    Ambiguous,
    /// A header whose whole line is a secret.
    Header,
    /// A signature or session: a secret only if the value looks random.
    Signature,
}

/// Last words after which a name is about a secret, but its value is not one.
const ABOUT: [&str; 68] = [
    "algorithm",
    "annotation",
    "annotations",
    "audience",
    "audiences",
    "cert",
    "certificate",
    "class",
    "command",
    "config",
    "controller",
    "count",
    "counts",
    "dir",
    "directory",
    "enabled",
    "endpoint",
    "env",
    "error",
    "expiration",
    "expires",
    "expiry",
    "file",
    "filename",
    "files",
    "format",
    "hash",
    "id",
    "ids",
    "issuer",
    "kind",
    "label",
    "labels",
    "length",
    "limit",
    "manager",
    "method",
    "mode",
    "mount",
    "mounts",
    "name",
    "names",
    "namespace",
    "namespaces",
    "path",
    "paths",
    "plugin",
    "policy",
    "prompt",
    "provider",
    "ref",
    "reference",
    "refs",
    "required",
    "review",
    "reviews",
    "scope",
    "scopes",
    "seconds",
    "selector",
    "size",
    "source",
    "stdin",
    "template",
    "ttl",
    "type",
    "version",
    "volume",
];
/// Last words that say only in which form the secret is.
const FORMS: [&str; 16] = [
    "b64",
    "base",
    "base64",
    "content",
    "data",
    "enc",
    "encoded",
    "encrypted",
    "plain",
    "plaintext",
    "raw",
    "str",
    "string",
    "text",
    "txt",
    "value",
];
/// Words before `key` with which it is a secret.
const KEYS: [&str; 50] = [
    "access",
    "account",
    "activation",
    "admin",
    "aes",
    "api",
    "app",
    "auth",
    "bot",
    "certificate",
    "client",
    "consumer",
    "decryption",
    "deploy",
    "ec",
    "ecdsa",
    "ed25519",
    "encrypt",
    "encryption",
    "function",
    "functions",
    "hmac",
    "host",
    "ingest",
    "ingestion",
    "integration",
    "jwt",
    "licence",
    "license",
    "maps",
    "master",
    "preshared",
    "private",
    "rec",
    "recovery",
    "root",
    "rsa",
    "secret",
    "server",
    "service",
    "session",
    "shared",
    "sign",
    "signing",
    "ssh",
    "storage",
    "subscription",
    "tls",
    "unlock",
    "write",
];
/// Words before `secret` with which it is the name of a Kubernetes Secret.
const OBJECTS: [&str; 11] = [
    "ca",
    "cert",
    "certificate",
    "docker",
    "image",
    "pull",
    "registry",
    "repository",
    "seal",
    "tls",
    "k8s",
];
/// Endings of words written in one, which the other rules do not split.
const JOINED: [(&str, NameClass); 32] = [
    ("password", NameClass::Password),
    ("passwd", NameClass::Password),
    ("passphrase", NameClass::Password),
    ("passcode", NameClass::Password),
    ("bindpw", NameClass::Password),
    ("rootpw", NameClass::Password),
    ("userpw", NameClass::Password),
    ("userpass", NameClass::Password),
    ("dbpass", NameClass::Password),
    ("clientsecret", NameClass::Password),
    ("sharedsecret", NameClass::Password),
    ("appsecret", NameClass::Password),
    ("mnemonic", NameClass::Password),
    ("psk", NameClass::Password),
    ("token", NameClass::Token),
    ("apikey", NameClass::Token),
    ("secretkey", NameClass::Token),
    ("accesskey", NameClass::Token),
    ("privatekey", NameClass::Token),
    ("sharedkey", NameClass::Token),
    ("masterkey", NameClass::Token),
    ("accountkey", NameClass::Token),
    ("authkey", NameClass::Token),
    ("signingkey", NameClass::Token),
    ("encryptionkey", NameClass::Token),
    ("licensekey", NameClass::Token),
    ("sshkey", NameClass::Token),
    ("dockerconfigjson", NameClass::Token),
    ("samlresponse", NameClass::Token),
    ("jsessionid", NameClass::Signature),
    ("phpsessid", NameClass::Signature),
    ("sessionid", NameClass::Signature),
];

/// Returns what a name tells about its value; `None` if it is not the name of a secret.
pub(super) fn class(name: &str) -> Option<NameClass> {
    // Variables of every shell: the current directory, and the one before.
    if matches!(name, "PWD" | "OLDPWD") {
        return None;
    }
    let all = words(name);
    let mut words: &[String] = &all;
    while let [rest @ .., last] = words
        && !rest.is_empty()
        && (FORMS.contains(&last.as_str()) || last.bytes().all(|byte| byte.is_ascii_digit()))
    {
        words = rest;
    }
    let (last, before) = match words {
        [.., before, last] => (last.as_str(), Some(before.as_str())),
        [last] => (last.as_str(), None),
        [] => return None,
    };
    if ABOUT.contains(&last) {
        return None;
    }
    // `token2`, `id_ed25519`
    let last = last.trim_end_matches(|one: char| one.is_ascii_digit());
    let by_words = match last {
        "password" | "passwords" | "passwd" | "passphrase" | "pwd" => Some(NameClass::Password),
        "pass" | "pw" => {
            Some(if before.is_some() { NameClass::Password } else { NameClass::Ambiguous })
        }
        "secret" => Some(match before {
            None => NameClass::Ambiguous,
            Some(before) if OBJECTS.contains(&before) => NameClass::Ambiguous,
            Some(_) => NameClass::Password,
        }),
        "token" | "jwt" | "assertion" | "dockercfg" | "htpasswd" => Some(NameClass::Token),
        "key" if before.is_some_and(|before| KEYS.contains(&before)) => Some(NameClass::Token),
        "verifier" if before == Some("code") => Some(NameClass::Token),
        "rsa" | "ed" | "ecdsa" | "dsa" if before == Some("id") => Some(NameClass::Token),
        "auth" | "credential" | "credentials" | "creds" | "cred" | "bearer" | "kubeconfig" => {
            Some(NameClass::Ambiguous)
        }
        "authorization" | "cookie" | "cookies" => Some(NameClass::Header),
        "sig" | "signature" | "sid" | "sess" => Some(NameClass::Signature),
        _ => None,
    };
    let joined = words.concat();
    let joined = joined.trim_end_matches(|one: char| one.is_ascii_digit());
    let by_ending =
        || JOINED.iter().find(|(ending, _)| joined.ends_with(ending)).map(|(_, class)| *class);
    by_words.or_else(by_ending)
}

/// Splits a name into words in lower case: at separators, and where a capital starts a word.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut previous = '-';
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        if character.is_ascii_alphanumeric() {
            let next_is_lower = characters.peek().is_some_and(char::is_ascii_lowercase);
            let starts = !previous.is_ascii_alphanumeric()
                || character.is_ascii_uppercase()
                    && (previous.is_ascii_lowercase()
                        || previous.is_ascii_uppercase() && next_is_lower);
            if starts {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push(character.to_ascii_lowercase());
            }
        }
        previous = character;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_class_of_their_values() {
        use NameClass::{Ambiguous, Header, Password, Signature, Token};
        for (name, expected) in [
            ("password", Some(Password)),
            ("DB_PASS", Some(Password)),
            ("PGPASSWORD", Some(Password)),
            ("spring.datasource.password", Some(Password)),
            ("MYSQL_PWD", Some(Password)),
            ("PWD", None),
            ("passwordFile", None),
            ("clientSecret", Some(Password)),
            ("imagePullSecret", Some(Ambiguous)),
            ("secretName", None),
            ("NGC_API_KEY", Some(Token)),
            ("APIKey", Some(Token)),
            ("client-key-data", Some(Token)),
            ("client-certificate-data", None),
            ("tls.key", Some(Token)),
            ("SECRET_KEY_BASE", Some(Token)),
            ("accessToken2", Some(Token)),
            ("tokenExpirationSeconds", None),
            ("topologyKey", None),
            ("key", None),
            ("_auth", Some(Ambiguous)),
            ("Authorization", Some(Header)),
            ("X-Amz-Signature", Some(Signature)),
        ] {
            assert_eq!(class(name), expected, "{name}");
        }
    }
}
