//! The ConfigMap that holds configurations: one key each.

use serde_json::{Map, Value, json};

use crate::contract::yaml;
use crate::text::source::Origin;
use crate::text::tree::Node;

/// The object with these configurations.
///
/// # Errors
/// A configuration that cannot be written as YAML.
pub fn object(name: &str, namespace: &str, configs: &Map<String, Value>) -> Result<Value, String> {
    let text = |(name, config): (&String, &Value)| {
        let text = yaml::to_string(config).map_err(|error| format!("configuration `{name}`: {error}"))?;
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

/// One configuration of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its key.
    pub name: &'a str,
    /// Where the key stands.
    pub origin: Origin,
    /// Its text; `None`: it is no text.
    pub text: Option<&'a str>,
}

/// Whether the document is a ConfigMap.
pub fn is_config_map(node: &Node) -> bool {
    node.get("kind").and_then(Node::text) == Some("ConfigMap")
}

/// The configurations of a ConfigMap.
pub fn entries(node: &Node) -> Vec<Entry<'_>> {
    let data = node.get("data").map(Node::entries).unwrap_or_default();
    data.iter().map(|entry| Entry { name: &entry.key, origin: entry.key_origin, text: entry.node.text() }).collect()
}
