//! Compares two trees of values, path by path.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

/// One path at which two trees differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValueChange {
    /// The dotted path. List items are identified by number, or by name if each has a unique name.
    pub path: String,
    /// The old value; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// The new value; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// Returns every path at which `old` and `new` differ, sorted.
pub fn changes(old: &Value, new: &Value) -> Vec<ValueChange> {
    let mut found = Vec::new();
    compare(&mut String::new(), Some(old), Some(new), &mut found);
    found
}

fn compare(
    path: &mut String,
    old: Option<&Value>,
    new: Option<&Value>,
    found: &mut Vec<ValueChange>,
) {
    if old == new {
        return;
    }
    let keyed = match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            Some(
                keys.into_iter()
                    .map(|key| (escape(key), old.get(key), new.get(key)))
                    .collect::<Vec<_>>(),
            )
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => Some(elements(old, new)),
        _ => None,
    };
    let Some(keyed) = keyed else {
        found.push(ValueChange { path: path.clone(), old: old.cloned(), new: new.cloned() });
        return;
    };
    for (key, old, new) in keyed {
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&key);
        compare(path, old, new, found);
        path.truncate(length);
    }
}

/// Escapes a key for a path.
fn escape(key: &str) -> String {
    if key.contains('.') { format!("[{key}]") } else { key.to_owned() }
}

/// Pairs list items by name, if each on both sides has a unique name; otherwise by position.
fn elements<'a>(
    old: &'a [Value],
    new: &'a [Value],
) -> Vec<(String, Option<&'a Value>, Option<&'a Value>)> {
    if let (Some(olds), Some(news)) = (names(old), names(new)) {
        let find = |list: &'a [Value], names: &[&str], name: &str| {
            names.iter().position(|known| *known == name).map(|index| &list[index])
        };
        let all: BTreeSet<&str> = olds.iter().chain(&news).copied().collect();
        return all
            .into_iter()
            .map(|name| (format!("[{name}]"), find(old, &olds, name), find(new, &news, name)))
            .collect();
    }
    (0..old.len().max(new.len()))
        .map(|index| (format!("[{index}]"), old.get(index), new.get(index)))
        .collect()
}

fn names(list: &[Value]) -> Option<Vec<&str>> {
    let names: Vec<&str> = list.iter().map(name).collect::<Option<_>>()?;
    let different: BTreeSet<&str> = names.iter().copied().collect();
    (different.len() == names.len()).then_some(names)
}

fn name(value: &Value) -> Option<&str> {
    value.get("name").or_else(|| value.get("metadata")?.get("name"))?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(old: &Value, new: &Value) -> Vec<String> {
        changes(old, new).into_iter().map(|change| change.path).collect()
    }

    #[test]
    fn what_differs_is_named_by_its_path() {
        assert!(changes(&json!({"a": [1, {"b": 2}]}), &json!({"a": [1, {"b": 2}]})).is_empty());
        assert_eq!(
            paths(&json!({"a": {"b": 1, "c": 2}}), &json!({"a": {"b": 1, "d": 2}})),
            ["a.c", "a.d"]
        );
        assert_eq!(paths(&json!({"x.y/z": 1}), &json!({"x.y/z": 2})), ["[x.y/z]"]);
        assert_eq!(paths(&json!({"a": 1}), &json!({"a": {"b": 1}})), ["a"]);
        assert_eq!(changes(&json!({"a": null}), &json!({}))[0].old, Some(Value::Null));
    }

    #[test]
    fn elements_with_names_are_compared_by_them() {
        let old = json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]});
        let new = json!({"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]});
        assert_eq!(paths(&old, &new), ["env.[A].value"]);
        assert_eq!(paths(&json!({"a": [1, 2]}), &json!({"a": [1, 3, 4]})), ["a.[1]", "a.[2]"]);
    }
}
