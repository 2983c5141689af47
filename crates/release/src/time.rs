//! How long things take: budget B of a hook, timeouts of the other releases.

use serde_json::{Map, Value};

use super::{PlanError, mode, values};
use catalog::lookup;
use contract::budget::{FleetPace, OVERHEAD_SECONDS, deployer_timeout_seconds};
use contract::count::{Count, CountError};
use contract::driver::Driver;
use contract::duration::Duration;
use contract::policy::Policy;
use contract::settings::{DevicePluginSettings, DraSettings, Mode};
use contract::task::Task;
use recipe::model::{OfedDriverRollout, Recipe, RecipeWaitForCompletion};

/// One operation on a release without a hook Job of ours: Helm's own default of five minutes twice, because vendors' charts bring
/// hook Jobs whose image has to be pulled first.
pub const UPSTREAM_TIMEOUT_SECONDS: u64 = 600;
/// One operation on a local chart of CRDs or namespaces: objects are created and nothing is waited for.
pub const LOCAL_TIMEOUT_SECONDS: u64 = 300;
/// Seconds that the pods of the GPU operator's other operands take to be replaced on one node: the old one's grace period, start, validation.
const OPERANDS_SECONDS: u64 = 60;
/// On how many nodes a rolling update of operands replaces pods at once; the gpu-operator chart's and Kubernetes' default.
const OPERANDS_MAX_UNAVAILABLE: Count = Count::Number(1);
/// Where that limit stands in the values.
const OPERANDS_MAX_UNAVAILABLE_PATH: &str = "daemonsets.rollingUpdate.maxUnavailable";
/// The key of the limit of nodes that are upgraded at once.
const MAX_PARALLEL: &str = "maxParallelUpgrades";
/// What is said of nodes whose driver is upgraded.
const UPGRADED: &str = "upgraded";
/// Budgets beyond this are mistakes, and Go's and Kubernetes' second counters are 32 bits wide in places.
const MAX_SECONDS: u64 = 24 * 24 * 3600;

/// B and how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeBudget {
    /// B: the Job's `activeDeadlineSeconds`.
    pub seconds: u64,
    /// Seconds for one node, with the wait for its jobs.
    pub per_node_seconds: u64,
    /// The same as a sentence for people.
    pub explanation: String,
}

impl TimeBudget {
    /// T: what a deployer must wait at least.
    pub fn timeout_seconds(&self) -> u64 {
        deployer_timeout_seconds(self.seconds)
    }
}

/// What a driver's budget is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriverPace<'a> {
    /// The driver.
    pub(super) driver: Driver,
    /// The component that carries its policy.
    pub(super) component: &'a str,
    /// Where that component's policy stands in a recipe, for messages.
    pub(super) place: &'a str,
    /// What carries the policy, as it is installed: the values of a chart, or the spec of a custom resource.
    pub(super) carrier: Option<&'a Map<String, Value>>,
    /// The mode that is in force.
    pub(super) mode: Mode,
}

/// The budget of a hook Job with `tasks`.
///
/// # Errors
/// Values that no budget can be made from, a wait without an end, or a budget of more than 24 days.
pub(super) fn budget(
    recipe: &Recipe,
    pace: DriverPace<'_>,
    tasks: &[Task],
) -> Result<TimeBudget, PlanError> {
    let ours = pace.mode.decides().then(|| mode::upgrade(&recipe.rollout, pace.driver));
    let limits = match &ours {
        Some(upgrade) => PolicyLimits::ours(&upgrade.policy),
        None => pace.limits()?,
    };
    let wait = match limits.wait {
        Some(wait) if wait.as_secs() == 0 => return Err(PlanError::EndlessWait(pace.key())),
        Some(wait) => wait.as_secs(),
        None => 0,
    };
    let per_node = recipe
        .rollout
        .driver(pace.driver)
        .map_or_else(|| OfedDriverRollout::default().per_node, |driver| driver.per_node);
    let per_node_seconds = per_node.as_secs().saturating_add(wait);
    let nodes = recipe.cluster.gpu_nodes as usize;
    let vendors = FleetPace {
        nodes,
        max_parallel: limits.max_parallel,
        max_unavailable: limits.max_unavailable,
        per_node_seconds,
        soak_seconds: 0,
    };
    let upgrade = ours.map_or(vendors, |upgrade| upgrade.fleet(nodes, per_node_seconds));
    let replaced = |max_unavailable, per_node_seconds| FleetPace {
        max_parallel: 0,
        max_unavailable,
        per_node_seconds,
        ..vendors
    };
    let (dra, plugins) = (DraSettings::default(), DevicePluginSettings::default());
    let reroll = replaced(dra.max_unavailable, dra.replacement_seconds);
    let restart = replaced(plugins.max_unavailable, plugins.replacement_seconds);
    let operands = pace.operands_max_unavailable()?.map(|max_unavailable| {
        (Task::Settle, replaced(max_unavailable, OPERANDS_SECONDS), "with its operands replaced")
    });
    let candidates = [
        (Task::Settle, upgrade, UPGRADED),
        (Task::Reroll, reroll, "re-rolled"),
        (Task::RestartPlugins, restart, "restarted"),
    ];
    let candidates =
        operands.into_iter().chain(candidates).filter(|(task, ..)| tasks.contains(task));
    let slowest = candidates.max_by_key(|(_, fleet, _)| fleet.budget_seconds());
    let Some((_, fleet, verb)) = slowest else {
        let explanation =
            format!("{}: no node is waited for", Duration::from_secs(OVERHEAD_SECONDS));
        return Ok(TimeBudget { seconds: OVERHEAD_SECONDS, per_node_seconds, explanation });
    };
    let seconds = fleet.budget_seconds();
    let waiting = if wait > 0 && verb == UPGRADED {
        format!(" (of which {} wait for jobs)", Duration::from_secs(wait))
    } else {
        String::new()
    };
    let soak = Duration::from_secs(fleet.soak_seconds);
    let pauses =
        if fleet.soak_seconds > 0 { format!(", {soak} between them") } else { String::new() };
    let explanation = format!(
        "{}: {nodes} GPU node{}, {} {verb} at once, {} a node{waiting}{pauses}, {} for everything else",
        Duration::from_secs(seconds),
        if nodes == 1 { "" } else { "s" },
        fleet.parallel(),
        Duration::from_secs(fleet.per_node_seconds),
        Duration::from_secs(OVERHEAD_SECONDS),
    );
    if seconds > MAX_SECONDS {
        return Err(PlanError::TooLong { driver: pace.key(), explanation });
    }
    Ok(TimeBudget { seconds, per_node_seconds, explanation })
}

/// What the policy in force says about pace.
#[derive(Debug, PartialEq, Eq)]
struct PolicyLimits {
    max_parallel: u32,
    max_unavailable: Count,
    /// `None`: nothing is waited for. Zero: for ever.
    wait: Option<Duration>,
}

impl PolicyLimits {
    fn ours(policy: &Policy) -> Self {
        Self {
            max_parallel: policy.max_parallel_upgrades,
            max_unavailable: policy.max_unavailable.unwrap_or(Count::Percent(100)),
            wait: policy
                .wait_for_completion
                .as_ref()
                .map(|wait| Duration::from_secs(wait.timeout_seconds)),
        }
    }
}

impl DriverPace<'_> {
    /// The driver's key below `rollout`.
    fn key(self) -> &'static str {
        match self.driver {
            Driver::Gpu | Driver::DaemonSet => "gpuDriver",
            Driver::Ofed => "ofedDriver",
        }
    }

    /// The path of a key of the policy.
    fn path(self, key: &str) -> String {
        let policy = match self.driver {
            Driver::Gpu | Driver::DaemonSet => values::gpu::POLICY,
            Driver::Ofed => values::ofed::POLICY,
        };
        format!("{policy}.{key}")
    }

    fn limits(self) -> Result<PolicyLimits, PlanError> {
        let empty = Map::new();
        let carrier = self.carrier.unwrap_or(&empty);
        let wrong = |path: String, reason: &str| {
            PlanError::value(self.component, format!("{}.{path}", self.place), reason)
        };
        let number = |key: &str| match lookup(carrier, &self.path(key)) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| wrong(self.path(key), "expected a whole number of at least 0")),
        };
        let max_parallel = match number(MAX_PARALLEL)? {
            None => Policy::default().max_parallel_upgrades,
            Some(found) => {
                u32::try_from(found).map_err(|_| wrong(self.path(MAX_PARALLEL), "is too large"))?
            }
        };
        let selector = lookup(carrier, &self.path("waitForCompletion.podSelector"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        let wait = if selector.is_empty() {
            None
        } else {
            Some(Duration::from_secs(number("waitForCompletion.timeoutSeconds")?.unwrap_or(0)))
        };
        let max_unavailable = match self.driver {
            Driver::Gpu | Driver::DaemonSet => self.max_unavailable(carrier)?,
            // NicClusterPolicy knows no such limit.
            Driver::Ofed => Count::Percent(100),
        };
        Ok(PolicyLimits { max_parallel, max_unavailable, wait })
    }

    /// How many nodes have operands other than the driver replaced at once. `None`: there are none, or no controller replaces them (`OnDelete`).
    fn operands_max_unavailable(self) -> Result<Option<Count>, PlanError> {
        let empty = Map::new();
        let carrier = self.carrier.unwrap_or(&empty);
        let on_delete = lookup(carrier, "daemonsets.updateStrategy").and_then(Value::as_str)
            == Some("OnDelete");
        if self.driver != Driver::Gpu || on_delete {
            return Ok(None);
        }
        Ok(Some(
            self.count(carrier, OPERANDS_MAX_UNAVAILABLE_PATH)?.unwrap_or(OPERANDS_MAX_UNAVAILABLE),
        ))
    }

    fn max_unavailable(self, carrier: &Map<String, Value>) -> Result<Count, PlanError> {
        let found = self
            .count(carrier, &self.path("maxUnavailable"))?
            .or(Policy::default().max_unavailable)
            .unwrap_or(Count::Percent(100));
        match found {
            Count::Number(0) | Count::Percent(0) => {
                Err(PlanError::ZeroUnavailable(found.to_string()))
            }
            Count::Number(_) | Count::Percent(_) => Ok(found),
        }
    }

    /// A number or a percentage of nodes; `None`: nothing is said.
    fn count(self, carrier: &Map<String, Value>, path: &str) -> Result<Option<Count>, PlanError> {
        let count = match lookup(carrier, path) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        if count.is_empty() {
            return Ok(None);
        }
        count.parse().map(Some).map_err(|error: CountError| {
            PlanError::value(self.component, format!("{}.{path}", self.place), error.to_string())
        })
    }
}

/// Whether a wait for jobs has no end.
pub(super) fn is_endless(wait: &RecipeWaitForCompletion) -> bool {
    !wait.pod_selector.is_empty() && wait.timeout.is_none_or(|timeout| timeout.as_secs() == 0)
}
