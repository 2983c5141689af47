//! Computes the settings that the plugin starts with: the environment overrides the file, and the
//! file overrides the defaults. Also determines whether the plugin starts.

use serde::Serialize;
use strum::IntoStaticStr;

use super::environment::{EnvironmentVariable, PluginEnvironment};
use super::keys;
use super::model::{PluginConfig, ResourceSharing, SettingValue};
use super::version::PluginVersion;
use diagnostics::source::SourceSpan;

/// The settings that the plugin starts with.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveConfig {
    /// `none`, `single` or `mixed`.
    pub mig_strategy: String,
    /// Whether the plugin fails if it cannot start.
    pub fail_on_init_error: bool,
    /// How the plugin passes devices to the container runtime.
    pub device_list_strategy: Vec<String>,
    /// How the plugin names devices to the container runtime.
    #[serde(rename = "deviceIDStrategy")]
    pub device_id_strategy: String,
    /// Whether the plugin passes device nodes to the kubelet.
    pub pass_device_specs: bool,
    /// How the plugin selects the next shared device; since 0.20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_devices_allocation_policy: Option<String>,
    /// How resources are shared.
    pub sharing_strategy: SharingStrategy,
    /// Whether a container may request at most one shared device; `None` if it is not set, so that
    /// it may request more.
    pub fail_requests_greater_than_one: Option<bool>,
    /// The shared resources, in the order of the file.
    pub advertised: Vec<AdvertisedResource>,
    /// IMEX channels.
    pub imex: ImexChannels,
}

/// A way to share devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum SharingStrategy {
    /// A device belongs to one container.
    None,
    /// Containers share a device by time-slicing.
    TimeSlicing,
    /// Containers share through NVIDIA's Multi-Process Service.
    Mps,
}

impl SharingStrategy {
    fn from_config(config: &PluginConfig) -> Self {
        match (&config.mps, &config.time_slicing) {
            (Some(_), _) => Self::Mps,
            (None, Some(_)) => Self::TimeSlicing,
            (None, None) => Self::None,
        }
    }

    /// Returns the name in the node's label.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A shared resource that the node offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdvertisedResource {
    /// The name of the devices.
    pub from: String,
    /// The name of the offered resource.
    #[serde(rename = "as")]
    pub name: String,
    /// How often each device is offered.
    pub replicas: i64,
}

/// IMEX channels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImexChannels {
    /// The channels.
    #[serde(rename = "channelIDs", skip_serializing_if = "Vec::is_empty")]
    pub channel_ids: Vec<i64>,
    /// Whether containers require the channels.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

/// Why the plugin does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfig {
    /// The plugin's message.
    pub message: String,
    /// The position in the file that causes it; `None` if the environment does.
    pub origin: Option<SourceSpan>,
    /// The setting's path.
    pub path: &'static str,
}

impl InvalidConfig {
    fn new(path: &'static str, origin: Option<SourceSpan>, message: impl Into<String>) -> Self {
        Self { message: message.into(), origin, path }
    }

    fn from_variable(path: &'static str, variable: &EnvironmentVariable, kind: &str) -> Self {
        let EnvironmentVariable { name, value, .. } = variable;
        Self::new(
            path,
            None,
            format!(
                "could not parse \"{value}\" as {kind} value from environment variable \"{name}\""
            ),
        )
    }
}

/// A value and its origin.
pub(super) struct ResolvedSetting<T> {
    pub(super) value: T,
    origin: Option<SourceSpan>,
}

/// Resolves settings like the plugin: the environment first.
pub(super) struct SettingResolver<'a> {
    pub(super) config: &'a PluginConfig,
    pub(super) environment: &'a PluginEnvironment,
}

/// Computes the effective settings, and checks them in the plugin's order.
///
/// # Errors
/// Why the plugin does not start.
pub fn effective(
    config: &PluginConfig,
    version: PluginVersion,
    environment: &PluginEnvironment,
) -> Result<EffectiveConfig, InvalidConfig> {
    let resolve = SettingResolver { config, environment };
    let list = resolve.texts(keys::DEVICE_LIST_STRATEGY);
    let id = resolve.text(keys::DEVICE_ID_STRATEGY);
    let mig = resolve.text(keys::MIG_STRATEGY);
    let discovery = resolve.text(keys::DISCOVERY_STRATEGY);
    let policy = (keys::key(keys::SHARED_POLICY).since <= version)
        .then(|| resolve.text(keys::SHARED_POLICY));
    let fail_on_init_error = resolve.switch(keys::FAIL_ON_INIT_ERROR)?;
    let pass_device_specs = resolve.switch(keys::PASS_DEVICE_SPECS)?;
    let imex = resolve.imex()?;

    list.check_words(
        keys::DEVICE_LIST_STRATEGY,
        "invalid --device-list-strategy option: invalid strategy: ",
    )?;
    id.check_word(keys::DEVICE_ID_STRATEGY, "invalid --device-id-strategy option: ")?;
    if let Some(policy) = &policy {
        policy.check_word(
            keys::SHARED_POLICY,
            "invalid --shared-devices-allocation-policy option: ",
        )?;
    }
    resolve.check_mps(&mig)?;
    discovery
        .check_word(keys::DISCOVERY_STRATEGY, "invalid --device-discovery-strategy option ")?;
    mig.check_word(keys::MIG_STRATEGY, "unknown MIG strategy: ")?;
    imex.check_channels()?;
    let sharing = config.sharing();
    Ok(EffectiveConfig {
        mig_strategy: mig.value,
        fail_on_init_error,
        device_list_strategy: list.value,
        device_id_strategy: id.value,
        pass_device_specs,
        shared_devices_allocation_policy: policy.map(|policy| policy.value),
        sharing_strategy: SharingStrategy::from_config(config),
        fail_requests_greater_than_one: sharing
            .and_then(|shared| fails_larger_requests(config, shared, version)),
        advertised: sharing.map(advertised).unwrap_or_default(),
        imex: imex.value,
    })
}

/// Whether requests for more than one device fail. With MPS, they do by default, and before 0.20
/// always.
fn fails_larger_requests(
    config: &PluginConfig,
    shared: &ResourceSharing,
    version: PluginVersion,
) -> Option<bool> {
    match config.mps {
        Some(_) if version < PluginVersion::minor(20) => Some(true),
        Some(_) => Some(shared.fail_requests_greater_than_one.unwrap_or(true)),
        None => shared.fail_requests_greater_than_one,
    }
}

/// Returns the resources that the node offers. The plugin ignores the user's own names.
fn advertised(shared: &ResourceSharing) -> Vec<AdvertisedResource> {
    let offer = |resource: &super::model::SharedResource| AdvertisedResource {
        from: resource.name.to_string(),
        name: if shared.rename_by_default {
            resource.name.shared()
        } else {
            resource.name.to_string()
        },
        replicas: resource.replicas,
    };
    shared.resources.iter().map(offer).collect()
}

fn check_word(
    path: &'static str,
    word: &str,
    origin: Option<SourceSpan>,
    refusal: &str,
) -> Result<(), InvalidConfig> {
    if keys::key(path).words.contains(&word) {
        Ok(())
    } else {
        Err(InvalidConfig::new(path, origin, format!("{refusal}{word}")))
    }
}

impl ResolvedSetting<String> {
    fn check_word(&self, path: &'static str, refusal: &str) -> Result<(), InvalidConfig> {
        check_word(path, &self.value, self.origin, refusal)
    }
}

impl ResolvedSetting<Vec<String>> {
    fn check_words(&self, path: &'static str, refusal: &str) -> Result<(), InvalidConfig> {
        self.value.iter().try_for_each(|word| check_word(path, word, self.origin, refusal))
    }
}

impl ResolvedSetting<ImexChannels> {
    fn check_channels(&self) -> Result<(), InvalidConfig> {
        let channels = &self.value.channel_ids;
        if matches!(channels[..], [] | [0]) {
            return Ok(());
        }
        let found = channels.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let message = format!(
            "invalid IMEX channel IDs: invalid IMEX config: channelIDs must be [] or [0]; found [{found}]"
        );
        Err(InvalidConfig::new(keys::IMEX_CHANNELS, self.origin, message))
    }
}

impl SettingResolver<'_> {
    /// Checks the settings that MPS excludes or requires.
    fn check_mps(&self, mig: &ResolvedSetting<String>) -> Result<(), InvalidConfig> {
        if self.config.mps.is_none() {
            return Ok(());
        }
        if mig.value == "mixed" {
            return Err(InvalidConfig::new(
                keys::MIG_STRATEGY,
                mig.origin,
                "using --mig-strategy=mixed is not supported with MPS",
            ));
        }
        if self.text(keys::MPS_ROOT).value.is_empty() {
            return Err(InvalidConfig::new(
                keys::MPS_ROOT,
                None,
                "using MPS requires --mps-root to be specified",
            ));
        }
        Ok(())
    }

    fn variable(&self, path: &str) -> Option<&EnvironmentVariable> {
        self.environment.first(keys::key(path).environment)
    }

    fn origin(&self, path: &str) -> Option<SourceSpan> {
        self.config.settings.get(path).map(|setting| setting.origin)
    }

    pub(super) fn text(&self, path: &'static str) -> ResolvedSetting<String> {
        if let Some(variable) = self.variable(path) {
            return ResolvedSetting { value: variable.value.clone(), origin: None };
        }
        if let Some(SettingValue::Text(text)) = self.config.value(path) {
            return ResolvedSetting { value: text.clone(), origin: self.origin(path) };
        }
        ResolvedSetting { value: keys::key(path).default.to_owned(), origin: None }
    }

    /// Resolves a list of strings. Variables separate items with commas; in a file, `a,b` is one
    /// item.
    fn texts(&self, path: &'static str) -> ResolvedSetting<Vec<String>> {
        if let Some(variable) = self.variable(path) {
            return ResolvedSetting {
                value: variable.value.split(',').map(|item| item.trim().to_owned()).collect(),
                origin: None,
            };
        }
        if let Some(SettingValue::Texts(texts)) = self.config.value(path) {
            return ResolvedSetting { value: texts.clone(), origin: self.origin(path) };
        }
        ResolvedSetting { value: vec![keys::key(path).default.to_owned()], origin: None }
    }

    fn switch(&self, path: &'static str) -> Result<bool, InvalidConfig> {
        if let Some(variable) = self.variable(path) {
            return go_bool(variable)
                .ok_or_else(|| InvalidConfig::from_variable(path, variable, "bool"));
        }
        if let Some(SettingValue::Switch(flag)) = self.config.value(path) {
            return Ok(*flag);
        }
        Ok(keys::key(path).default == "true")
    }

    fn imex(&self) -> Result<ResolvedSetting<ImexChannels>, InvalidConfig> {
        let path = keys::IMEX_CHANNELS;
        let (channel_ids, origin) = match self.variable(path) {
            Some(variable) => {
                let items: Result<Vec<i64>, _> =
                    variable.value.split(',').map(|item| item.trim().parse()).collect();
                (
                    items.map_err(|_| InvalidConfig::from_variable(path, variable, "int slice"))?,
                    None,
                )
            }
            None => (self.config.imex_channels().unwrap_or_default().to_vec(), self.origin(path)),
        };
        Ok(ResolvedSetting {
            value: ImexChannels { channel_ids, required: self.switch(keys::IMEX_REQUIRED)? },
            origin,
        })
    }
}

/// Parses a boolean like Go. An empty variable is false.
fn go_bool(variable: &EnvironmentVariable) -> Option<bool> {
    match variable.value.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
