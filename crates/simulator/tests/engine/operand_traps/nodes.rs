//! Single nodes that the operator does not count, or that block all others.

use contract::count::Count;
use contract::names;
use contract::record::NodeOutcome;
use nvidia_upgrade::explain::ControllerWait;
use nvidia_upgrade::snapshot::SnapshotError;
use observed::{Labels, NvidiaDriver, ObservedDaemonSet, ObservedTaint};
use planner::decide::Decision;
use planner::reason::Reason;

use super::pools::rolling;
use crate::fleet::{Fleet, named, waits};
use crate::nvidia_drivers::{belongs, drivers};

/// `rollout.tolerateNotReady` also covers a node that died before the operator labeled it.
#[test]
fn trap_14_dead_unlabeled_node_is_tolerated() {
    let mut fleet = Fleet::at_rest(3);
    fleet.settings.tolerate_not_ready = Count::Number(1);
    fleet.observed.pods.edit().retain(|pod| pod.node.as_deref() != Some("gpu-2"));
    let node = fleet.node("gpu-2");
    node.ready = false;
    for label in [names::DEPLOY_DRIVER_LABEL, names::DEPLOY_TOOLKIT_LABEL] {
        node.labels.remove(label);
    }
    assert_eq!(waits(&fleet.decide(0)), ["gpu-2:NodeNotReady"]);
    assert_eq!(fleet.decide(700).outcomes["gpu-2"], NodeOutcome::Deferred);
}

/// driver-manager removes toolkit and operands, so no DaemonSet counts the node in `desired`.
#[test]
fn trap_17_paused_toolkit_is_not_ready() {
    let mut fleet = Fleet::at_rest(2);
    fleet
        .node("gpu-1")
        .labels
        .insert(names::DEPLOY_TOOLKIT_LABEL.into(), "paused-for-driver-upgrade".into());
    fleet.observed.pods.edit().retain(|pod| {
        pod.node.as_deref() != Some("gpu-1") || pod.owner.as_deref() != Some("toolkit-ds")
    });
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:ToolkitNotReady"]);
}

/// Returns the nodes with the pods that block NVIDIA's controller on all nodes.
fn blocked(decision: &Decision, node: &str) -> Vec<String> {
    let wait = decision
        .waits
        .iter()
        .find(|wait| wait.node.as_deref() == Some(node))
        .expect("the node waits");
    let Reason::DriverOutOfDate { why: Some(why), .. } = &*wait.reason else { panic!("{wait}") };
    let ControllerWait::Blocked { error: SnapshotError::PodCount { surplus, .. } } = &**why else {
        panic!("{wait}")
    };
    surplus.clone()
}

/// The pod stays, but the DaemonSet does not want it. The controller finds one pod too many, and
/// starts no more nodes.
#[test]
fn trap_18_tainted_node_is_named_by_blocked_operands() {
    let mut fleet = rolling();
    fleet.node("gpu-2").taints.push(ObservedTaint {
        key: "team".into(),
        value: "a".into(),
        effect: "NoSchedule".into(),
    });
    (fleet.observed.daemon_sets[0].desired, fleet.observed.daemon_sets[0].misscheduled) = (2, 1);
    let decision = fleet.decide(0);
    assert_eq!(
        waits(&decision),
        ["gpu-0:DriverOutOfDate", "gpu-1:DriverOutOfDate", "gpu-2:NodeTainted"]
    );
    assert_eq!(blocked(&decision, "gpu-0"), ["gpu-2"]);
    assert_eq!(fleet.decide(700).outcomes.get("gpu-2"), Some(&NodeOutcome::Deferred));
}

/// A dead node was moved to another pool. The old pool's pod on it never ends, and both pools are
/// stuck.
#[test]
fn trap_19_terminating_pod_of_dead_node_is_named() {
    let mut fleet = rolling();
    let selector =
        |name: &str| Labels::from([(names::DRIVER_OWNER_LABEL.to_owned(), name.to_owned())]);
    let pool = Labels::from([("pool".to_owned(), "blue".to_owned())]);
    let blue = NvidiaDriver {
        name: "blue".into(),
        uid: "driver-blue".into(),
        is_default: false,
        node_selector: pool,
        ..drivers(&mut fleet)[0].clone()
    };
    drivers(&mut fleet).push(blue);
    let of_blue = ObservedDaemonSet {
        uid: "blue-ds".into(),
        owner: Some("driver-blue".into()),
        ..fleet.observed.daemon_sets[0].clone()
    };
    fleet.observed.daemon_sets.push(ObservedDaemonSet {
        node_selector: selector("blue"),
        desired: 0,
        ..of_blue
    });
    (fleet.observed.daemon_sets[0].node_selector, fleet.observed.daemon_sets[0].desired) =
        (selector("default"), 2);
    belongs(&mut fleet, 2, "blue");
    let node = fleet.node("gpu-2");
    node.ready = false;
    node.labels.insert("pool".into(), "blue".into());
    let pod = fleet.driver_pod("gpu-2");
    (pod.deleting, pod.ready) = (true, false);
    let decision = fleet.decide(0);
    assert_eq!(
        waits(&decision),
        ["gpu-0:DriverOutOfDate", "gpu-1:DriverOutOfDate", "gpu-2:NodeNotReady"]
    );
    assert_eq!(blocked(&decision, "gpu-0"), ["gpu-2"]);
    let verdict = fleet.decide(3555).verdict.expect("the time is over");
    assert!(named(&verdict).iter().any(|one| one.starts_with("gpu-2:")), "{}", verdict.message);
}
