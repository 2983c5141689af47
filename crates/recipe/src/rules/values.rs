//! Checks of chart values: unknown keys, wrong types, and keys that the bundle sets.

use serde_json::Value as Json;

use super::advice::KeyAdviser;
use super::{KnownComponent, RuleTarget, secrets};
use catalog::keys::ChartKeys;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::nearest::did_you_mean;
use diagnostics::path::KeyPath;
use diagnostics::tree::{MapEntry, YamlNode, YamlValue};

/// The key under which the hook chart keeps its own settings in the values that it shares with the
/// component.
const HOOK_KEY: &str = "rollout";

/// Checks the values of all components of the catalog.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.known {
        let Some(values) = component.values else { continue };
        if let Some(entry) = values.entry(HOOK_KEY) {
            Diagnostic::error(format!(
                "the key `{HOOK_KEY}` in values is reserved for the bundle's hook"
            ))
            .lint(Lint::BundleValue)
            .at(entry.key_origin)
            .hint("set the rollout in the recipe's own `rollout`")
            .report(findings);
        }
        let Some(version) = component.version else { continue };
        bundle_values(subject, component, findings);
        match ChartKeys::of_version(component.entry, version) {
            Some(keys) => {
                let mut check = ValuesCheck { subject, component, all: keys, findings };
                check.map(&KeyPath::default(), values, keys);
            }
            None if values.entries().is_empty() => {}
            None => Diagnostic::warning(format!(
                "the keys of these values are not checked: the catalog does not have the keys of `{} {}`",
                component.name, version.version
            ))
            .lint(Lint::Unchecked)
            .at(subject.place(&["components", component.name, "values"]))
            .report(findings),
        }
    }
}

/// Reports values that differ from those that every bundle sets.
fn bundle_values(
    subject: &RuleTarget<'_>,
    component: &KnownComponent<'_>,
    findings: &mut Vec<Diagnostic>,
) {
    for (path, value) in component.version.iter().flat_map(|version| version.fixed_values()) {
        let keys: Vec<&str> = path.split('.').collect();
        let Some(node) = component.values.and_then(|values| values.at_keys(&keys)) else {
            continue;
        };
        if node.to_json() != *value {
            let place = [&["components", component.name, "values"], &keys[..]].concat();
            Diagnostic::error(format!("every bundle sets `{path}` to {value}"))
                .lint(Lint::BundleValue)
                .at(subject.place(&place))
                .hint("remove it: a bundle deploys CRDs itself, and keeps the names of objects that an upgrade must find again")
                .report(findings);
        }
    }
}

struct ValuesCheck<'a> {
    subject: &'a RuleTarget<'a>,
    component: &'a KnownComponent<'a>,
    all: &'a ChartKeys,
    findings: &'a mut Vec<Diagnostic>,
}

impl ValuesCheck<'_> {
    fn map(&mut self, path: &KeyPath, node: &YamlNode, keys: &ChartKeys) {
        for entry in node.entries() {
            let inner = path.child(&entry.key);
            match keys.child(&entry.key) {
                Some(child) => self.known(&inner, entry, child),
                None if keys.is_open() || (path.keys().is_empty() && entry.key == HOOK_KEY) => {}
                None => self.unknown(path, entry, keys),
            }
        }
    }

    fn known(&mut self, path: &KeyPath, entry: &MapEntry, keys: &ChartKeys) {
        if let (Some(default), false) = (keys.default(), entry.node.is_null())
            && let Some((problem, hint)) = self.mismatch(path, &entry.node, default)
        {
            let place =
                if entry.node.is_collection() { entry.key_origin } else { entry.node.origin };
            Diagnostic::error(problem)
                .lint(Lint::WrongType)
                .at(place)
                .maybe_hint(hint)
                .report(self.findings);
        } else if let Some(problem) = self.unknown_word(path, &entry.node) {
            self.findings.push(problem.lint(Lint::UnknownValue).at(entry.node.origin));
        } else if !keys.is_open() || keys.names().next().is_some() {
            self.map(path, &entry.node, keys);
        }
    }

    /// Reports a string that is not one of those that the chart, or the schema of its objects,
    /// allows.
    fn unknown_word(&self, path: &KeyPath, node: &YamlNode) -> Option<Diagnostic> {
        let words = self.component.entry.choices.get(&path.to_string())?;
        let text = node.text().filter(|text| !words.iter().any(|word| word == text))?;
        let list: Vec<String> = words
            .iter()
            .map(|word| if word.is_empty() { "`\"\"`".to_owned() } else { format!("`{word}`") })
            .collect();
        let near = did_you_mean(text, words.iter().map(String::as_str));
        Some(
            Diagnostic::error(format!(
                "`{path}`: expected one of {}, found `{text}`",
                list.join(", ")
            ))
            .maybe_hint(near),
        )
    }

    /// Returns the problem of a value whose default in the chart is `default`, and a hint.
    fn mismatch(
        &self,
        path: &KeyPath,
        node: &YamlNode,
        default: &Json,
    ) -> Option<(String, Option<String>)> {
        let kind = node.kind();
        match (default, &node.value) {
            (Json::Object(_), YamlValue::Map(_))
            | (Json::Array(_), YamlValue::List(_))
            | (Json::Null, _) => None,
            (Json::Object(_), _) => {
                Some((format!("`{path}`: the chart expects a map, found {kind}"), None))
            }
            (Json::Array(_), _) => {
                Some((format!("`{path}`: the chart expects a list, found {kind}"), None))
            }
            (_, YamlValue::Map(_) | YamlValue::List(_)) => {
                Some((format!("`{path}`: the chart expects a single value, found {kind}"), None))
            }
            (Json::Bool(_), YamlValue::String(text)) => Some((
                format!(
                    "`{path}`: expected a boolean, found a string: templates treat every string as true, even `\"false\"`"
                ),
                text.parse::<bool>().is_ok().then(|| format!("remove the quotes: `{text}`")),
            )),
            (Json::Bool(_), YamlValue::Number(_)) | (Json::Number(_), YamlValue::Bool(_)) => {
                let expected = if default.is_boolean() { "a boolean" } else { "a number" };
                Some((format!("`{path}`: expected {expected}, found {kind}"), None))
            }
            (Json::String(_), YamlValue::Number(_)) => self.number_for_text(path, node),
            (Json::String(default), YamlValue::Bool(_)) if !default.is_empty() => {
                let written = self.subject.sources.written(node.origin);
                let problem = format!(
                    "`{path}`: expected a string, and `{written}` without quotes is a boolean"
                );
                Some((problem, Some(format!("quote it: `\"{written}\"`"))))
            }
            (
                Json::Bool(_) | Json::String(_) | Json::Number(_),
                YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::String(_),
            ) => None,
        }
    }

    /// Reports a number where the chart expects a string, if YAML changes it: `580.10` without
    /// quotes is 580.1, but `3` stays 3.
    fn number_for_text(&self, path: &KeyPath, node: &YamlNode) -> Option<(String, Option<String>)> {
        let written = self.subject.sources.written(node.origin);
        let plain = written.bytes().all(|byte| byte.is_ascii_digit())
            && (written == "0" || !written.starts_with('0'));
        if plain && !matches!(path.last(), Some("version" | "tag")) {
            return None;
        }
        Some((
            format!("`{path}`: expected a string, and `{written}` without quotes is a number"),
            Some(format!("quote it: `\"{written}\"`")),
        ))
    }

    fn unknown(&mut self, path: &KeyPath, entry: &MapEntry, keys: &ChartKeys) {
        let wrong = path.child(&entry.key);
        let Some(version) = self.component.version else { return };
        let message = format!(
            "the chart `{} {}` does not read `{wrong}`",
            self.component.entry.chart, version.version
        );
        let adviser = KeyAdviser { component: self.component.name, version, all: self.all };
        let finding = Diagnostic::error(message)
            .lint(Lint::UnknownKey)
            .at(entry.key_origin)
            .hint(adviser.advice(path, &entry.key, keys));
        // The value may be on the same line.
        let is_secret = secrets::entry(&entry.key, &entry.node).is_some();
        self.findings.push(if is_secret { finding.secret() } else { finding });
    }
}
