//! PodDisruptionBudgets: free, later, never.

use crate::pods::budgets::{BudgetAnswer, DisruptionBudgets};
use crate::pods::fixture::{at, labeled, pod};
use contract::selector::Selector;
use observed::workload::{DisruptionBudget, PodPhase, Workload};

/// Of `replicas` pods, of which `healthy` are: what the disruption controller makes of the spec.
fn budget(
    max_unavailable: Option<&str>,
    min_available: Option<&str>,
    replicas: i32,
    healthy: i32,
    desired: i32,
) -> DisruptionBudget {
    DisruptionBudget {
        namespace: "team".into(),
        name: "server".into(),
        selector: Some("app=server".parse().expect("a selector")),
        max_unavailable: max_unavailable.map(str::to_owned),
        min_available: min_available.map(str::to_owned),
        allowed: (healthy - desired).max(0),
        healthy,
        desired,
        expected: replicas,
        evicts_unhealthy: false,
        observed: true,
    }
}

fn server() -> Workload {
    labeled("app", "server", pod("server-0"))
}

fn broken() -> Workload {
    Workload { ready: false, ..server() }
}

/// `Free`, or the name of the refusal.
fn verdict(budgets: &[DisruptionBudget], pod: &Workload) -> String {
    match DisruptionBudgets::new(budgets).standing(pod, at(0)) {
        BudgetAnswer::Free => "Free".to_owned(),
        BudgetAnswer::Later(_, why) => format!("{why:?}"),
        BudgetAnswer::Never(_, why) => format!("{why:?}"),
    }
}

fn alone(budget: &DisruptionBudget, pod: &Workload) -> String {
    verdict(std::slice::from_ref(budget), pod)
}

#[test]
fn kured_82_impossible_budget_is_told_from_slow_one() {
    for (max_unavailable, min_available, replicas, healthy, desired, expected) in [
        (Some("1"), None, 3, 3, 2, "Free"),
        (Some("1"), None, 3, 2, 2, "Full"),
        (Some("0"), None, 3, 3, 3, "NoneMayGo"),
        (Some("0%"), None, 3, 3, 3, "NoneMayGo"),
        (Some("25%"), None, 1, 1, 0, "Free"),
        (None, Some("2"), 3, 3, 2, "Free"),
        (None, Some("2"), 3, 2, 2, "Full"),
        (None, Some("3"), 3, 3, 3, "AllMustStay"),
        (None, Some("4"), 3, 3, 4, "AllMustStay"),
        (None, Some("100%"), 3, 3, 3, "AllMustStay"),
        (None, Some("90%"), 3, 3, 3, "AllMustStay"),
        (None, Some("50%"), 3, 3, 2, "Free"),
        (None, Some("1"), 1, 1, 1, "AllMustStay"),
    ] {
        let budget = budget(max_unavailable, min_available, replicas, healthy, desired);
        assert_eq!(
            verdict(&[budget], &server()),
            expected,
            "max {max_unavailable:?} min {min_available:?} of {replicas}"
        );
    }
}

#[test]
fn gravity_1277_broken_pods_that_their_budget_protects() {
    let all_broken = budget(None, Some("2"), 3, 0, 2);
    assert_eq!(alone(&all_broken, &broken()), "Unhealthy");
    assert_eq!(
        verdict(&[DisruptionBudget { evicts_unhealthy: true, ..all_broken.clone() }], &broken()),
        "Free"
    );
    assert_eq!(
        verdict(&[budget(None, Some("2"), 3, 2, 2)], &broken()),
        "Free",
        "the others are enough"
    );
    assert_eq!(
        verdict(&[DisruptionBudget { allowed: 1, ..all_broken.clone() }], &broken()),
        "Free"
    );
    let young = Workload { created: at(-599), ..broken() };
    assert_eq!(alone(&all_broken, &young), "Starting");
    assert_eq!(verdict(&[all_broken], &Workload { created: at(-600), ..young }), "Unhealthy");
    // With `minAvailable: 0` and none healthy the API's exception for broken pods does not hold,
    // and nothing is allowed either.
    assert_eq!(verdict(&[budget(None, Some("0"), 3, 0, 0)], &broken()), "Unhealthy");
}

#[test]
fn two_budgets_on_one_pod_are_an_error() {
    let second = DisruptionBudget {
        name: "all".into(),
        selector: Some(Selector::default()),
        ..budget(Some("1"), None, 3, 3, 2)
    };
    assert_eq!(verdict(&[budget(Some("1"), None, 3, 3, 2), second.clone()], &server()), "Several");
    assert_eq!(verdict(&[second], &server()), "Free");
}

#[test]
fn kubernetes_26080_stopped_pods_need_no_budget() {
    let strict = budget(Some("0"), None, 3, 3, 3);
    for pod in [
        Workload { phase: PodPhase::Succeeded, ..server() },
        Workload { phase: PodPhase::Failed, ..server() },
        Workload { phase: PodPhase::Pending, ready: false, ..server() },
        Workload { deleted_at: Some(at(0)), ..server() },
    ] {
        assert_eq!(alone(&strict, &pod), "Free", "{pod:?}");
    }
    assert_eq!(verdict(&[strict], &Workload { phase: PodPhase::Unknown, ..server() }), "NoneMayGo");
}

#[test]
fn budget_protects_selected_pods_of_its_namespace() {
    let strict = budget(Some("0"), None, 3, 3, 3);
    assert_eq!(alone(&strict, &pod("other")), "Free");
    assert_eq!(alone(&strict, &Workload { namespace: "other".into(), ..server() }), "Free");
    assert_eq!(verdict(&[DisruptionBudget { selector: None, ..strict }], &server()), "Free");
}

#[test]
fn budget_its_controller_has_not_seen_is_awaited() {
    let unseen = DisruptionBudget { observed: false, ..budget(None, Some("3"), 3, 3, 2) };
    assert_eq!(
        verdict(&[unseen], &server()),
        "Unobserved",
        "how many pods there are is of the old spec"
    );
    let unseen = DisruptionBudget { observed: false, ..budget(Some("0"), None, 3, 3, 2) };
    assert_eq!(verdict(&[unseen], &server()), "NoneMayGo", "no state can change that");
}

#[test]
fn kured_78_slow_and_impossible_budgets_have_numbers() {
    let say = |budgets: &[DisruptionBudget], pod: &Workload| {
        let budgets = DisruptionBudgets::new(budgets);
        let standing = budgets.standing(pod, at(0));
        format!("{standing}; {}", standing.advice().expect("an advice"))
    };
    let lines = [
        say(&[budget(Some("1"), None, 3, 2, 2)], &server()),
        say(&[budget(Some("0"), None, 3, 3, 3)], &server()),
        say(&[budget(None, Some("100%"), 3, 3, 3)], &server()),
        say(&[budget(None, Some("2"), 3, 1, 2)], &broken()),
        say(&[budget(None, Some("2"), 3, 1, 2)], &Workload { created: at(-5), ..broken() }),
        say(&[budget(Some("1"), None, 3, 3, 2), budget(Some("1"), None, 3, 3, 2)], &server()),
        say(&[DisruptionBudget { observed: false, ..budget(Some("1"), None, 3, 3, 2) }], &server()),
    ];
    assert_eq!(
        lines,
        [
            "poddisruptionbudget team/server requires 2 healthy pods and has 2: no pod may be evicted now; the pod can be evicted when the replacement of an unavailable pod is ready: find out why it is not, or raise the number of replicas",
            "poddisruptionbudget team/server never allows an eviction: maxUnavailable is 0; set maxUnavailable to at least 1, or delete the PodDisruptionBudget during the rollout",
            "poddisruptionbudget team/server never allows an eviction: minAvailable requires 100% of 3 pods; lower minAvailable below the number of \
             pods, or, unless it is a percentage, raise the number of replicas",
            "poddisruptionbudget team/server requires 2 healthy pods and has 1, and protects even unhealthy pods; repair or delete the unhealthy pods, or set unhealthyPodEvictionPolicy: AlwaysAllow in the PodDisruptionBudget",
            "poddisruptionbudget team/server requires 2 healthy pods and has 1, and this pod is not ready yet; wait: the pod can be evicted when it is ready, or when enough other pods are",
            "2 PodDisruptionBudgets select the same pod, which the eviction API does not support: poddisruptionbudget team/server, poddisruptionbudget team/server; \
             narrow the selectors so that one PodDisruptionBudget protects each pod",
            "poddisruptionbudget team/server has changed, and the disruption controller has not processed the change; check whether kube-controller-manager runs, and check the conditions of the PodDisruptionBudget",
        ]
    );
}
