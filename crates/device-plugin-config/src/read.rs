//! Reads a configuration from a tree like the plugin: it ignores unknown keys, uses the last of
//! duplicate keys, and stops at the first unusable value. The order is that of the plugin's decoder
//! (keys by their bytes), because it determines which of several mistakes the plugin reports.

use super::keys::{self, ConfigKey, ConfigKeyKind};
use super::model::{ConfigSetting, PluginConfig, SettingValue, SleepInterval};
use super::version::PluginVersion;
use diagnostics::source::SourceSpan;
use diagnostics::tree::{MapEntry, YamlNode, YamlValue};

mod devices;
mod go;
mod sharing;

/// A value that the plugin cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadProblem {
    /// The plugin's message.
    pub message: String,
    /// The position.
    pub origin: SourceSpan,
    /// Whether the decoder stops here. The plugin reports other problems only if no problem stops
    /// it.
    stops: bool,
}

/// A configuration, as far as it could be read.
#[derive(Clone, Debug, Default)]
pub struct ConfigReading {
    /// The settings.
    pub config: PluginConfig,
    /// The unusable values.
    pub problems: Vec<ReadProblem>,
    /// A version other than v1. The plugin checks it only after everything else could be read.
    wrong_version: Option<ReadProblem>,
}

impl ConfigReading {
    /// Returns the plugin's complete message if it refuses the file.
    pub fn refusal(&self) -> Option<String> {
        let first = self.problems.iter().find(|problem| problem.stops).or(self.problems.first());
        if let Some(problem) = first {
            return Some(refusal(&format!(
                "unmarshal error: error unmarshaling JSON: while decoding JSON: {}",
                problem.message
            )));
        }
        self.wrong_version.as_ref().map(|problem| refusal(&problem.message))
    }

    /// Returns all unusable values, the version included.
    pub fn all_problems(&self) -> impl Iterator<Item = &ReadProblem> {
        self.problems.iter().chain(&self.wrong_version)
    }
}

/// Adds the plugin's introduction to a message about a file.
pub fn refusal(reason: &str) -> String {
    format!("unable to parse config file: error parsing config file: {reason}")
}

/// Reads a document like the plugin of this version.
pub fn read(node: &YamlNode, version: PluginVersion) -> ConfigReading {
    let mut read = ConfigReader { version, reading: ConfigReading::default() };
    if node.is_map() {
        read.top(node);
    } else if !node.is_null() {
        read.note(
            node,
            format!("json: cannot unmarshal {} into Go value of type v1.Config", go::kind(node)),
        );
    }
    read.reading
}

struct ConfigReader {
    version: PluginVersion,
    reading: ConfigReading,
}

/// Returns the entries of a map in the order of the plugin's decoder; of duplicate keys, only the
/// last.
fn sorted(node: &YamlNode) -> Vec<&MapEntry> {
    let entries = node.entries();
    let is_last = |index: usize, entry: &MapEntry| {
        entries[index + 1..].iter().all(|later| later.key != entry.key)
    };
    let mut kept: Vec<&MapEntry> = entries
        .iter()
        .enumerate()
        .filter(|(index, entry)| is_last(*index, entry))
        .map(|(_, entry)| entry)
        .collect();
    kept.sort_by(|first, second| first.key.as_bytes().cmp(second.key.as_bytes()));
    kept
}

/// Returns the value of a case-sensitive key; of duplicate keys, the last.
fn last<'a>(node: &'a YamlNode, key: &str) -> Option<&'a YamlNode> {
    node.entries().iter().rev().find(|entry| entry.key == key).map(|entry| &entry.node)
}

impl ConfigReader {
    fn note(&mut self, node: &YamlNode, message: String) {
        self.reading.problems.push(ReadProblem { message, origin: node.origin, stops: false });
    }

    fn stop(&mut self, node: &YamlNode, message: impl Into<String>) {
        self.reading.problems.push(ReadProblem {
            message: message.into(),
            origin: node.origin,
            stops: true,
        });
    }

    /// Records a value of the wrong type in a struct. The decoder continues.
    fn wrong_type(&mut self, node: &YamlNode, parent: &str, key: &ConfigKey, expected: &str) {
        let message = format!(
            "json: cannot unmarshal {} into Go struct field {}.{} of type {expected}",
            go::kind(node),
            go::struct_name(parent),
            key.path
        );
        self.note(node, message);
    }

    fn top(&mut self, node: &YamlNode) {
        for entry in sorted(node) {
            let Some(key) = keys::taken_for("", &entry.key, self.version) else { continue };
            let node = &entry.node;
            match key.path {
                "version" => self.version(node, key),
                _ if node.is_null() => {}
                _ if !node.is_map() => self.wrong_type(node, "", key, go::struct_type(key.path)),
                "sharing" => self.sharing(node),
                "resources" => self.resources(node),
                parent => self.settings(node, parent),
            }
        }
    }

    /// Reads the version. Only here do numbers and booleans become strings.
    fn version(&mut self, node: &YamlNode, key: &ConfigKey) {
        let text = match &node.value {
            YamlValue::Null => return,
            YamlValue::String(text) => text.clone(),
            YamlValue::Number(number) => go::number(number),
            YamlValue::Bool(flag) => flag.to_string(),
            YamlValue::List(_) | YamlValue::Map(_) => {
                return self.wrong_type(node, "", key, "string");
            }
        };
        if !text.is_empty() && !key.words.contains(&text.as_str()) {
            self.reading.wrong_version = Some(ReadProblem {
                message: format!("unknown version: {text}"),
                origin: node.origin,
                stops: true,
            });
        }
    }

    fn settings(&mut self, node: &YamlNode, parent: &'static str) {
        for entry in sorted(node) {
            let Some(key) = keys::taken_for(parent, &entry.key, self.version) else { continue };
            let node = &entry.node;
            if node.is_null() {
                // `null` unsets the key, even if another spelling of the key has set it.
                self.reading.config.settings.remove(key.path);
                continue;
            }
            match key.kind {
                ConfigKeyKind::Map if node.is_map() => self.settings(node, key.path),
                ConfigKeyKind::Map => self.wrong_type(node, parent, key, go::struct_type(key.path)),
                ConfigKeyKind::Text => match node.text() {
                    Some(text) => self.set(key, node, SettingValue::Text(text.to_owned())),
                    None => self.wrong_type(node, parent, key, "string"),
                },
                ConfigKeyKind::Switch => match node.boolean() {
                    Some(flag) => self.set(key, node, SettingValue::Switch(flag)),
                    None => self.wrong_type(node, parent, key, "bool"),
                },
                ConfigKeyKind::Texts => self.texts(node, key),
                ConfigKeyKind::Wholes => self.wholes(node, parent, key),
                ConfigKeyKind::Duration => self.sleep(node, key),
                ConfigKeyKind::Whole | ConfigKeyKind::Maps | ConfigKeyKind::Devices => {}
            }
        }
    }

    fn set(&mut self, key: &'static ConfigKey, node: &YamlNode, value: SettingValue) {
        self.reading.config.settings.insert(key.path, ConfigSetting { value, origin: node.origin });
    }

    fn texts(&mut self, node: &YamlNode, key: &'static ConfigKey) {
        if let Some(text) = node.text() {
            return self.set(key, node, SettingValue::Texts(vec![text.to_owned()]));
        }
        // A null item stays an empty string.
        let item = |item: &YamlNode| {
            if item.is_null() { Some(String::new()) } else { item.text().map(str::to_owned) }
        };
        match node.list().and_then(|items| items.iter().map(item).collect()) {
            Some(texts) => self.set(key, node, SettingValue::Texts(texts)),
            None => self.stop(node, format!("invalid {}: {}", key.name(), go::json(node))),
        }
    }

    fn wholes(&mut self, node: &YamlNode, parent: &str, key: &'static ConfigKey) {
        let Some(items) = node.list() else { return self.wrong_type(node, parent, key, "[]int") };
        let mut wholes = Vec::new();
        for item in items {
            match go::whole(item) {
                Some(whole) => wholes.push(whole),
                None if item.is_null() => wholes.push(0),
                None => self.wrong_type(item, parent, key, "int"),
            }
        }
        self.set(key, node, SettingValue::Wholes(wholes));
    }

    fn sleep(&mut self, node: &YamlNode, key: &'static ConfigKey) {
        let sleep = match &node.value {
            YamlValue::Number(number) => {
                Ok(SleepInterval::Nanoseconds(number.as_f64().unwrap_or_default()))
            }
            YamlValue::String(text)
                if text == "infinite" && self.version >= PluginVersion::minor(19) =>
            {
                Ok(SleepInterval::Infinite)
            }
            YamlValue::String(text) => super::duration::seconds(text).map(SleepInterval::Seconds),
            YamlValue::Null | YamlValue::Bool(_) | YamlValue::List(_) | YamlValue::Map(_) => {
                Err("invalid duration".to_owned())
            }
        };
        match sleep {
            Ok(sleep) => self.set(key, node, SettingValue::Sleep(sleep)),
            Err(message) => self.stop(node, message),
        }
    }
}
