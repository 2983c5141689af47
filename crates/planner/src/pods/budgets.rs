//! The answer of PodDisruptionBudgets to the eviction of a pod, by the rules of the API server
//! (Kubernetes, `pkg/registry/core/pod/storage/eviction.go` and `pkg/controller/disruption`), and
//! whether a refusal can end without manual action: "slow" and "never" are distinguished before any
//! node is cordoned.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use contract::count::Count;
use observed::workload::{DisruptionBudget, PodPhase, Workload};

/// A pod that is not ready at this age will probably not become ready: by then, images are pulled
/// and probes have passed.
const STARTING: SignedDuration = SignedDuration::from_mins(10);

/// All PodDisruptionBudgets, by namespace.
#[derive(Clone, Debug, Default)]
pub struct DisruptionBudgets<'a>(BTreeMap<&'a str, Vec<&'a DisruptionBudget>>);

/// The answer to the eviction of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetAnswer<'a> {
    /// The eviction is allowed.
    Free,
    /// The eviction is refused now, and may be allowed later.
    Later(&'a DisruptionBudget, EvictionDelay),
    /// The eviction is refused until a user changes something.
    Never(Vec<&'a DisruptionBudget>, ImpossibleEviction),
}

/// Why an eviction must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionDelay {
    /// The disruption controller has not processed the budget's newest spec.
    Unobserved,
    /// No more pods may be unavailable.
    Full,
    /// The pod is not ready and young: it may still be starting.
    Starting,
}

/// Why an eviction will never be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImpossibleEviction {
    /// More than one budget selects the pod: the eviction API answers with an error (500).
    Several,
    /// `maxUnavailable` is zero.
    NoneMayGo,
    /// `minAvailable` requires as many pods as there are.
    AllMustStay,
    /// The pod is unhealthy, and so many others are that the budget protects it too.
    Unhealthy,
}

impl<'a> DisruptionBudgets<'a> {
    /// Groups the budgets by namespace.
    pub fn new(budgets: &'a [DisruptionBudget]) -> Self {
        let mut sorted: BTreeMap<&str, Vec<&DisruptionBudget>> = BTreeMap::new();
        for budget in budgets {
            sorted.entry(&budget.namespace).or_default().push(budget);
        }
        Self(sorted)
    }

    /// Returns the budgets that select the pod.
    pub fn matching(&self, pod: &Workload) -> Vec<&'a DisruptionBudget> {
        let protects = |budget: &&&DisruptionBudget| {
            budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
        };
        self.0.get(pod.namespace.as_str()).into_iter().flatten().filter(protects).copied().collect()
    }

    /// Returns whether the pod has budgets, and they allow its eviction now.
    pub fn let_go(&self, pod: &Workload, now: Timestamp) -> bool {
        !self.matching(pod).is_empty() && matches!(self.standing(pod, now), BudgetAnswer::Free)
    }

    /// Returns the answer to the pod's eviction.
    pub fn standing(&self, pod: &Workload, now: Timestamp) -> BudgetAnswer<'a> {
        // The API checks no budget for a pod that has not started, has ended, or is being deleted.
        if pod.phase == PodPhase::Pending || pod.phase.is_finished() || pod.deleted_at.is_some() {
            return BudgetAnswer::Free;
        }
        let budgets = self.matching(pod);
        match budgets.as_slice() {
            [] => BudgetAnswer::Free,
            [budget] => judge_budget(budget, pod, now),
            [..] => BudgetAnswer::Never(budgets, ImpossibleEviction::Several),
        }
    }
}

fn judge_budget<'a>(
    budget: &'a DisruptionBudget,
    pod: &Workload,
    now: Timestamp,
) -> BudgetAnswer<'a> {
    let enough = budget.healthy >= budget.desired && budget.desired > 0;
    if !pod.ready && (budget.evicts_unhealthy || enough) {
        return BudgetAnswer::Free;
    }
    let never = |why| BudgetAnswer::Never(vec![budget], why);
    if let Some(why) = asked(budget) {
        return never(why);
    }
    if !budget.observed {
        return BudgetAnswer::Later(budget, EvictionDelay::Unobserved);
    }
    if budget.allowed > 0 {
        return BudgetAnswer::Free;
    }
    if pod.ready {
        return BudgetAnswer::Later(budget, EvictionDelay::Full);
    }
    let old = now.duration_since(pod.created) >= STARTING;
    if old {
        never(ImpossibleEviction::Unhealthy)
    } else {
        BudgetAnswer::Later(budget, EvictionDelay::Starting)
    }
}

/// Returns what the spec itself rules out, whatever the state of the pods.
pub fn asked(budget: &DisruptionBudget) -> Option<ImpossibleEviction> {
    let count = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<Count>().ok());
    if let Some(Count::Number(0) | Count::Percent(0)) = count(&budget.max_unavailable) {
        return Some(ImpossibleEviction::NoneMayGo);
    }
    let least = count(&budget.min_available)?;
    // The number of pods is only known for a spec that the controller has processed.
    let expected =
        usize::try_from(budget.expected).ok().filter(|expected| *expected > 0 && budget.observed);
    let all = match (least, expected) {
        (Count::Percent(percent), _) if percent >= 100 => true,
        (least, Some(expected)) => least.resolve(expected) >= expected,
        (_, None) => false,
    };
    all.then_some(ImpossibleEviction::AllMustStay)
}

impl BudgetAnswer<'_> {
    /// Returns what the user can do about a refusal.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Free => None,
            Self::Later(_, EvictionDelay::Unobserved) => Some(
                "check whether kube-controller-manager runs, and check the conditions of the PodDisruptionBudget",
            ),
            Self::Later(_, EvictionDelay::Full) => Some(
                "the pod can be evicted when the replacement of an unavailable pod is ready: find out why it is not, or raise the number of replicas",
            ),
            Self::Later(_, EvictionDelay::Starting) => {
                Some("wait: the pod can be evicted when it is ready, or when enough other pods are")
            }
            Self::Never(_, why) => Some(why.advice()),
        }
    }
}

impl ImpossibleEviction {
    /// Returns what the user can do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Several => {
                "narrow the selectors so that one PodDisruptionBudget protects each pod"
            }
            Self::NoneMayGo => {
                "set maxUnavailable to at least 1, or delete the PodDisruptionBudget during the rollout"
            }
            Self::AllMustStay => {
                "lower minAvailable below the number of pods, or, unless it is a percentage, raise the number of replicas"
            }
            Self::Unhealthy => {
                "repair or delete the unhealthy pods, or set unhealthyPodEvictionPolicy: AlwaysAllow in the PodDisruptionBudget"
            }
        }
    }
}

/// Returns `poddisruptionbudget namespace/name`.
pub fn budget_name(budget: &DisruptionBudget) -> String {
    format!("poddisruptionbudget {}/{}", budget.namespace, budget.name)
}

impl fmt::Display for BudgetAnswer<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => write!(out, "its eviction is allowed"),
            Self::Later(budget, why) => write_delay(out, budget, *why),
            Self::Never(budgets, why) => write_refusal(out, budgets, *why),
        }
    }
}

fn write_delay(
    out: &mut fmt::Formatter<'_>,
    budget: &DisruptionBudget,
    why: EvictionDelay,
) -> fmt::Result {
    let name = budget_name(budget);
    let DisruptionBudget { healthy, desired, .. } = budget;
    match why {
        EvictionDelay::Unobserved => write!(
            out,
            "{name} has changed, and the disruption controller has not processed the change"
        ),
        EvictionDelay::Full => write!(
            out,
            "{name} requires {desired} healthy pods and has {healthy}: no pod may be evicted now"
        ),
        EvictionDelay::Starting => write!(
            out,
            "{name} requires {desired} healthy pods and has {healthy}, and this pod is not ready yet"
        ),
    }
}

fn write_refusal(
    out: &mut fmt::Formatter<'_>,
    budgets: &[&DisruptionBudget],
    why: ImpossibleEviction,
) -> fmt::Result {
    let names = budgets.iter().map(|budget| budget_name(budget)).collect::<Vec<_>>().join(", ");
    let first = budgets.first();
    let text = |field: fn(&DisruptionBudget) -> Option<&String>| {
        first.and_then(|budget| field(budget)).map_or("", String::as_str)
    };
    let number = |field: fn(&DisruptionBudget) -> i32| first.map_or(0, |budget| field(budget));
    match why {
        ImpossibleEviction::Several => write!(
            out,
            "{} PodDisruptionBudgets select the same pod, which the eviction API does not support: {names}",
            budgets.len()
        ),
        ImpossibleEviction::NoneMayGo => write!(
            out,
            "{names} never allows an eviction: maxUnavailable is {}",
            text(|budget| budget.max_unavailable.as_ref())
        ),
        ImpossibleEviction::AllMustStay => write!(
            out,
            "{names} never allows an eviction: minAvailable requires {} of {} pods",
            text(|budget| budget.min_available.as_ref()),
            number(|budget| budget.expected)
        ),
        ImpossibleEviction::Unhealthy => write!(
            out,
            "{names} requires {} healthy pods and has {}, and protects even unhealthy pods",
            number(|budget| budget.desired),
            number(|budget| budget.healthy)
        ),
    }
}
