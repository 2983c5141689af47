//! A component of a recipe.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::NodeScheduling;

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
    /// A kustomization in a Git repository, in place of a chart. Only Flux and Argo CD can deploy
    /// it. Such a component also needs `namespace`, which replaces that of every object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<KustomizeSource>,
    /// Components of the recipe that must succeed before this one is deployed, in addition to those
    /// that the catalog names.
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
    /// Templates of further objects of the component, by file name, such as `quota.yaml`. A component
    /// that is not in the catalog may consist of manifests alone, without a `chart`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"x-grammar": "manifestName"}))]
    pub manifests: BTreeMap<String, RecipeManifest>,
    /// Values that only `manifests` read, in addition to `values`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub manifest_values: Map<String, Value>,
    /// Where the component's pods run. Sets every key that the chart has for this. A list replaces
    /// the chart's own list.
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
            kustomize: None,
            after: Vec::new(),
            values: Map::new(),
            custom_resources: Map::new(),
            manifests: BTreeMap::new(),
            manifest_values: Map::new(),
            node_scheduling: NodeScheduling::default(),
            device_plugin_config: None,
            enabled: true,
        }
    }
}

/// A template of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipeManifest {
    /// Whether the objects are created before the component's chart or after it. CRDs always come
    /// first.
    pub when: ManifestTime,
    /// A template that Helm evaluates. It sees `.Values.COMPONENT`, `.Release.Namespace`,
    /// `.Release.Service`, `.Chart.Name` and `.Chart.Version`, as manifest files of NVIDIA AICR do.
    #[schemars(extend("x-grammar" = "manifest"))]
    pub template: String,
}

/// When objects are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ManifestTime {
    /// Before the component's chart.
    Before,
    /// After the component's chart.
    After,
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

/// A kustomization in a Git repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KustomizeSource {
    /// The Git repository: `https://…` or `ssh://…`.
    #[schemars(extend("x-grammar" = "gitRepository"))]
    pub repository: String,
    /// A tag, or a commit with all 40 digits.
    #[schemars(extend("x-grammar" = "gitRevision"))]
    pub revision: String,
    /// The directory with `kustomization.yaml`, from the repository's root.
    #[schemars(extend("x-grammar" = "gitPath"))]
    pub path: String,
}

/// Configurations of the device plugin. The bundle creates a ConfigMap from them. A node's label
/// `nvidia.com/device-plugin.config` selects one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DevicePluginConfig {
    /// The configuration of nodes without the label `nvidia.com/device-plugin.config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "configName"))]
    pub default: Option<String>,
    /// Configurations by name, each as the device plugin's own file: `version: v1`, `flags`,
    /// `sharing` …
    #[schemars(extend("propertyNames" = {"x-grammar": "configName"}))]
    pub configs: Map<String, Value>,
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
