//! `status.conditions` of the operators' custom resources.

use serde_json::Value;

use crate::{PolicyCondition, PolicyConditions};

/// Maximum length of a condition's message in characters. Operators write whole lists of objects
/// into it, and it is copied into events and records.
const MESSAGE_LIMIT: usize = 500;

/// Projects the conditions `Ready` and `Error` of a custom resource.
pub fn conditions(object: &Value) -> PolicyConditions {
    let list =
        || object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let of_type = |kind: &str| list().find(|condition| condition["type"] == kind).map(condition);
    PolicyConditions { ready: of_type("Ready"), error: of_type("Error") }
}

fn condition(value: &Value) -> PolicyCondition {
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    PolicyCondition {
        is_true: value["status"] == "True",
        reason: text("reason").to_owned(),
        message: one_line(text("message")),
    }
}

/// Returns the text on one line, truncated to [`MESSAGE_LIMIT`] characters.
pub(super) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_LIMIT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_messages_are_cut_to_one_line() {
        let status = |message: &str| json!({"status": {"conditions": [{"type": "Error", "status": "True", "message": message}]}});
        let message =
            |message: &str| conditions(&status(message)).error.expect("there is one").message;
        assert_eq!(message("failed:\n  line one\n"), "failed: line one");
        assert_eq!(message(&"é".repeat(MESSAGE_LIMIT)).chars().count(), MESSAGE_LIMIT);
        assert_eq!(
            message(&"é".repeat(MESSAGE_LIMIT + 1)).chars().count(),
            MESSAGE_LIMIT + 1,
            "the last one is the ellipsis"
        );
    }

    #[test]
    fn objects_without_status_have_no_conditions() {
        assert_eq!(conditions(&json!({"spec": {}})), PolicyConditions::default());
        assert_eq!(
            conditions(&json!({"status": {"conditions": [{"type": "Other", "status": "True"}]}})),
            PolicyConditions::default()
        );
    }
}
