//! Helpers for parsed YAML, in which a missing value is empty.

use serde_json::Value;

use crate::ReadbackError;
use crate::files::parse;

/// Returns the string at `key`.
pub(crate) fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Returns the list at `key`.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Returns the objects of a file with one or more documents.
///
/// # Errors
/// A document is not YAML.
pub(crate) fn documents(path: &str, text: &str) -> Result<Vec<Value>, ReadbackError> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.extend([line, "\n"]);
        }
    }
    let parsed: Vec<Value> =
        documents.iter().map(|document| parse(path, document)).collect::<Result<_, _>>()?;
    Ok(parsed.into_iter().filter(Value::is_object).collect())
}
