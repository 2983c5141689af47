//! Merges values like Helm.

use serde_json::{Map, Value};

use crate::ReadbackError;
use crate::files::TextFiles;
use contract::digest::sha256;

/// Merges the values files in order, and `inline` over all of them. Ignores missing files.
///
/// # Errors
/// A file is not a YAML map.
pub(crate) fn merged(
    files: &TextFiles,
    paths: &[String],
    inline: Option<&Map<String, Value>>,
) -> Result<Value, ReadbackError> {
    let mut all = Map::new();
    for path in paths {
        // An empty file is `null`, which is not a map and sets nothing.
        if let Some(Some(values)) = files.yaml::<Option<Map<String, Value>>>(path)? {
            over(&mut all, values);
        }
    }
    if let Some(inline) = inline {
        over(&mut all, inline.clone());
    }
    Ok(Value::Object(all))
}

/// Merges `values` over `all`: maps merge, other values replace. A `null` stays, because it may
/// delete a default of the chart.
fn over(all: &mut Map<String, Value>, values: Map<String, Value>) {
    for (key, value) in values {
        match (all.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(value)) => over(below, value),
            (_, value) => {
                all.insert(key, value);
            }
        }
    }
}

/// Returns `values` over the chart's `defaults`. A `null` deletes a default.
pub(crate) fn with_defaults(values: &Value, defaults: Value) -> Value {
    match (values, defaults) {
        (Value::Object(values), Value::Object(mut all)) => {
            for (key, value) in values {
                match (all.remove(key), value) {
                    (_, Value::Null) => {}
                    (Some(default), value) => {
                        all.insert(key.clone(), with_defaults(value, default));
                    }
                    (None, value) => {
                        all.insert(key.clone(), value.clone());
                    }
                }
            }
            Value::Object(all)
        }
        (values, _) => values.clone(),
    }
}

/// Returns the SHA-256 of the JSON with sorted keys.
pub(crate) fn digest(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sha256(sorted.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn later_files_win_and_maps_are_merged() {
        let files: TextFiles =
            [("a", "x: {y: 1, z: [1, 2]}\nn: 1\n"), ("b", "x: {z: [3]}\nn: ~\nm: ~\n")]
                .map(|(path, text)| (path.to_owned(), text.to_owned()))
                .into_iter()
                .collect();
        let paths = ["a".to_owned(), "b".to_owned(), "absent".to_owned()];
        let found = merged(&files, &paths, json!({"x": {"y": 2}}).as_object()).unwrap();
        assert_eq!(found, json!({"x": {"y": 2, "z": [3]}, "n": null, "m": null}));
        assert_eq!(
            with_defaults(&found, json!({"n": 5, "d": 1, "x": {"w": 0}})),
            json!({"x": {"y": 2, "z": [3], "w": 0}, "d": 1})
        );
        assert_eq!(
            digest(&json!({"b": 1, "a": {"d": 1, "c": 2}})),
            digest(&json!({"a": {"c": 2, "d": 1}, "b": 1}))
        );
        assert_ne!(digest(&json!({"a": "1"})), digest(&json!({"a": 1})));
    }
}
