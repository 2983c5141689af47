//! Checks objects against the structural schemas of their CRDs, like an API server. Only a real API
//! server checks CEL rules.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex::Regex;
use serde_json::{Map, Value};

/// The schemas of some CRDs, by API version and kind.
pub(crate) struct Schemas(BTreeMap<(String, String), Value>);

impl Schemas {
    /// From all CRDs in a folder of `tests/data`.
    pub(crate) fn load(folder: &str) -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(folder);
        let mut schemas = BTreeMap::new();
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let crd: Value = yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let spec = &crd["spec"];
            for version in spec["versions"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|version| version["served"] == true)
            {
                let name = format!(
                    "{}/{}",
                    spec["group"].as_str().unwrap(),
                    version["name"].as_str().unwrap()
                );
                let schema = version["schema"]["openAPIV3Schema"].clone();
                schemas.insert((name, spec["names"]["kind"].as_str().unwrap().to_owned()), schema);
            }
        }
        assert!(!schemas.is_empty(), "no CRD in {}", directory.display());
        Self(schemas)
    }

    /// Returns the errors of `object`, one line each, with the path of the field.
    pub(crate) fn judge(&self, object: &Value) -> Vec<String> {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let Some(schema) = self.0.get(&(text("apiVersion"), text("kind"))) else {
            return vec![format!("no CRD of kind `{}` in `{}`", text("kind"), text("apiVersion"))];
        };
        let mut findings = Vec::new();
        check(schema, object, "", &mut findings);
        findings
    }
}

/// Schema keys that are checked here, and keys without anything to check.
const KNOWN: &[&str] = &[
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxLength",
    "minLength",
    "minimum",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

fn check(schema: &Value, value: &Value, path: &str, findings: &mut Vec<String>) {
    let schema = schema.as_object().unwrap();
    if let Some(key) = schema.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        panic!("{path}: the schema has `{key}`, which is not understood here");
    }
    let mut wrong = |reason: String| {
        findings.push(format!("{}: {reason}", if path.is_empty() { "." } else { path }));
    };
    if !has_type(schema, value) {
        wrong(format!("expected {}, found {value}", schema.get("type").unwrap_or(&Value::Null)));
        return;
    }
    if let Some(Value::Array(choices)) = schema.get("enum")
        && !choices.contains(value)
    {
        wrong(format!("{value} is none of {choices:?}"));
    }
    match value {
        Value::String(text) => text_is(schema, text).into_iter().for_each(wrong),
        Value::Number(number) => {
            if let Some(least) = schema
                .get("minimum")
                .and_then(Value::as_f64)
                .filter(|least| number.as_f64().is_some_and(|found| found < *least))
            {
                wrong(format!("{number} is less than {least}"));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(&schema["items"], item, &format!("{path}[{index}]"), findings);
            }
        }
        Value::Object(fields) => object(schema, fields, path, findings),
        Value::Null | Value::Bool(_) => {}
    }
}

fn has_type(schema: &Map<String, Value>, value: &Value) -> bool {
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    match schema.get("type").and_then(Value::as_str) {
        // Unknown fields are allowed only if the schema permits them.
        None => schema.contains_key("x-kubernetes-preserve-unknown-fields"),
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some(other) => panic!("a schema of type `{other}`"),
    }
}

fn text_is(schema: &Map<String, Value>, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let length = text.chars().count() as u64;
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    if limit("minLength").is_some_and(|least| length < least)
        || limit("maxLength").is_some_and(|most| length > most)
    {
        findings.push(format!("{length} characters are too few or too many"));
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && !Regex::new(pattern).unwrap().is_match(text)
    {
        findings.push(format!("`{text}` does not match {pattern}"));
    }
    findings
}

fn object(
    schema: &Map<String, Value>,
    fields: &Map<String, Value>,
    path: &str,
    findings: &mut Vec<String>,
) {
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !fields.contains_key(name) {
            findings.push(format!("{path}.{name}: is missing"));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields {
        let path = format!("{path}.{name}");
        let known = properties
            .and_then(|properties| properties.get(name))
            .or_else(|| schema.get("additionalProperties"));
        match known {
            Some(known) if known.is_object() => check(known, field, &path, findings),
            Some(_) => {}
            // The schema of `metadata` belongs to Kubernetes.
            None if path.starts_with(".metadata.") => {}
            None if schema.get("x-kubernetes-preserve-unknown-fields")
                == Some(&Value::Bool(true)) => {}
            None => findings.push(format!("{path}: there is no such field")),
        }
    }
}
