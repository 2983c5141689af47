//! Checks of custom resources against the schema of their CRD. The API server silently drops fields
//! that the CRD does not have.

use serde_json::Value as Json;

use super::ofed::POLICY_KIND;
use super::{KnownComponent, RuleTarget};
use crate::schema::unquoted;
use catalog::model::CustomResource;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::nearest::did_you_mean;
use diagnostics::path::KeyPath;
use diagnostics::tree::{MapEntry, YamlNode, YamlValue};
use diagnostics::words::{first_in_backticks, in_backticks};

/// Checks the custom resources of all components of the catalog.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.known {
        let Some(resources) = subject.node_at(&["components", component.name, "customResources"])
        else {
            continue;
        };
        let version = component.entry.closest_version(component.number);
        for entry in resources.entries() {
            let Some(resource) =
                version.custom_resources.iter().find(|resource| resource.kind == entry.key)
            else {
                findings.push(unknown_kind(component, entry));
                continue;
            };
            if !entry.node.is_map() {
                Diagnostic::error(format!(
                    "`{}`: expected a map (the `spec` of the resource), found {}",
                    entry.key,
                    entry.node.kind()
                ))
                .at(entry.key_origin)
                .report(findings);
                continue;
            }
            match component.version.and_then(|version| component.entry.schema(version, resource)) {
                Some(schema) => {
                    let mut check = CustomResourceCheck { subject, component, resource, findings };
                    check.node(&KeyPath::default(), &entry.node, &schema);
                }
                None => Diagnostic::warning(format!(
                    "the fields of this {} are not checked: the catalog does not have its schema for `{} {}`",
                    entry.key, component.name, component.number
                ))
                .lint(Lint::Unchecked)
                .at(entry.key_origin)
                .report(findings),
            }
        }
    }
}

fn unknown_kind(component: &KnownComponent<'_>, entry: &MapEntry) -> Diagnostic {
    let version = component.entry.closest_version(component.number);
    let kinds: Vec<&str> =
        version.custom_resources.iter().map(|resource| resource.kind.as_str()).collect();
    let message =
        format!("`{} {}` has no custom resource `{}`", component.name, component.number, entry.key);
    let hint = did_you_mean(&entry.key, kinds.iter().copied()).unwrap_or_else(|| {
        if !kinds.is_empty() {
            format!("its custom resources: {}", kinds.join(", "))
        } else if entry.key == POLICY_KIND {
            "this chart renders it: set `deployCR: true` and its fields in `values` (`ofedDriver: {deploy: true}`, …)".to_owned()
        } else {
            "remove it: this component is configured only in `values`".to_owned()
        }
    });
    Diagnostic::error(message).at(entry.key_origin).hint(hint)
}

struct CustomResourceCheck<'a> {
    subject: &'a RuleTarget<'a>,
    component: &'a KnownComponent<'a>,
    resource: &'a CustomResource,
    findings: &'a mut Vec<Diagnostic>,
}

impl CustomResourceCheck<'_> {
    fn node(&mut self, path: &KeyPath, node: &YamlNode, schema: &Json) {
        let says = |key: &str| schema.get(key) == Some(&Json::Bool(true));
        if node.is_null() || says("x-kubernetes-preserve-unknown-fields") {
            return;
        }
        let kind = schema.get("type").and_then(Json::as_str).unwrap_or_default();
        match (&node.value, kind) {
            (YamlValue::Map(entries), "object") => self.map(path, node, entries, schema),
            (YamlValue::List(items), "array") => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(inner) = schema.get("items") {
                        self.node(&path.child(index.to_string()), item, inner);
                    }
                }
            }
            (YamlValue::String(_) | YamlValue::Number(_), _)
                if says("x-kubernetes-int-or-string") => {}
            (YamlValue::String(_), "string")
            | (YamlValue::Bool(_), "boolean")
            | (YamlValue::Number(_), "number") => {
                self.scalar(path, node, schema);
            }
            (YamlValue::Number(_), "integer") if node.to_json().is_i64() => {
                self.scalar(path, node, schema);
            }
            (_, "") => {}
            _ => self.wrong_type(path, node, kind),
        }
    }

    fn map(&mut self, path: &KeyPath, node: &YamlNode, entries: &[MapEntry], schema: &Json) {
        let properties = schema.get("properties").and_then(Json::as_object);
        for entry in entries {
            let inner = path.child(&entry.key);
            match (
                properties.and_then(|properties| properties.get(&entry.key)),
                schema.get("additionalProperties"),
            ) {
                (Some(property), _) => self.node(&inner, &entry.node, property),
                (None, Some(others)) => self.node(&inner, &entry.node, others),
                (None, None) if properties.is_none() => {}
                (None, None) => {
                    let names: Vec<&str> = properties
                        .into_iter()
                        .flat_map(|properties| properties.keys().map(String::as_str))
                        .collect();
                    self.unknown(&inner, entry, &names);
                }
            }
        }
        for key in schema
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
        {
            if node.get(key).is_none_or(YamlNode::is_null) && !self.is_mapped(&path.child(key)) {
                Diagnostic::error(format!(
                    "`{}` is missing: {} requires it",
                    path.child(key),
                    self.resource.kind
                ))
                .at(self.place(path))
                .hint(format!("add `{key}: …`"))
                .report(self.findings);
            }
        }
    }

    /// Whether the bundle sets the field.
    fn is_mapped(&self, path: &KeyPath) -> bool {
        let version = self
            .subject
            .recipe
            .rollout
            .ofed_driver
            .as_ref()
            .and_then(|driver| driver.version.as_ref());
        self.resource.kind == POLICY_KIND
            && path.equals(&["ofedDriver", "version"])
            && version.is_some()
    }

    fn place(&self, path: &KeyPath) -> diagnostics::source::SourceSpan {
        let mut keys =
            vec!["components", self.component.name, "customResources", &self.resource.kind];
        keys.extend(path.keys().iter().map(String::as_str));
        self.subject.place(&keys)
    }

    fn unknown(&mut self, path: &KeyPath, entry: &MapEntry, names: &[&str]) {
        if path.equals(&["spec"]) {
            Diagnostic::error(format!(
                "`customResources.{}` is already the content of `spec`",
                self.resource.kind
            ))
            .lint(Lint::UnknownField)
            .at(entry.key_origin)
            .hint("remove `spec`, and write its fields directly")
            .report(self.findings);
            return;
        }
        let advice = self.resource.obsolete_fields.get(&path.to_string()).cloned();
        let hint =
            advice.or_else(|| did_you_mean(&entry.key, names.iter().copied())).unwrap_or_else(
                || format!("known fields: {}", first_in_backticks(names.iter().copied())),
            );
        let (kind, component) = (&self.resource.kind, self.component);
        Diagnostic::error(format!(
            "{kind} of `{} {}` has no field `{path}`: the API server would drop it",
            component.name, component.number
        ))
        .lint(Lint::UnknownField)
        .at(entry.key_origin)
        .hint(hint)
        .report(self.findings);
    }

    fn scalar(&mut self, path: &KeyPath, node: &YamlNode, schema: &Json) {
        let written = node.to_json();
        if let Some(words) = schema.get("enum").and_then(Json::as_array)
            && !words.contains(&written)
        {
            Diagnostic::error(format!(
                "`{path}`: expected one of {}",
                in_backticks(words.iter().map(unquoted))
            ))
            .lint(Lint::UnknownValue)
            .at(node.origin)
            .report(self.findings);
        }
        if let (Some(least), Some(found)) =
            (schema.get("minimum").and_then(Json::as_f64), written.as_f64())
            && found < least
        {
            Diagnostic::error(format!("`{path}` must be at least {least}"))
                .lint(Lint::UnknownValue)
                .at(node.origin)
                .report(self.findings);
        }
    }

    fn wrong_type(&mut self, path: &KeyPath, node: &YamlNode, kind: &str) {
        let expected = match kind {
            "object" => "a map",
            "array" => "a list",
            "string" => "a string",
            "integer" => "an integer",
            "boolean" => "`true` or `false`",
            other => other,
        };
        let written = self.subject.sources.written(node.origin);
        let hint = match (&node.value, kind) {
            (YamlValue::Number(_) | YamlValue::Bool(_), "string") => {
                Some(format!("quote it: `\"{written}\"`"))
            }
            (YamlValue::String(text), "integer" | "boolean")
                if text.parse::<i64>().is_ok() || text.parse::<bool>().is_ok() =>
            {
                Some(format!("remove the quotes: `{text}`"))
            }
            _ => None,
        };
        let place = if node.is_collection() { self.place(path) } else { node.origin };
        Diagnostic::error(format!("`{path}`: expected {expected}, found {}", node.kind()))
            .lint(Lint::WrongType)
            .at(place)
            .maybe_hint(hint)
            .report(self.findings);
    }
}
