//! Adapts AICR's values to the rules of recipes. Omits, with a warning, values that have no effect
//! or that the bundle must set itself. Moves values that a recipe sets elsewhere. The rules then
//! check the rest like any other recipe.

use serde_json::{Map, Value as Json};

use super::AicrOptions;
use super::replaced_keys;
use crate::overrides::insert;
use crate::rules::advice::KeyAdviser;
use crate::rules::{rollout, secrets};
use crate::schema::unquoted;
use catalog::keys::ChartKeys;
use catalog::model::ComponentVersion;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::path::KeyPath;
use diagnostics::source::{SourceSpan, SourceTexts};
use diagnostics::tree::{MapEntry, YamlNode, YamlValue};

/// An adapted tree.
#[derive(Clone, Debug)]
pub struct AdaptedValues {
    /// The tree.
    pub tree: YamlNode,
    /// A layer with all moved values; `None` if there are none.
    pub moved: Option<YamlNode>,
}

/// Adapts the values of all components that come from AICR.
pub fn adapt_values(
    mut tree: YamlNode,
    sources: &SourceTexts,
    options: &AicrOptions,
    findings: &mut Vec<Diagnostic>,
) -> AdaptedValues {
    let mut moves = Vec::new();
    if let Some(components) = get_mut(&mut tree, "components")
        && let YamlValue::List(items) = &mut components.value
    {
        for item in items {
            let name = item.get("name").and_then(YamlNode::text).unwrap_or_default().to_owned();
            let written = item.get("version").and_then(YamlNode::text).map(str::to_owned);
            let has_manifests = item.get("manifests").is_some();
            let Some(values) = get_mut(item, "values") else { continue };
            let known = catalog::component(&name);
            let version = known.and_then(|known| {
                known.version(written.as_deref().unwrap_or(&known.default_version))
            });
            let keys = known
                .zip(version)
                .and_then(|(known, version)| ChartKeys::of_version(known, version));
            let mut component = ValuesAdapter {
                name: &name,
                version,
                keys,
                has_manifests,
                sources,
                options,
                findings,
                moves: &mut moves,
            };
            component.map(&KeyPath::default(), values, keys);
        }
    }
    let mut layer = None;
    for ValueMove { path, node, key_origin, dead } in moves {
        if let Some(there) = tree.get_path(&path) {
            Diagnostic::warning(format!("`{dead}` is omitted, because `{path}` is also set"))
                .at(key_origin)
                .related(there.origin, "this value applies")
                .report(findings);
            continue;
        }
        insert(&mut tree, path.keys(), node.clone(), key_origin, &[]);
        insert(layer.get_or_insert_with(|| empty(key_origin)), path.keys(), node, key_origin, &[]);
    }
    AdaptedValues { tree, moved: layer }
}

fn get_mut<'a>(node: &'a mut YamlNode, key: &str) -> Option<&'a mut YamlNode> {
    let YamlValue::Map(entries) = &mut node.value else { return None };
    entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
}

fn empty(origin: SourceSpan) -> YamlNode {
    YamlNode { value: YamlValue::Map(Vec::new()), origin }
}

/// A value that moves to another path.
struct ValueMove {
    path: KeyPath,
    node: YamlNode,
    key_origin: SourceSpan,
    dead: KeyPath,
}

struct ValuesAdapter<'a> {
    name: &'a str,
    /// `None` if the catalog does not have the version.
    version: Option<&'a ComponentVersion>,
    /// `None` if the chart's keys are unknown.
    keys: Option<&'a ChartKeys>,
    /// Whether manifests of the component may read the values that its chart does not read.
    has_manifests: bool,
    sources: &'a SourceTexts,
    options: &'a AicrOptions,
    findings: &'a mut Vec<Diagnostic>,
    moves: &'a mut Vec<ValueMove>,
}

impl ValuesAdapter<'_> {
    fn map(&mut self, path: &KeyPath, node: &mut YamlNode, keys: Option<&ChartKeys>) {
        let YamlValue::Map(entries) = &mut node.value else { return };
        entries.retain_mut(|entry| {
            let inner = path.child(&entry.key);
            if !self.sources.is_foreign(entry.key_origin.source) {
                // Another recipe may extend AICR's, but keys below this one may still come from
                // AICR.
                self.map(&inner, &mut entry.node, keys.and_then(|keys| keys.child(&entry.key)));
                return true;
            }
            self.keep(path, &inner, entry, keys)
        });
    }

    fn keep(
        &mut self,
        path: &KeyPath,
        inner: &KeyPath,
        entry: &mut MapEntry,
        keys: Option<&ChartKeys>,
    ) -> bool {
        if self.is_secret(inner, entry)
            || self.is_of_the_bundle(inner, entry)
            || self.is_policy(inner, entry)
        {
            return false;
        }
        self.version_as_number(inner, entry);
        let child = keys.and_then(|keys| keys.child(&entry.key));
        if let (Some(keys), None) = (keys, child)
            && self.is_dead(path, inner, entry, keys)
        {
            return false;
        }
        let had = !entry.node.entries().is_empty();
        self.map(inner, &mut entry.node, child);
        !had || !entry.node.entries().is_empty()
    }

    fn is_dead(
        &mut self,
        path: &KeyPath,
        inner: &KeyPath,
        entry: &MapEntry,
        keys: &ChartKeys,
    ) -> bool {
        let (Some(version), Some(all)) = (self.version, self.keys) else { return false };
        if keys.is_open() || inner.equals(&["rollout"]) {
            return false;
        }
        if self.has_manifests {
            let keys = ["components", self.name, "manifestValues"].map(str::to_owned);
            self.moves.push(ValueMove {
                path: keys.iter().chain(inner.keys()).cloned().collect(),
                node: entry.node.clone(),
                key_origin: entry.key_origin,
                dead: inner.clone(),
            });
        }
        let what = format!(
            "`{inner}` of `{}` is omitted, because the chart {} does not read it",
            self.name, version.version
        );
        let replacement = replaced_keys::replacement_of(self.name, &inner.to_string());
        let moved = replacement.and_then(|row| {
            Some((row.live.iter().copied().collect::<KeyPath>(), (row.value)(&entry.node.value)?))
        });
        match moved {
            Some((live, value)) if self.options.fix_dead_keys => {
                let shown = YamlNode { value: value.clone(), origin: entry.node.origin }.to_json();
                Diagnostic::warning(format!(
                    "`{inner}` of `{}` is replaced with `{live}: {}`",
                    self.name,
                    unquoted(&shown)
                ))
                .at(entry.key_origin)
                .report(self.findings);
                let node = YamlNode { value, origin: entry.node.origin };
                self.moves.push(ValueMove {
                    path: live,
                    node,
                    key_origin: entry.key_origin,
                    dead: inner.clone(),
                });
            }
            Some((live, value)) => {
                let shown = unquoted(&YamlNode { value, origin: entry.node.origin }.to_json());
                Diagnostic::warning(what)
                    .at(entry.key_origin)
                    .hint(format!(
                        "`{live}: {shown}` has the intended effect; `--fix-dead-keys` sets it"
                    ))
                    .report(self.findings);
            }
            None => {
                let hint = KeyAdviser { component: self.name, version, all }
                    .advice(path, &entry.key, keys);
                Diagnostic::warning(what).at(entry.key_origin).hint(hint).report(self.findings);
            }
        }
        true
    }

    /// Omits secrets, which values must not contain. It is only a warning, because AICR repeats
    /// defaults of charts that look like secrets.
    fn is_secret(&mut self, inner: &KeyPath, entry: &MapEntry) -> bool {
        let Some(why) = secrets::entry(&entry.key, &entry.node) else { return false };
        Diagnostic::warning(format!(
            "`{inner}` of `{}` {why}, and is omitted, because values must not contain secrets",
            self.name
        ))
        .at(entry.key_origin)
        .secret()
        .hint("put it into a Kubernetes Secret, and name the Secret where the chart accepts a name")
        .report(self.findings);
        true
    }

    /// Omits values that differ from those that every bundle sets.
    fn is_of_the_bundle(&mut self, inner: &KeyPath, entry: &MapEntry) -> bool {
        let set: Option<&Map<String, Json>> = self.version.map(|version| &version.bundle_values);
        let Some(value) = set.and_then(|set| set.get(&inner.to_string())) else { return false };
        if entry.node.to_json() == *value {
            return false;
        }
        Diagnostic::warning(format!(
            "`{inner}` of `{}` is omitted, because every bundle sets it to {value}",
            self.name
        ))
        .at(entry.key_origin)
        .hint("a bundle deploys the CRDs itself, and keeps them up to date")
        .report(self.findings);
        true
    }

    /// Moves the upgrade policy into the recipe's `rollout`, which sets the same values.
    fn is_policy(&mut self, inner: &KeyPath, entry: &MapEntry) -> bool {
        if !entry.node.entries().is_empty() {
            return false;
        }
        let Some(path) = rollout::policy_of(self.name, inner) else { return false };
        let node = YamlNode {
            value: replaced_keys::policy_value(&entry.key, &entry.node.value),
            origin: entry.node.origin,
        };
        self.moves.push(ValueMove {
            path,
            node,
            key_origin: entry.key_origin,
            dead: inner.clone(),
        });
        true
    }

    /// Reports a version without quotes that YAML has changed: `570.10` is read as 570.1.
    fn version_as_number(&mut self, inner: &KeyPath, entry: &MapEntry) {
        let key = entry.key.to_ascii_lowercase();
        if let YamlValue::Number(number) = &entry.node.value
            && number.is_f64()
            && (key.ends_with("version") || key.ends_with("tag"))
        {
            let written = self.sources.written(entry.node.origin);
            Diagnostic::error(format!("`{inner}` of `{}`: expected a string, and `{written}` without quotes is the number {number}", self.name))
                .at(entry.node.origin)
                .hint(format!("quote it: `\"{written}\"`"))
                .report(self.findings);
        }
    }
}
