//! How a recipe rolls out drivers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use contract::check::CheckStrictness;
use contract::count::Count;
use contract::driver::Driver;
use contract::duration::Duration;
use contract::omitted::is_default;
use contract::settings::{
    DraRequired, Gate, Mode, OperatorUpgradeSettings, Reroll, Settings, SettleSettings,
};

use super::{
    AcceptancePodSecurity, RecipeAcceptanceTest, RecipeAdmissionPolicy, RecipeMetrics,
    RecipeOfedUpgradePolicy, RecipeUpgradePolicy,
};

/// How drivers are rolled out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeRollout {
    /// The GPU driver.
    pub gpu_driver: GpuDriverRollout,
    /// The OFED driver of the Network Operator. If absent, the upgrade policy of `customResources` or
    /// of the chart applies, and the hook works as in mode `observe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ofed_driver: Option<OfedDriverRollout>,
    /// The DRA driver's kubelet plugins.
    pub dra: DraRollout,
    /// `steer`, `drive`: tests that a node must pass with a new GPU driver before it takes workloads
    /// again, in the order in which they run. A recipe's list replaces that of its parents. Default:
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<RecipeAcceptanceTest>,
    /// The Pod Security level of the namespace `gpu-rollout-acceptance`, in which these tests run.
    /// Default: `baseline`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("default" = AcceptancePodSecurity::default()))]
    pub acceptance_pod_security: AcceptancePodSecurity,
    /// Monitoring of the hooks.
    #[serde(skip_serializing_if = "is_default")]
    pub metrics: RecipeMetrics,
    /// Admission policies of the hooks.
    #[serde(skip_serializing_if = "is_default")]
    pub admission_policy: RecipeAdmissionPolicy,
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
    /// The condition that the hook waits for before it succeeds.
    pub gate: Gate,
    /// The quiet period: how long all conditions must hold before the fleet counts as settled.
    pub quiet: Duration,
    /// How many of the driver's nodes may stay NotReady. If more do, the run fails.
    pub tolerate_not_ready: Count,
    /// The severity of preflight findings, by check.
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
    /// The driver's version, as a string: YAML would read an unquoted `580.10` as a number. It sets
    /// the chart's `driver.version`; setting both is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "driverVersion"))]
    pub version: Option<String>,
    /// Limits, waits, pod deletion and drain. In the modes `observe` and `assist`, they set the
    /// chart's `driver.upgradePolicy`. In `steer`, the hook applies the limits, and the others set
    /// `driver.upgradePolicy`. In `drive`, the hook applies them all.
    pub policy: RecipeUpgradePolicy,
    /// How long one node is expected to take. Time budgets are computed from it.
    pub per_node: Duration,
    /// The condition that the hook waits for before it succeeds.
    pub gate: Gate,
    /// The quiet period: how long all conditions must hold before the fleet counts as settled.
    pub quiet: Duration,
    /// How many of the driver's nodes may stay NotReady. If more do, the run fails.
    pub tolerate_not_ready: Count,
    /// Details of the condition `settled`.
    #[serde(skip_serializing_if = "SettleSettings::is_default")]
    pub settle: SettleSettings,
    /// `assist`: what the hook does before an upgrade of the GPU Operator.
    #[serde(skip_serializing_if = "OperatorUpgradeSettings::is_default")]
    pub operator_upgrade: OperatorUpgradeSettings,
    /// `assist`, `steer`, `drive`: the severity of preflight findings, by check.
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
    /// The driver's version, as a string. It sets NicClusterPolicy's `ofedDriver.version`; setting
    /// both is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "driverVersion"))]
    pub version: Option<String>,
    /// Limits, waits, drain, `safeLoad` and, in `drive`, pod deletion. In the modes `observe` and
    /// `assist`, they set NicClusterPolicy's `ofedDriver.upgradePolicy`. In `steer`, the hook applies
    /// the limits, and the others set `ofedDriver.upgradePolicy`. In `drive`, the hook applies all of
    /// them but `safeLoad`.
    pub policy: RecipeOfedUpgradePolicy,
    /// How long one node is expected to take. Time budgets are computed from it.
    pub per_node: Duration,
    /// The condition that the hook waits for before it succeeds.
    pub gate: Gate,
    /// The quiet period: how long all conditions must hold before the fleet counts as settled.
    pub quiet: Duration,
    /// How many of the driver's nodes may stay NotReady. If more do, the run fails.
    pub tolerate_not_ready: Count,
    /// `assist`, `steer`, `drive`: the severity of preflight findings, by check.
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
    /// Whether the hook replaces stale plugins (`auto`), or only reports them (`off`).
    pub reroll: Reroll,
    /// Whether a DRA driver is required. `auto`: it may be absent, but one that exists must serve
    /// every node that it runs on. `true`: one must exist and serve every GPU node. `false`: its
    /// problems are reported, and never fail the run.
    pub required: DraRequired,
}
