//! The conditions of an NVIDIADriver, and what is judged without them.

use contract::exit::ExitCode;
use observed::{Labels, PolicyConditions};
use planner::reason::Reason;

use super::{driver, drivers, failed, fleet_reason, pool_at_rest};
use crate::fleet::{NEW, named, waits};

/// Conflicting selectors, a missing Secret, an invalid combination: only the condition gives the
/// reason.
#[test]
fn failed_nvidia_driver_ends_run_after_grace_time() {
    for (reason, message) in [
        (
            "ConflictingNodeSelector",
            "conflicting NVIDIADriver NodeSelectors found for resource: default, nodeSelector: \"pool=blue\"",
        ),
        ("ReconcileFailed", "secrets \"license\" not found"),
    ] {
        let mut fleet = pool_at_rest("v26.7.0");
        drivers(&mut fleet)[0].conditions = failed(reason, message);
        let expected = Reason::ReconcileFailed {
            kind: "NVIDIADriver",
            name: "default".into(),
            reason: reason.into(),
            message: message.into(),
        };
        assert_eq!(fleet_reason(&mut fleet, 0), Some(expected));
        assert_eq!(fleet.decide(119).verdict, None);
        let verdict = fleet.decide(120).verdict.expect("the grace time is over");
        assert_eq!(verdict.code, ExitCode::OperatorMissing);
        assert_eq!(named(&verdict), ["*:ReconcileFailed"]);
    }
}

/// The condition goes when the operator reconciles again, and an NVIDIADriver without nodes blocks
/// nothing.
#[test]
fn failed_nvidia_driver_without_nodes_is_not_awaited() {
    let mut fleet = pool_at_rest("v26.7.0");
    let mut idle = driver("idle", 1);
    idle.node_selector = Labels::from([("pool".to_owned(), "none".to_owned())]);
    idle.conditions = failed("ReconcileFailed", "invalid");
    drivers(&mut fleet).push(idle);
    assert!(fleet.decide(0).well);
    drivers(&mut fleet)[0].conditions = failed("ReconcileFailed", "the object has been modified");
    assert_eq!(waits(&fleet.decide(1)), ["*:ReconcileFailed"]);
    drivers(&mut fleet)[0].conditions = PolicyConditions::default();
    assert!(fleet.decide(2).well);
}

/// Up to v26.3.3, `status.state` is `ready` while the NVIDIADriver rolls, and a pool without nodes
/// is never ready. The hook ignores both.
#[test]
fn rolling_nvidia_driver_is_judged_by_its_pods() {
    let mut fleet = pool_at_rest("v26.3.3");
    drivers(&mut fleet)[0].conditions =
        failed("DriverNotReady", "Waiting for driver pod to be ready");
    assert!(fleet.decide(0).well, "desired 0 somewhere, and every node is current");
    drivers(&mut fleet)[0].driver.version = Some(NEW.into());
    assert_eq!(waits(&fleet.decide(1)), ["*:SpecNotObserved"]);
}
