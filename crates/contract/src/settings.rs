//! The settings of a hook Job: the hook chart creates them from its values, and `gpu-rollout hook
//! run` reads them from [`crate::names::SETTINGS_ENV`]. An unknown key is an error: an older image
//! refuses settings that it does not know.

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

/// The format version of the settings. Run record, bundles and upgrade records of nodes have
/// versions of their own.
///
/// A chart creates settings for the image of its own version. An unknown key is refused whatever
/// the version, so keys may be added without a new version. A higher version only makes the error
/// clearer ([`super::exit::ExitCode::NewerFormat`]).
pub const FORMAT_VERSION: u32 = 1;

/// What the Job waits for before it succeeds. The only gate is `settled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// Every node of the cohort has an outcome.
    #[default]
    Settled,
}

/// Whether the hook replaces stale DRA kubelet plugins. YAML reads an unquoted `off` as `false`, so
/// `false` is accepted too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(with = "serde_json::Value", extend("enum" = ["auto", "off", false]))]
pub enum Reroll {
    /// If a DRA driver exists and a plugin is stale.
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

/// A word, or the Boolean that YAML reads if the word is not quoted.
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

/// Whether a DRA driver is required. The YAML values `true` and `false` are accepted as well as the
/// words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(with = "serde_json::Value", extend("enum" = ["auto", "true", "false", true, false]))]
pub enum DraRequired {
    /// A DRA driver is optional; one that exists must serve every node that it runs on.
    #[default]
    Auto,
    /// A DRA driver must exist and serve every GPU node.
    True,
    /// Problems of the DRA driver are reported and never fail the run.
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
    /// Helm release of the hook; its Job has the same name.
    pub release: String,
    /// Namespace of the hook's release.
    pub namespace: String,
    /// Name of the first ConfigMap of the run record.
    pub record: String,
    /// The component that the hook belongs to.
    pub component: String,
    /// The chart version of that component, if the bundle specifies it.
    pub component_version: Option<String>,
    /// The tasks of the Job. Up to version 0.1.0, the key was `duties`.
    #[serde(alias = "duties")]
    pub tasks: Vec<Task>,
    /// The driver of the rollout.
    #[serde(default)]
    pub driver: Driver,
    /// The mode.
    pub mode: Mode,
    /// What the Job waits for.
    pub gate: Gate,
    /// B in seconds: the Job's `activeDeadlineSeconds`.
    pub budget_seconds: u64,
    /// Seconds that one node is expected to take.
    pub per_node_seconds: u64,
    /// Quiet period in seconds: how long all conditions must hold before the fleet counts as
    /// settled.
    pub quiet_seconds: u64,
    /// Grace time in seconds: how long the operator and the live custom resource may take to come
    /// up and to match the values.
    pub grace_seconds: u64,
    /// Namespace of the driver's operator and its operands.
    pub operator_namespace: String,
    /// The operator's Deployment; `None` for the default in [`Driver::traits`].
    pub operator_deployment: Option<String>,
    /// Name of the driver's DaemonSet in the operator's namespace, with [`Driver::DaemonSet`].
    pub daemon_set: Option<String>,
    /// Name of the ClusterPolicy.
    pub cluster_policy: String,
    /// How many nodes may stay NotReady without a failure of the run.
    pub tolerate_not_ready: Count,
    /// The upgrade policy of the modes `steer` and `drive`, and the number of attempts in mode
    /// `assist`.
    #[serde(default)]
    pub upgrade: UpgradeSettings,
    /// When the fleet counts as settled.
    #[serde(default)]
    pub settle: SettleSettings,
    /// What the hook does before an upgrade of the operator.
    #[serde(default)]
    pub operator_upgrade: OperatorUpgradeSettings,
    /// The DRA driver.
    pub dra: DraSettings,
    /// The device plugin, for [`Task::RestartPlugins`].
    #[serde(default)]
    pub device_plugin: DevicePluginSettings,
    /// The expected contents of the live custom resource, derived from the component's values.
    pub expected: Expected,
    /// The settings of [`Task::Preflight`].
    #[serde(default)]
    pub preflight: PreflightSettings,
    /// Whether the chart's admission policies are enabled.
    #[serde(default)]
    pub admission_policy: bool,
}

impl Default for Settings {
    /// Returns the defaults of the hook chart. A test compares them with the chart's `values.yaml`;
    /// all other code reads them from here. Values that only a release has, such as its name and
    /// its digest, are empty.
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
            admission_policy: false,
        }
    }
}

impl Settings {
    /// Returns whether the Job has this task.
    pub fn has(&self, task: Task) -> bool {
        self.tasks.contains(&task)
    }

    /// Returns `namespace/name` of the DaemonSet that the Job upgrades, if no operator installs the
    /// driver.
    pub fn own_daemon_set(&self) -> Option<String> {
        let name = self.daemon_set.as_ref().filter(|_| !self.driver.has_operator())?;
        Some(format!("{}/{name}", self.operator_namespace))
    }

    /// Returns whether any of its tasks watches the cluster; the other tasks are single steps.
    pub fn watches(&self) -> bool {
        !self.tasks.iter().copied().all(Task::is_step)
    }

    /// Returns why these settings contradict each other; `None` if they do not.
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

    /// Returns the name of the operator's Deployment.
    pub fn operator_deployment(&self) -> &str {
        self.operator_deployment.as_deref().unwrap_or(self.driver.traits().operator_deployment)
    }
}

/// The operands that must be ready before the run succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GatingOperands {
    /// Container toolkit, validator, and device plugin; the others are reported.
    #[default]
    Gating,
    /// All operands that the operator deploys.
    All,
}

/// What happens to a node that offers fewer GPUs than before the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MissingGpus {
    /// The node is done, and the difference is reported.
    #[default]
    Report,
    /// The node fails.
    Fail,
}

/// The part of [`Settings`] about when the fleet counts as settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SettleSettings {
    /// The operands that must be ready before the run succeeds: `gating` (container toolkit,
    /// validator and, if enabled, device plugin), or `all` operands that the operator deploys.
    pub operands: GatingOperands,
    /// The outcome of a node that offers fewer GPUs than when the run started, with the same MIG
    /// layout and the same sharing: `report` (the node is done, and the result names the
    /// difference) or `fail` (the node has failed).
    pub gpus_missing: MissingGpus,
}

impl SettleSettings {
    /// Returns whether all settings have their defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether the hook holds all nodes while the operator is upgraded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HoldNodes {
    /// If the version of the live operator differs from the version that is about to be deployed.
    #[default]
    Auto,
    /// If an operator exists.
    Always,
    /// Never.
    Never,
}

/// The part of [`Settings`] about an upgrade of the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OperatorUpgradeSettings {
    /// Whether the hook sets NVIDIA's skip label on all nodes, to hold them, until the new operator
    /// has rendered its DaemonSets: `auto` (if the operator's version changes), `always` or `never`.
    /// Without holds, each driver pod may be replaced twice. Only for mode `assist`: mode `steer`
    /// always holds nodes.
    pub hold: HoldNodes,
}

impl OperatorUpgradeSettings {
    /// Returns whether all settings have their defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The part of [`Settings`] about the DRA driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DraSettings {
    /// Whether the hook replaces stale plugins.
    pub reroll: Reroll,
    /// Whether a DRA driver is required.
    pub required: DraRequired,
    /// Namespaces in which the hook looks for a DRA driver.
    pub namespaces: Vec<String>,
    /// How many plugins may be unavailable at once because of the hook.
    pub max_unavailable: Count,
    /// Seconds within which a replacement must become ready and publish its devices.
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
    /// Their namespace.
    pub namespace: String,
    /// The Helm release of the stand-alone plugin. `None`: unknown, so every stand-alone plugin in
    /// the namespace counts.
    pub release: Option<String>,
    /// Name of the ConfigMap with their configurations. `None`: they have none, or their own chart
    /// restarts them when it changes.
    pub config_map: Option<String>,
    /// The configuration of nodes without a label.
    pub default: Option<String>,
    /// The fallbacks for nodes without a label if there is no default, in this order.
    pub fallbacks: Vec<ConfigFallback>,
    /// SHA-256 digest of the text of each configuration in the values, by key. `None`: the values
    /// do not contain them, and the ConfigMap in the cluster applies.
    pub digests: Option<BTreeMap<String, String>>,
    /// On how many nodes pods may be unavailable at once because of the hook.
    pub max_unavailable: Count,
    /// Seconds within which a restarted pod must become ready.
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

/// How config-manager chooses a configuration for a node without a label if there is no default
/// (k8s-device-plugin `cmd/config-manager`, `FALLBACK_STRATEGIES`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigFallback {
    /// The configuration with the name `default`.
    Named,
    /// The only configuration.
    Single,
    /// No configuration: the plugin's own defaults apply.
    Empty,
}
