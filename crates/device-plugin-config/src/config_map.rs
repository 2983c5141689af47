//! The ConfigMap with configurations, one for each key.

use serde_json::{Map, Value, json};

use diagnostics::tree::{MapEntry, YamlNode};

/// Returns the ConfigMap with these configurations.
///
/// # Errors
/// A configuration cannot be written as YAML.
pub fn object(name: &str, namespace: &str, configs: &Map<String, Value>) -> Result<Value, String> {
    let text = |(name, config): (&String, &Value)| {
        let text =
            yaml::to_string(config).map_err(|error| format!("configuration `{name}`: {error}"))?;
        Ok((name.clone(), Value::String(text)))
    };
    let data: Map<String, Value> = configs.iter().map(text).collect::<Result<_, String>>()?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }))
}

/// Whether the document is a ConfigMap.
pub fn is_config_map(node: &YamlNode) -> bool {
    node.get("kind").and_then(YamlNode::text) == Some("ConfigMap")
}

/// Returns the configurations of a ConfigMap.
pub fn entries(node: &YamlNode) -> &[MapEntry] {
    node.get("data").map(YamlNode::entries).unwrap_or_default()
}
