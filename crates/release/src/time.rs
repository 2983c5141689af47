//! Time budgets (B) of hooks, and timeouts of the other releases.

use serde_json::{Map, Value};

use super::{PlanError, mode, values};
use catalog::lookup;
use contract::budget::{FleetPace, OVERHEAD_SECONDS, StepPace, deployer_timeout_seconds};
use contract::count::{Count, CountError};
use contract::driver::Driver;
use contract::duration::Duration;
use contract::policy::{Policy, UpgradeSettings};
use contract::settings::{DevicePluginSettings, DraSettings, Mode};
use contract::task::Task;
use recipe::model::{OfedDriverRollout, Recipe, RecipeWaitForCompletion};

/// Timeout in seconds of one operation on a release without our hook Job: twice Helm's default of
/// five minutes, because vendors' charts have hook Jobs whose image must be pulled first.
pub const UPSTREAM_TIMEOUT_SECONDS: u64 = 600;
/// Timeout in seconds of one operation on a local chart of CRDs or namespaces, which creates
/// objects and waits for nothing.
pub const LOCAL_TIMEOUT_SECONDS: u64 = 300;
/// Seconds to replace the pods of the GPU Operator's other operands on one node: the old pod's
/// grace period, start, validation.
const OPERANDS_SECONDS: u64 = 60;
/// On how many nodes a rolling update of operands replaces pods at once: the default of the
/// gpu-operator chart and of Kubernetes.
const OPERANDS_MAX_UNAVAILABLE: Count = Count::Number(1);
/// The path of that limit in the values.
const OPERANDS_MAX_UNAVAILABLE_PATH: &str = "daemonsets.rollingUpdate.maxUnavailable";
/// The key that limits how many nodes are upgraded at once.
const MAX_PARALLEL: &str = "maxParallelUpgrades";
/// The upgrade of drivers in explanations, on `N` nodes at the same time.
const UPGRADED: &str = "N upgraded at once";
/// The largest budget in seconds. Larger ones are mistakes, and some counters of Go and Kubernetes
/// have only 32 bits.
const MAX_SECONDS: u64 = 24 * 24 * 3600;

/// A time budget (B), and how it was computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeBudget {
    /// B: the Job's `activeDeadlineSeconds`.
    pub seconds: u64,
    /// Seconds for one node, with the wait for its jobs and the acceptance tests of every node.
    pub per_node_seconds: u64,
    /// How the budget was computed, as a sentence.
    pub explanation: String,
}

impl TimeBudget {
    /// T: the minimum seconds that a deployer must wait.
    pub fn timeout_seconds(&self) -> u64 {
        deployer_timeout_seconds(self.seconds)
    }
}

/// The input for a driver's time budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriverPace<'a> {
    /// The driver.
    pub(super) driver: Driver,
    /// The component with its policy.
    pub(super) component: &'a str,
    /// The path of the policy in a recipe, for messages.
    pub(super) place: &'a str,
    /// The installed policy's parent: the values of a chart, or the spec of a custom resource.
    pub(super) carrier: Option<&'a Map<String, Value>>,
    /// The effective mode.
    pub(super) mode: Mode,
}

/// Computes the time budget of a hook Job with `tasks`.
///
/// # Errors
/// Values have the wrong type, a wait is endless, or the budget is more than 24 days.
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
    let wait = limits.wait_seconds(pace)?;
    let per_node = recipe
        .rollout
        .driver(pace.driver)
        .map_or_else(|| OfedDriverRollout::default().per_node, |driver| driver.per_node);
    let tests = ours.as_ref().map_or(0, UpgradeSettings::every_node_test_seconds);
    let per_node_seconds = per_node.as_secs().saturating_add(wait).saturating_add(tests);
    let nodes = recipe.cluster.gpu_nodes as usize;
    let vendors = FleetPace {
        nodes,
        max_parallel: limits.max_parallel,
        max_unavailable: limits.max_unavailable,
        per_node_seconds,
        soak_seconds: 0,
        closed_seconds: 0,
        steps: StepPace::default(),
    };
    let upgrade = ours.map_or(vendors, |upgrade| upgrade.fleet(nodes, per_node_seconds));
    let slowest = paced_tasks(pace, upgrade)?
        .into_iter()
        .filter(|paced| tasks.contains(&paced.task))
        .max_by_key(|paced| paced.fleet.budget_seconds());
    let Some(slowest) = slowest else {
        let explanation = format!("{}: waits for no node", Duration::from_secs(OVERHEAD_SECONDS));
        return Ok(TimeBudget { seconds: OVERHEAD_SECONDS, per_node_seconds, explanation });
    };
    let seconds = slowest.fleet.budget_seconds();
    let explanation = slowest.explanation(wait, tests);
    if seconds > MAX_SECONDS {
        let pauses = slowest.pauses();
        let tests = tests > 0 || slowest.fleet.steps.tests_seconds > 0;
        return Err(PlanError::TooLong { driver: pace.key(), pauses, tests, explanation });
    }
    Ok(TimeBudget { seconds, per_node_seconds, explanation })
}

/// What a task does with every node, at the pace of the fleet.
struct PacedTask {
    task: Task,
    fleet: FleetPace,
    /// What happens on how many nodes (`N`) at the same time, for explanations.
    at_once: &'static str,
}

/// Returns what the tasks of a hook Job may do with the nodes. Of equally slow ones, the last one
/// determines the explanation.
fn paced_tasks(pace: DriverPace<'_>, upgrade: FleetPace) -> Result<Vec<PacedTask>, PlanError> {
    let replaced = |max_unavailable, per_node_seconds| FleetPace {
        max_parallel: 0,
        max_unavailable,
        per_node_seconds,
        soak_seconds: 0,
        closed_seconds: 0,
        steps: StepPace::default(),
        nodes: upgrade.nodes,
    };
    let (dra, plugins) = (DraSettings::default(), DevicePluginSettings::default());
    let operands = pace.operands_max_unavailable()?.map(|max_unavailable| PacedTask {
        task: Task::Settle,
        fleet: replaced(max_unavailable, OPERANDS_SECONDS),
        at_once: "operands other than the driver updated on N of them at a time",
    });
    let others = [
        PacedTask { task: Task::Settle, fleet: upgrade, at_once: UPGRADED },
        PacedTask {
            task: Task::Reroll,
            fleet: replaced(dra.max_unavailable, dra.replacement_seconds),
            at_once: "DRA plugins re-rolled on N of them at a time",
        },
        PacedTask {
            task: Task::RestartPlugins,
            fleet: replaced(plugins.max_unavailable, plugins.replacement_seconds),
            at_once: "device plugins restarted on N of them at a time",
        },
    ];
    Ok(operands.into_iter().chain(others).collect())
}

impl PacedTask {
    /// Returns whether soaks or maintenance windows are a part of the time that it takes.
    fn pauses(&self) -> bool {
        let FleetPace { soak_seconds, closed_seconds, steps, .. } = self.fleet;
        soak_seconds > 0 || closed_seconds > 0 || steps.soaks_seconds() > 0
    }

    /// Explains the time that it takes. `wait` and `tests`: seconds of each node's upgrade that are
    /// for its jobs and its acceptance tests.
    fn explanation(&self, wait: u64, tests: u64) -> String {
        let Self { fleet, at_once, .. } = self;
        let parts = [
            (wait, format!("{} to wait for jobs", Duration::from_secs(wait))),
            (tests, format!("{} for acceptance tests", Duration::from_secs(tests))),
        ];
        let parts = parts.into_iter().filter(|(seconds, _)| *seconds > 0 && *at_once == UPGRADED);
        let parts: Vec<String> = parts.map(|(_, part)| part).collect();
        let waiting = if parts.is_empty() {
            String::new()
        } else {
            format!(" (including {})", parts.join(" and "))
        };
        let soak = Duration::from_secs(fleet.soak_seconds);
        let soaks =
            if fleet.soak_seconds > 0 { format!(", {soak} between them") } else { String::new() };
        let pauses = soaks + &explained_steps(fleet.steps);
        let windows = if fleet.closed_seconds > 0 {
            format!(
                ", at most {} of waiting for maintenance windows",
                Duration::from_secs(fleet.closed_seconds)
            )
        } else {
            String::new()
        };
        format!(
            "{}: {} GPU node{}, {}, {} per node{waiting}{pauses}{windows}, {} for everything else",
            Duration::from_secs(fleet.budget_seconds()),
            fleet.nodes,
            if fleet.nodes == 1 { "" } else { "s" },
            at_once.replacen('N', &fleet.parallel().to_string(), 1),
            Duration::from_secs(fleet.per_node_seconds),
            Duration::from_secs(OVERHEAD_SECONDS),
        )
    }
}

/// Explains what the steps add, and the tests of some nodes; empty if there is only one step
/// without such tests.
fn explained_steps(steps: StepPace) -> String {
    let StepPace { canaries, following, more_waves: _, soak_seconds, tests_seconds } = steps;
    let tests = if tests_seconds > 0 {
        format!(", at most {} for tests of some nodes", Duration::from_secs(tests_seconds))
    } else {
        String::new()
    };
    if following == 0 {
        return tests;
    }
    let first = match canaries {
        0 => String::new(),
        1 => " (first 1 canary)".to_owned(),
        canaries => format!(" (first up to {canaries} canaries)"),
    };
    let soak = Duration::from_secs(soak_seconds);
    let soaks = if soak_seconds > 0 { format!(" with {soak} between them") } else { String::new() };
    format!(", {} steps{first}{soaks}{tests}", following + 1)
}

/// The limits of the effective policy.
#[derive(Debug, PartialEq, Eq)]
struct PolicyLimits {
    max_parallel: u32,
    max_unavailable: Count,
    /// `None` means no wait, zero an endless wait.
    wait: Option<Duration>,
}

impl PolicyLimits {
    /// Returns the seconds of the wait for jobs.
    fn wait_seconds(&self, pace: DriverPace<'_>) -> Result<u64, PlanError> {
        match self.wait {
            Some(wait) if wait.as_secs() == 0 => Err(PlanError::EndlessWait(pace.key())),
            Some(wait) => Ok(wait.as_secs()),
            None => Ok(0),
        }
    }

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
    /// Returns the driver's key below `rollout`.
    fn key(self) -> &'static str {
        match self.driver {
            Driver::Gpu | Driver::DaemonSet => "gpuDriver",
            Driver::Ofed => "ofedDriver",
        }
    }

    /// Returns the path of a key of the policy.
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
                .ok_or_else(|| wrong(self.path(key), "expected an integer of at least 0")),
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
            // NicClusterPolicy has no such limit.
            Driver::Ofed => Count::Percent(100),
        };
        Ok(PolicyLimits { max_parallel, max_unavailable, wait })
    }

    /// Returns on how many nodes operands other than the driver are replaced at once; `None` if
    /// there are none, or no controller replaces them (`OnDelete`).
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

    /// Returns a number or a percentage of nodes; `None` if it is not set.
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

/// Whether a wait for jobs is endless.
pub(super) fn is_endless(wait: &RecipeWaitForCompletion) -> bool {
    !wait.pod_selector.is_empty() && wait.timeout.is_none_or(|timeout| timeout.as_secs() == 0)
}
