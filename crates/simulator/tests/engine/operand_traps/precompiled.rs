//! Precompiled drivers with a DaemonSet for each kernel, and drivers that the operator neither
//! upgrades nor removes.

use std::collections::BTreeMap;

use contract::exit::ExitCode;
use nvidia_upgrade::explain::ControllerWait;
use observed::{Labels, ObservedDaemonSet};
use planner::reason::Reason;

use crate::fleet::{Fleet, OLD, named, reason_of, waits};
use crate::nvidia_drivers::failed;

const KERNEL: &str = "feature.node.kubernetes.io/kernel-version.full";

/// Returns the driver's DaemonSet for a kernel.
fn of_kernel(fleet: &Fleet, kernel: &str) -> ObservedDaemonSet {
    let images = BTreeMap::from([
        (
            "nvidia-driver-ctr".to_owned(),
            format!("nvcr.io/nvidia/driver:{OLD}-{kernel}-ubuntu22.04"),
        ),
        (
            "k8s-driver-manager".to_owned(),
            "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.9.1".to_owned(),
        ),
    ]);
    ObservedDaemonSet {
        name: format!("nvidia-driver-daemonset-{kernel}-ubuntu22.04"),
        node_selector: Labels::from([(KERNEL.to_owned(), kernel.to_owned())]),
        images,
        ..fleet.observed.daemon_sets[0].clone()
    }
}

/// Returns nodes with one kernel and precompiled drivers.
fn precompiled(nodes: usize) -> Fleet {
    let mut fleet = Fleet::at_rest(nodes);
    fleet.observed.daemon_sets[0] = of_kernel(&fleet, "6.8.0-60");
    for index in 0..nodes {
        fleet.node(&format!("gpu-{index}")).labels.insert(KERNEL.into(), "6.8.0-60".into());
    }
    fleet
}

#[test]
fn trap_24_node_without_kernel_label_ends_run() {
    let mut fleet = precompiled(2);
    fleet.node("gpu-1").labels.remove(KERNEL);
    let message = "could not find kernel full version of node gpu-1";
    fleet.policy().conditions = failed("ReconcileFailed", message);
    assert_eq!(waits(&fleet.decide(0)), ["*:ReconcileFailed"]);
    let verdict = fleet.decide(120).verdict.expect("the grace time is over");
    assert_eq!(verdict.code, ExitCode::OperatorMissing);
    assert_eq!(named(&verdict), ["*:ReconcileFailed"]);
    // When the operator can act again, the node itself waits.
    fleet.policy().conditions = failed("OperandNotReady", "");
    assert_eq!(waits(&fleet.decide(121)), ["gpu-1:DriverPodMissing"]);
}

#[test]
fn trap_24_kernel_without_image_is_named() {
    let mut fleet = precompiled(2);
    fleet.driver_pod("gpu-1").ready = false;
    fleet.driver_pod("gpu-1").trouble = Some("nvidia-driver-ctr: ImagePullBackOff".into());
    let decision = fleet.decide(0);
    assert_eq!(waits(&decision), ["gpu-1:DriverNotReady"]);
    let verdict = fleet.decide(3555).verdict.expect("the time is over");
    assert_eq!(named(&verdict), ["gpu-1:DriverNotReady"]);
    let Reason::DriverNotReady { trouble, .. } = reason_of(&decision, "gpu-1") else {
        panic!("{}", verdict.message)
    };
    assert_eq!(trouble.as_deref(), Some("nvidia-driver-ctr: ImagePullBackOff"));
}

/// The operator deletes and creates the DaemonSet of a kernel without nodes in every pass, so the
/// DaemonSet always looks new.
#[test]
fn trap_25_flapping_daemon_set_does_not_block() {
    let mut fleet = precompiled(2);
    let flapping = of_kernel(&fleet, "5.15.0-140");
    for second in 0..15 {
        fleet.observed.daemon_sets.truncate(2);
        if second % 3 > 0 {
            let uid = format!("flapping-{second}");
            fleet.observed.daemon_sets.push(ObservedDaemonSet {
                uid,
                observed: second % 3 == 2,
                ..flapping.clone()
            });
        }
        assert_eq!(waits(&fleet.decide(second)), ["*:Quiet"], "{second}");
    }
    assert_eq!(fleet.decide(15).verdict.expect("settled").code, ExitCode::Success);
    // The same if all nodes have drivers of their own, and there is currently no DaemonSet.
    let mut fleet = precompiled(2);
    fleet.observed.daemon_sets.remove(0);
    for node in ["gpu-0", "gpu-1"] {
        fleet
            .node(node)
            .labels
            .insert("nvidia.com/gpu.deploy.driver".into(), "pre-installed".into());
    }
    assert_eq!(waits(&fleet.decide(0)), ["*:Quiet"]);
}

/// The operator deletes only `nvidia-driver-daemonset`. The nodes keep drivers that look like
/// preinstalled ones.
#[test]
fn trap_26_left_over_driver_is_not_settled() {
    let mut fleet = precompiled(2);
    fleet.policy().driver_enabled = false;
    let decision = fleet.decide(0);
    let daemon_set = "nvidia-driver-daemonset-6.8.0-60-ubuntu22.04".to_owned();
    assert_eq!(*decision.waits.at(0).reason, Reason::DriverLeftOver { daemon_set });
    assert_eq!(fleet.decide(119).verdict, None);
    let verdict = fleet.decide(120).verdict.expect("the grace time is over");
    assert_eq!(verdict.code, ExitCode::Precondition);
    assert_eq!(named(&verdict), ["*:DriverLeftOver"]);
    fleet.observed.daemon_sets.remove(0);
    assert!(fleet.decide(121).well);
}

/// `sandboxWorkloads.enabled` disables the upgrade controller, so container nodes keep the old
/// driver.
#[test]
fn trap_27_sandbox_workloads_name_who_must_upgrade() {
    for assisted in [false, true] {
        let mut fleet = Fleet::migrating(2);
        if assisted {
            fleet.is_assisted("v26.7.0");
        }
        fleet.observed.operator.as_mut().expect("the operator").version = Some("v26.7.0".into());
        fleet.policy().sandbox_workloads = true;
        for node in ["gpu-0", "gpu-1"] {
            fleet.node(node).labels.remove(contract::names::UPGRADE_STATE_LABEL);
        }
        let decision = fleet.decide(0);
        assert_eq!(waits(&decision), ["gpu-0:DriverOutOfDate", "gpu-1:DriverOutOfDate"]);
        let reason = &decision.waits.at(0).reason;
        let Reason::DriverOutOfDate { why: Some(why), .. } = &**reason else { panic!("{reason}") };
        assert_eq!(**why, ControllerWait::SandboxWorkloads);
        let verdict = fleet.decide(3555).verdict.expect("the time is over");
        assert_eq!(named(&verdict), ["gpu-0:DriverOutOfDate", "gpu-1:DriverOutOfDate"]);
    }
}
