//! The upgrade policy of a driver in a recipe.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use contract::count::Count;
use contract::duration::Duration;
use contract::policy::{ForeignCordon, TopologyLimit};
use contract::proof::{Canary, Halt, RampShare};
use contract::window::MaintenanceWindow;

/// The GPU driver's upgrade policy: NVIDIA's keys (gpu-operator chart, `driver.upgradePolicy`), and
/// keys of the modes `assist`, `steer` and `drive`. An absent key has the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeUpgradePolicy {
    /// How many nodes are upgraded at once; 0 means unlimited. Chart default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_upgrades: Option<u32>,
    /// How many nodes may be unavailable at once. Chart default: `25%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Count>,
    /// The jobs that must end on a node before pods are evicted there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_completion: Option<RecipeWaitForCompletion>,
    /// Eviction of pods that use GPUs (chart key `gpuPodDeletion`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_deletion: Option<RecipePodDeletion>,
    /// How the node is drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<RecipeDrain>,
    /// `steer`, `drive`: how many nodes may fail. If more fail, the hook starts no further upgrade.
    /// Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_budget: Option<Count>,
    /// How many times the upgrade of a node is attempted: in `steer` and `drive` for one cause, in
    /// `assist` in one deployment, whatever the cause. Default: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// `steer`, `drive`: the pause between the end of one node's upgrade and the start of the next.
    /// Default: `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<Duration>,
    /// `steer`, `drive`: when the hook may start nodes, such as `Mon-Fri 22:00-05:00 Europe/Berlin`.
    /// Nodes in progress finish outside of the windows too. Default: always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<MaintenanceWindow>,
    /// `steer`, `drive`: the nodes that are upgraded before all others, to prove the driver.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<RecipeCanary>,
    /// `steer`, `drive`: the shares of the nodes at which a step of the rollout ends, such as
    /// `[10%, 50%, 100%]`. The soak of `canary` is between the steps, so without `canary` there is
    /// no pause. Default: one step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ramp: Vec<RampShare>,
    /// `steer`, `drive`: when the rollout halts. It then starts no more nodes until a user resumes
    /// it or deploys another driver. Default: after one failed proof with `canary` or `ramp`,
    /// otherwise never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt: Option<Halt>,
    /// `steer`, `drive`: a limit for each group of nodes with the same value of a label, such as one
    /// NVLink domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyLimit>,
    /// `steer`, `drive`: whether to leave nodes with a foreign cordon alone (`skip`), or to upgrade
    /// them and keep the cordon (`include`). Default: `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_cordon: Option<ForeignCordon>,
    /// `drive`: label selectors of pods that use the device without requesting it. They are evicted
    /// with the other device users.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "selector"}))]
    pub extra_consumers: Vec<String>,
    /// `steer`, `drive`: how long a driver pod may take to become ready. Default: `30m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_start: Option<Duration>,
    /// `steer`, `drive`: how long the operator's validator may take after the driver is ready.
    /// Default: `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Duration>,
}

/// The OFED driver's upgrade policy: the Network Operator's keys, and keys of the modes `assist`,
/// `steer` and `drive`. An absent key has the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeOfedUpgradePolicy {
    /// How many nodes are upgraded at once; 0 means unlimited. The operator has no other limit.
    /// Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_upgrades: Option<u32>,
    /// `steer`, `drive`: how many nodes may be unavailable at once. Default: `25%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Count>,
    /// The jobs that must end on a node before pods are evicted there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_completion: Option<RecipeWaitForCompletion>,
    /// `drive`: eviction of pods that use the network adapters. Without it, only `drain` evicts
    /// pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_deletion: Option<RecipePodDeletion>,
    /// How the node is drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<RecipeDrain>,
    /// Whether to cordon and drain a node also before the driver is loaded on it for the first time.
    /// Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safe_load: Option<bool>,
    /// `steer`, `drive`: how many nodes may fail. If more fail, the hook starts no further upgrade.
    /// Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_budget: Option<Count>,
    /// How many times the upgrade of a node is attempted: in `steer` and `drive` for one cause, in
    /// `assist` in one deployment, whatever the cause. Default: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// `steer`, `drive`: the pause between the end of one node's upgrade and the start of the next.
    /// Default: `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<Duration>,
    /// `steer`, `drive`: when the hook may start nodes, such as `Mon-Fri 22:00-05:00 Europe/Berlin`.
    /// Nodes in progress finish outside of the windows too. Default: always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<MaintenanceWindow>,
    /// `steer`, `drive`: the nodes that are upgraded before all others, to prove the driver.
    /// Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<RecipeCanary>,
    /// `steer`, `drive`: the shares of the nodes at which a step of the rollout ends, such as
    /// `[10%, 50%, 100%]`. The soak of `canary` is between the steps, so without `canary` there is
    /// no pause. Default: one step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ramp: Vec<RampShare>,
    /// `steer`, `drive`: when the rollout halts. It then starts no more nodes until a user resumes
    /// it or deploys another driver. Default: after one failed proof with `canary` or `ramp`,
    /// otherwise never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt: Option<Halt>,
    /// `steer`, `drive`: a limit for each group of nodes with the same value of a label, such as one
    /// NVLink domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyLimit>,
    /// `steer`, `drive`: whether to leave nodes with a foreign cordon alone (`skip`), or to upgrade
    /// them and keep the cordon (`include`). Default: `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_cordon: Option<ForeignCordon>,
    /// `drive`: label selectors of pods that use the device without requesting it. They are evicted
    /// with the other device users.
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
            windows: self.windows.clone(),
            canary: self.canary.clone(),
            ramp: self.ramp.clone(),
            halt: self.halt,
            topology: self.topology.clone(),
            foreign_cordon: self.foreign_cordon,
            extra_consumers: self.extra_consumers.clone(),
            driver_start: self.driver_start,
            validation: None,
        }
    }
}

/// The nodes that are upgraded before all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeCanary {
    /// How many canaries each combination of label values has. Default: 1.
    pub nodes: u32,
    /// The keys of the labels whose values are combined, such as `nvidia.com/gpu.product`. Default:
    /// none, so the whole fleet is one combination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "labelKey"}))]
    pub per: Vec<String>,
    /// The pause between the end of one step of the rollout and the start of the next: after the
    /// canaries, and after each share of `ramp`. Default: `0s`.
    pub soak: Duration,
}

impl Default for RecipeCanary {
    fn default() -> Self {
        Self::from(&Canary::default())
    }
}

impl From<&Canary> for RecipeCanary {
    fn from(canary: &Canary) -> Self {
        let Canary { nodes, per, soak_seconds } = canary;
        Self { nodes: *nodes, per: per.clone(), soak: Duration::from_secs(*soak_seconds) }
    }
}

impl From<&RecipeCanary> for Canary {
    fn from(canary: &RecipeCanary) -> Self {
        let RecipeCanary { nodes, per, soak } = canary;
        Self { nodes: *nodes, per: per.clone(), soak_seconds: soak.as_secs() }
    }
}

/// The jobs to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecipeWaitForCompletion {
    /// The label selector of the jobs' pods.
    #[schemars(extend("x-grammar" = "selector"))]
    pub pod_selector: String,
    /// How long to wait for the jobs at most. `0s` would wait forever, and is an error, because the
    /// hook Job has a time budget.
    #[serde(default)]
    pub timeout: Option<Duration>,
}

/// How pods that use the device are evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipePodDeletion {
    /// Whether to evict pods without a controller too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// How long the pods may take to leave the node. Default: 300 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Whether to evict pods with `emptyDir` volumes too. Their data is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_empty_dir: Option<bool>,
}

/// How a node is drained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeDrain {
    /// Whether to drain the node. Default: false for the GPU driver, true for the OFED driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Whether to evict pods without a controller too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// The label selector of the pods to evict. Default: all pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "selector"))]
    pub pod_selector: Option<String>,
    /// How long the pods may take to leave the node. Default: 300 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Whether to evict pods with `emptyDir` volumes too. Their data is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_empty_dir: Option<bool>,
}
