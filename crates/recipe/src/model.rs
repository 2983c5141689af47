//! The recipe as types: what a user may write, after merging. Formats: `design`: `apiVersion: gpu-rollout.dev/v1`, `kind: Recipe`.
//! The JSON schema (`recipe.schema.json`) is generated from here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use catalog::model::{SchedulingPaths, ValuePaths};
use contract::check::CheckStrictness;
use contract::count::Count;
use contract::driver::Driver;
use contract::duration::Duration;
use contract::settings::{
    DraRequired, Gate, Mode, OperatorUpgradeSettings, Reroll, Settings, SettleSettings,
};

mod metrics;
mod policy;

pub use metrics::RecipeMetrics;
pub use policy::{
    RecipeDrain, RecipeOfedUpgradePolicy, RecipePodDeletion, RecipeUpgradePolicy,
    RecipeWaitForCompletion,
};

/// The `apiVersion` of every recipe.
pub const API_VERSION: &str = "gpu-rollout.dev/v1";
/// The `kind` of every recipe.
pub const KIND: &str = "Recipe";

/// A recipe: which NVIDIA GPU stack, which versions, which rollout policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recipe {
    /// Always `gpu-rollout.dev/v1`.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    /// Always `Recipe`.
    #[schemars(extend("const" = KIND))]
    pub kind: String,
    /// Who it is.
    pub metadata: RecipeMetadata,
    /// Recipes that this one builds on, in order: names from the library or paths relative to this file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "reference"}))]
    pub extends: Vec<String>,
    /// Facts about the cluster that sizes come from.
    pub cluster: ClusterFacts,
    /// How drivers are rolled out.
    #[serde(default)]
    pub rollout: RecipeRollout,
    /// What is deployed. Lists of `extends` are merged by component name.
    pub components: Vec<RecipeComponent>,
}

/// Name of the recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipeMetadata {
    /// Lower-case letters, digits and dashes, at most 63.
    #[schemars(extend("x-grammar" = "recipeName"))]
    pub name: String,
    /// One line for `recipe list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "line"))]
    pub description: Option<String>,
}

/// Facts about the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterFacts {
    /// How many nodes have GPUs. Time budgets are made from it.
    pub gpu_nodes: u32,
    /// What it is: `openshift` assigns the user that the hooks' pods run as. Default: `kubernetes`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub platform: ClusterPlatform,
    /// Server versions that the recipe is made for, such as `>=1.32`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "kubernetesVersions"))]
    pub kubernetes: Option<String>,
}

/// What a cluster is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClusterPlatform {
    /// Any Kubernetes.
    #[default]
    Kubernetes,
    /// OpenShift: a pod's user comes from its namespace.
    Openshift,
}

/// How drivers are rolled out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeRollout {
    /// The GPU driver.
    pub gpu_driver: GpuDriverRollout,
    /// The OFED driver of the network operator. Absent: its upgrade policy is left as `customResources` or the chart say it, which is the
    /// mode `observe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ofed_driver: Option<OfedDriverRollout>,
    /// The DRA driver's kubelet plugins.
    pub dra: DraRollout,
    /// What monitoring sees of the hooks.
    #[serde(skip_serializing_if = "is_default")]
    pub metrics: RecipeMetrics,
}

impl RecipeRollout {
    /// Returns what is said of a driver in the words that both have; `None` for one that the recipe does not speak of.
    pub fn driver(&self, driver: Driver) -> Option<DriverRollout> {
        match driver {
            // No component of a recipe brings a DaemonSet of one's own: the GPU driver's hooks are the chart's default.
            Driver::Gpu | Driver::DaemonSet => Some((&self.gpu_driver).into()),
            Driver::Ofed => self.ofed_driver.as_ref().map(Into::into),
        }
    }

    /// Returns all drivers that the recipe speaks of.
    pub fn drivers(&self) -> impl Iterator<Item = DriverRollout> {
        [Driver::Gpu, Driver::Ofed].into_iter().filter_map(|driver| self.driver(driver))
    }
}

/// What a recipe says of a driver in the words that both drivers have.
#[derive(Clone, Debug)]
pub struct DriverRollout {
    /// Its key below `rollout`.
    pub key: &'static str,
    /// Who decides when a node goes.
    pub mode: Mode,
    /// Limits and waits.
    pub policy: RecipeUpgradePolicy,
    /// The time that one node is expected to take.
    pub per_node: Duration,
    /// What the hook waits for.
    pub gate: Gate,
    /// How long everything must hold.
    pub quiet: Duration,
    /// How many nodes may stay NotReady.
    pub tolerate_not_ready: Count,
    /// What becomes of the findings before the rollout.
    pub preflight: CheckStrictness,
}

impl From<&GpuDriverRollout> for DriverRollout {
    fn from(driver: &GpuDriverRollout) -> Self {
        let GpuDriverRollout { mode, per_node, gate, quiet, tolerate_not_ready, .. } = *driver;
        let (policy, preflight) = (driver.policy.clone(), driver.preflight.clone());
        Self {
            key: "gpuDriver",
            mode,
            policy,
            per_node,
            gate,
            quiet,
            tolerate_not_ready,
            preflight,
        }
    }
}

impl From<&OfedDriverRollout> for DriverRollout {
    fn from(driver: &OfedDriverRollout) -> Self {
        let OfedDriverRollout { mode, per_node, gate, quiet, tolerate_not_ready, .. } = *driver;
        let (policy, preflight) = (driver.policy.common(), driver.preflight.clone());
        Self {
            key: "ofedDriver",
            mode,
            policy,
            per_node,
            gate,
            quiet,
            tolerate_not_ready,
            preflight,
        }
    }
}

/// How the GPU driver is rolled out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GpuDriverRollout {
    /// Who decides when a node goes.
    pub mode: Mode,
    /// The driver's version, a string: `580.10` stays `580.10`. Mapped into the chart's `driver.version`; setting both is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "driverVersion"))]
    pub version: Option<String>,
    /// Limits and waits. In the modes `observe` and `assist` they are mapped into the chart's `driver.upgradePolicy`; `steer` maps the waits
    /// and keeps the limits to itself, `drive` keeps all.
    pub policy: RecipeUpgradePolicy,
    /// The time that one node is expected to take; budgets are made from it.
    pub per_node: Duration,
    /// What the hook waits for before it says success.
    pub gate: Gate,
    /// How long everything must hold before the rollout is called settled.
    pub quiet: Duration,
    /// How many nodes may stay NotReady without failing the run.
    pub tolerate_not_ready: Count,
    /// When the fleet counts as settled.
    #[serde(skip_serializing_if = "SettleSettings::is_default")]
    pub settle: SettleSettings,
    /// `assist`: what is done before the GPU Operator is upgraded.
    #[serde(skip_serializing_if = "OperatorUpgradeSettings::is_default")]
    pub operator_upgrade: OperatorUpgradeSettings,
    /// `assist`, `steer`, `drive`: what becomes of the findings before the rollout.
    #[serde(skip_serializing_if = "CheckStrictness::is_empty")]
    pub preflight: CheckStrictness,
}

impl Default for GpuDriverRollout {
    fn default() -> Self {
        let hook = Settings::default();
        Self {
            mode: Mode::default(),
            version: None,
            policy: RecipeUpgradePolicy::default(),
            per_node: Duration::from_secs(hook.per_node_seconds),
            gate: Gate::default(),
            quiet: Duration::from_secs(hook.quiet_seconds),
            tolerate_not_ready: hook.tolerate_not_ready,
            settle: SettleSettings::default(),
            operator_upgrade: OperatorUpgradeSettings::default(),
            preflight: CheckStrictness::default(),
        }
    }
}

/// How the OFED driver is rolled out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OfedDriverRollout {
    /// Who decides when a node goes.
    pub mode: Mode,
    /// The driver's version, a string. Mapped into NicClusterPolicy's `ofedDriver.version`; setting both is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "driverVersion"))]
    pub version: Option<String>,
    /// Limits and waits. In the modes `observe` and `assist` they are mapped into NicClusterPolicy's `ofedDriver.upgradePolicy`; `steer` maps
    /// the waits and keeps the limits to itself, `drive` keeps all.
    pub policy: RecipeOfedUpgradePolicy,
    /// The time that one node is expected to take; budgets are made from it.
    pub per_node: Duration,
    /// What the hook waits for before it says success.
    pub gate: Gate,
    /// How long everything must hold before the rollout is called settled.
    pub quiet: Duration,
    /// How many nodes may stay NotReady without failing the run.
    pub tolerate_not_ready: Count,
    /// `assist`, `steer`, `drive`: what becomes of the findings before the rollout.
    #[serde(skip_serializing_if = "CheckStrictness::is_empty")]
    pub preflight: CheckStrictness,
}

impl Default for OfedDriverRollout {
    fn default() -> Self {
        let hook = Settings::default();
        Self {
            mode: Mode::default(),
            version: None,
            policy: RecipeOfedUpgradePolicy::default(),
            per_node: Duration::from_secs(20 * 60),
            gate: Gate::default(),
            quiet: Duration::from_secs(hook.quiet_seconds),
            tolerate_not_ready: hook.tolerate_not_ready,
            preflight: CheckStrictness::default(),
        }
    }
}

/// What happens to the DRA driver's kubelet plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DraRollout {
    /// Whether stale plugins are replaced.
    pub reroll: Reroll,
    /// Whether there must be a DRA driver.
    pub required: DraRequired,
}

/// One component of the stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipeComponent {
    /// Its name in the catalog.
    #[schemars(extend("x-grammar" = "componentName"))]
    pub name: String,
    /// The chart's version, written as the chart's repository writes it. Default: the catalog's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "chartVersion"))]
    pub version: Option<String>,
    /// Where it is deployed. Default: the catalog's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "namespace"))]
    pub namespace: Option<String>,
    /// Where the chart comes from, for a component that is not in the catalog. Such a component needs `version` and `namespace` as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartSource>,
    /// Components of the recipe that must have succeeded before it, beside those that the catalog knows of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "componentName"}))]
    pub after: Vec<String>,
    /// Values of the component's chart. Keys that the chart never reads are errors.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
    /// Specs of the custom resources that its operator works from and its chart does not bring, by kind.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub custom_resources: Map<String, Value>,
    /// Where its pods run; written to every place that its chart has for it. A list replaces the chart's own.
    #[serde(default, skip_serializing_if = "NodeScheduling::is_empty")]
    pub node_scheduling: NodeScheduling,
    /// Configurations of the device plugin (gpu-operator and nvidia-device-plugin).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_plugin_config: Option<DevicePluginConfig>,
    /// `false` leaves out a component that a parent recipe brings.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub enabled: bool,
}

impl RecipeComponent {
    /// A component of which nothing but its name is said.
    pub fn from_name(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: None,
            namespace: None,
            chart: None,
            after: Vec::new(),
            values: Map::new(),
            custom_resources: Map::new(),
            node_scheduling: NodeScheduling::default(),
            device_plugin_config: None,
            enabled: true,
        }
    }
}

/// A chart that is not in the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChartSource {
    /// Its repository: `https://…` or `oci://…`, without the chart's name.
    #[schemars(extend("x-grammar" = "chartRepository"))]
    pub repository: String,
    /// Its name in the repository.
    #[schemars(extend("x-grammar" = "chartName"))]
    pub name: String,
}

/// Where the pods of a component run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeScheduling {
    /// Pods that may run on any node: operators, controllers, webhooks.
    #[serde(skip_serializing_if = "PodScheduling::is_empty")]
    pub system: PodScheduling,
    /// Pods on the nodes that have the hardware.
    #[serde(skip_serializing_if = "PodScheduling::is_empty")]
    pub accelerated: PodScheduling,
}

impl NodeScheduling {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.system.is_empty() && self.accelerated.is_empty()
    }
}

impl NodeScheduling {
    /// Returns the parts that say something.
    pub fn parts(&self) -> Vec<SchedulingPart> {
        let groups = [("system", &self.system), ("accelerated", &self.accelerated)].into_iter();
        let parts = groups.flat_map(|(group, pods)| {
            let part = |key, value| SchedulingPart { group, key, value };
            let selector = (!pods.node_selector.is_empty())
                .then(|| part("nodeSelector", json!(pods.node_selector)));
            selector.into_iter().chain(
                (!pods.tolerations.is_empty())
                    .then(|| part("tolerations", json!(pods.tolerations))),
            )
        });
        parts.collect()
    }
}

/// The node selector or the tolerations of one group of pods.
#[derive(Clone, Debug)]
pub struct SchedulingPart {
    /// The group's key below `nodeScheduling`.
    pub group: &'static str,
    /// The part's key below the group.
    pub key: &'static str,
    /// A map of labels, or a list of tolerations.
    pub value: Value,
}

impl SchedulingPart {
    /// Returns the places that a chart has for pods of the group.
    pub fn places<'p>(&self, known: &'p SchedulingPaths) -> &'p ValuePaths {
        if self.group == "system" { &known.system } else { &known.accelerated }
    }

    /// Returns those of the places that take the part.
    pub fn paths<'p>(&self, known: &'p SchedulingPaths) -> &'p [String] {
        let places = self.places(known);
        if self.key == "tolerations" { &places.tolerations } else { &places.node_selector }
    }
}

/// Node selector and tolerations of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PodScheduling {
    /// Labels that a node must have, each with its value.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("propertyNames" = {"x-grammar": "labelKey"}, "additionalProperties" = {"x-grammar": "labelValue"}))]
    pub node_selector: Map<String, Value>,
    /// Taints that the pods tolerate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<RecipeToleration>,
}

impl PodScheduling {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.node_selector.is_empty() && self.tolerations.is_empty()
    }
}

/// A taint that is tolerated, as Kubernetes has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeToleration {
    /// The taint's key. Absent, with the operator `Exists`: every taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "labelKey"))]
    pub key: Option<String>,
    /// How it is compared. Kubernetes' default: `Equal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// The taint's value, with the operator `Equal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "labelValue"))]
    pub value: Option<String>,
    /// The taint's effect. Absent: every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// How long a `NoExecute` taint is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<u32>,
}

/// How a taint is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// Key and value are the same.
    Equal,
    /// There is one with this key.
    Exists,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away if they can.
    PreferNoSchedule,
    /// Pods are evicted.
    NoExecute,
}

/// Configurations of the device plugin: the bundle makes a ConfigMap of them. A node chooses one with its label
/// `nvidia.com/device-plugin.config`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DevicePluginConfig {
    /// The one for nodes without the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "configName"))]
    pub default: Option<String>,
    /// Configurations by name, each as the device plugin's own file: `version: v1`, `flags`, `sharing` …
    #[schemars(extend("propertyNames" = {"x-grammar": "configName"}))]
    pub configs: Map<String, Value>,
}

/// Whether a value is what is taken where none is written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The default of [`RecipeComponent::enabled`].
fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_yes(flag: &bool) -> bool {
    *flag
}
