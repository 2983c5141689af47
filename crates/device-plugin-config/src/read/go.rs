//! Go's names and notations for values of a tree.

use serde_json::Number;

use diagnostics::tree::{YamlNode, YamlValue};

/// The number from which Go writes an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// Returns the name that Go's JSON decoder uses for a value.
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

/// Returns the name as [`kind`] does; where Go expects an integer, it includes the number.
pub(super) fn kind_for_whole(node: &YamlNode) -> String {
    if let YamlValue::Number(number) = &node.value {
        format!("number {}", self::number(number))
    } else {
        kind(node).to_owned()
    }
}

/// Returns a number in Go's notation.
pub(super) fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXPONENT_FROM => {
            format!("{float:.0}")
        }
        Some(_) | None => number.to_string(),
    }
}

/// Returns an integer, even if it is written with a zero fraction.
pub(super) fn whole(node: &YamlNode) -> Option<i64> {
    if let YamlValue::Number(value) = &node.value { number(value).parse().ok() } else { None }
}

/// Returns the value as JSON on one line.
pub(super) fn json(node: &YamlNode) -> String {
    node.to_json().to_string()
}

/// Returns the plugin's name for the struct of the keys below `parent`.
pub(super) fn struct_name(parent: &str) -> &'static str {
    struct_type(parent).trim_start_matches("v1.")
}

/// Returns the plugin's type of the struct at `path`.
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
