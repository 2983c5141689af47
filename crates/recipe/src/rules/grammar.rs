//! Checks every string of a recipe against the grammar that the schema names for it.

use super::RuleTarget;
use crate::schema::TypeShape;
use contract::grammar::{Grammar, grammar, shown};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::path::KeyPath;
use diagnostics::source::SourceSpan;
use diagnostics::tree::{YamlNode, YamlValue};

/// Grammars whose strings have a separate rule with a better message.
const BY_RULE: [&str; 4] = ["driverVersion", "chartRepository", "configName", "gitRepository"];

/// Checks the whole recipe.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    node(&KeyPath::default(), subject.tree, TypeShape::recipe(), findings);
}

fn node(path: &KeyPath, node: &YamlNode, shape: TypeShape, findings: &mut Vec<Diagnostic>) {
    match &node.value {
        YamlValue::String(text) => {
            if let Some(grammar) = shape.grammar().and_then(grammar) {
                self::text(text, grammar, node.origin, findings);
            }
        }
        YamlValue::Map(entries) => {
            for entry in entries {
                if let Some(grammar) = shape.key_grammar().and_then(grammar) {
                    text(&entry.key, grammar, entry.key_origin, findings);
                }
                if let Some(inner) = shape.property(&entry.key).or_else(|| shape.further()) {
                    self::node(&path.child(&entry.key), &entry.node, inner, findings);
                }
            }
        }
        YamlValue::List(items) => {
            let Some(inner) = shape.items() else { return };
            for (index, item) in items.iter().enumerate() {
                let of_catalog = path.last() == Some("components")
                    && path.keys().len() == 1
                    && item.get("chart").is_none()
                    && item.get("manifests").is_none()
                    && item.get("kustomize").is_none();
                let path = path.child(index.to_string());
                // Another rule has refused names and versions that the catalog does not have, with
                // a hint.
                for entry in item.entries().iter().filter(|entry| {
                    !(of_catalog && ["name", "version"].contains(&entry.key.as_str()))
                }) {
                    // Another rule checks that these are names of the recipe's components.
                    if entry.key == "after" {
                        continue;
                    }
                    if let Some(inner) = inner.property(&entry.key) {
                        self::node(&path.child(&entry.key), &entry.node, inner, findings);
                    }
                }
                if item.entries().is_empty() {
                    self::node(&path, item, inner, findings);
                }
            }
        }
        YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) => {}
    }
}

fn text(text: &str, grammar: &Grammar, place: SourceSpan, findings: &mut Vec<Diagnostic>) {
    if !BY_RULE.contains(&grammar.name) && !(grammar.fits)(text) {
        let reason =
            grammar.reason(text).map_or_else(String::new, |reason| format!(": {}", shown(&reason)));
        Diagnostic::error(format!("`{}` {}{reason}", shown(text), grammar.what))
            .at(place)
            .hint(grammar.hint)
            .report(findings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new string of the format needs a grammar.
    #[test]
    fn every_text_of_the_schema_has_a_grammar() {
        fn visit(path: &KeyPath, shape: TypeShape, missing: &mut Vec<String>) {
            let is_free = shape.takes("string")
                && shape.words().is_none()
                && !matches!(
                    shape.name(),
                    Some(
                        "Duration"
                            | "Count"
                            | "MaintenanceWindow"
                            | "RampShare"
                            | "AcceptanceNodes"
                    )
                );
            let known = shape.grammar().is_some_and(|name| grammar(name).is_some());
            if is_free && !known {
                missing.push(path.to_string());
            }
            let keys: Vec<&str> = shape.keys().collect();
            if keys.is_empty()
                && shape.takes("object")
                && shape.key_grammar().is_some_and(|name| grammar(name).is_none())
            {
                missing.push(format!("{path} (keys)"));
            }
            for key in keys {
                visit(&path.child(key), shape.property(key).unwrap(), missing);
            }
            if let Some(items) = shape.items() {
                visit(&path.child("0"), items, missing);
            }
            if let Some(further) = shape.further() {
                visit(&path.child("key"), further, missing);
            }
        }
        let mut missing = Vec::new();
        visit(&KeyPath::default(), TypeShape::recipe(), &mut missing);
        assert_eq!(missing, [""; 0]);
    }
}
