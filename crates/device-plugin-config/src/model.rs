//! A parsed configuration, without the environment.

use std::collections::BTreeMap;

use super::keys::IMEX_CHANNELS;
use super::name::ResourceName;
use diagnostics::source::SourceSpan;

/// The settings of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginConfig {
    /// Single settings (all below `flags` and `imex`) by their path in the table of keys.
    pub settings: BTreeMap<&'static str, ConfigSetting>,
    /// `sharing.timeSlicing`.
    pub time_slicing: Option<ResourceSharing>,
    /// `sharing.mps`.
    pub mps: Option<ResourceSharing>,
}

/// One setting and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigSetting {
    /// The value.
    pub value: SettingValue,
    /// The position.
    pub origin: SourceSpan,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    /// A string.
    Text(String),
    /// A boolean.
    Switch(bool),
    /// A list of strings.
    Texts(Vec<String>),
    /// A list of integers.
    Wholes(Vec<i64>),
    /// How long GPU feature discovery sleeps.
    Sleep(SleepInterval),
}

/// How long GPU feature discovery sleeps between two checks of the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SleepInterval {
    /// Seconds, from a text with a unit.
    Seconds(f64),
    /// A number without a unit.
    Nanoseconds(f64),
    /// An infinite sleep.
    Infinite,
}

/// How resources are shared: one strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSharing {
    /// Whether the node offers the resources as `<name>.shared`.
    pub rename_by_default: bool,
    /// Whether a container may request at most one.
    pub fail_requests_greater_than_one: Option<bool>,
    /// The shared resources; at least one.
    pub resources: Vec<SharedResource>,
}

/// One shared resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedResource {
    /// The resource's name.
    pub name: ResourceName,
    /// The position of the name.
    pub origin: SourceSpan,
    /// How often each device is offered; at least 2.
    pub replicas: i64,
    /// The position of that number.
    pub replicas_origin: SourceSpan,
}

impl PluginConfig {
    /// Returns the effective strategy: MPS takes precedence.
    pub fn sharing(&self) -> Option<&ResourceSharing> {
        self.mps.as_ref().or(self.time_slicing.as_ref())
    }

    /// Returns the file's value at this path of the table.
    pub fn value(&self, path: &str) -> Option<&SettingValue> {
        self.settings.get(path).map(|setting| &setting.value)
    }

    /// Returns the IMEX channels, if the file sets them.
    pub fn imex_channels(&self) -> Option<&[i64]> {
        if let Some(SettingValue::Wholes(channels)) = self.value(IMEX_CHANNELS) {
            Some(channels)
        } else {
            None
        }
    }
}
