//! Acceptance tests in a recipe.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use catalog::model::PodSecurity;
use contract::acceptance::{AcceptanceGpus, AcceptanceNodes, AcceptanceTest, AcceptanceTime};
use contract::duration::Duration;

use super::RecipeToleration;

/// The time of a test that sets none.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A test that a node must pass: a pod that runs on the node while it is cordoned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipeAcceptanceTest {
    /// The test's name: lower-case letters, digits and dashes, at most 40 characters.
    #[schemars(extend("x-grammar" = "testName"))]
    pub name: String,
    /// The pod of the test in a short form: one container. Set this or `podTemplate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<RecipeTestPod>,
    /// The pod of the test as a PodTemplateSpec of Kubernetes (`metadata`, `spec`). The hook sets
    /// the node, the deadline and `restartPolicy: Never` itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<Map<String, Value>>,
    /// How long the test may take on a node, with the pull of its image. If it takes longer, the
    /// test is not passed. Default: `10m`.
    #[serde(default = "timeout")]
    pub timeout: Duration,
    /// Which GPUs the pod requests: all GPUs of its node (`all`), or those in the pod itself
    /// (`template`). Default: `all`.
    #[serde(default)]
    pub gpus: AcceptanceGpus,
    /// When the test runs: with the new driver, before the node takes workloads (`after`), or with
    /// the old driver, when the node is free of workloads (`before`; only in mode `drive`).
    /// Default: `[after]`.
    #[serde(default = "when")]
    pub when: Vec<AcceptanceTime>,
    /// On which nodes the test runs: `all`, `canaries`, or the canaries and a share of the other
    /// nodes, such as `10%`. Default: `all`.
    #[serde(default)]
    pub nodes: AcceptanceNodes,
    /// How many lines at the end of the log the hook keeps if the test does not pass, at most 50.
    /// Everyone who can read the node, or the hook's log, can read them. Known forms of secrets are
    /// removed, but do not use this if the test may print others. Default: 0, so the hook reads no
    /// log.
    #[serde(default)]
    pub log_lines: u32,
}

fn timeout() -> Duration {
    TIMEOUT
}

fn when() -> Vec<AcceptanceTime> {
    vec![AcceptanceTime::After]
}

impl From<&RecipeAcceptanceTest> for AcceptanceTest {
    fn from(test: &RecipeAcceptanceTest) -> Self {
        Self {
            name: test.name.clone(),
            timeout_seconds: test.timeout.as_secs(),
            when: test.when.clone(),
            nodes: test.nodes,
            gpus: test.gpus,
            log_lines: test.log_lines,
        }
    }
}

/// The pod of a test with one container, named `test`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipeTestPod {
    /// The container's image, with a tag or a digest.
    #[schemars(extend("x-grammar" = "image"))]
    pub image: String,
    /// The program and its arguments, in place of the image's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "text"}))]
    pub command: Vec<String>,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "text"}))]
    pub args: Vec<String>,
    /// Environment variables, each with its value as a string. For values from Secrets, use
    /// `podTemplate`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("propertyNames" = {"x-grammar": "environmentName"}, "additionalProperties" = {"type": "string", "x-grammar": "text"}))]
    pub env: Map<String, Value>,
    /// Requests and limits of the container, without GPUs: those are in `gpus`.
    #[serde(default, skip_serializing_if = "RecipeTestResources::is_empty")]
    pub resources: RecipeTestResources,
    /// Secrets of namespace `gpu-rollout-acceptance` with which the image is pulled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<TestPullSecret>,
    /// Taints that the pod tolerates, in addition to those of a cordon and of GPU nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<RecipeToleration>,
    /// The RuntimeClass, such as `nvidia`. Default: that of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "objectName"))]
    pub runtime_class_name: Option<String>,
    /// The container's SecurityContext. It must fit `rollout.acceptancePodSecurity`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub security_context: Map<String, Value>,
}

/// Requests and limits of a container, such as `{limits: {memory: 8Gi}}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeTestResources {
    /// Resources that the scheduler reserves.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("propertyNames" = {"x-grammar": "labelKey"}))]
    pub requests: Map<String, Value>,
    /// Resources that the container may use at most.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("propertyNames" = {"x-grammar": "labelKey"}))]
    pub limits: Map<String, Value>,
}

impl RecipeTestResources {
    /// Returns whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.limits.is_empty()
    }
}

/// A Secret with which an image is pulled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestPullSecret {
    /// The Secret's name.
    #[schemars(extend("x-grammar" = "secretName"))]
    pub name: String,
}

/// The Pod Security level of the namespace of acceptance tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptancePodSecurity {
    /// The strictest level.
    Restricted,
    /// No host namespaces, no privileged containers, no files of the host.
    #[default]
    Baseline,
    /// No restrictions.
    Privileged,
}

impl From<AcceptancePodSecurity> for PodSecurity {
    fn from(level: AcceptancePodSecurity) -> Self {
        match level {
            AcceptancePodSecurity::Restricted => Self::Restricted,
            AcceptancePodSecurity::Baseline => Self::Baseline,
            AcceptancePodSecurity::Privileged => Self::Privileged,
        }
    }
}
