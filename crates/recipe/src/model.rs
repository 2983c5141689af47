//! Types of a merged recipe (`apiVersion: gpu-rollout.dev/v1`, `kind: Recipe`). The JSON schema
//! (`recipe.schema.json`) is generated from them, with their doc comments as descriptions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use contract::omitted::is_default;

mod acceptance;
mod admission_policy;
mod component;
mod metrics;
mod node_scheduling;
mod policy;
mod policy_defaults;
mod rollout;

pub use acceptance::{
    AcceptancePodSecurity, RecipeAcceptanceTest, RecipeTestPod, RecipeTestResources, TestPullSecret,
};
pub use admission_policy::RecipeAdmissionPolicy;
pub use component::{
    ChartSource, DevicePluginConfig, KustomizeSource, ManifestTime, RecipeComponent, RecipeManifest,
};
pub use metrics::RecipeMetrics;
pub use node_scheduling::{
    NodeScheduling, PodScheduling, RecipeToleration, SchedulingPart, TaintEffect,
    TolerationOperator,
};
pub use policy::{
    RecipeCanary, RecipeDrain, RecipeOfedUpgradePolicy, RecipePodDeletion, RecipeUpgradePolicy,
    RecipeWaitForCompletion,
};
pub use rollout::{DraRollout, DriverRollout, GpuDriverRollout, OfedDriverRollout, RecipeRollout};

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
    /// The recipes that this one extends: names from the library, or paths relative to this file.
    /// This recipe overrides them. If two of them differ in a value, and neither extends the other,
    /// this recipe must set the value. Files must be below the directory of the recipe on the command line, or below a
    /// directory of `--allow-extends`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "reference"}))]
    pub extends: Vec<String>,
    /// Facts about the cluster, such as the number of GPU nodes.
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
    /// What the recipe is for. `recipe list` and `recipe new` select recipes of the library by it.
    /// Recipes do not inherit it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub criteria: RecipeCriteria,
}

/// What a recipe is for. A criterion that is absent is not decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipeCriteria {
    /// The Kubernetes service, such as `eks`; `baremetal` for machines of your own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "labelValue"))]
    pub service: Option<String>,
    /// The GPU, such as `gb200`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "labelValue"))]
    pub accelerator: Option<String>,
    /// The workloads, such as `training`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "labelValue"))]
    pub intent: Option<String>,
    /// The operating system of the GPU nodes, such as `ubuntu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "labelValue"))]
    pub os: Option<String>,
}

/// Facts about the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterFacts {
    /// The number of nodes with GPUs. Time budgets are computed from it.
    pub gpu_nodes: u32,
    /// The platform. `openshift` assigns the user that the hooks' pods run as, so the hooks set none.
    /// Default: `kubernetes`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("default" = ClusterPlatform::default()))]
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
