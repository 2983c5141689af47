//! The part of a recipe about how a driver's upgrade goes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use contract::count::Count;
use contract::duration::Duration;
use contract::policy::{ForeignCordon, TopologyLimit};

/// The upgrade policy: that of the vendor (gpu-operator chart, `driver.upgradePolicy`), and what only modes of ours know. What is absent
/// is left to the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeUpgradePolicy {
    /// How many nodes are upgraded at once; 0 is unlimited. Chart default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_upgrades: Option<u32>,
    /// How many nodes may be unavailable. Chart default: `25%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Count>,
    /// Wait for jobs before a node is touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_completion: Option<RecipeWaitForCompletion>,
    /// Eviction of the pods that use GPUs (chart key `gpuPodDeletion`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_deletion: Option<RecipePodDeletion>,
    /// Drain of the whole node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<RecipeDrain>,
    /// `steer`, `drive`: how many nodes may fail until no other node is started. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_budget: Option<Count>,
    /// `assist`, `steer`, `drive`: how often one node is tried for one cause. Default: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// `steer`, `drive`: the pause between the end of one node and the start of the next. Default: `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<Duration>,
    /// `steer`, `drive`: nodes with the same value of a label are limited together, such as those of one NVLink domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyLimit>,
    /// `steer`, `drive`: what is done with nodes that somebody else has cordoned. Default: `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_cordon: Option<ForeignCordon>,
    /// `drive`: label selectors of pods that use the device without asking for it. They are evicted with those that do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "selector"}))]
    pub extra_consumers: Vec<String>,
    /// `steer`, `drive`: how long a driver pod may take to become ready. Default: `30m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_start: Option<Duration>,
    /// `steer`, `drive`: how long the operator's validator may take once the driver is ready. Default: `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Duration>,
}

/// The upgrade policy: the network operator's, and what only modes of ours know. What is absent is left to the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeOfedUpgradePolicy {
    /// How many nodes are upgraded at once, the only limit that the operator has; 0 is unlimited. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_upgrades: Option<u32>,
    /// `steer`, `drive`: how many nodes may be unavailable. Default: `25%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Count>,
    /// Wait for jobs before a node is touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_completion: Option<RecipeWaitForCompletion>,
    /// `drive`: eviction of the pods that use the network adapters. Without it, what is to go goes by `drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_deletion: Option<RecipePodDeletion>,
    /// Drain of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<RecipeDrain>,
    /// Cordon and drain a node also before the driver is loaded on it for the first time. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safe_load: Option<bool>,
    /// `steer`, `drive`: how many nodes may fail until no other node is started. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_budget: Option<Count>,
    /// `assist`, `steer`, `drive`: how often one node is tried for one cause. Default: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// `steer`, `drive`: the pause between the end of one node and the start of the next. Default: `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<Duration>,
    /// `steer`, `drive`: nodes with the same value of a label are limited together, such as those of one NVLink domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyLimit>,
    /// `steer`, `drive`: what is done with nodes that somebody else has cordoned. Default: `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_cordon: Option<ForeignCordon>,
    /// `drive`: label selectors of pods that use the device without asking for it. They are evicted with those that do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "selector"}))]
    pub extra_consumers: Vec<String>,
    /// `steer`, `drive`: how long a driver pod may take to become ready. Default: `30m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_start: Option<Duration>,
}

impl RecipeOfedUpgradePolicy {
    /// What both drivers' policies have in common.
    pub fn common(&self) -> RecipeUpgradePolicy {
        RecipeUpgradePolicy {
            max_parallel_upgrades: self.max_parallel_upgrades,
            max_unavailable: self.max_unavailable,
            wait_for_completion: self.wait_for_completion.clone(),
            pod_deletion: self.pod_deletion.clone(),
            drain: self.drain.clone(),
            failure_budget: self.failure_budget,
            attempts: self.attempts,
            soak: self.soak,
            topology: self.topology.clone(),
            foreign_cordon: self.foreign_cordon,
            extra_consumers: self.extra_consumers.clone(),
            driver_start: self.driver_start,
            validation: None,
        }
    }
}

/// Jobs that are waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipeWaitForCompletion {
    /// Label selector of the pods.
    #[schemars(extend("x-grammar" = "selector"))]
    pub pod_selector: String,
    /// How long at most. `0s` is for ever, which no Job with a budget can promise: an error with gate `settled`.
    #[serde(default)]
    pub timeout: Option<Duration>,
}

/// How GPU pods are evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipePodDeletion {
    /// Also pods without a controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// How long at most. Chart default: 300 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Also pods with `emptyDir` volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_empty_dir: Option<bool>,
}

/// How a node is drained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeDrain {
    /// Whether at all. Default: false for the GPU driver, true for the OFED driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Also pods without a controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Only pods with these labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "selector"))]
    pub pod_selector: Option<String>,
    /// How long at most. Chart default: 300 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Also pods with `emptyDir` volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_empty_dir: Option<bool>,
}
