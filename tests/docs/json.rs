//! `docs/json.md` has every field of what commands print with `-o json`, as the program's own types say it; `UPDATE=1` writes it.

use std::fmt::Write;

use gpu_rollout::cli::documents;
use serde_json::Value;

use crate::root;

const PAGE: &str = "docs/json.md";
const START: &str = "<!-- Made from the program's types; `UPDATE=1 cargo test --test docs` writes it anew. -->\n";
const END: &str = "<!-- end -->\n";

/// One field.
struct Field {
    path: String,
    kind: String,
    text: String,
}

/// The definition that a schema refers to, or itself.
fn resolved<'a>(schema: &'a Value, whole: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|reference| whole.pointer(reference.trim_start_matches('#')));
    let either = || ["anyOf", "allOf"].iter().find_map(|key| schema[key].as_array()?.iter().find(|one| one["type"] != "null"));
    match target.or_else(either) {
        Some(schema) => resolved(schema, whole),
        None => schema,
    }
}

/// The words of an enumeration.
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
        Value::Array(all) => all.iter().filter_map(Value::as_str).filter(|one| *one != "null").collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => vec![],
    };
    match (types.first().copied(), schema["format"].as_str()) {
        (Some("string"), Some("date-time")) => "time".to_owned(),
        (Some(one), _) => one.to_owned(),
        (None, _) => "any".to_owned(),
    }
}

/// The fields below a schema, in their order.
fn fields(schema: &Value, whole: &Value, path: &str, found: &mut Vec<Field>) {
    let schema = resolved(schema, whole);
    if let Some(properties) = schema["properties"].as_object() {
        let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, inner) in properties {
            let target = resolved(inner, whole);
            let place = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let text =
                inner["description"].as_str().or_else(|| target["description"].as_str()).unwrap_or_default().replace(['\n', '|'], " ");
            assert!(!text.is_empty(), "{place} has no description");
            let optional = if required.contains(&name.as_str()) { "" } else { ", may be absent" };
            found.push(Field { path: place.clone(), kind: format!("{}{optional}", kind(target)), text });
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

fn table() -> String {
    let mut text = "\n".to_owned();
    for (command, schema) in documents() {
        let whole = schema.to_value();
        let mut found = Vec::new();
        fields(&whole, &whole, "", &mut found);
        assert!(!found.is_empty(), "{command}: {whole:#}");
        writeln!(text, "## {command}\n\n| Field | Type | What it is |\n|---|---|---|").unwrap();
        for Field { path, kind, text: what } in found {
            writeln!(text, "| `{path}` | {kind} | {what} |").unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn every_field_is_described() {
    let expected = table();
    let page = std::fs::read_to_string(root(PAGE)).unwrap();
    let (before, rest) = page.split_once(START).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root(PAGE), format!("{before}{START}{expected}{END}{after}")).unwrap();
    } else {
        assert_eq!(found, expected, "{PAGE} is stale: UPDATE=1 cargo test --test docs");
    }
}
