//! `docs/json.md` has every field of the JSON output of commands (`-o json`), from the types of the
//! program. `UPDATE=1` updates it.

use std::fmt::Write;

use gpu_rollout::cli::documents;
use serde_json::Value;

use crate::generated;

/// One field.
struct Field {
    path: String,
    kind: String,
    text: String,
}

/// Returns the definition that a schema refers to, or the schema itself.
fn resolved<'a>(schema: &'a Value, whole: &'a Value) -> &'a Value {
    let target = schema["$ref"]
        .as_str()
        .and_then(|reference| whole.pointer(reference.trim_start_matches('#')));
    let either = || {
        ["anyOf", "allOf"]
            .iter()
            .find_map(|key| schema[key].as_array()?.iter().find(|one| one["type"] != "null"))
    };
    match target.or_else(either) {
        Some(schema) => resolved(schema, whole),
        None => schema,
    }
}

/// Returns the values of an enumeration.
fn words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(words) = schema["enum"].as_array() {
        return Some(words.iter().filter_map(Value::as_str).collect());
    }
    let each = |one: &'_ Value| one["const"].as_str().is_some();
    let variants = schema["oneOf"].as_array().filter(|variants| variants.iter().all(each))?;
    Some(variants.iter().filter_map(|one| one["const"].as_str()).collect())
}

fn kind(schema: &Value) -> String {
    if let Some(words) = words(schema) {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => {
            all.iter().filter_map(Value::as_str).filter(|one| *one != "null").collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => vec![],
    };
    match (&types[..], schema["format"].as_str()) {
        (["string"], Some("date-time")) => "time".to_owned(),
        ([], _) => "any".to_owned(),
        (types, _) => types.join(" or "),
    }
}

/// Collects the fields of a schema, in their order.
fn fields(schema: &Value, whole: &Value, path: &str, found: &mut Vec<Field>) {
    let schema = resolved(schema, whole);
    if let Some(properties) = schema["properties"].as_object() {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, inner) in properties {
            let target = resolved(inner, whole);
            let place = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let text = inner["description"]
                .as_str()
                .or_else(|| target["description"].as_str())
                .unwrap_or_default()
                .replace(['\n', '|'], " ");
            assert!(!text.is_empty(), "{place} has no description");
            let optional = if required.contains(&name.as_str()) { "" } else { ", may be absent" };
            found.push(Field {
                path: place.clone(),
                kind: format!("{}{optional}", kind(target)),
                text,
            });
            fields(inner, whole, &place, found);
        }
    }
    if schema["items"].is_object() {
        fields(&schema["items"], whole, &format!("{path}[]"), found);
    }
    if schema["additionalProperties"].is_object() {
        fields(&schema["additionalProperties"], whole, &format!("{path}.*"), found);
    }
}

/// Returns the fields of a document as rows of a table.
pub(super) fn rows(whole: &Value) -> String {
    let mut found = Vec::new();
    fields(whole, whole, "", &mut found);
    assert!(!found.is_empty(), "{whole:#}");
    let row = |Field { path, kind, text }: Field| format!("| `{path}` | {kind} | {text} |\n");
    found.into_iter().map(row).collect()
}

/// Compares a page with the text that is generated from the program's types.
pub(super) fn check(page: &str, expected: &str) {
    generated(page, "the program's types", expected);
}

#[test]
fn every_field_is_described() {
    let mut expected = "\n".to_owned();
    for (command, schema) in documents() {
        writeln!(
            expected,
            "## {command}\n\n| Field | Type | What it is |\n|---|---|---|\n{}",
            rows(&schema.to_value())
        )
        .unwrap();
    }
    check("docs/json.md", &expected);
}
