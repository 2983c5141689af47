//! JSON schema of the recipe format, generated from [`super::model`]. Editors use the committed
//! copy for completion. [`super::shape`] checks recipes against it, so that types, schema and
//! messages cannot drift apart.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::model::Recipe;

/// Path of the committed copy for editors.
pub const FILE: &str = "bundles/recipe.schema.json";
/// Path of the committed copy that is embedded.
pub const EMBEDDED: &str = "crates/recipe/src/recipe.types.json";

/// The schema key that names a row of [`GRAMMARS`](contract::grammar::GRAMMARS).
const GRAMMAR: &str = "x-grammar";

/// It is read, because each call of the program needs it, and generating it costs more.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("recipe.types.json")).expect("a generated file is valid")
});

/// Returns the content of [`EMBEDDED`].
///
/// # Panics
/// Never: a schema can always be written as JSON.
pub fn embedded() -> String {
    // Not `to_value`: serializing puts the keys into the usual order of schemas.
    let mut schema =
        serde_json::to_value(schemars::schema_for!(Recipe)).expect("a schema is a JSON value");
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(
            "$schema".to_owned(),
            json!({"type": "string", "description": "The schema's location for editors. gpu-rollout ignores it."}),
        );
    }
    let mut text = schema.to_string();
    text.push('\n');
    text
}

/// Returns the schema for editors, as text.
///
/// # Panics
/// Never: a JSON value can always be written as JSON.
pub fn text() -> String {
    let mut schema = SCHEMA.clone();
    relax(&mut schema, &["apiVersion", "kind", "metadata"]);
    if let Some(types) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        types.values_mut().for_each(|each| relax(each, &["name"]));
    }
    let mut text =
        serde_json::to_string_pretty(&schema).expect("a JSON value can always be written as JSON");
    text.push('\n');
    text
}

/// Keeps only `own` as required keys. A recipe may inherit the others, which an editor cannot know.
fn relax(schema: &mut Value, own: &[&str]) {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|key| key.as_str().is_some_and(|key| own.contains(&key)));
    }
}

/// Returns a string without quotes, and any other value as JSON.
pub(crate) fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The schema of one type of the format.
#[derive(Clone, Copy, Debug)]
pub struct TypeShape {
    schema: &'static Value,
    name: Option<&'static str>,
}

impl TypeShape {
    /// Returns the type of the recipe itself.
    pub fn recipe() -> Self {
        Self { schema: &SCHEMA, name: None }.resolved()
    }

    /// Follows references, and takes the alternative to `null`.
    fn resolved(mut self) -> Self {
        while let Some(next) = self.next() {
            self = next;
        }
        self
    }

    fn next(self) -> Option<Self> {
        if let Some(name) = self
            .schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|reference| reference.strip_prefix("#/$defs/"))
        {
            return Some(Self { schema: SCHEMA.get("$defs")?.get(name)?, name: Some(name) });
        }
        let alternatives = self.schema.get("anyOf")?.as_array()?;
        let real = alternatives
            .iter()
            .find(|alternative| alternative.get("type") != Some(&json!("null")))?;
        Some(Self { schema: real, name: self.name })
    }

    /// Returns the name of the Rust type, if the schema defines one.
    pub fn name(self) -> Option<&'static str> {
        self.name
    }

    /// Returns the type of the value with this key.
    pub fn property(self, key: &str) -> Option<Self> {
        let schema = self.properties()?.get(key)?;
        Some(Self { schema, name: None }.resolved())
    }

    /// Returns the keys of a map with a fixed set of keys.
    pub fn keys(self) -> impl Iterator<Item = &'static str> {
        self.properties()
            .into_iter()
            .flat_map(Map::keys)
            .map(String::as_str)
            .filter(|key| *key != "$schema")
    }

    fn properties(self) -> Option<&'static Map<String, Value>> {
        self.schema.get("properties")?.as_object()
    }

    /// Returns the required keys of the map.
    pub fn required(self) -> impl Iterator<Item = &'static str> {
        self.schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    /// Returns the type of the values of all other keys.
    pub fn further(self) -> Option<Self> {
        let schema = self.schema.get("additionalProperties").filter(|schema| schema.is_object())?;
        Some(Self { schema, name: None }.resolved())
    }

    /// Returns the name of the grammar of a string.
    pub fn grammar(self) -> Option<&'static str> {
        self.schema.get(GRAMMAR)?.as_str()
    }

    /// Returns the name of the grammar of a map's keys.
    pub fn key_grammar(self) -> Option<&'static str> {
        self.schema.get("propertyNames")?.get(GRAMMAR)?.as_str()
    }

    /// Returns the type of a list's items.
    pub fn items(self) -> Option<Self> {
        Some(Self { schema: self.schema.get("items")?, name: None }.resolved())
    }

    /// Whether the type accepts a JSON type such as `string`.
    pub fn takes(self, kind: &str) -> bool {
        match self.schema.get("type") {
            Some(Value::String(only)) => only == kind,
            Some(Value::Array(several)) => several.iter().any(|each| each == kind),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
                false
            }
        }
    }

    /// Returns the values of an enumeration.
    pub fn words(self) -> Option<Vec<&'static Value>> {
        if let Some(words) = self.schema.get("enum").and_then(Value::as_array) {
            return Some(words.iter().collect());
        }
        if let Some(word) = self.schema.get("const") {
            return Some(vec![word]);
        }
        let alternatives = self.schema.get("oneOf")?.as_array()?;
        Some(alternatives.iter().filter_map(|alternative| alternative.get("const")).collect())
    }

    /// Returns the type's documentation.
    pub fn description(self) -> Option<&'static str> {
        self.schema.get("description").and_then(Value::as_str)
    }

    /// Returns the default of the value with this key.
    pub fn default_of(self, key: &str) -> Option<&'static Value> {
        self.properties()?.get(key)?.get("default").filter(|value| !value.is_null())
    }
}
