//! How Go names and writes what stands in a tree.

use serde_json::Number;

use diagnostics::tree::{YamlNode, YamlValue};

/// Where Go begins to write an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// What JSON decoders of Go call a value.
pub(super) fn kind(node: &YamlNode) -> &'static str {
    match &node.value {
        YamlValue::Null => "null",
        YamlValue::Bool(_) => "bool",
        YamlValue::Number(_) => "number",
        YamlValue::String(_) => "string",
        YamlValue::List(_) => "array",
        YamlValue::Map(_) => "object",
    }
}

/// The same where a whole number is expected: a number is named.
pub(super) fn kind_for_whole(node: &YamlNode) -> String {
    if let YamlValue::Number(number) = &node.value {
        format!("number {}", self::number(number))
    } else {
        kind(node).to_owned()
    }
}

/// A number as Go writes it.
pub(super) fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXPONENT_FROM => {
            format!("{float:.0}")
        }
        Some(_) | None => number.to_string(),
    }
}

/// A whole number, also one that is written with a fraction of nothing.
pub(super) fn whole(node: &YamlNode) -> Option<i64> {
    if let YamlValue::Number(value) = &node.value { number(value).parse().ok() } else { None }
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
