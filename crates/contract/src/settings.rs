//! The settings of a hook Job: made by the hook chart from its values, read by `gpu-rollout hook run` from
//! [`crate::names::SETTINGS_ENV`]. A key that is not known is an error: an older image refuses what it does not know.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::count::Count;
use super::driver::Driver;
use super::names;
use super::policy::UpgradeSettings;
use super::preflight::PreflightSettings;
use super::task::Task;

pub use super::expected::{Expected, ExpectedNvidiaDriver, ExpectedUpgradePolicy};
pub use super::mode::Mode;

/// The format version of settings, run record and everything else that two versions of the program may share. Version 1 is what the first
/// release writes.
///
/// Settings are made by a chart for the image of its own version. A key that is not known is refused whatever the number says, so keys may
/// be added without a new one; a higher number only makes the refusal clearer ([`super::exit::ExitCode::NewerFormat`]).
///
/// The run record is read by whatever image comes next. A higher number is refused with the same code, before anything is written. With
/// the same number, or a lower one, keys that are not known are passed over and missing ones have defaults. So a key may be added without
/// a new number if a reader that passes over it does nothing wrong. A new number is needed for a key that changes its meaning or its type,
/// or goes away, and for a new word where there is a list of them ([`super::record::ReplacedPodKind`], [`super::record::NodeOutcome`]): to an older
/// reader the whole node's record would count as absent, and the node's pods could be replaced again.
pub const FORMAT_VERSION: u32 = 1;

/// What the Job waits for before it says success. Only `settled` is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// The whole cohort has an outcome.
    #[default]
    Settled,
}

/// Whether stale DRA kubelet plugins are replaced. Without quotes, YAML takes `off` for `false`: that is taken as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(with = "serde_json::Value", extend("enum" = ["auto", "off", false]))]
pub enum Reroll {
    /// Where a DRA driver is found and a plugin is stale.
    #[default]
    Auto,
    /// Never; staleness is still reported.
    Off,
}

impl<'de> Deserialize<'de> for Reroll {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_word(deserializer, "expected `auto` or `off`", |word| match word {
            WordForm::Word("auto") => Some(Self::Auto),
            WordForm::Word("off") | WordForm::Flag(false) => Some(Self::Off),
            WordForm::Word(_) | WordForm::Flag(true) => None,
        })
    }
}

/// A word, or what YAML makes of one without quotes.
enum WordForm<'a> {
    Word(&'a str),
    Flag(bool),
}

fn read_word<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    parse: impl FnOnce(WordForm<'_>) -> Option<T>,
) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum WrittenForm {
        Flag(bool),
        Word(String),
    }
    let refusal = |found: &str| D::Error::custom(format!("{expected}, found `{found}`"));
    match WrittenForm::deserialize(deserializer).map_err(|_| D::Error::custom(expected))? {
        WrittenForm::Flag(flag) => {
            parse(WordForm::Flag(flag)).ok_or_else(|| refusal(&flag.to_string()))
        }
        WrittenForm::Word(word) => parse(WordForm::Word(&word)).ok_or_else(|| refusal(&word)),
    }
}

/// Whether a DRA driver must be there. YAML `true` and `false` are taken as well as the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(with = "serde_json::Value", extend("enum" = ["auto", "true", "false", true, false]))]
pub enum DraRequired {
    /// No DRA driver is fine; one that is there must serve every node that it runs on.
    #[default]
    Auto,
    /// There must be one, serving every GPU node.
    True,
    /// What is wrong with the DRA driver is reported and never fails the run.
    False,
}

impl<'de> Deserialize<'de> for DraRequired {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_word(deserializer, "expected `auto`, `true` or `false`", |word| match word {
            WordForm::Word("auto") => Some(Self::Auto),
            WordForm::Word("true") | WordForm::Flag(true) => Some(Self::True),
            WordForm::Word("false") | WordForm::Flag(false) => Some(Self::False),
            WordForm::Word(_) => None,
        })
    }
}

/// All settings of a hook Job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// [`FORMAT_VERSION`] of the chart that wrote them.
    pub format_version: u32,
    /// The trigger digest D.
    pub digest: String,
    /// Helm release of the hook: also the name of its Job.
    pub release: String,
    /// Namespace of the hook's release.
    pub namespace: String,
    /// Name of the run record's ConfigMap.
    pub record: String,
    /// The component that the hook belongs to.
    pub component: String,
    /// That component's chart version, if the bundle says so.
    pub component_version: Option<String>,
    /// What this Job does. Up to version 0.1.0 the key was `duties`.
    #[serde(alias = "duties")]
    pub tasks: Vec<Task>,
    /// Which driver it is about.
    #[serde(default)]
    pub driver: Driver,
    /// Who decides.
    pub mode: Mode,
    /// What is waited for.
    pub gate: Gate,
    /// B in seconds: the Job's `activeDeadlineSeconds`.
    pub budget_seconds: u64,
    /// Seconds that one node is expected to take.
    pub per_node_seconds: u64,
    /// Seconds for which everything must hold before the run is called settled.
    pub quiet_seconds: u64,
    /// Seconds that the operator and the live custom resource get to come up and to match what the values say.
    pub grace_seconds: u64,
    /// Namespace of the driver's operator and its operands.
    pub operator_namespace: String,
    /// The operator's Deployment; `None`: the one of [`Driver::traits`].
    pub operator_deployment: Option<String>,
    /// Name of the driver's DaemonSet in the operator's namespace, with [`Driver::DaemonSet`].
    pub daemon_set: Option<String>,
    /// Name of the ClusterPolicy.
    pub cluster_policy: String,
    /// How many nodes may stay NotReady without failing the run.
    pub tolerate_not_ready: Count,
    /// The upgrade policy of the modes `steer` and `drive`, and how often `assist` tries a failed node again.
    #[serde(default)]
    pub upgrade: UpgradeSettings,
    /// When the fleet counts as settled.
    #[serde(default)]
    pub settle: SettleSettings,
    /// What is done before the operator is upgraded.
    #[serde(default)]
    pub operator_upgrade: OperatorUpgradeSettings,
    /// The DRA driver.
    pub dra: DraSettings,
    /// The device plugin, for [`Task::RestartPlugins`].
    #[serde(default)]
    pub device_plugin: DevicePluginSettings,
    /// What the live custom resource must say, according to the component's values.
    pub expected: Expected,
    /// The settings of [`Task::Preflight`].
    #[serde(default)]
    pub preflight: PreflightSettings,
}

impl Default for Settings {
    /// Returns the defaults of the hook chart. They are written here and in its `values.yaml`, which a test compares; everything else that needs
    /// one reads it from here. What only a release has, such as its name and its digest, is empty.
    fn default() -> Self {
        Self {
            format_version: FORMAT_VERSION,
            digest: String::new(),
            release: String::new(),
            namespace: String::new(),
            record: String::new(),
            component: Driver::default().traits().component.to_owned(),
            component_version: None,
            tasks: vec![Task::Settle, Task::Wake, Task::Reroll],
            driver: Driver::default(),
            mode: Mode::default(),
            gate: Gate::default(),
            budget_seconds: 3600,
            per_node_seconds: 720,
            quiet_seconds: 15,
            grace_seconds: 300,
            operator_namespace: String::new(),
            operator_deployment: None,
            daemon_set: None,
            cluster_policy: names::CLUSTER_POLICY.to_owned(),
            tolerate_not_ready: Count::Number(0),
            upgrade: UpgradeSettings::default(),
            settle: SettleSettings::default(),
            operator_upgrade: OperatorUpgradeSettings::default(),
            dra: DraSettings::default(),
            device_plugin: DevicePluginSettings::default(),
            expected: Expected::default(),
            preflight: PreflightSettings::default(),
        }
    }
}

impl Settings {
    /// Whether the Job does this.
    pub fn has(&self, task: Task) -> bool {
        self.tasks.contains(&task)
    }

    /// `namespace/name` of the DaemonSet that the Job is about, where no operator brings the driver.
    pub fn own_daemon_set(&self) -> Option<String> {
        let name = self.daemon_set.as_ref().filter(|_| !self.driver.has_operator())?;
        Some(format!("{}/{name}", self.operator_namespace))
    }

    /// Whether any of its tasks watches the cluster: the others are single steps.
    pub fn watches(&self) -> bool {
        !self.tasks.iter().copied().all(Task::is_step)
    }

    /// Why these settings cannot be worked by; `None`: they can.
    pub fn contradiction(&self) -> Option<String> {
        if self.driver.has_operator() {
            return None;
        }
        if self.daemon_set.is_none() {
            return Some(
                "driver `daemonset` needs the name of a DaemonSet: set rollout.daemonSet.namespace and rollout.daemonSet.name".to_owned(),
            );
        }
        let name = self.mode.name();
        match self.mode {
            Mode::Observe | Mode::Drive => None,
            Mode::Assist => Some(format!(
                "mode `{name}` wakes NVIDIA's controller, which does not upgrade this DaemonSet: use `drive` or `observe`"
            )),
            Mode::Steer => Some(format!(
                "mode `{name}` leaves the upgrade to NVIDIA's controller, which does not upgrade this DaemonSet: use `drive` or `observe`"
            )),
        }
    }

    /// The name of the operator's Deployment.
    pub fn operator_deployment(&self) -> &str {
        self.operator_deployment.as_deref().unwrap_or(self.driver.traits().operator_deployment)
    }
}

/// Which operands success waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GatingOperands {
    /// Container toolkit, validator, and device plugin; the others are reported.
    #[default]
    Gating,
    /// All that the operator deploys.
    All,
}

/// What becomes of a node that offers fewer GPUs than before the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MissingGpus {
    /// It is done, and the difference is reported.
    #[default]
    Report,
    /// It has failed.
    Fail,
}

/// The part of [`Settings`] about when the fleet counts as settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SettleSettings {
    /// Which operands success waits for: `gating` (container toolkit, validator, device plugin) or `all` that the operator deploys.
    pub operands: GatingOperands,
    /// What becomes of a node that offers fewer GPUs than when the run began, in the same MIG layout and with the same sharing: `report` or
    /// `fail`.
    pub gpus_missing: MissingGpus,
}

impl SettleSettings {
    /// Whether it says nothing else than the defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether NVIDIA's controllers are kept from all nodes while the operator is upgraded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HoldNodes {
    /// Where the live operator has another version than the one that is about to be deployed.
    #[default]
    Auto,
    /// Where there is an operator.
    Always,
    /// Never.
    Never,
}

/// The part of [`Settings`] about an upgrade of the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OperatorUpgradeSettings {
    /// Hold all nodes by NVIDIA's skip label until the new operator has rendered its DaemonSets (mode `assist`; `steer` holds nodes in any case):
    /// `auto` if the operator's version changes, `always`, or `never`. Without holds each driver pod may be replaced twice.
    pub hold: HoldNodes,
}

impl OperatorUpgradeSettings {
    /// Whether all of it is as by default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The part of [`Settings`] about the DRA driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DraSettings {
    /// Whether stale plugins are replaced.
    pub reroll: Reroll,
    /// Whether there must be a DRA driver.
    pub required: DraRequired,
    /// The namespaces that may have one.
    pub namespaces: Vec<String>,
    /// How many plugins may be away at once because of us.
    pub max_unavailable: Count,
    /// Seconds that a replacement gets to come back and publish.
    pub replacement_seconds: u64,
}

impl Default for DraSettings {
    fn default() -> Self {
        Self {
            reroll: Reroll::default(),
            required: DraRequired::default(),
            namespaces: names::DRA_NAMESPACES.map(str::to_owned).to_vec(),
            max_unavailable: Count::Percent(25),
            replacement_seconds: 300,
        }
    }
}

/// The part of [`Settings`] about the device plugin, GPU feature discovery and the MPS daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DevicePluginSettings {
    /// Where they run.
    pub namespace: String,
    /// The Helm release that brings the stand-alone plugin. `None`: it is not known, so every stand-alone plugin in the namespace counts.
    pub release: Option<String>,
    /// Name of the ConfigMap with their configurations. `None`: they have none, or their own chart restarts them when it changes.
    pub config_map: Option<String>,
    /// The configuration of nodes without a label.
    pub default: Option<String>,
    /// What is tried, in this order, on nodes without a label while there is no default.
    pub fallbacks: Vec<ConfigFallback>,
    /// SHA-256 of each configuration's text, by key, as the values have it. `None`: the values do not have it; what is in the cluster
    /// counts.
    pub digests: Option<BTreeMap<String, String>>,
    /// On how many nodes pods may be away at once because of us.
    pub max_unavailable: Count,
    /// Seconds that a restarted pod gets to be ready again.
    pub replacement_seconds: u64,
}

impl Default for DevicePluginSettings {
    fn default() -> Self {
        Self {
            namespace: String::new(),
            release: None,
            config_map: None,
            default: None,
            fallbacks: Vec::new(),
            digests: None,
            max_unavailable: Count::Percent(25),
            replacement_seconds: 300,
        }
    }
}

/// How config-manager chooses a configuration for a node that has no label while there is no default (k8s-device-plugin
/// `cmd/config-manager`, `FALLBACK_STRATEGIES`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigFallback {
    /// The one called `default`.
    Named,
    /// The only one.
    Single,
    /// None: the plugin's own defaults.
    Empty,
}
