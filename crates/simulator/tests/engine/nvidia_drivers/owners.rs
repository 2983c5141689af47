//! Nodes that no NVIDIADriver owns yet, or another one.

use contract::names;
use observed::{Labels, ObservedDaemonSet};
use planner::reason::Reason;

use super::{belongs, drivers, pool_at_rest};
use crate::fleet::waits;

/// While the labeler has not yet processed a node, "nothing is out of date" is the state before its
/// upgrade.
#[test]
fn gpu_node_without_owner_is_not_done() {
    let mut fleet = pool_at_rest("v26.7.0");
    fleet.node("gpu-1").labels.remove(names::DRIVER_OWNER_LABEL);
    fleet.observed.daemon_sets[0]
        .node_selector
        .insert(names::DRIVER_OWNER_LABEL.into(), "default".into());
    let decision = fleet.decide(0);
    assert_eq!(waits(&decision), ["gpu-1:NodeInOtherPool"]);
    assert_eq!(
        *decision.waits.at(0).reason,
        Reason::NodeInOtherPool { wanted: "default".into(), found: None }
    );
    // With an operator that sets no such label, the selectors determine the nodes of each
    // NVIDIADriver.
    fleet.observed.operator.as_mut().expect("the operator").version = Some("v26.3.3".into());
    assert_eq!(waits(&fleet.decide(1)), ["gpu-1:NodeWithoutDaemonSet"]);
    // A node that no NVIDIADriver selects has no driver of the operator.
    drivers(&mut fleet)[0].node_selector = Labels::from([("pool".to_owned(), "other".to_owned())]);
    drivers(&mut fleet)[0].is_default = false;
    assert_eq!(waits(&fleet.decide(2)), ["*:Quiet"]);
}

/// The operator does nothing when a node of the default NVIDIADriver gets the label of a pool.
#[test]
fn node_labeled_into_pool_waits_for_its_owner() {
    let mut fleet = pool_at_rest("v26.7.0");
    let mut blue = drivers(&mut fleet)[0].clone();
    (blue.name, blue.uid, blue.is_default) = ("blue".into(), "driver-blue".into(), false);
    blue.node_selector = Labels::from([("pool".to_owned(), "blue".to_owned())]);
    drivers(&mut fleet).push(blue);
    assert!(fleet.decide(0).well);
    fleet.node("gpu-2").labels.insert("pool".into(), "blue".into());
    let decision = fleet.decide(1);
    assert_eq!(waits(&decision), ["gpu-2:NodeInOtherPool"]);
    let expected = Reason::NodeInOtherPool { wanted: "blue".into(), found: Some("default".into()) };
    assert_eq!(*decision.waits.at(0).reason, expected);
    // Its owner has changed and the pool has no DaemonSet for it yet.
    belongs(&mut fleet, 2, "blue");
    fleet.observed.daemon_sets[0]
        .node_selector
        .insert(names::DRIVER_OWNER_LABEL.into(), "default".into());
    assert_eq!(waits(&fleet.decide(2)), ["gpu-2:NodeWithoutDaemonSet"]);
    let of_blue = ObservedDaemonSet {
        uid: "blue-ds".into(),
        owner: Some("driver-blue".into()),
        ..fleet.observed.daemon_sets[0].clone()
    };
    let selector = Labels::from([(names::DRIVER_OWNER_LABEL.to_owned(), "blue".to_owned())]);
    fleet.observed.daemon_sets.push(ObservedDaemonSet { node_selector: selector, ..of_blue });
    assert_eq!(
        waits(&fleet.decide(3)),
        ["gpu-2:DriverOutOfDate"],
        "the pod is of the other pool's DaemonSet"
    );
}
