//! The pods that have to leave a node before its driver is replaced.

use std::collections::BTreeSet;

use crate::action::PodEviction;
use crate::pods::budgets::{BudgetAnswer, DisruptionBudgets, ImpossibleEviction};
use crate::pods::device_users::{DeviceRelation, DeviceRules, DeviceUsers, consumers};
use crate::pods::filter::{DaemonSetLiveness, EvictionTerms, PodFilter, drain_selector};
use crate::pods::pace::EvictionHistory;
use crate::pods::plan::{LeavingPod, PodPlan, PodProgress};
use crate::pods::{FOCUS_LIMIT, full_name, listed, pace};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::upgrade::cause::FailureCause;
use crate::upgrade::record::UpgradeRecord;
use crate::upgrade::state::UpgradeState;
use contract::policy::Policy;
use contract::selector::Selector;
use observed::ObservedNode;
use observed::workload::Workload;

use super::super::{Action, Deciding, after};
use super::advance::StateResult;
use super::{DrivenNode, is_restart_only};

/// Seconds beyond its grace period that a pod may take until its node has reported it gone.
const GRACE_MARGIN_SECONDS: u64 = 30;

/// Seconds in which a node's pods must have been listed.
const LISTING_SECONDS: u64 = 120;

/// How far a node is with its pods.
pub(super) enum PodClearing {
    /// No pod is left that has to go.
    Over,
    /// Some are.
    Waits(UpgradeReason),
    /// Some may not go, and none was touched.
    Blocked(String),
    /// Some did not go in time.
    TimedOut(String),
}

impl Deciding<'_> {
    /// The jobs that are waited for on a node.
    pub(super) fn jobs_on(&self, node: &ObservedNode) -> Vec<String> {
        let busy = self.observed.workloads.jobs.iter().filter(|job| job.node == node.name && job.phase.is_busy());
        busy.map(|job| format!("{}/{}", job.namespace, job.name)).collect()
    }

    /// Evicts what the state is about, and says how far that is.
    pub(super) fn clear(&mut self, node: &ObservedNode, record: &UpgradeRecord) -> PodClearing {
        self.focus.insert(node.name.clone());
        let observed = self.observed;
        let Some(pods) = observed.workloads.pods.get(&node.name) else {
            return match self.unlisted(node) {
                Err(message) => PodClearing::TimedOut(message),
                Ok(reason) => PodClearing::Waits(reason),
            };
        };
        let plan = self.plan(pods, record.state);
        let limit = limit(&self.settings.upgrade.policy, record.state);
        match plan.progress() {
            PodProgress::Over => return PodClearing::Over,
            PodProgress::Blocked => {
                return PodClearing::Blocked(plan.obstacle().map(|obstacle| obstacle.to_string()).unwrap_or_default());
            }
            PodProgress::Going => {}
        }
        if let Some(message) = self.never_yields(&plan) {
            return PodClearing::Blocked(message);
        }
        // Nobody asked for evictions while there was no process.
        let since = record.since.max(self.memory.taken_up);
        // What an earlier step or attempt was answered is no answer to this one, nor are its pauses.
        for going in &plan.evict {
            if self.memory.evictions.get(&going.pod.uid).is_some_and(|history| history.last < since) {
                self.memory.evictions.remove(&going.pod.uid);
            }
        }
        // Whoever is given time to end uses it; only then does it count as late.
        // Pods that come back to the node again and again are as late as the first one was.
        let in_time = |pod: &Workload| pod.created <= after(since, limit);
        let leaving = plan.leaving.iter().filter(|leaving| in_time(leaving.pod));
        // A pod that we have asked has its time from then on, by our clock; the server's may have been set since.
        let due = |leaving: &LeavingPod<'_>| {
            let asked = self.memory.evictions.get(&leaving.pod.uid);
            asked.map_or(leaving.due, |history| after(history.last, leaving.pod.grace_seconds))
        };
        let graceful = leaving.map(|leaving| after(due(leaving), GRACE_MARGIN_SECONDS)).max();
        let until = (limit > 0).then(|| graceful.map_or(after(since, limit), |graceful| graceful.max(after(since, limit))));
        let names = self.going(&plan);
        if let Some(until) = until {
            // A process that died, or a server that was away, has asked nobody: each pod is asked before it counts as late.
            let asked = plan.evict.iter().all(|going| !in_time(going.pod) || self.memory.evictions.contains_key(&going.pod.uid));
            if until <= self.now && asked {
                return PodClearing::TimedOut(format!("not gone after {limit} s: {}", listed(&names)));
            }
            if asked {
                self.wakes(until);
            }
        }
        for going in &plan.evict {
            let pod = going.pod;
            let eviction =
                PodEviction { node: node.name.clone(), namespace: pod.namespace.clone(), pod: pod.name.clone(), uid: pod.uid.clone() };
            let history = self.history(pod);
            self.evictions.push((eviction, history));
        }
        PodClearing::Waits(UpgradeReason::Evicting { pods: names, until })
    }

    /// A node's pods are not known: what it waits for. A watch that does not come about must not hold a slot for ever.
    ///
    /// # Errors
    /// It has been too long; its time begins when it has a place among those that are followed.
    pub(super) fn unlisted(&mut self, node: &ObservedNode) -> Result<UpgradeReason, String> {
        let workloads = &self.observed.workloads;
        let full = workloads.pods.len() + workloads.listing.len() >= FOCUS_LIMIT;
        if full && !workloads.listing.contains(&node.name) {
            return Ok(UpgradeReason::Queued);
        }
        let since = self.memory.waits(Some(&node.name), &Reason::Upgrading(UpgradeReason::Listing), self.now);
        if self.passed(since, LISTING_SECONDS) {
            return Err(format!("its pods could not be listed within {LISTING_SECONDS} s"));
        }
        Ok(UpgradeReason::Listing)
    }

    /// A driver pod is only deleted when the pods that the policy sees to have left: one may have come since.
    pub(super) fn protect(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> Option<StateResult> {
        let policy = &self.settings.upgrade.policy;
        // Another template may have come since the node was started.
        let restart_only = record.restart_only && is_restart_only(subject, self.settings.driver.traits());
        if restart_only || policy.pod_deletion.is_none() && policy.drain.is_none() {
            return None;
        }
        self.focus.insert(subject.node.name.clone());
        let Some(pods) = self.observed.workloads.pods.get(&subject.node.name) else {
            return Some(match self.unlisted(subject.node) {
                Err(message) => StateResult::Fails(untouched_cause(record, policy), message),
                Ok(reason) => StateResult::Stays(Reason::Upgrading(reason)),
            });
        };
        let steps = [
            policy.pod_deletion.is_some().then_some(UpgradeState::PodDeletionRequired),
            policy.drain.is_some().then_some(UpgradeState::DrainRequired),
        ];
        // What one step could not move another one has, or it went on without.
        let over = steps.into_iter().flatten().any(|state| self.plan(pods, state).progress() == PodProgress::Over);
        (!over).then(|| StateResult::To(self.after_jobs()))
    }

    /// Pods that may keep the old driver from being unloaded: they use the device, and no step of the policy has moved them. Known a turn
    /// after it was first asked for.
    pub(super) fn still_holding(&mut self, node: &ObservedNode) -> Option<String> {
        self.focus.insert(node.name.clone());
        let pods = self.observed.workloads.pods.get(&node.name)?;
        let selectors = consumers(&self.settings.upgrade).unwrap_or_default();
        let holders = self.holders(&selectors);
        let others = pods.iter().filter(|pod| !self.memory.own.has(pod));
        let named = others.filter_map(|pod| match holders.judge(pod) {
            DeviceRelation::No => None,
            DeviceRelation::Hidden(hidden) => Some(format!("{} {hidden}", full_name(pod))),
            DeviceRelation::Holds(hold) => Some(format!("{} {hold}", full_name(pod))),
        });
        let named: Vec<String> = named.collect();
        (!named.is_empty()).then(|| format!("pods that may keep the old driver loaded: {}", listed(&named)))
    }

    fn holders<'h>(&'h self, selectors: &'h [Selector]) -> DeviceUsers<'h> {
        DeviceUsers::new(self.settings.driver, DeviceRules::Ours, &self.observed.workloads.claims)
            .with_consumers(selectors)
            .with_operands_in([self.settings.operator_namespace.as_str()])
    }

    fn plan<'p>(&self, pods: &'p [Workload], state: UpgradeState) -> PodPlan<'p> {
        let upgrade = &self.settings.upgrade;
        let driver = self.settings.driver;
        // Selectors have been checked before the run began (`hook/begin`).
        let selectors = consumers(upgrade).unwrap_or_default();
        let daemon_sets = DaemonSetLiveness::new();
        let holders = self.holders(&selectors);
        let own = &self.memory.own;
        if let (UpgradeState::DrainRequired, Some(drain)) = (state, &upgrade.policy.drain) {
            let selector = drain_selector(driver, drain).unwrap_or_default();
            return PodPlan::drain(pods, &holders, &PodFilter { terms: drain.into(), selector, daemon_sets: &daemon_sets, own });
        }
        let terms = EvictionTerms::from(&upgrade.policy.pod_deletion.clone().unwrap_or_default());
        PodPlan::pod_deletion(pods, &holders, &PodFilter { terms, selector: Selector::default(), daemon_sets: &daemon_sets, own })
    }

    /// PodDisruptionBudgets that no waiting makes yield, while nothing has been touched.
    fn never_yields(&self, plan: &PodPlan<'_>) -> Option<String> {
        if !plan.leaving.is_empty() {
            return None;
        }
        let budgets = DisruptionBudgets::new(&self.observed.workloads.budgets);
        let never = plan.evict.iter().filter_map(|going| match budgets.standing(going.pod, self.now) {
            // Broken pods may be repaired, or replaced, while the others are waited for.
            BudgetAnswer::Free | BudgetAnswer::Later(..) | BudgetAnswer::Never(_, ImpossibleEviction::Unhealthy) => None,
            standing @ BudgetAnswer::Never(..) => Some(format!("{}: {standing}", full_name(going.pod))),
        });
        let never: Vec<String> = never.collect();
        (!never.is_empty()).then(|| format!("no pod was touched: {}", listed(&never)))
    }

    /// What is remembered of the pod's eviction, and what its budgets say now.
    fn history(&self, pod: &Workload) -> Option<EvictionHistory> {
        let history = self.memory.evictions.get(&pod.uid)?;
        let let_go = DisruptionBudgets::new(&self.observed.workloads.budgets).let_go(pod, self.now);
        Some(if let_go { history.let_go() } else { history.clone() })
    }

    /// The pods that have to go, each with what it is waited for.
    fn going(&self, plan: &PodPlan<'_>) -> Vec<String> {
        let asked = plan.evict.iter().map(|going| match self.memory.evictions.get(&going.pod.uid) {
            Some(history) => format!("{} ({})", full_name(going.pod), history.text(&going.pod.uid, self.now)),
            None => full_name(going.pod),
        });
        asked.chain(plan.leaving.iter().map(|leaving| leaving.text(self.now))).collect()
    }

    /// Of all pods that have to go, those whose turn it is.
    pub(super) fn evict(&mut self) {
        let queue = std::mem::take(&mut self.evictions);
        let asked = queue.iter().map(|(eviction, history)| (eviction.uid.as_str(), history.as_ref()));
        let turn = pace::turn(asked, self.memory.busy.as_ref(), self.now);
        if let Some(next) = turn.next {
            self.wakes(next);
        }
        let chosen: BTreeSet<&str> = turn.now.into_iter().collect();
        let asks = !chosen.is_empty();
        let evictions = queue.iter().map(|(eviction, _)| eviction).filter(|eviction| chosen.contains(eviction.uid.as_str()));
        self.actions.extend(evictions.cloned().map(Action::Evict));
        if asks {
            // A refusal changes nothing that is watched: when each one's turn comes again depends on the answer.
            self.passed(self.now, pace::FIRST_SECONDS);
        }
    }
}

/// For what a node fails whose pods cannot be seen before its driver pod is deleted. One whose new driver has failed before must not be given
/// back with it.
fn untouched_cause(record: &UpgradeRecord, policy: &Policy) -> FailureCause {
    if record.attempts.keys().any(|cause| !cause.is_before_restart()) {
        FailureCause::DriverTimeout
    } else if policy.pod_deletion.is_some() {
        FailureCause::EvictionTimeout
    } else {
        FailureCause::DrainTimeout
    }
}

/// Seconds that the state's evictions may take; 0 is without limit.
fn limit(policy: &Policy, state: UpgradeState) -> u64 {
    if state == UpgradeState::DrainRequired {
        policy.drain.as_ref().map_or(0, |drain| drain.timeout_seconds)
    } else {
        policy.pod_deletion.as_ref().map_or(0, |deletion| deletion.timeout_seconds)
    }
}
