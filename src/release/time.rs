//! How long things take: budget B of a hook, timeouts of the other releases.

use serde_json::{Map, Value};

use super::PlanError;
use super::values;
use crate::catalog::lookup;
use crate::contract::budget::{Fleet, OVERHEAD_SECONDS, deployer_timeout_seconds};
use crate::contract::count::Count;
use crate::contract::duration::Duration;
use crate::contract::duty::Duty;
use crate::recipe::model::{Recipe, WaitForCompletion};

/// One operation on a release without a hook Job of ours: Helm's own default of five minutes twice, because vendors' charts bring
/// hook Jobs whose image has to be pulled first.
pub const UPSTREAM_TIMEOUT_SECONDS: u64 = 600;
/// One operation on a local chart of CRDs or namespaces: objects are created and nothing is waited for.
pub const LOCAL_TIMEOUT_SECONDS: u64 = 300;
/// Seconds that a re-rolled DRA plugin gets to come back; the hook chart's default.
pub const REPLACEMENT_SECONDS: u64 = 300;
/// How many DRA plugins are re-rolled at once; the hook chart's default.
pub const DRA_MAX_UNAVAILABLE: Count = Count::Percent(25);
/// The gpu-operator chart's own `maxParallelUpgrades`.
const CHART_MAX_PARALLEL: u32 = 1;
/// The gpu-operator chart's own `maxUnavailable`.
const CHART_MAX_UNAVAILABLE: Count = Count::Percent(25);
/// Budgets beyond this are mistakes, and Go's and Kubernetes' second counters are 32 bits wide in places.
const MAX_SECONDS: u64 = 24 * 24 * 3600;

/// B and how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// B: the Job's `activeDeadlineSeconds`.
    pub seconds: u64,
    /// Seconds for one node, with the wait for its jobs.
    pub per_node_seconds: u64,
    /// The same as a sentence for people.
    pub explanation: String,
}

impl Budget {
    /// T: what a deployer must wait at least.
    pub fn timeout_seconds(&self) -> u64 {
        deployer_timeout_seconds(self.seconds)
    }
}

/// The budget of a hook Job with `duties`. `operator_values` are the final values of gpu-operator, if the recipe has it.
///
/// # Errors
/// Values that no budget can be made from, a wait without an end, or a budget of more than 24 days.
pub(super) fn budget(recipe: &Recipe, operator_values: Option<&Map<String, Value>>, duties: &[Duty]) -> Result<Budget, PlanError> {
    let driver = &recipe.rollout.gpu_driver;
    let limits = Limits::read(operator_values.unwrap_or(&Map::new()))?;
    let wait = match limits.wait {
        Some(wait) if wait.as_secs() == 0 => return Err(PlanError::EndlessWait),
        Some(wait) => wait.as_secs(),
        None => 0,
    };
    let per_node_seconds = driver.per_node.as_secs().saturating_add(wait);
    let nodes = recipe.cluster.gpu_nodes as usize;
    let upgrade = Fleet { nodes, max_parallel: limits.max_parallel, max_unavailable: limits.max_unavailable, per_node_seconds };
    let reroll = Fleet { nodes, max_parallel: 0, max_unavailable: DRA_MAX_UNAVAILABLE, per_node_seconds: REPLACEMENT_SECONDS };
    let candidates = [(Duty::Settle, upgrade, "upgraded"), (Duty::Reroll, reroll, "re-rolled")];
    let (fleet, verb) = candidates
        .into_iter()
        .filter(|(duty, ..)| duties.contains(duty))
        .max_by_key(|(_, fleet, _)| fleet.budget_seconds())
        .map_or((reroll, "re-rolled"), |(_, fleet, verb)| (fleet, verb));
    let seconds = fleet.budget_seconds();
    if seconds > MAX_SECONDS {
        return Err(PlanError::TooLong("perNode".to_owned()));
    }
    let waiting =
        if wait > 0 && verb == "upgraded" { format!(" (of which {} wait for jobs)", Duration::from_secs(wait)) } else { String::new() };
    let explanation = format!(
        "{}: {nodes} GPU nodes, {} {verb} at once, {} a node{waiting}, {} for everything else",
        Duration::from_secs(seconds),
        fleet.parallel(),
        Duration::from_secs(fleet.per_node_seconds),
        Duration::from_secs(OVERHEAD_SECONDS),
    );
    Ok(Budget { seconds, per_node_seconds, explanation })
}

/// What the operator's values say about pace, in the chart's own terms.
#[derive(Debug, PartialEq, Eq)]
struct Limits {
    max_parallel: u32,
    max_unavailable: Count,
    /// `None`: nothing is waited for. Zero: for ever.
    wait: Option<Duration>,
}

impl Limits {
    fn read(values: &Map<String, Value>) -> Result<Self, PlanError> {
        let wrong = |path: &str, reason: &str| PlanError::Value {
            component: super::plan::GPU_OPERATOR.to_owned(),
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let number = |path: &str| match lookup(values, path) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| wrong(path, "expected a whole number of at least 0")),
        };
        let max_parallel = match number(values::MAX_PARALLEL)? {
            None => CHART_MAX_PARALLEL,
            Some(found) => u32::try_from(found).map_err(|_| wrong(values::MAX_PARALLEL, "is too large"))?,
        };
        let selector = lookup(values, values::WAIT_SELECTOR).and_then(Value::as_str).unwrap_or_default();
        let wait = if selector.is_empty() { None } else { Some(Duration::from_secs(number(values::WAIT_TIMEOUT)?.unwrap_or(0))) };
        Ok(Self { max_parallel, max_unavailable: max_unavailable(values)?, wait })
    }
}

fn max_unavailable(values: &Map<String, Value>) -> Result<Count, PlanError> {
    let count = match lookup(values, values::MAX_UNAVAILABLE) {
        None | Some(Value::Null) => return Ok(CHART_MAX_UNAVAILABLE),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if count.is_empty() {
        return Ok(CHART_MAX_UNAVAILABLE);
    }
    let parsed: Count = count.parse().map_err(|error| PlanError::count(super::plan::GPU_OPERATOR, values::MAX_UNAVAILABLE, &error))?;
    match parsed {
        Count::Number(0) | Count::Percent(0) => Err(PlanError::ZeroUnavailable(count)),
        Count::Number(_) | Count::Percent(_) => Ok(parsed),
    }
}

/// Whether a wait for jobs has no end.
pub(super) fn is_endless(wait: &WaitForCompletion) -> bool {
    !wait.pod_selector.is_empty() && wait.timeout.is_none_or(|timeout| timeout.as_secs() == 0)
}
