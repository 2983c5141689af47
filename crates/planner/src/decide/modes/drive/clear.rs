//! Removal of the pods that must leave a node before its driver is replaced.

use jiff::Timestamp;

use crate::action::PodEviction;
use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::drive_upgrade::state::UpgradeState;
use crate::pods::budgets::{BudgetAnswer, DisruptionBudgets, ImpossibleEviction};
use crate::pods::device_users::{DeviceRelation, DeviceRules, DeviceUsers, consumers};
use crate::pods::eviction_retry::EvictionHistory;
use crate::pods::filter::{DaemonSetLiveness, EvictionTerms, PodFilter, drain_selector};
use crate::pods::plan::{LeavingPod, PodPlan, PodProgress};
use crate::pods::{FOCUS_LIMIT, full_name, listed};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::policy::Policy;
use contract::selector::Selector;
use observed::workload::Workload;
use observed::{Observed, ObservedNode};

use super::DrivenNode;
use super::turn::{StateResult, after_jobs};
use crate::decide::inputs::FleetInputs;
use crate::decide::node_draft::NodeDraft;
use crate::time::after;

/// Seconds beyond its grace period that a pod may take until its node has reported it gone.
const GRACE_MARGIN_SECONDS: u64 = 30;

/// Seconds within which a node's pods must have been listed.
const LISTING_SECONDS: u64 = 120;

/// The progress of a node's pods.
pub(super) enum PodClearing {
    /// All pods that must leave have left.
    Over,
    /// Some have not left.
    Waits(UpgradeReason),
    /// Some may not be evicted, and none was.
    Blocked(String),
    /// Some did not leave in time.
    TimedOut(String),
}

/// Returns the jobs on a node that the hook waits for.
pub(super) fn jobs_on(observed: &Observed, node: &ObservedNode) -> Vec<String> {
    let busy =
        observed.workloads.jobs.iter().filter(|job| job.node == node.name && job.phase.is_busy());
    busy.map(|job| format!("{}/{}", job.namespace, job.name)).collect()
}

/// Evicts the pods of the state, and returns the progress.
pub(super) fn clear(draft: &mut NodeDraft<'_>, record: &UpgradeRecord) -> PodClearing {
    draft.effects.focus = true;
    let (fleet, node) = (draft.fleet, draft.node);
    let observed = fleet.observed;
    let Some(pods) = observed.workloads.pods.get(&node.name) else {
        return match unlisted(draft) {
            Err(message) => PodClearing::TimedOut(message),
            Ok(reason) => PodClearing::Waits(reason),
        };
    };
    let plan = plan(fleet, pods, record.state);
    if let Some(clearing) = without_evictions(fleet, &plan) {
        return clearing;
    }
    let window = EvictionWindow {
        // No evictions were requested while there was no process.
        since: record.since.max(fleet.memory.taken_over_at),
        seconds: limit(&fleet.settings.upgrade.policy, record.state),
    };
    forget_earlier_requests(draft, &plan, window.since);
    let names = going(draft, &plan);
    let until = (window.seconds > 0).then(|| time_limit(draft, &plan, window));
    // A new process, or one whose server was away, has not requested any eviction: each eviction is
    // requested before the pod counts as late.
    if let Some(until) = until.filter(|_| all_requested(draft, &plan, window)) {
        if until <= fleet.now {
            return PodClearing::TimedOut(format!(
                "pods did not leave within {} s: {}",
                window.seconds,
                listed(&names)
            ));
        }
        draft.alarm.set(until);
    }
    request_evictions(draft, &plan);
    PodClearing::Waits(UpgradeReason::Evicting { pods: names, until })
}

/// The time that the evictions of a state may take.
#[derive(Clone, Copy)]
struct EvictionWindow {
    since: Timestamp,
    /// 0 is unlimited.
    seconds: u64,
}

impl EvictionWindow {
    fn end(self) -> Timestamp {
        after(self.since, self.seconds)
    }

    /// Returns whether the pod was created in time. Pods that return to the node repeatedly are as
    /// late as the first one.
    fn contains(self, pod: &Workload) -> bool {
        pod.created <= self.end()
    }
}

/// Returns the progress if no pod is to be evicted, or none can be.
fn without_evictions(fleet: &FleetInputs<'_>, plan: &PodPlan<'_>) -> Option<PodClearing> {
    match plan.progress() {
        PodProgress::Over => Some(PodClearing::Over),
        PodProgress::Blocked => Some(PodClearing::Blocked(
            plan.obstacle().map(|obstacle| obstacle.to_string()).unwrap_or_default(),
        )),
        PodProgress::Going => never_yields(fleet, plan).map(PodClearing::Blocked),
    }
}

/// Forgets answers and pauses of an earlier step or attempt, which do not apply to this one.
fn forget_earlier_requests(draft: &mut NodeDraft<'_>, plan: &PodPlan<'_>, since: Timestamp) {
    let evictions = &draft.fleet.memory.evictions;
    for going in &plan.evict {
        if evictions.get(&going.pod.uid).is_some_and(|history| history.last < since) {
            draft.effects.unasked.push(going.pod.uid.clone());
        }
    }
}

/// Returns when the evictions time out. A pod may use its whole grace period; only then does it
/// count as late.
fn time_limit(draft: &NodeDraft<'_>, plan: &PodPlan<'_>, window: EvictionWindow) -> Timestamp {
    // The time of a pod that the hook evicted counts from the request, by the hook's clock; the
    // server's clock may have been set since.
    let due = |leaving: &LeavingPod<'_>| {
        asked(draft, leaving.pod)
            .map_or(leaving.due, |history| after(history.last, leaving.pod.grace_seconds))
    };
    let leaving = plan.leaving.iter().filter(|leaving| window.contains(leaving.pod));
    let graceful = leaving.map(|leaving| after(due(leaving), GRACE_MARGIN_SECONDS)).max();
    graceful.map_or(window.end(), |graceful| graceful.max(window.end()))
}

/// Returns whether the eviction of every pod that was created in time has been requested.
fn all_requested(draft: &NodeDraft<'_>, plan: &PodPlan<'_>, window: EvictionWindow) -> bool {
    plan.evict.iter().all(|going| !window.contains(going.pod) || asked(draft, going.pod).is_some())
}

fn request_evictions(draft: &mut NodeDraft<'_>, plan: &PodPlan<'_>) {
    for going in &plan.evict {
        let pod = going.pod;
        let eviction = PodEviction {
            node: draft.node.name.clone(),
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
        };
        let history = history(draft, pod);
        draft.effects.evictions.push((eviction, history));
    }
}

/// Returns the reason for which a node waits whose pods are not known. A watch that never starts
/// must not occupy a slot indefinitely.
///
/// # Errors
/// The wait took too long. Its time starts when the node's pods are among those that are watched.
pub(super) fn unlisted(draft: &mut NodeDraft<'_>) -> Result<UpgradeReason, String> {
    let workloads = &draft.fleet.observed.workloads;
    let full = workloads.pods.len() + workloads.listing.len() >= FOCUS_LIMIT;
    if full && !workloads.listing.contains(&draft.node.name) {
        return Ok(UpgradeReason::Queued);
    }
    let since = draft.waits(&Reason::Upgrading(UpgradeReason::Listing));
    if draft.alarm.passed(since, LISTING_SECONDS) {
        return Err(format!("its pods could not be listed within {LISTING_SECONDS} s"));
    }
    Ok(UpgradeReason::Listing)
}

/// Checks again, before a driver pod is deleted or the new driver is tested, that the pods that the
/// policy evicts have left: a new one may have appeared.
pub(super) fn protect(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> Option<StateResult> {
    let fleet = draft.fleet;
    let policy = &fleet.settings.upgrade.policy;
    // The template may have changed since the node was started.
    let restart_only = record.restart_only && driven.is_restart_only(fleet.traits);
    if restart_only || policy.pod_deletion.is_none() && policy.drain.is_none() {
        return None;
    }
    draft.effects.focus = true;
    let Some(pods) = fleet.observed.workloads.pods.get(&driven.node.name) else {
        return Some(match unlisted(draft) {
            Err(message) => StateResult::Fails(untouched_cause(record, policy), message),
            Ok(reason) => StateResult::Stays(Reason::Upgrading(reason)),
        });
    };
    let steps = [
        policy.pod_deletion.is_some().then_some(UpgradeState::PodDeletionRequired),
        policy.drain.is_some().then_some(UpgradeState::DrainRequired),
    ];
    // One step may have removed the pods that the other could not, or the upgrade continued
    // without.
    let over = steps
        .into_iter()
        .flatten()
        .any(|state| plan(fleet, pods, state).progress() == PodProgress::Over);
    // A start that was to leave all pods, or a later attempt, has not waited for jobs.
    let awaits_jobs = policy.wait_for_completion.is_some()
        && !record.steps.contains_key(&UpgradeState::WaitForJobsRequired);
    let next = if awaits_jobs { UpgradeState::WaitForJobsRequired } else { after_jobs(policy) };
    (!over).then_some(StateResult::To(next))
}

/// Returns the pods that may keep the old driver loaded: they use the device, and no step of the
/// policy has removed them. The result is known one turn after the first request.
pub(super) fn still_holding(draft: &mut NodeDraft<'_>) -> Option<String> {
    draft.effects.focus = true;
    let fleet = draft.fleet;
    let pods = fleet.observed.workloads.pods.get(&draft.node.name)?;
    let selectors = consumers(&fleet.settings.upgrade).unwrap_or_default();
    let holders = holders(fleet, &selectors);
    let others = pods.iter().filter(|pod| !fleet.memory.own.has(pod));
    let named = others.filter_map(|pod| match holders.judge(pod) {
        DeviceRelation::No => None,
        DeviceRelation::Hidden(hidden) => Some(format!("{} {hidden}", full_name(pod))),
        DeviceRelation::Holds(hold) => Some(format!("{} {hold}", full_name(pod))),
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty())
        .then(|| format!("pods that may keep the old driver loaded: {}", listed(&named)))
}

fn holders<'h>(fleet: &'h FleetInputs<'_>, selectors: &'h [Selector]) -> DeviceUsers<'h> {
    DeviceUsers::new(fleet.settings.driver, DeviceRules::Ours, &fleet.observed.workloads.claims)
        .with_consumers(selectors)
        .with_operands_in([fleet.settings.operator_namespace.as_str()])
}

fn plan<'p>(fleet: &FleetInputs<'_>, pods: &'p [Workload], state: UpgradeState) -> PodPlan<'p> {
    let upgrade = &fleet.settings.upgrade;
    let driver = fleet.settings.driver;
    // Selectors are checked before the run starts (`hook/begin`).
    let selectors = consumers(upgrade).unwrap_or_default();
    let daemon_sets = DaemonSetLiveness::new();
    let holders = holders(fleet, &selectors);
    let own = &fleet.memory.own;
    if let (UpgradeState::DrainRequired, Some(drain)) = (state, &upgrade.policy.drain) {
        let selector = drain_selector(driver, drain).unwrap_or_default();
        return PodPlan::drain(
            pods,
            &holders,
            &PodFilter { terms: drain.into(), selector, daemon_sets: &daemon_sets, own },
        );
    }
    let terms = EvictionTerms::from(&upgrade.policy.pod_deletion.clone().unwrap_or_default());
    PodPlan::pod_deletion(
        pods,
        &holders,
        &PodFilter { terms, selector: Selector::default(), daemon_sets: &daemon_sets, own },
    )
}

/// Returns the PodDisruptionBudgets that never allow an eviction, as long as no pod was evicted.
fn never_yields(fleet: &FleetInputs<'_>, plan: &PodPlan<'_>) -> Option<String> {
    if !plan.leaving.is_empty() {
        return None;
    }
    let budgets = DisruptionBudgets::new(&fleet.observed.workloads.budgets);
    let never =
        plan.evict.iter().filter_map(|going| match budgets.standing(going.pod, fleet.now) {
            // Unhealthy pods may be repaired, or replaced, while the hook waits for the others.
            BudgetAnswer::Free
            | BudgetAnswer::Later(..)
            | BudgetAnswer::Never(_, ImpossibleEviction::Unhealthy) => None,
            standing @ BudgetAnswer::Never(..) => {
                Some(format!("{}: {standing}", full_name(going.pod)))
            }
        });
    let never: Vec<String> = never.collect();
    (!never.is_empty()).then(|| format!("no pod was evicted: {}", listed(&never)))
}

/// Returns the answer to the pod's eviction.
fn asked<'a>(draft: &NodeDraft<'a>, pod: &Workload) -> Option<&'a EvictionHistory> {
    draft.fleet.memory.evictions.get(&pod.uid).filter(|_| !draft.effects.unasked.contains(&pod.uid))
}

/// Returns the history of the pod's eviction, updated with the current state of its budgets.
fn history(draft: &NodeDraft<'_>, pod: &Workload) -> Option<EvictionHistory> {
    let history = asked(draft, pod)?;
    let let_go =
        DisruptionBudgets::new(&draft.fleet.observed.workloads.budgets).let_go(pod, draft.now());
    Some(if let_go { history.let_go() } else { history.clone() })
}

/// Returns the pods that must leave, each with what the hook waits for.
fn going(draft: &NodeDraft<'_>, plan: &PodPlan<'_>) -> Vec<String> {
    let asked = plan.evict.iter().map(|going| match asked(draft, going.pod) {
        Some(history) => {
            format!("{} ({})", full_name(going.pod), history.text(&going.pod.uid, draft.now()))
        }
        None => full_name(going.pod),
    });
    asked.chain(plan.leaving.iter().map(|leaving| leaving.text(draft.now()))).collect()
}

/// Returns the cause for which a node fails whose pods cannot be listed before its driver pod is
/// deleted. A node whose new driver has failed before must not be released with it.
fn untouched_cause(record: &UpgradeRecord, policy: &Policy) -> FailureCause {
    if record.has_changed_driver() {
        FailureCause::DriverTimeout
    } else if policy.pod_deletion.is_some() {
        FailureCause::EvictionTimeout
    } else {
        FailureCause::DrainTimeout
    }
}

/// Returns the seconds that the state's evictions may take; 0 is unlimited.
fn limit(policy: &Policy, state: UpgradeState) -> u64 {
    if state == UpgradeState::DrainRequired {
        policy.drain.as_ref().map_or(0, |drain| drain.timeout_seconds)
    } else {
        policy.pod_deletion.as_ref().map_or(0, |deletion| deletion.timeout_seconds)
    }
}
