//! PodDisruptionBudgets: the counts of the disruption controller, and the answers to evictions.

use observed::workload::{DisruptionBudget, PodPhase, Workload};

use super::caches::WorldChange;
use super::context::SimulationContext;
use super::pods::SimulatedPods;
use super::setup::{BudgetProtection, WorkloadKind};
use super::workload::SimulatedWorkload;

/// A PodDisruptionBudget with the workloads that it protects.
#[derive(Debug)]
struct BudgetGuard {
    budget: DisruptionBudget,
    /// `None`: it cannot be parsed, and permits no eviction.
    protection: Option<BudgetProtection>,
    /// The workloads whose pods it selects.
    workloads: Vec<usize>,
    /// How many healthy pods, and how many pods in total, it counts outside of the fleet.
    outside: (usize, usize),
    /// Whether a fault makes it permit no eviction.
    is_held: bool,
}

/// The answer of the budgets to an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvictionAnswer {
    Granted,
    /// 429
    Blocked,
    /// 500: more than one budget.
    Error,
}

/// A pod that counts as healthy.
fn is_healthy(pod: &Workload) -> bool {
    pod.ready && pod.deleted_at.is_none()
}

fn protects(budget: &DisruptionBudget, pod: &Workload) -> bool {
    budget.namespace == pod.namespace
        && budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
}

impl BudgetGuard {
    /// Returns the budget with the counts of the disruption controller.
    fn recounted(&self, pods: &SimulatedPods, workloads: &[SimulatedWorkload]) -> DisruptionBudget {
        let healthy = self.pods(pods).filter(|pod| is_healthy(pod)).count() + self.outside.0;
        // The replicas of the controller, if it has them.
        let replicas = |workload: &usize| match workloads[*workload].kind {
            WorkloadKind::ReplicaSet | WorkloadKind::Job => workloads[*workload].wanted,
            WorkloadKind::DaemonSet | WorkloadKind::Bare => pods.of_workload(*workload).count(),
        };
        let expected = self.workloads.iter().map(replicas).sum::<usize>() + self.outside.1;
        let desired = match self.protection {
            Some(BudgetProtection::MinAvailable(count)) => count.resolve(expected),
            Some(BudgetProtection::MaxUnavailable(count)) => {
                expected.saturating_sub(count.resolve(expected))
            }
            None => healthy,
        };
        let allowed = if self.is_held { 0 } else { healthy.saturating_sub(desired) };
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        DisruptionBudget {
            allowed: number(allowed),
            healthy: number(healthy),
            desired: number(desired),
            expected: number(expected),
            ..self.budget.clone()
        }
    }

    /// The pods that it selects.
    fn pods<'p>(&self, pods: &'p SimulatedPods) -> impl Iterator<Item = &'p Workload> {
        pods.iter().filter(|pod| {
            pods.workload(&pod.uid).is_some_and(|workload| self.workloads.contains(&workload))
        })
    }
}

/// All PodDisruptionBudgets.
#[derive(Debug, Default)]
pub(super) struct DisruptionBudgets(Vec<BudgetGuard>);

impl DisruptionBudgets {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(
        &mut self,
        budget: DisruptionBudget,
        protection: BudgetProtection,
        workload: usize,
    ) {
        self.0.push(BudgetGuard {
            budget,
            protection: Some(protection),
            workloads: vec![workload],
            outside: (0, 0),
            is_held: false,
        });
    }

    /// Adds a budget of a fleet that was read from a cluster. Pods that it counts outside of the
    /// fleet do not change.
    pub(super) fn adopt(
        &mut self,
        budget: &DisruptionBudget,
        pods: &SimulatedPods,
        workloads: &[SimulatedWorkload],
    ) {
        let selected = (0..workloads.len())
            .filter(|workload| protects(budget, &workloads[*workload].template))
            .collect();
        let protection = BudgetProtection::from_budget(budget);
        let mut guard = BudgetGuard {
            budget: budget.clone(),
            protection,
            workloads: selected,
            outside: (0, 0),
            is_held: false,
        };
        let healthy = guard.pods(pods).filter(|pod| is_healthy(pod)).count();
        let all = guard.pods(pods).filter(|pod| !pod.phase.is_finished()).count();
        let number = |count: i32| usize::try_from(count).unwrap_or(0);
        guard.outside = (
            number(budget.healthy).saturating_sub(healthy),
            number(budget.expected).saturating_sub(all),
        );
        self.0.push(guard);
    }

    /// Makes the disruption controller count again.
    pub(super) fn recount(
        &mut self,
        pods: &SimulatedPods,
        workloads: &[SimulatedWorkload],
        context: &mut SimulationContext<'_>,
    ) {
        let mut changed = false;
        for guard in &mut self.0 {
            let next = guard.recounted(pods, workloads);
            changed |= guard.budget != next;
            guard.budget = next;
        }
        if changed {
            self.publish(context);
        }
    }

    pub(super) fn snapshot(&self) -> Vec<DisruptionBudget> {
        self.0.iter().map(|guard| guard.budget.clone()).collect()
    }

    fn publish(&self, context: &mut SimulationContext<'_>) {
        context.publish(WorldChange::Budgets(self.snapshot()));
    }

    /// Makes the budgets of a workload permit no eviction, or releases them. The next recount
    /// applies it.
    pub(super) fn hold(&mut self, workload: usize, is_held: bool) {
        for guard in self.0.iter_mut().filter(|guard| guard.workloads.contains(&workload)) {
            guard.is_held = is_held;
        }
    }

    /// Returns the API server's answer to an eviction. A granted eviction uses up one disruption.
    pub(super) fn answer_eviction(
        &mut self,
        pod: &Workload,
        context: &mut SimulationContext<'_>,
    ) -> EvictionAnswer {
        if pod.phase == PodPhase::Pending || pod.phase.is_finished() || pod.deleted_at.is_some() {
            return EvictionAnswer::Granted;
        }
        let mut budgets =
            self.0.iter_mut().map(|guard| &mut guard.budget).filter(|budget| protects(budget, pod));
        let (first, second) = (budgets.next(), budgets.next());
        let Some(budget) = first else { return EvictionAnswer::Granted };
        if second.is_some() {
            return EvictionAnswer::Error;
        }
        let is_enough = budget.healthy >= budget.desired && budget.desired > 0;
        if !pod.ready && (budget.evicts_unhealthy || is_enough) {
            return EvictionAnswer::Granted;
        }
        if budget.allowed <= 0 {
            return EvictionAnswer::Blocked;
        }
        budget.allowed -= 1;
        self.publish(context);
        EvictionAnswer::Granted
    }
}

#[cfg(test)]
mod tests {
    use contract::count::Count;
    use contract::selector::Selector;

    use super::*;
    use crate::setup::{PodPlacement, WorkloadSetup};

    #[test]
    fn budget_blocks_the_second_eviction_until_a_recount() {
        let setup = crate::fixture::setup(1);
        let mut context = SimulationContext::new(&setup);
        let workloads = [SimulatedWorkload {
            wanted: 2,
            ..SimulatedWorkload::new(&WorkloadSetup::new("train", PodPlacement::Each(2)))
        }];
        let pod = |uid: &str| Workload {
            uid: uid.to_owned(),
            phase: PodPhase::Running,
            ready: true,
            ..workloads[0].template.clone()
        };
        let mut pods = SimulatedPods::default();
        pods.insert(pod("u1"), Some(0), 1);
        pods.insert(pod("u2"), Some(0), 1);
        let selector: Option<Selector> = "app=train".parse().ok();
        let budget = DisruptionBudget {
            namespace: pod("u1").namespace,
            selector,
            ..DisruptionBudget::default()
        };
        let mut budgets = DisruptionBudgets::default();
        budgets.add(budget.clone(), BudgetProtection::MaxUnavailable(Count::Number(1)), 0);
        budgets.recount(&pods, &workloads, &mut context);
        assert_eq!(budgets.answer_eviction(&pod("u1"), &mut context), EvictionAnswer::Granted);
        assert_eq!(budgets.answer_eviction(&pod("u2"), &mut context), EvictionAnswer::Blocked);
        budgets.recount(&pods, &workloads, &mut context);
        assert_eq!(budgets.answer_eviction(&pod("u2"), &mut context), EvictionAnswer::Granted);
        budgets.add(budget, BudgetProtection::MaxUnavailable(Count::Number(1)), 0);
        assert_eq!(budgets.answer_eviction(&pod("u1"), &mut context), EvictionAnswer::Error);
    }
}
