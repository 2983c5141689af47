//! PodDisruptionBudgets: the disruption controller that counts for them, and what they answer to evictions.

use contract::selector::Selector;
use observed::workload::{DisruptionBudget, PodPhase, Workload};

use super::setup::{BudgetProtection, WorkloadKind};
use super::view::WorldChange;
use super::workload_pods::WorkloadPods;
use super::world::{HookWatch, World, WorldEvent};

/// A PodDisruptionBudget and what it stands before.
#[derive(Debug)]
pub(super) struct BudgetGuard {
    pub(super) budget: DisruptionBudget,
    /// `None`: one that cannot be understood; it lets nothing go.
    pub(super) protection: Option<BudgetProtection>,
    /// Whose pods it selects.
    pub(super) crews: Vec<usize>,
    /// How many healthy pods, and how many pods in all, it counts outside of the fleet.
    pub(super) outside: (usize, usize),
    /// It lets nothing go.
    pub(super) held: bool,
}

/// The answer of the budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardAnswer {
    Granted,
    /// 429
    Blocked,
    /// 500: more than one budget.
    Error,
}

impl World<'_> {
    /// Takes the budgets over that were found. What they count beyond the pods of the fleet is elsewhere, and stays as it is.
    pub(super) fn guards_found(&mut self, budgets: &[DisruptionBudget]) {
        for budget in budgets {
            let protects = |crew: &WorkloadPods| {
                let selects = |selector: &Selector| selector.matches(&crew.template.labels);
                budget.namespace == crew.template.namespace && budget.selector.as_ref().is_some_and(selects)
            };
            let crews: Vec<usize> = (0..self.crews.len()).filter(|crew| protects(&self.crews[*crew])).collect();
            let of_crews = |pod: &&Workload| self.members.get(&pod.uid).is_some_and(|crew| crews.contains(crew));
            let here = self.pods.values().filter(of_crews);
            let healthy = here.clone().filter(|pod| pod.ready && pod.deleted_at.is_none()).count();
            let all = here.filter(|pod| !pod.phase.is_finished()).count();
            let number = |count: i32| usize::try_from(count).unwrap_or(0);
            let outside = (number(budget.healthy).saturating_sub(healthy), number(budget.expected).saturating_sub(all));
            self.guards.push(BudgetGuard {
                budget: budget.clone(),
                protection: BudgetProtection::from_budget(budget),
                crews,
                outside,
                held: false,
            });
        }
    }

    /// The disruption controller.
    pub(super) fn look_at_budgets(&mut self) {
        let mut changed = false;
        for guard in &mut self.guards {
            let mine = |pod: &&Workload| self.members.get(&pod.uid).is_some_and(|crew| guard.crews.contains(crew));
            let pods = || self.pods.values().filter(mine);
            let healthy = pods().filter(|pod| pod.ready && pod.deleted_at.is_none()).count() + guard.outside.0;
            // A controller's own number of replicas, where it has one.
            let replicas = |crew: &usize| match self.crews[*crew].kind {
                WorkloadKind::ReplicaSet | WorkloadKind::Job => self.crews[*crew].wanted,
                WorkloadKind::DaemonSet | WorkloadKind::Bare => pods().filter(|pod| self.members.get(&pod.uid) == Some(crew)).count(),
            };
            let expected = guard.crews.iter().map(replicas).sum::<usize>() + guard.outside.1;
            let desired = match guard.protection {
                Some(BudgetProtection::MinAvailable(count)) => count.resolve(expected),
                Some(BudgetProtection::MaxUnavailable(count)) => expected.saturating_sub(count.resolve(expected)),
                None => healthy,
            };
            let allowed = if guard.held { 0 } else { healthy.saturating_sub(desired) };
            let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
            let next = DisruptionBudget {
                allowed: number(allowed),
                healthy: number(healthy),
                desired: number(desired),
                expected: number(expected),
                ..guard.budget.clone()
            };
            changed |= guard.budget != next;
            guard.budget = next;
        }
        if changed {
            self.touch_budgets();
        }
    }

    pub(super) fn budgets(&self) -> Vec<DisruptionBudget> {
        self.guards.iter().map(|guard| guard.budget.clone()).collect()
    }

    fn touch_budgets(&mut self) {
        let budgets = self.budgets();
        self.publish(HookWatch::Budgets, Some(WorldChange::Budgets(budgets)));
    }

    pub(super) fn hold_budget(&mut self, workers: &str, milliseconds: Option<u64>) {
        let Some(crew) = self.crews.iter().position(|crew| crew.name == workers) else { return };
        self.hold_guards(crew, true);
        if let Some(milliseconds) = milliseconds {
            self.after(milliseconds, WorldEvent::BudgetYields(crew));
        }
    }

    pub(super) fn budget_yields(&mut self, crew: usize) {
        self.log(|| "a budget yields".to_owned());
        self.hold_guards(crew, false);
    }

    fn hold_guards(&mut self, crew: usize, held: bool) {
        for guard in self.guards.iter_mut().filter(|guard| guard.crews.contains(&crew)) {
            guard.held = held;
        }
        self.look_at_budgets();
    }

    /// What the API server says to an eviction: the budgets that protect the pod, and whether they let it go. Takes what it grants.
    pub(super) fn ask_budgets(&mut self, pod: &Workload) -> GuardAnswer {
        let protects = |budget: &DisruptionBudget| {
            budget.namespace == pod.namespace && budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
        };
        if pod.phase == PodPhase::Pending || pod.phase.is_finished() || pod.deleted_at.is_some() {
            return GuardAnswer::Granted;
        }
        let budgets: Vec<&mut DisruptionBudget> =
            self.guards.iter_mut().map(|guard| &mut guard.budget).filter(|budget| protects(budget)).collect();
        let mut budgets = budgets.into_iter();
        let (first, second) = (budgets.next(), budgets.next());
        let Some(budget) = first else { return GuardAnswer::Granted };
        if second.is_some() {
            return GuardAnswer::Error;
        }
        let enough = budget.healthy >= budget.desired && budget.desired > 0;
        if !pod.ready && (budget.evicts_unhealthy || enough) {
            return GuardAnswer::Granted;
        }
        if budget.allowed <= 0 {
            return GuardAnswer::Blocked;
        }
        budget.allowed -= 1;
        self.touch_budgets();
        GuardAnswer::Granted
    }
}
