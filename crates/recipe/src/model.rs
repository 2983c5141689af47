//! Types of a merged recipe (`apiVersion: gpu-rollout.dev/v1`, `kind: Recipe`). The JSON schema
//! (`recipe.schema.json`) is generated from them, with their doc comments as descriptions.

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
    /// The recipe's name and description.
    pub metadata: RecipeMetadata,
    /// The recipes that this one extends, in order: names from the library, or paths relative to
    /// this file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "reference"}))]
    pub extends: Vec<String>,
    /// Facts about the cluster. Time budgets derive from them.
    pub cluster: ClusterFacts,
    /// How drivers are rolled out.
    #[serde(default)]
    pub rollout: RecipeRollout,
    /// The components to deploy. Lists of `extends` are merged by component name.
    pub components: Vec<RecipeComponent>,
}

/// Name and description of a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipeMetadata {
    /// The recipe's name: lower-case letters, digits and dashes, at most 63 characters.
    #[schemars(extend("x-grammar" = "recipeName"))]
    pub name: String,
    /// One line that `recipe list` shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "line"))]
    pub description: Option<String>,
}

/// Facts about the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterFacts {
    /// The number of nodes with GPUs. Time budgets derive from it.
    pub gpu_nodes: u32,
    /// The platform. On `openshift`, the platform assigns the user that the hooks' pods run as.
    /// Default: `kubernetes`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub platform: ClusterPlatform,
    /// The Kubernetes versions that the recipe supports, such as `>=1.32`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "kubernetesVersions"))]
    pub kubernetes: Option<String>,
}

/// The platform of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClusterPlatform {
    /// Any Kubernetes distribution.
    #[default]
    Kubernetes,
    /// OpenShift, which assigns a pod's user from its namespace's range.
    Openshift,
}

/// How drivers are rolled out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeRollout {
    /// The GPU driver.
    pub gpu_driver: GpuDriverRollout,
    /// The OFED driver of the Network Operator. If absent, its upgrade policy stays as set by
    /// `customResources` or the chart, which is the mode `observe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ofed_driver: Option<OfedDriverRollout>,
    /// The DRA driver's kubelet plugins.
    pub dra: DraRollout,
    /// Monitoring of the hooks.
    #[serde(skip_serializing_if = "is_default")]
    pub metrics: RecipeMetrics,
}

impl RecipeRollout {
    /// Returns the settings of a driver that both drivers have; `None` if the recipe does not
    /// configure the driver.
    pub fn driver(&self, driver: Driver) -> Option<DriverRollout> {
        match driver {
            // No component of a recipe has the driver `daemonset`, so it gets the GPU driver's
            // settings, the chart's default.
            Driver::Gpu | Driver::DaemonSet => Some((&self.gpu_driver).into()),
            Driver::Ofed => self.ofed_driver.as_ref().map(Into::into),
        }
    }

    /// Returns the settings of all drivers that the recipe configures.
    pub fn drivers(&self) -> impl Iterator<Item = DriverRollout> {
        [Driver::Gpu, Driver::Ofed].into_iter().filter_map(|driver| self.driver(driver))
    }
}

/// The settings of a driver's rollout that both drivers have.
#[derive(Clone, Debug)]
pub struct DriverRollout {
    /// The driver's key below `rollout`.
    pub key: &'static str,
    /// Who decides when a node is upgraded, and who acts.
    pub mode: Mode,
    /// Limits and waits.
    pub policy: RecipeUpgradePolicy,
    /// The expected time for one node.
    pub per_node: Duration,
    /// What the hook waits for before it succeeds.
    pub gate: Gate,
    /// How long everything must hold before the fleet counts as settled.
    pub quiet: Duration,
    /// How many nodes may stay NotReady without failing the run.
    pub tolerate_not_ready: Count,
    /// Severity of the findings before the rollout.
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
    /// Who decides when a node is upgraded, and who acts.
    pub mode: Mode,
    /// The driver's version, a string: `580.10` stays `580.10`. It sets the chart's
    /// `driver.version`; setting both is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "driverVersion"))]
    pub version: Option<String>,
    /// Limits and waits. In the modes `observe` and `assist`, they set the chart's
    /// `driver.upgradePolicy`. In `steer`, the waits do, and the hook applies the limits. In
    /// `drive`, the hook applies both.
    pub policy: RecipeUpgradePolicy,
    /// The expected time for one node. Time budgets derive from it.
    pub per_node: Duration,
    /// What the hook waits for before it succeeds.
    pub gate: Gate,
    /// How long everything must hold before the fleet counts as settled.
    pub quiet: Duration,
    /// How many nodes may stay NotReady without failing the run.
    pub tolerate_not_ready: Count,
    /// When the fleet counts as settled.
    #[serde(skip_serializing_if = "SettleSettings::is_default")]
    pub settle: SettleSettings,
    /// `assist`: what the hook does before an upgrade of the GPU Operator.
    #[serde(skip_serializing_if = "OperatorUpgradeSettings::is_default")]
    pub operator_upgrade: OperatorUpgradeSettings,
    /// `assist`, `steer`, `drive`: severity of the findings before the rollout.
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
    /// Who decides when a node is upgraded, and who acts.
    pub mode: Mode,
    /// The driver's version, a string. It sets NicClusterPolicy's `ofedDriver.version`; setting
    /// both is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "driverVersion"))]
    pub version: Option<String>,
    /// Limits and waits. In the modes `observe` and `assist`, they set NicClusterPolicy's
    /// `ofedDriver.upgradePolicy`. In `steer`, the waits do, and the hook applies the limits. In
    /// `drive`, the hook applies both.
    pub policy: RecipeOfedUpgradePolicy,
    /// The expected time for one node. Time budgets derive from it.
    pub per_node: Duration,
    /// What the hook waits for before it succeeds.
    pub gate: Gate,
    /// How long everything must hold before the fleet counts as settled.
    pub quiet: Duration,
    /// How many nodes may stay NotReady without failing the run.
    pub tolerate_not_ready: Count,
    /// `assist`, `steer`, `drive`: severity of the findings before the rollout.
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

/// How the hook treats the DRA driver's kubelet plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DraRollout {
    /// Whether the hook replaces stale plugins.
    pub reroll: Reroll,
    /// Whether the hook requires a DRA driver.
    pub required: DraRequired,
}

/// One component of the stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipeComponent {
    /// The component's name in the catalog.
    #[schemars(extend("x-grammar" = "componentName"))]
    pub name: String,
    /// The chart's version, as written in the chart's repository. Default: the catalog's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "chartVersion"))]
    pub version: Option<String>,
    /// The namespace to deploy into. Default: the catalog's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "namespace"))]
    pub namespace: Option<String>,
    /// The chart of a component that is not in the catalog. Such a component also needs `version`
    /// and `namespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartSource>,
    /// Components of the recipe that must succeed before this one, in addition to those in the
    /// catalog.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "componentName"}))]
    pub after: Vec<String>,
    /// Values of the component's chart. Keys that the chart never reads are errors.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
    /// Specs, by kind, of the custom resources that the operator reads and its chart does not
    /// create.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub custom_resources: Map<String, Value>,
    /// Where the component's pods run. Sets every key that the chart has for this. A list replaces
    /// the chart's own.
    #[serde(default, skip_serializing_if = "NodeScheduling::is_empty")]
    pub node_scheduling: NodeScheduling,
    /// Configurations of the device plugin (`gpu-operator` and `nvidia-device-plugin`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_plugin_config: Option<DevicePluginConfig>,
    /// `false` omits a component that a parent recipe has.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub enabled: bool,
}

impl RecipeComponent {
    /// Returns a component with this name and no other setting.
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
    /// The chart's repository: `https://…` or `oci://…`, without the chart's name.
    #[schemars(extend("x-grammar" = "chartRepository"))]
    pub repository: String,
    /// The chart's name in the repository.
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
    /// Pods on the nodes with the hardware.
    #[serde(skip_serializing_if = "PodScheduling::is_empty")]
    pub accelerated: PodScheduling,
}

impl NodeScheduling {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.system.is_empty() && self.accelerated.is_empty()
    }
}

impl NodeScheduling {
    /// Returns the parts that are set.
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
    /// Returns the value paths that a chart has for pods of the group.
    pub fn places<'p>(&self, known: &'p SchedulingPaths) -> &'p ValuePaths {
        if self.group == "system" { &known.system } else { &known.accelerated }
    }

    /// Returns the value paths for this part.
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
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.node_selector.is_empty() && self.tolerations.is_empty()
    }
}

/// A toleration, with Kubernetes' fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeToleration {
    /// The taint's key. If absent, with the operator `Exists`: every taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "labelKey"))]
    pub key: Option<String>,
    /// How the taint is compared. Kubernetes' default: `Equal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// The taint's value, with the operator `Equal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "labelValue"))]
    pub value: Option<String>,
    /// The taint's effect. If absent: every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// How many seconds a `NoExecute` taint is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<u32>,
}

/// How a taint is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// The taint has this key and this value.
    Equal,
    /// The taint has this key.
    Exists,
}

/// The effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New pods are not scheduled on the node.
    NoSchedule,
    /// New pods are scheduled on other nodes if possible.
    PreferNoSchedule,
    /// Running pods are evicted.
    NoExecute,
}

/// Configurations of the device plugin. The bundle creates a ConfigMap from them. A node's label
/// `nvidia.com/device-plugin.config` selects one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DevicePluginConfig {
    /// The configuration for nodes without the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "configName"))]
    pub default: Option<String>,
    /// Configurations by name, each as the device plugin's own file: `version: v1`, `flags`,
    /// `sharing` …
    #[schemars(extend("propertyNames" = {"x-grammar": "configName"}))]
    pub configs: Map<String, Value>,
}

/// Whether a value is its type's default, for serde.
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
