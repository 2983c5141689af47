//! Removes texts that look like a secret, or have such a name, from objects. Also removes fields
//! that only the API server uses.

use serde_json::Value;

use contract::secret_patterns::{REDACTED, names_secret, redact as redact_text};

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
                fields.get("name").and_then(Value::as_str).is_some_and(names_secret);
            let mut count = 0;
            for (key, value) in fields.iter_mut() {
                let is_secret = names_secret(key) || key == "value" && is_secret_variable;
                count += if is_secret { hide(value) } else { walk(value) };
            }
            count
        }
        Value::Array(items) => {
            let mut count = 0;
            // The argument of an option of a command is the next item.
            let mut follows_option = false;
            for item in items {
                let option = item.as_str().filter(|text| text.starts_with('-'));
                let is_option = option.is_some_and(names_secret);
                let is_argument = follows_option && option.is_none();
                count += if is_argument { hide(item) } else { walk(item) };
                follows_option = is_option;
            }
            count
        }
        Value::String(text) => {
            let (redacted, count) = redact_text(text);
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
                "args": ["--token", "hunter2", "--token=hunter2", "--token", "--verbose"],
                "password": "", "apiToken": {"secretKeyRef": {"name": "a", "key": "token"}},
            },
            "status": {"images": [{}], "phase": "Running"},
        });
        assert_eq!(redact(&mut object), 5);
        let expected = json!({
            "metadata": {"name": "a", "annotations": {"kept": "yes"}},
            "spec": {
                "env": [{"name": "NGC_API_KEY", "value": REDACTED}, {"name": "MODE", "value": "drive"}, {"name": "OTHER", "value": REDACTED}],
                "imagePullSecrets": [{"name": "registry"}],
                "proxy": "http://user:[redacted]@proxy:3128",
                "args": ["--token", REDACTED, "--token=[redacted]", "--token", "--verbose"],
                "password": "", "apiToken": {"secretKeyRef": {"name": "a", "key": "token"}},
            },
            "status": {"phase": "Running"},
        });
        assert_eq!(object, expected);
    }
}
