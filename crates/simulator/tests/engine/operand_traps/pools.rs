//! NVIDIADrivers whose status does not show the state of their nodes.

use contract::exit::ExitCode;
use contract::names;
use contract::record::NodeOutcome;
use observed::{Labels, NvidiaDriver, ObservedDaemonSet, ObservedRevision};
use planner::reason::Reason;

use crate::fleet::{Fleet, NEW, OLD, waits};
use crate::nvidia_drivers::{drivers, failed, pool_at_rest};

/// Up to v26.3.3, each pass that ends notReady restores the old `ready`.
#[test]
fn trap_11_rolling_nvidia_driver_is_not_ready() {
    let mut fleet = pool_at_rest("v26.3.3");
    fleet.observed.revisions.push(ObservedRevision {
        owner: "driver-ds".into(),
        revision: 2,
        hash: "new".into(),
    });
    fleet.driver("gpu-0", "new", OLD, -100);
    fleet.plugin("gpu-0", -50, OLD);
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:DriverOutOfDate", "gpu-2:DriverOutOfDate"]);
}

/// Up to v26.3.3 a pool of which all nodes are paused, tainted, or gone is never ready.
#[test]
fn trap_12_nvidia_driver_without_nodes_is_not_awaited() {
    let mut fleet = pool_at_rest("v26.3.3");
    let selector = Labels::from([("pool".to_owned(), "gone".to_owned())]);
    // The chart's own NVIDIADriver must not select every node. This would be a conflict.
    drivers(&mut fleet)[0].node_selector =
        Labels::from([(names::GPU_PRESENT_LABEL.to_owned(), "true".to_owned())]);
    let idle = NvidiaDriver {
        name: "gone".into(),
        uid: "driver-gone".into(),
        is_default: false,
        node_selector: selector.clone(),
        conditions: failed("DriverNotReady", "Waiting for driver pod to be ready"),
        ..drivers(&mut fleet)[0].clone()
    };
    drivers(&mut fleet).push(idle);
    let of_idle = ObservedDaemonSet {
        uid: "gone-ds".into(),
        owner: Some("driver-gone".into()),
        ..fleet.observed.daemon_sets[0].clone()
    };
    fleet.observed.daemon_sets.push(ObservedDaemonSet {
        node_selector: selector,
        desired: 0,
        ..of_idle
    });
    fleet.pass(0);
    assert_eq!(fleet.decide(30).verdict.expect("settled").code, ExitCode::Success);
}

/// The condition is "All resources reconciled", because there was nothing to render.
#[test]
fn trap_13_nvidia_driver_without_daemon_set_is_missing() {
    let mut fleet = pool_at_rest("v26.7.0");
    fleet.observed.daemon_sets.retain(|daemon_set| daemon_set.uid != "driver-ds");
    let decision = fleet.decide(0);
    assert_eq!(*decision.waits.at(0).reason, Reason::DaemonSetMissing { what: "driver" });
    // An NVIDIADriver without nodes needs no DaemonSet. A wait for one would never end.
    fleet.observed.pods.edit().retain(|pod| pod.owner.as_deref() != Some("driver-ds"));
    for node in ["gpu-0", "gpu-1", "gpu-2"] {
        fleet
            .node(node)
            .labels
            .insert(names::DEPLOY_DRIVER_LABEL.into(), names::DRIVER_PRE_INSTALLED.into());
    }
    assert_eq!(waits(&fleet.decide(1)), ["*:Quiet"]);
}

/// The ClusterPolicy ignores the skipped node, and is ready.
#[test]
fn trap_15_skipped_node_is_deferred_not_done() {
    let mut fleet = rolling();
    for node in ["gpu-0", "gpu-1"] {
        fleet.migrate(node, 10);
        fleet.plugin(node, 20, NEW);
    }
    assert_eq!(waits(&fleet.decide(30)), ["gpu-2:DriverOutOfDate"]);
    fleet.node("gpu-2").labels.insert(names::UPGRADE_SKIP_LABEL.into(), "true".into());
    fleet.pass(31);
    let decision = fleet.decide(60);
    assert_eq!(decision.outcomes["gpu-2"], NodeOutcome::Deferred);
    let verdict = decision.verdict.as_ref().expect("settled");
    assert_eq!(
        (verdict.code, decision.outcomes.values().filter(|one| **one == NodeOutcome::Done).count()),
        (ExitCode::Success, 2)
    );
}

/// Returns three marked nodes of the default NVIDIADriver, which requests a new driver. The hook is
/// in mode `assist` with v26.7.0.
pub(super) fn rolling() -> Fleet {
    let mut fleet = pool_at_rest("v26.7.0");
    fleet.is_assisted("v26.7.0");
    fleet.bump();
    drivers(&mut fleet)[0].driver.version = Some(NEW.into());
    fleet.migration_begins();
    fleet.observed.daemon_sets[0].desired = 3;
    fleet
}
