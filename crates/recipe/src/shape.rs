//! Checks the shape of a recipe: keys, types, enumerations and required keys.

use super::rules::cluster;
use super::schema::{TypeShape, unquoted};
use contract::acceptance::AcceptanceNodes;
use contract::count::Count;
use contract::duration::Duration;
use contract::proof::{RAMP_HINT, RampShare};
use contract::window::MaintenanceWindow;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::nearest::did_you_mean;
use diagnostics::path::KeyPath;
use diagnostics::source::{SourceSpan, SourceTexts};
use diagnostics::tree::{MapEntry, YamlNode, YamlValue};
use diagnostics::words::in_backticks;
pub(crate) use impossible_keys::ONE_NODE;
use impossible_keys::impossible_key;

mod impossible_keys;

/// Keys that every recipe must have itself, regardless of what it extends.
const OWN_REQUIRED: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// How to say on which nodes a test runs.
const ACCEPTANCE_NODES_HINT: &str =
    "`all` tests every node, `10%` the canaries and about a tenth of the other nodes";

/// Whether the document can be a recipe; if not, reports what it is instead.
pub(crate) fn is_recipe(node: &YamlNode, findings: &mut Vec<Diagnostic>) -> bool {
    if node.is_null() {
        Diagnostic::error("the recipe is empty")
            .at(node.origin)
            .hint("start with `apiVersion: gpu-rollout.dev/v1` and `kind: Recipe`; `gpu-rollout recipe show base` prints a complete recipe")
            .report(findings);
        return false;
    }
    if node.entries().is_empty() {
        Diagnostic::error(format!("a recipe must be a map, found {}", node.kind()))
            .at(node.origin)
            .report(findings);
        return false;
    }
    true
}

/// Checks one recipe of a graph: the shape of its keys, and the keys that it must have itself.
pub(crate) fn check_layer(node: &YamlNode, sources: &SourceTexts, findings: &mut Vec<Diagnostic>) {
    for key in OWN_REQUIRED {
        if node.get(key).is_none() {
            let written = match key {
                "metadata" => "`metadata: {name: …}`".to_owned(),
                _ => TypeShape::recipe()
                    .property(key)
                    .and_then(TypeShape::words)
                    .map_or_else(String::new, |words| format!("`{key}: {}`", unquoted(words[0]))),
            };
            Diagnostic::error(format!("`{key}` is missing"))
                .at(node.origin)
                .hint(format!("add {written}"))
                .report(findings);
        }
    }
    let mut check = ShapeCheck { sources, findings };
    check.node(&KeyPath::default(), node, TypeShape::recipe());
}

/// Checks one value of an override against the type at `path`.
pub(crate) fn check_value(
    path: &KeyPath,
    node: &YamlNode,
    shape: TypeShape,
    sources: &SourceTexts,
    findings: &mut Vec<Diagnostic>,
) {
    ShapeCheck { sources, findings }.node(path, node, shape);
}

/// Checks that the merged recipe has all required keys.
pub(crate) fn check_complete(node: &YamlNode, findings: &mut Vec<Diagnostic>) {
    complete(&KeyPath::default(), node, node.origin, TypeShape::recipe(), findings);
}

fn complete(
    path: &KeyPath,
    node: &YamlNode,
    place: SourceSpan,
    shape: TypeShape,
    findings: &mut Vec<Diagnostic>,
) {
    match &node.value {
        YamlValue::Map(entries) => {
            for key in shape.required().filter(|key| node.get(key).is_none()) {
                let description =
                    shape.property(key).and_then(TypeShape::description).unwrap_or_default();
                let what = description
                    .split_once(". ")
                    .map_or(description.trim_end_matches('.'), |(first, _)| first);
                Diagnostic::error(format!("`{}` is missing ({what})", path.child(key)))
                    .at(place)
                    .hint("add it here, or extend a recipe that has it")
                    .report(findings);
            }
            for entry in entries {
                if let Some(inner) = shape.property(&entry.key) {
                    complete(
                        &path.child(&entry.key),
                        &entry.node,
                        entry.key_origin,
                        inner,
                        findings,
                    );
                }
            }
        }
        YamlValue::List(items) => {
            for (index, item) in items.iter().enumerate() {
                if let Some(inner) = shape.items() {
                    complete(
                        &path.child(item_key(item, index)),
                        item,
                        item.origin,
                        inner,
                        findings,
                    );
                }
            }
        }
        YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::String(_) => {}
    }
}

struct ShapeCheck<'a> {
    sources: &'a SourceTexts,
    findings: &'a mut Vec<Diagnostic>,
}

impl ShapeCheck<'_> {
    fn node(&mut self, path: &KeyPath, node: &YamlNode, shape: TypeShape) {
        if node.is_null() {
            return self.null(path, node);
        }
        if let Some(words) = shape.words() {
            return self.word(path, node, &words);
        }
        match &node.value {
            YamlValue::Map(entries) if shape.takes("object") => {
                for entry in entries {
                    self.entry(path, entry, shape);
                }
            }
            YamlValue::List(items) if shape.takes("array") => self.items(path, items, shape),
            YamlValue::String(text) if shape.takes("string") => self.text(path, node, text, shape),
            YamlValue::Number(number) if shape.takes("integer") => {
                if number.as_u64().is_none_or(|number| u32::try_from(number).is_err()) {
                    let wrong = if path.equals(&["cluster", "gpuNodes"]) {
                        cluster::wrong_number(self.sources.written(node.origin))
                    } else {
                        Diagnostic::error(format!("`{path}` must be an integer of at least 0"))
                    };
                    wrong.at(node.origin).report(self.findings);
                }
            }
            YamlValue::Bool(_) if shape.takes("boolean") => {}
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Number(_)
            | YamlValue::String(_)
            | YamlValue::List(_)
            | YamlValue::Map(_) => {
                self.wrong_type(path, node, shape);
            }
        }
    }

    /// Checks a `null`, which deletes what a parent has set. Keys that every recipe must have
    /// itself cannot be deleted.
    fn null(&mut self, path: &KeyPath, node: &YamlNode) {
        let own = path.keys().first().is_some_and(|first| OWN_REQUIRED.contains(&first.as_str()));
        if own
            || path.last() == Some("name")
            || path.keys().len() == 2 && path.keys()[0] == "components"
        {
            Diagnostic::error(format!("`{path}` cannot be null"))
                .at(node.origin)
                .report(self.findings);
        }
    }

    fn word(&mut self, path: &KeyPath, node: &YamlNode, words: &[&serde_json::Value]) {
        if words.iter().any(|word| **word == node.to_json()) {
            return;
        }
        let written =
            node.text().map_or_else(|| self.sources.written(node.origin).to_owned(), str::to_owned);
        let known: Vec<String> =
            words.iter().filter(|word| word.is_string()).map(|word| unquoted(word)).collect();
        let list = in_backticks(&known);
        let near = did_you_mean(&written, known.iter().map(String::as_str));
        let subject = if node.entries().is_empty() && node.items().is_empty() {
            format!("`{written}`")
        } else {
            node.kind().to_owned()
        };
        let choice = if known.len() == 1 { list } else { format!("one of {list}") };
        Diagnostic::error(format!("`{path}`: expected {choice}, found {subject}"))
            .at(node.origin)
            .maybe_hint(near)
            .report(self.findings);
    }

    fn entry(&mut self, path: &KeyPath, entry: &MapEntry, shape: TypeShape) {
        let inner = path.child(&entry.key);
        if let Some(impossible) = impossible_key(inner.keys()) {
            Diagnostic::error(impossible.reason)
                .lint(impossible.lint)
                .at(entry.key_origin)
                .hint(impossible.instead)
                .report(self.findings);
        } else if let Some(property) = shape.property(&entry.key) {
            self.node(&inner, &entry.node, property);
        } else if shape.keys().next().is_some() {
            self.unknown_key(path, entry, shape);
        }
    }

    fn unknown_key(&mut self, path: &KeyPath, entry: &MapEntry, shape: TypeShape) {
        let place =
            if path.keys().is_empty() { "a recipe".to_owned() } else { format!("`{path}`") };
        let there = || {
            Some(format!(
                "there is `{}`",
                elsewhere(&entry.key, TypeShape::recipe(), &KeyPath::default())?
            ))
        };
        let hint = did_you_mean(&entry.key, shape.keys())
            .or_else(there)
            .unwrap_or_else(|| format!("known keys: {}", in_backticks(shape.keys())));
        Diagnostic::error(format!("{place} has no key `{}`", entry.key))
            .at(entry.key_origin)
            .hint(hint)
            .report(self.findings);
    }

    fn items(&mut self, path: &KeyPath, items: &[YamlNode], shape: TypeShape) {
        let Some(inner) = shape.items() else { return };
        for (index, item) in items.iter().enumerate() {
            let name = item.get("name").and_then(YamlNode::text);
            let earlier = items[..index].iter().find(|earlier| {
                name.is_some() && earlier.get("name").and_then(YamlNode::text) == name
            });
            if let (Some(earlier), Some(name)) = (earlier, name) {
                let origin =
                    |item: &YamlNode| item.get("name").map_or(item.origin, |name| name.origin);
                let what = match path.keys() {
                    [components] if components == "components" => "the component",
                    [.., acceptance] if acceptance == "acceptance" => "the test",
                    _ => "the entry",
                };
                Diagnostic::error(format!("{what} `{name}` is in the list twice"))
                    .at(origin(item))
                    .related(origin(earlier), "first here")
                    .hint("keep one of them")
                    .report(self.findings);
            }
            let item_path = path.child(item_key(item, index));
            if !item.entries().is_empty() {
                for key in inner.required().filter(|key| item.get(key).is_none()) {
                    Diagnostic::error(format!("this entry of `{path}` has no `{key}`"))
                        .at(item.origin)
                        .hint(format!("add `{key}: …`"))
                        .report(self.findings);
                }
            } else if item.is_null() {
                Diagnostic::error(format!("this entry of `{path}` is empty"))
                    .at(item.origin)
                    .hint("remove the dash, or add a value")
                    .report(self.findings);
                continue;
            }
            self.node(&item_path, item, inner);
        }
    }

    fn text(&mut self, path: &KeyPath, node: &YamlNode, text: &str, shape: TypeShape) {
        let problem = match shape.name() {
            Some("Duration") => {
                text.parse::<Duration>().err().map(|error| (error.to_string(), None))
            }
            Some("Count") => text.parse::<Count>().err().map(|error| (error.to_string(), None)),
            Some("MaintenanceWindow") => {
                let error = text.parse::<MaintenanceWindow>().err();
                error.map(|error| (error.to_string(), Some(error.hint())))
            }
            Some("RampShare") => {
                let error = text.parse::<RampShare>().err();
                error.map(|error| (error.to_string(), Some(RAMP_HINT)))
            }
            Some("AcceptanceNodes") => {
                let error = text.parse::<AcceptanceNodes>().err();
                error.map(|error| (error.to_string(), Some(ACCEPTANCE_NODES_HINT)))
            }
            Some(_) | None if text.is_empty() => Some(("must not be empty".to_owned(), None)),
            Some(_) | None => None,
        };
        if let Some((problem, hint)) = problem {
            Diagnostic::error(format!("`{path}`: {problem}"))
                .at(node.origin)
                .maybe_hint(hint.map(str::to_owned))
                .report(self.findings);
        }
    }

    fn wrong_type(&mut self, path: &KeyPath, node: &YamlNode, shape: TypeShape) {
        let expected = match shape.name() {
            Some("Duration") => "a duration such as `90s`, `12m` or `1h30m`",
            Some("Count") => "a number such as `3` or a percentage such as `25%`",
            Some("RampShare") => "a percentage from `1%` to `100%`",
            Some("AcceptanceNodes") => "`all`, `canaries` or a percentage such as `10%`",
            Some(_) | None if shape.takes("object") => "a map",
            Some(_) | None if shape.takes("array") => "a list",
            Some(_) | None if shape.takes("integer") => "an integer",
            Some(_) | None if shape.takes("boolean") => "`true` or `false`",
            Some(_) | None => "a string",
        };
        let written = self.sources.written(node.origin);
        let hint = match &node.value {
            YamlValue::Number(number)
                if shape.name() == Some("Duration")
                    && number.as_u64().is_some_and(|number| number > 0) =>
            {
                Some(format!("add a unit: `{written}s`, `{written}m`"))
            }
            // A unit does not help: 0 means without end or is too short, and no duration is
            // negative, has a fraction or is a boolean.
            YamlValue::Number(_) | YamlValue::Bool(_) if shape.name() == Some("Duration") => {
                Some("write a duration with a unit, such as `5m`".to_owned())
            }
            YamlValue::Number(number)
                if shape.name() == Some("RampShare")
                    && number.as_u64().is_some_and(|number| (1..=100).contains(&number)) =>
            {
                Some(format!("add a percent sign: `{written}%`"))
            }
            YamlValue::Number(_) | YamlValue::Bool(_) if shape.name() == Some("RampShare") => {
                Some(RAMP_HINT.to_owned())
            }
            YamlValue::Number(_) if shape.name() == Some("AcceptanceNodes") => {
                Some(format!("for a share of the nodes, add a percent sign; {ONE_NODE}"))
            }
            YamlValue::Number(_) | YamlValue::Bool(_) if shape.takes("string") => {
                Some(format!("quote it, so that YAML does not change it: `\"{written}\"`"))
            }
            YamlValue::String(text) if shape.takes("integer") && text.parse::<u32>().is_ok() => {
                Some(format!("remove the quotes: `{text}`"))
            }
            YamlValue::String(text) if shape.takes("boolean") && text.parse::<bool>().is_ok() => {
                Some(format!("remove the quotes: `{text}`"))
            }
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Number(_)
            | YamlValue::String(_)
            | YamlValue::List(_)
            | YamlValue::Map(_) => None,
        };
        Diagnostic::error(format!("`{path}`: expected {expected}, found {}", node.kind()))
            .at(node.origin)
            .maybe_hint(hint)
            .report(self.findings);
    }
}

/// Finds another path of the format with this key.
fn elsewhere(key: &str, shape: TypeShape, path: &KeyPath) -> Option<KeyPath> {
    for known in shape.keys() {
        let inner = path.child(known);
        if known == key {
            return Some(inner);
        }
        if let Some(found) =
            shape.property(known).and_then(|property| elsewhere(key, property, &inner))
        {
            return Some(found);
        }
    }
    let items = shape.items()?;
    elsewhere(key, items, &path.child("NAME"))
}

/// The key of a list item in paths: a component's name, otherwise the index.
fn item_key(item: &YamlNode, index: usize) -> String {
    item.get("name").and_then(YamlNode::text).map_or_else(|| index.to_string(), str::to_owned)
}
