//! Names of secrets: what the name of a field, variable, option or header implies for its value.

/// What a name implies for the value.
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

/// Last words after which a name is about a secret, but its value is not one. Sorted.
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

/// Returns what a name implies for its value; `None` if it is not the name of a secret.
pub(super) fn class(name: &str) -> Option<NameClass> {
    // Variables of every shell: the current directory, and the one before.
    if matches!(name, "PWD" | "OLDPWD") {
        return None;
    }
    let LowerName { joined, starts } = LowerName::new(name);
    let word = |number: usize, end: usize| &joined[starts[number]..end];
    let mut count = starts.len();
    let mut end = joined.len();
    while count > 1 {
        let last = word(count - 1, end);
        if !FORMS.contains(&last) && !last.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        count -= 1;
        end = starts[count];
    }
    if count == 0 {
        return None;
    }
    let joined = &joined[..end];
    let last = word(count - 1, end);
    let before = (count > 1).then(|| word(count - 2, starts[count - 1]));
    if ABOUT.binary_search(&last).is_ok() {
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
    let joined = joined.trim_end_matches(|one: char| one.is_ascii_digit());
    let last_byte = joined.bytes().next_back();
    let by_ending = || {
        let mut endings = JOINED.iter();
        // The last byte first: few endings share it.
        let is_ending = |(ending, _): &&(&str, NameClass)| {
            ending.bytes().next_back() == last_byte && joined.ends_with(ending)
        };
        endings.find(is_ending).map(|(_, class)| *class)
    };
    by_words.or_else(by_ending)
}

/// A name as words in lower case: separators end them, and a capital starts one.
struct LowerName {
    /// All words, without separators.
    joined: String,
    /// Where each word starts in `joined`.
    starts: Vec<usize>,
}

impl LowerName {
    fn new(name: &str) -> Self {
        let mut joined = String::with_capacity(name.len());
        let mut starts = Vec::new();
        let mut previous = b'-';
        let mut bytes = name.bytes().peekable();
        // The bytes of characters that are not ASCII separate words.
        while let Some(byte) = bytes.next() {
            if byte.is_ascii_alphanumeric() {
                let next_is_lower = bytes.peek().is_some_and(u8::is_ascii_lowercase);
                let starts_word = !previous.is_ascii_alphanumeric()
                    || byte.is_ascii_uppercase()
                        && (previous.is_ascii_lowercase()
                            || previous.is_ascii_uppercase() && next_is_lower);
                if starts_word {
                    starts.push(joined.len());
                }
                joined.push(char::from(byte.to_ascii_lowercase()));
            }
            previous = byte;
        }
        Self { joined, starts }
    }
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
            ("ownersÉtoken", Some(Token)),
            ("token_2_value", Some(Token)),
            ("é--", None),
            ("", None),
        ] {
            assert_eq!(class(name), expected, "{name}");
        }
        assert!(ABOUT.is_sorted());
    }
}
