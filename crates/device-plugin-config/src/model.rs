//! A configuration as the plugin understands it, after reading and before the environment is added.

use std::collections::BTreeMap;

use super::keys::IMEX_CHANNELS;
use super::name::ResourceName;
use diagnostics::source::SourceSpan;

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginConfig {
    /// Single settings (everything below `flags` and `imex`) by their path in the table of keys.
    pub settings: BTreeMap<&'static str, ConfigSetting>,
    /// `sharing.timeSlicing`.
    pub time_slicing: Option<ResourceSharing>,
    /// `sharing.mps`.
    pub mps: Option<ResourceSharing>,
}

/// One setting and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigSetting {
    /// What is set.
    pub value: SettingValue,
    /// Where.
    pub origin: SourceSpan,
}

/// What a setting can be.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    /// A text.
    Text(String),
    /// A boolean.
    Switch(bool),
    /// A list of texts.
    Texts(Vec<String>),
    /// A list of whole numbers.
    Wholes(Vec<i64>),
    /// How long GPU feature discovery sleeps.
    Sleep(SleepInterval),
}

/// How long GPU feature discovery sleeps between two looks at the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SleepInterval {
    /// Seconds, from a text with a unit.
    Seconds(f64),
    /// A number without a unit.
    Nanoseconds(f64),
    /// For ever.
    Infinite,
}

/// How resources are shared: one strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSharing {
    /// Whether they are offered as `<name>.shared`.
    pub rename_by_default: bool,
    /// Whether a container may ask for one at most.
    pub fail_requests_greater_than_one: Option<bool>,
    /// What is shared; at least one.
    pub resources: Vec<SharedResource>,
}

/// One shared resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedResource {
    /// Which.
    pub name: ResourceName,
    /// Where its name stands.
    pub origin: SourceSpan,
    /// How often each device is offered, from 2 on.
    pub replicas: i64,
    /// Where that number stands.
    pub replicas_origin: SourceSpan,
}

impl PluginConfig {
    /// The strategy that counts: MPS wins as soon as it is there.
    pub fn sharing(&self) -> Option<&ResourceSharing> {
        self.mps.as_ref().or(self.time_slicing.as_ref())
    }

    /// What the file sets at this path of the table.
    pub fn value(&self, path: &str) -> Option<&SettingValue> {
        self.settings.get(path).map(|setting| &setting.value)
    }

    /// The channels of IMEX, if the file sets them.
    pub fn imex_channels(&self) -> Option<&[i64]> {
        if let Some(SettingValue::Wholes(channels)) = self.value(IMEX_CHANNELS) {
            Some(channels)
        } else {
            None
        }
    }
}
