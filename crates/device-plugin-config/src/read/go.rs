//! How Go names and writes what stands in a tree.

use serde_json::Number;

use diagnostics::tree::{YamlNode, YamlValue};

/// Where Go begins to write an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// What JSON decoders of Go call a value.
pub(super) fn kind(node: &YamlNode) -> String {
    match &node.value {
        YamlValue::Null => "null".to_owned(),
        YamlValue::Bool(_) => "bool".to_owned(),
        YamlValue::Number(_) => "number".to_owned(),
        YamlValue::String(_) => "string".to_owned(),
        YamlValue::List(_) => "array".to_owned(),
        YamlValue::Map(_) => "object".to_owned(),
    }
}

/// The same where a whole number is expected: a number is named.
pub(super) fn kind_for_whole(node: &YamlNode) -> String {
    match &node.value {
        YamlValue::Number(number) => format!("number {}", self::number(number)),
        YamlValue::Null | YamlValue::Bool(_) | YamlValue::String(_) | YamlValue::List(_) | YamlValue::Map(_) => kind(node),
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
pub(super) fn whole(node: &YamlNode) -> Option<i64> {
    match &node.value {
        YamlValue::Number(value) => number(value).parse().ok(),
        YamlValue::Null | YamlValue::Bool(_) | YamlValue::String(_) | YamlValue::List(_) | YamlValue::Map(_) => None,
    }
}

/// The value as JSON, on one line.
pub(super) fn json(node: &YamlNode) -> String {
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
