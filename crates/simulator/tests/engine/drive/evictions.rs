//! When pods are evicted again, and when it is too late for it.

use observed::workload::Workload;
use planner::decide::{Action, Decision};
use planner::pods::eviction_retry::{EvictionHistory, EvictionReply};

use super::about_to_evict;
use crate::fleet::at;

/// Returns the pods that a decision evicts, or the failure of the node.
fn evicts(decision: &Decision) -> Vec<&str> {
    let deed = |action: &Action| {
        matches!(action, Action::Evict(_)).then_some("evicts").or(matches!(
            action,
            Action::PatchNode(_)
        )
        .then_some("patches"))
    };
    decision.actions.iter().filter_map(deed).collect()
}

/// Regression: the pause of five seconds lasted until another change, or a minute, because a
/// refusal changes no watched object.
#[test]
fn refused_eviction_is_repeated_after_its_pause() {
    let mut driven = about_to_evict();
    let decision = driven.fleet.decide(1);
    assert_eq!(evicts(&decision), ["evicts"]);
    assert!(decision.wake_at <= at(6), "{}", decision.wake_at);
}

/// Regression: the process died right after the cordon. The timeout was over when the next process
/// could evict, and an attempt was lost.
#[test]
fn eviction_never_requested_is_never_late() {
    let mut driven = about_to_evict();
    assert_eq!(evicts(&driven.fleet.decide(400)), ["evicts"]);
    for pod in &driven.workloads {
        driven.fleet.memory.evictions.insert(
            pod.uid.clone(),
            EvictionHistory::after(None, at(400), EvictionReply::Blocked { retry_after: None }),
        );
    }
    assert_eq!(evicts(&driven.fleet.decide(406)), ["patches"], "now it is");
}

/// Regression: the answer to the patch of a new attempt was lost, and the attempt ended before any
/// eviction, because the refusals of the earlier attempt counted.
#[test]
fn answer_to_earlier_attempt_is_not_reused() {
    let mut driven = about_to_evict();
    for pod in &driven.workloads {
        let refused = EvictionReply::Blocked { retry_after: None };
        driven
            .fleet
            .memory
            .evictions
            .insert(pod.uid.clone(), EvictionHistory::after(None, at(-60), refused));
    }
    assert_eq!(evicts(&driven.fleet.decide(400)), ["evicts"]);
}

/// Regression: a pod that tolerates the cordon came back after each eviction with another UID. The
/// node stayed cordoned and lost a pod every minute.
#[test]
fn recurring_pods_are_as_late_as_the_first() {
    let mut driven = about_to_evict();
    assert_eq!(evicts(&driven.fleet.decide(1)), ["evicts"]);
    let again = Workload { uid: "again".into(), created: at(395), ..driven.workloads[0].clone() };
    driven.fleet.observed.workloads.pods = [("gpu-0".to_owned(), vec![again])].into();
    assert_eq!(evicts(&driven.fleet.decide(400)), ["patches"]);
}
