//! Rules for keys that the plugin ignores or reads only in some places.

use super::super::keys::{self, ConfigKey, ConfigKeyKind};
use super::super::rule::{ConfigFinding, ConfigRule};
use super::LintTarget;
use diagnostics::nearest::did_you_mean;
use diagnostics::tree::{MapEntry, YamlNode, YamlValue};
use diagnostics::words::in_backticks;

/// Checks the whole document.
pub(super) fn check(subject: &LintTarget<'_>, findings: &mut Vec<ConfigFinding>) {
    StructureCheck { subject, findings }.map(subject.node, "");
}

struct StructureCheck<'a> {
    subject: &'a LintTarget<'a>,
    findings: &'a mut Vec<ConfigFinding>,
}

impl StructureCheck<'_> {
    fn map(&mut self, node: &YamlNode, parent: &str) {
        let entries = node.entries();
        for (index, entry) in entries.iter().enumerate() {
            if let Some(first) = entries[..index].iter().find(|first| first.key == entry.key) {
                ConfigRule::DuplicateKey
                    .finding(format!(
                        "duplicate key `{}`; the plugin accepts it, and ignores the first",
                        entry.key
                    ))
                    .at(entry.key_origin)
                    .related(first.key_origin, "first here")
                    .hint("keep one of them")
                    .report(self.findings);
            }
            let exact = keys::below(parent).find(|key| key.name() == entry.key);
            match exact.or_else(|| self.other_case(parent, entry)) {
                Some(key) if key.since > self.subject.version => self.newer(entry, key),
                Some(key) => self.value(entry, key),
                None => self.unknown(parent, entry),
            }
        }
    }

    fn other_case(&mut self, parent: &str, entry: &MapEntry) -> Option<&'static ConfigKey> {
        let key = keys::below(parent).find(|key| key.name().eq_ignore_ascii_case(&entry.key))?;
        let does = if key.is_exact() {
            "here, the plugin accepts this spelling, and ignores it"
        } else {
            "here, the plugin reads this spelling; elsewhere, it ignores it"
        };
        ConfigRule::KeyCase
            .finding(format!("the key is spelled `{}`; {does}", key.name()))
            .at(entry.key_origin)
            .hint(format!("write `{}`", key.name()))
            .report(self.findings);
        Some(key)
    }

    fn newer(&mut self, entry: &MapEntry, key: &ConfigKey) {
        let version = self.subject.version;
        ConfigRule::NewerKey
            .finding(format!(
                "the device plugin {version} accepts `{}`, and ignores it; versions since {} read it",
                key.path, key.since
            ))
            .at(entry.key_origin)
            .hint("remove it, or use a newer plugin")
            .report(self.findings);
    }

    fn unknown(&mut self, parent: &str, entry: &MapEntry) {
        let place = if parent.is_empty() {
            "a configuration".to_owned()
        } else {
            format!("`{}`", parent.trim_end_matches(".[]"))
        };
        let names = || keys::below(parent).map(ConfigKey::name);
        let hint = elsewhere(&entry.key)
            .map(|there| format!("there is `{}`", there.path))
            .or_else(|| did_you_mean(&entry.key, names()))
            .unwrap_or_else(|| format!("known keys: {}", in_backticks(names())));
        ConfigRule::UnknownKey
            .finding(format!(
                "{place} has no key `{}`; the plugin accepts it, and ignores it",
                entry.key
            ))
            .at(entry.key_origin)
            .hint(hint)
            .report(self.findings);
    }

    fn value(&mut self, entry: &MapEntry, key: &ConfigKey) {
        if entry.key == "resources" && key.path == "resources"
            || key.name() == "rename"
            || key.name() == "devices"
        {
            self.ignored(entry, key);
        }
        match (key.kind, &entry.node.value) {
            (ConfigKeyKind::Map, YamlValue::Map(_)) => self.map(&entry.node, key.path),
            (ConfigKeyKind::Maps, YamlValue::List(items)) => {
                for item in items {
                    self.map(item, &format!("{}.[]", key.path));
                }
            }
            (ConfigKeyKind::Switch, YamlValue::Bool(flag)) => {
                let written = self.subject.sources.written(entry.node.origin);
                if !written.is_empty()
                    && !["true", "false"].contains(&written.to_ascii_lowercase().as_str())
                    && !written.starts_with(['*', '!', '&'])
                {
                    ConfigRule::OldBoolean
                        .finding(format!("`{written}` is a boolean in YAML 1.1; the plugin accepts it, but other programs read a string"))
                        .at(entry.node.origin)
                        .hint(format!("write `{flag}`"))
                        .report(self.findings);
                }
            }
            _ => {}
        }
    }

    /// Reports keys that the plugin ignores, unless they have the default value.
    fn ignored(&mut self, entry: &MapEntry, key: &ConfigKey) {
        if entry.node.is_null()
            || (key.name() == "devices" && entry.node.text() == Some(key.default))
        {
            return;
        }
        let instead = match key.name() {
            "rename" => {
                "to offer shared resources with another name, set `renameByDefault: true`, which appends `.shared`"
            }
            "devices" => {
                "remove it: all devices of the resource are shared; select other configurations for nodes by label"
            }
            _ => {
                "remove it: resource names are `nvidia.com/gpu` and, with the MIG strategy `mixed`, `nvidia.com/mig-<profile>`"
            }
        };
        ConfigRule::Ignored
            .finding(format!(
                "`{}` has no effect; the plugin accepts it, logs a warning, and ignores it",
                key.name()
            ))
            .at(entry.key_origin)
            .hint(instead)
            .report(self.findings);
    }
}

/// Returns the only other place of the format with this key, if there is one.
fn elsewhere(name: &str) -> Option<&'static ConfigKey> {
    let mut places = keys::KEYS.iter().filter(|key| key.name() == name);
    let first = places.next()?;
    places.next().is_none().then_some(first)
}
