//! Regression tests, each named after the broken behavior.

use contract::count::Count;
use contract::exit::ExitCode;
use contract::names;
use contract::settings::DraRequired;
use observed::{NvidiaDriver, ObservedContainer, OptionalApi};

use crate::fleet::{Fleet, NEW, OLD, at, named, replaced, waits};

fn limited(nodes: usize) -> Fleet {
    let mut fleet = Fleet::at_rest(nodes);
    fleet.settings.dra.max_unavailable = Count::Number(1);
    fleet.bump();
    fleet.migration_begins();
    for index in 0..nodes {
        fleet.migrate(&format!("gpu-{index}"), 50);
    }
    fleet.pass(50);
    fleet
}

#[test]
fn reinstalled_dra_driver_kept_a_slot_taken() {
    let mut fleet = limited(2);
    assert_eq!(replaced(&fleet.decide(52)), ["gpu-0"]);
    fleet.observed.dra.daemon_sets[0].uid = "another-ds".into();
    fleet.observed.dra.pods.edit().clear();
    assert!(fleet.decide(60).well, "the hook does not wait for pods of the old DaemonSet");
}

#[test]
fn missing_plugin_blocked_others_until_the_deadline() {
    let mut fleet = limited(2);
    fleet.pass(52);
    fleet.plugin("gpu-0", 53, NEW);
    fleet.plugin_pod("gpu-0").ready = false;
    fleet.pass(54);
    fleet.pass(354);
    fleet.pass(355);
    let verdict = fleet.decide(370).verdict.expect("over");
    assert_eq!(verdict.code, ExitCode::DraNotServing);
    assert_eq!(named(&verdict), ["gpu-0:PluginNotReady", "gpu-1:PluginHeldUp"]);
}

#[test]
fn nvidia_driver_mode_without_daemon_set_was_settled() {
    let mut fleet = Fleet::at_rest(2);
    fleet.policy().uses_nvidia_drivers = true;
    fleet.observed.daemon_sets.retain(|daemon_set| daemon_set.uid != "driver-ds");
    fleet.observed.nvidia_drivers = OptionalApi::Served(vec![NvidiaDriver {
        name: "default".into(),
        uid: "cr".into(),
        ..NvidiaDriver::default()
    }]);
    assert_eq!(waits(&fleet.decide(0)), ["*:DaemonSetMissing"]);
}

#[test]
fn first_discovered_cpu_node_made_cluster_gpu_free() {
    let mut fleet = Fleet::at_rest(0);
    fleet.policy().ready_reason = Some("NoGPUNodes".into());
    for name in ["cpu-0", "gpu-not-yet"] {
        fleet.join(name, -1000);
        fleet.node(name).labels.clear();
    }
    fleet
        .node("cpu-0")
        .labels
        .insert("feature.node.kubernetes.io/cpu-model.family".into(), "6".into());
    assert_eq!(waits(&fleet.decide(0)), ["*:NodesUndiscovered"]);
    assert_eq!(waits(&fleet.decide(120)), ["*:Quiet"], "some nodes are never labeled");
}

#[test]
fn version_of_another_container_was_taken_as_drivers() {
    let mut fleet = Fleet::at_rest(1);
    let pod = fleet.driver_pod("gpu-0");
    pod.containers[0].image = "nvcr.io/nvidia/driver@sha256:0123".into();
    let fs = ObservedContainer {
        name: "nvidia-fs-ctr".into(),
        image: "nvcr.io/nvidia/cloud-native/nvidia-fs:2.26.6-ubuntu22.04".into(),
        ..pod.containers[0].clone()
    };
    pod.containers.push(fs);
    assert!(fleet.decide(0).well);
}

#[test]
fn a_node_for_virtual_machines_was_called_unlabeled() {
    let mut fleet = Fleet::at_rest(2);
    fleet.observed.pods.edit().retain(|pod| pod.node.as_deref() != Some("gpu-1"));
    let labels = &mut fleet.node("gpu-1").labels;
    labels.remove(names::DEPLOY_DRIVER_LABEL);
    labels.remove(names::DEPLOY_TOOLKIT_LABEL);
    labels.insert("nvidia.com/gpu.deploy.vfio-manager".into(), "true".into());
    assert!(fleet.decide(0).well);
}

#[test]
fn gpu_operator_626_old_label_on_host_driver_was_awaited() {
    let mut fleet = Fleet::at_rest(1);
    fleet.node("gpu-0").labels.insert(names::DEPLOY_DRIVER_LABEL.into(), "pre-installed".into());
    fleet.state("gpu-0", "pod-restart-required");
    assert!(fleet.decide(0).well);
}

#[test]
fn skip_label_during_upgrade_made_it_a_success() {
    let mut fleet = Fleet::at_rest(1);
    fleet.bump();
    fleet.migration_begins();
    fleet.node("gpu-0").labels.insert(names::UPGRADE_SKIP_LABEL.into(), "true".into());
    fleet.state("gpu-0", "wait-for-jobs-required");
    assert_eq!(waits(&fleet.decide(0)), ["gpu-0:DriverOutOfDate"]);
}

#[test]
fn a_kubelet_that_restarted_made_every_plugin_stale() {
    let mut fleet = Fleet::at_rest(3);
    for node in ["gpu-0", "gpu-1", "gpu-2"] {
        fleet.driver_pod(node).ready_since = Some(at(-20));
    }
    assert!(fleet.decide(0).well, "the driver has run for longer than its first readiness takes");
}

#[test]
fn repeatedly_refused_deletion_ran_until_the_deadline() {
    let mut fleet = limited(1);
    fleet.pass(52);
    let mut second = 52;
    let verdict = loop {
        second += 5;
        if let Some(verdict) = fleet.decide(second).verdict {
            break verdict;
        }
        assert!(second < 500, "still going on");
    };
    assert_eq!(verdict.code, ExitCode::DraNotServing);
}

#[test]
fn toolkit_not_created_yet_was_not_awaited() {
    let mut fleet = Fleet::at_rest(1);
    fleet.policy().driver_enabled = false;
    fleet.observed.daemon_sets.clear();
    fleet.observed.pods.edit().clear();
    assert_eq!(waits(&fleet.decide(0)), ["*:DaemonSetMissing"]);
}

#[test]
fn old_operator_pod_still_running_was_overlooked() {
    let mut fleet = Fleet::at_rest(1);
    fleet.observed.operator.as_mut().expect("it is there").current = 2;
    assert_eq!(waits(&fleet.decide(0)), ["*:OperatorNotReady"]);
}

#[test]
fn plugin_of_skipped_node_was_replaced_too_early() {
    let mut fleet = Fleet::at_rest(1);
    fleet.driver("gpu-0", "old", OLD, -10);
    fleet.driver_pod("gpu-0").ready = false;
    fleet.bump();
    fleet.migration_begins();
    fleet.node("gpu-0").labels.insert(names::UPGRADE_SKIP_LABEL.into(), "true".into());
    fleet.pass(0);
    assert!(replaced(&fleet.decide(10)).is_empty());
}

#[test]
fn plugin_deleted_during_driver_migration_failed_required_run() {
    let mut fleet = Fleet::at_rest(1);
    fleet.settings.dra.required = DraRequired::True;
    fleet.bump();
    fleet.migration_begins();
    fleet.observed.dra.daemon_sets[0].desired = 0;
    fleet.pass(0);
    assert!(fleet.decide(300).verdict.is_none());
}

#[test]
fn quiet_period_after_deadline_was_called_timeout() {
    let mut fleet = Fleet::at_rest(1);
    fleet.pass(3550);
    assert!(fleet.decide(3556).verdict.is_none());
    assert_eq!(fleet.decide(3565).verdict.expect("settled").code, ExitCode::Success);
}
