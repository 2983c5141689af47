//! Removes texts that look like a secret, or have such a name, from objects and logs. Also removes
//! fields that only the API server uses.

use serde_json::Value;

use contract::secret_patterns::{is_secret_key, secret_shape};

/// The replacement of a removed text.
const REDACTED: &str = "[redacted]";
/// Annotations that contain an unredacted copy of a whole object.
const COPIES: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "meta.helm.sh/release-manifest"];

/// Redacts an object. Returns the number of removed texts.
pub(super) fn redact(object: &mut Value) -> usize {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            for copy in COPIES {
                annotations.remove(copy);
            }
        }
    }
    // A long list that only the scheduler reads.
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("images");
    }
    walk(object)
}

fn walk(value: &mut Value) -> usize {
    match value {
        Value::Object(fields) => {
            let is_secret_variable =
                fields.get("name").and_then(Value::as_str).is_some_and(is_secret_key);
            let mut count = 0;
            for (key, value) in fields.iter_mut() {
                let is_secret = is_secret_key(key) || key == "value" && is_secret_variable;
                count += if is_secret { hide(value) } else { walk(value) };
            }
            count
        }
        Value::Array(items) => items.iter_mut().map(walk).sum(),
        Value::String(text) => {
            let (redacted, count) = redacted(text);
            if count > 0 {
                *text = redacted;
            }
            count
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Removes a text whose key is the name of a secret. A map or list below such a key is redacted by
/// its own keys.
fn hide(value: &mut Value) -> usize {
    match value {
        Value::String(text) if !text.is_empty() => {
            *value = REDACTED.into();
            1
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::Array(_) | Value::Object(_) => walk(value),
    }
}

/// Returns a text without words that look like secrets, and the number of removed words.
pub(super) fn redacted(text: &str) -> (String, usize) {
    if secret_shape(text) == Some("a private key") {
        return (REDACTED.to_owned(), 1);
    }
    let mut count = 0;
    let mut clean = String::with_capacity(text.len());
    let (mut named, mut after_key) = (false, false);
    for (word, gap) in words(text) {
        let key = word.trim_end_matches([':', '=']);
        let is_scheme = ["bearer", "basic"].iter().any(|scheme| key.eq_ignore_ascii_case(scheme));
        // `token:abc`, `{Password:abc}`
        let (before, value) = word.split_once(':').unwrap_or(("", word));
        if secret_shape(word).is_some() || after_key && !is_scheme && word.len() >= SHORTEST {
            clean.push_str(REDACTED);
            count += 1;
        } else if is_key(before) && value.len() >= SHORTEST
            || !before.is_empty() && secret_shape(value).is_some()
        {
            clean.push_str(before);
            clean.push(':');
            clean.push_str(REDACTED);
            count += 1;
        } else {
            clean.push_str(word);
        }
        // `password=…`, `token: …`, `"token":"…"`, `Bearer …`: an empty word or a colon may be
        // between key and value.
        let is_between = word.is_empty() || word == ":";
        let begins = is_scheme || is_key(key) && (gap.contains('=') || word.len() > key.len());
        after_key =
            begins || is_between && (after_key || named && (word == ":" || gap.contains('=')));
        named = is_key(key) || is_between && named;
        clean.push_str(gap);
    }
    (clean, count)
}

/// A shorter text after the name of a secret is probably an ordinary word.
const SHORTEST: usize = 8;

/// Returns whether the key is the name of a secret; `auth` is the key of a registry's credentials.
fn is_key(key: &str) -> bool {
    is_secret_key(key) || key == "auth"
}

/// Splits a text into words, each with the gap that follows it.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_gap =
        |character: char| character.is_whitespace() || "\"'`,;=()[]{}<>|\\".contains(character);
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(is_gap).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let end = behind.find(|character| !is_gap(character)).unwrap_or(behind.len());
        let (gap, behind) = behind.split_at(end);
        rest = behind;
        Some((word, gap))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_lose_everything_that_resembles_a_secret() {
        let token = format!("nvapi-{}", "x".repeat(40));
        let mut object = json!({
            "metadata": {
                "name": "a", "managedFields": [{}],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"},
            },
            "spec": {
                "env": [{"name": "NGC_API_KEY", "value": "short"}, {"name": "MODE", "value": "drive"}, {"name": "OTHER", "value": token}],
                "imagePullSecrets": [{"name": "registry"}],
                "proxy": "http://user:word@proxy:3128",
                "password": "", "apiToken": {"secretKeyRef": {"name": "a", "key": "token"}},
            },
            "status": {"images": [{}], "phase": "Running"},
        });
        assert_eq!(redact(&mut object), 3);
        let expected = json!({
            "metadata": {"name": "a", "annotations": {"kept": "yes"}},
            "spec": {
                "env": [{"name": "NGC_API_KEY", "value": REDACTED}, {"name": "MODE", "value": "drive"}, {"name": "OTHER", "value": REDACTED}],
                "imagePullSecrets": [{"name": "registry"}],
                "proxy": REDACTED,
                "password": "", "apiToken": {"secretKeyRef": {"name": "a", "key": "token"}},
            },
            "status": {"phase": "Running"},
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn logs_lose_everything_that_resembles_a_secret() {
        let cases = [
            ("login with password=hunter2hunter2 now", "login with password=[redacted] now", 1),
            (
                "Authorization: Bearer abcdefghijklmnop\nnext",
                "Authorization: Bearer [redacted]\nnext",
                1,
            ),
            ("{\"token\":\"abcdefghijk\"}", "{\"token\":\"[redacted]\"}", 1),
            (r#"{\"token\":\"abcdefghijk\"}"#, r#"{\"token\":\"[redacted]\"}"#, 1),
            (r#"password=\"hunter2hunter2\""#, r#"password=\"[redacted]\""#, 1),
            ("{Password:hunter2hunter2 User:me}", "{Password:[redacted] User:me}", 1),
            ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic [redacted]==", 1),
            (r#"{"auth":"dXNlcjpwYXNzd29yZA"}"#, r#"{"auth":"[redacted]"}"#, 1),
            (
                "image nvcr.io/nvidia/driver:580.126.20 at 10.0.0.1:8080",
                "image nvcr.io/nvidia/driver:580.126.20 at 10.0.0.1:8080",
                0,
            ),
            ("the token expired after 3600 s", "the token expired after 3600 s", 0),
            ("GET https://user:word@host/path", "GET [redacted]", 1),
            ("node gpu-0 is  done\n", "node gpu-0 is  done\n", 0),
        ];
        for (text, expected, count) in cases {
            assert_eq!(redacted(text), (expected.to_owned(), count), "{text}");
        }
        assert_eq!(redacted("x\n-----BEGIN RSA PRIVATE KEY-----\nabc"), (REDACTED.to_owned(), 1));
    }
}
