//! How Go names and writes what stands in a tree.

use serde_json::Number;

use crate::text::tree::{Node, Value};

/// Where Go begins to write an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// What JSON decoders of Go call a value.
pub(super) fn kind(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::List(_) => "array".to_owned(),
        Value::Map(_) => "object".to_owned(),
    }
}

/// The same where a whole number is expected: a number is named.
pub(super) fn kind_for_whole(node: &Node) -> String {
    match &node.value {
        Value::Number(number) => format!("number {}", self::number(number)),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::List(_) | Value::Map(_) => kind(node),
    }
}

/// A number as Go writes it.
pub(super) fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXPONENT_FROM => format!("{float:.0}"),
        Some(_) | None => number.to_string(),
    }
}

/// A whole number, also one that is written with a fraction of nothing.
pub(super) fn whole(node: &Node) -> Option<i64> {
    match &node.value {
        Value::Number(value) => number(value).parse().ok(),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::List(_) | Value::Map(_) => None,
    }
}

/// The value as JSON, on one line.
pub(super) fn json(node: &Node) -> String {
    node.to_json().to_string()
}

/// The plugin's name for the struct of the keys below `parent`.
pub(super) fn struct_name(parent: &str) -> &'static str {
    struct_type(parent).trim_start_matches("v1.")
}

/// The same as a type.
pub(super) fn struct_type(path: &str) -> &'static str {
    match path {
        "flags" => "v1.Flags",
        "flags.plugin" => "v1.PluginCommandLineFlags",
        "flags.gfd" => "v1.GFDCommandLineFlags",
        "resources" => "v1.Resources",
        "sharing" => "v1.Sharing",
        "imex" => "v1.Imex",
        _ => "v1.Config",
    }
}
