//! `status.state` of the ClusterPolicy is wrongly `ready` or wrongly `notReady`.

use std::sync::Arc;

use contract::exit::ExitCode;
use contract::names;
use contract::operand::Operand;
use observed::{ObservedRevision, OperatorLease};
use planner::reason::Reason;
use planner::rolling_update::AwaitedNode;

use crate::fleet::{Fleet, NEW, at, named, waits};
use crate::nvidia_drivers::{failed, pool_at_rest};
use crate::operands;
use crate::operator::{OPERATOR_POD, leads};

/// GPU nodes were scaled to zero: the operator leaves the DaemonSets as they were, with the old
/// chart's templates.
#[test]
fn trap_04_fleet_without_gpu_nodes_needs_no_templates() {
    let mut fleet = Fleet::at_rest(0);
    fleet.join("cpu-0", -1000);
    fleet.node("cpu-0").labels =
        [("feature.node.kubernetes.io/cpu-model.family".to_owned(), "6".to_owned())].into();
    fleet.policy().ready_reason = Some("NoGPUNodes".into());
    fleet.bump();
    fleet.policy().toolkit.version = Some("v1.19.0".into());
    fleet.policy().labels.insert("helm.sh/chart".into(), "gpu-operator-v26.7.0".into());
    fleet.pass(0);
    assert_eq!(fleet.decide(40).verdict.expect("settled").code, ExitCode::Success);
}

/// First install: every DaemonSet still wants 0 pods, which the operator treats as ready.
#[test]
fn trap_06_new_daemon_sets_are_not_ready() {
    let mut fleet = operands::fleet(2);
    (fleet.observed.pods, fleet.observed.operand_pods) = Default::default();
    for daemon_set in &mut fleet.observed.daemon_sets {
        (daemon_set.desired, daemon_set.observed) = (0, false);
    }
    let decision = fleet.decide(0);
    assert_eq!(waits(&decision), ["*:SpecNotObserved"]);
    assert!(
        matches!(&*decision.waits.at(0).reason, Reason::SpecNotObserved { field, .. } if field == "observedGeneration")
    );
    for daemon_set in &mut fleet.observed.daemon_sets {
        daemon_set.observed = true;
    }
    assert_eq!(waits(&fleet.decide(1)), ["gpu-0:DriverPodMissing", "gpu-1:DriverPodMissing"]);
    for node in ["gpu-0", "gpu-1"] {
        fleet.driver(node, "old", crate::fleet::OLD, 2);
        fleet.toolkit(node, 3);
        fleet.plugin(node, 4, crate::fleet::OLD);
    }
    assert_eq!(waits(&fleet.decide(5)), ["gpu-0:OperandMissing", "gpu-1:OperandMissing"]);
}

/// Up to v26.3 the operator lists driver pods by the newest template's labels: those of the old
/// chart are not among them.
#[test]
fn trap_07_bumped_chart_with_partial_nodes_is_unready() {
    let mut fleet = Fleet::at_rest(3);
    fleet.is_assisted("v26.3.3");
    fleet.policy().labels.insert("helm.sh/chart".into(), "gpu-operator-v26.3.3".into());
    fleet.migration_begins();
    fleet.migrate("gpu-0", 10);
    fleet.plugin("gpu-0", 20, NEW);
    assert_eq!(fleet.policy().state.as_deref(), Some("ready"));
    let decision = fleet.decide(30);
    assert_eq!(waits(&decision), ["gpu-1:DriverOutOfDate", "gpu-2:DriverOutOfDate"]);
    assert!(!decision.well && decision.verdict.is_none());
}

/// Adds a revision of the toolkit's DaemonSet: its rolling update starts.
fn changes_toolkit(fleet: &mut Fleet) {
    fleet.observed.revisions.push(ObservedRevision {
        owner: "toolkit-ds".into(),
        revision: 2,
        hash: "toolkit-2".into(),
    });
}

#[test]
fn trap_08_half_rolled_toolkit_is_outdated() {
    let mut fleet = Fleet::at_rest(2);
    changes_toolkit(&mut fleet);
    assert_eq!(waits(&fleet.decide(0)), ["gpu-0:ToolkitOutdated", "gpu-1:ToolkitOutdated"]);
}

/// A node with a bad driver stalls the toolkit's rolling update: the toolkit waits for the driver.
/// `status` said of all other nodes that their toolkit was not ready.
#[test]
fn trap_08_stalled_toolkit_names_the_awaited_node() {
    let mut fleet = Fleet::at_rest(3);
    changes_toolkit(&mut fleet);
    for pod in fleet.observed.pods.edit().iter_mut().map(Arc::make_mut) {
        if pod.node.as_deref() == Some("gpu-0") && pod.owner.as_deref() == Some("toolkit-ds") {
            (pod.revision, pod.ready) = (Some("toolkit-2".into()), false);
        }
    }
    let decision = fleet.decide(0);
    assert_eq!(
        waits(&decision),
        ["gpu-0:ToolkitNotReady", "gpu-1:ToolkitOutdated", "gpu-2:ToolkitOutdated"]
    );
    let awaited = AwaitedNode { name: "gpu-0".into(), is_ready: true };
    let awaited = Reason::ToolkitOutdated { awaited: Some(awaited) };
    assert!(decision.waits.iter().skip(1).all(|wait| *wait.reason == awaited));
}

#[test]
fn trap_09_absent_driver_and_toolkit_are_missing() {
    for (uid, what) in [("driver-ds", "driver"), ("toolkit-ds", "container toolkit")] {
        let mut fleet = Fleet::at_rest(2);
        fleet.observed.daemon_sets.retain(|daemon_set| daemon_set.uid != uid);
        let decision = fleet.decide(0);
        assert_eq!(*decision.waits.at(0).reason, Reason::DaemonSetMissing { what });
        assert!(!decision.well);
    }
}

/// Up to v26.3 an error before the first state leaves `status.state` as it was.
#[test]
fn trap_10_error_condition_outweighs_stale_ready() {
    let mut fleet = Fleet::at_rest(2);
    let message = "failed to initialize ClusterPolicy controller: no OS labels on node gpu-1";
    fleet.policy().conditions = failed("ReconcileFailed", message);
    assert_eq!(fleet.policy().state.as_deref(), Some("ready"));
    assert_eq!(waits(&fleet.decide(0)), ["*:ReconcileFailed"]);
    let verdict = fleet.decide(120).verdict.expect("the grace time is over");
    assert_eq!(verdict.code, ExitCode::OperatorMissing);
    assert_eq!(named(&verdict), ["*:ReconcileFailed"]);
}

/// Up to v26.3 the DCGM exporter is never ready without that CRD, though its DaemonSet is.
#[test]
fn trap_23_missing_service_monitor_does_not_block() {
    let mut fleet = operands::fleet(2);
    fleet.policy().state = Some("notReady".into());
    fleet.policy().conditions = failed(
        "OperandNotReady",
        "ClusterPolicy is not ready, states not ready: [state-dcgm-exporter]",
    );
    assert_eq!(operands::ends(&mut fleet).0.code, ExitCode::Success);
}

/// OLM replaces the operator, whose environment names the images, so no custom resource changes.
#[test]
fn trap_30_olm_upgrade_without_new_generation_is_unready() {
    let mut fleet = operands::fleet(2);
    fleet.operator_is_quiet = false;
    leads(&mut fleet.observed, at(0));
    fleet.observed.operator.as_mut().expect("the operator").updated = 0;
    assert_eq!(waits(&fleet.decide(0)), ["*:OperatorNotReady"]);
    fleet.observed.operator.as_mut().expect("the operator").updated = 1;
    let lease = |pod: &str, second: i64, led: i64| {
        let (holder, led_seconds) = (format!("{pod}_4a1b"), u64::try_from(led).expect("positive"));
        Some(OperatorLease {
            holder,
            duration_seconds: 65,
            led_seconds,
            renewed: Some(at(second)),
            ..OperatorLease::default()
        })
    };
    for second in 1..60 {
        fleet.observed.operator_lease = lease("gpu-operator-of-before", second.min(10), 1000);
        assert_eq!(waits(&fleet.decide(second)), ["*:OperatorNotLeading"], "{second}");
    }
    for second in 60..80 {
        fleet.observed.operator_lease = lease(OPERATOR_POD, second, second - 60);
        if second == 62 {
            let plugin = Operand::DevicePlugin.traits().daemon_set;
            let daemon_set = fleet
                .observed
                .daemon_sets
                .iter_mut()
                .find(|daemon_set| daemon_set.name == plugin)
                .expect("a DaemonSet");
            (daemon_set.generation, daemon_set.applied_hash) = (2, Some("2".into()));
            fleet.observed.revisions.push(ObservedRevision {
                owner: plugin.into(),
                revision: 2,
                hash: "of the new operator".into(),
            });
        }
        let decision = fleet.decide(second);
        if second < 77 {
            assert_eq!(waits(&decision), ["*:OperatorActing"], "{second}");
        } else {
            assert_eq!(
                waits(&decision),
                ["gpu-0:OperandOutdated", "gpu-1:OperandOutdated"],
                "{second}"
            );
        }
    }
}

/// With NVIDIADrivers, v26.7 reconciles again only when a node's label changes.
#[test]
fn trap_32_not_ready_after_missed_event_is_harmless() {
    let mut fleet = pool_at_rest("v26.7.0");
    fleet.policy().state = Some("notReady".into());
    fleet.policy().conditions = failed("OperandNotReady", "upgrades are pending");
    fleet.state("gpu-0", "upgrade-done");
    assert!(fleet.decide(0).well);
    fleet.node("gpu-0").labels.remove(names::UPGRADE_STATE_LABEL);
    assert_eq!(fleet.decide(30).verdict.expect("settled").code, ExitCode::Success);
}
