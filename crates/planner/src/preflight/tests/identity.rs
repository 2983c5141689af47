//! Driver DaemonSets that are replaced by others (gpu-operator#2166).

use std::sync::Arc;

use contract::driver::Driver;
use contract::names;
use contract::preflight::ComingValues;
use observed::{NvidiaDriver, ObservedDaemonSet, OptionalApi};

use super::scene::{PreflightScene, labels};

/// What a live DaemonSet is recognized by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiveIdentity {
    Compiled,
    Precompiled,
    Toolkit,
    NvidiaDriver,
}

fn fleet(live: LiveIdentity) -> PreflightScene {
    let mut scene = PreflightScene::new(3);
    scene.observed.nvidia_drivers = OptionalApi::Served(vec![NvidiaDriver {
        name: "default".into(),
        uid: "crd".into(),
        ..NvidiaDriver::default()
    }]);
    let template = &mut scene.observed.daemon_sets[0];
    let own = |key: &str| labels(&[names::DRIVER_COMPONENT, (key, "true")]);
    match live {
        LiveIdentity::Compiled => {}
        LiveIdentity::Precompiled => template.template_labels = own("nvidia.com/precompiled"),
        LiveIdentity::Toolkit => template.template_labels = own("openshift.driver-toolkit"),
        LiveIdentity::NvidiaDriver => template.owner = Some("crd".into()),
    }
    scene
}

/// What takes the DaemonSet's place.
fn becomes(live: LiveIdentity, coming: ComingValues) -> Option<String> {
    let mut scene = fleet(live);
    *scene.coming() = coming;
    let texts: Vec<String> =
        scene.texts().into_iter().filter(|text| text.starts_with("daemon-set-identity")).collect();
    let text = texts.first()?;
    let (_, rest) = text.split_once(" with ").expect("what it becomes");
    let (becomes, cost) = rest.split_once(": ").expect("what that means");
    assert_eq!(cost, "it would delete the driver pods of 3 nodes at once, while workloads run");
    Some(becomes.to_owned())
}

#[test]
fn gpu_operator_2166_every_daemon_set_replacement_is_found() {
    let precompiled = |value| ComingValues { precompiled: Some(value), ..ComingValues::default() };
    let crd = |value| ComingValues { nvidia_drivers: Some(value), ..ComingValues::default() };
    let toolkit = |value| ComingValues { driver_toolkit: Some(value), ..ComingValues::default() };
    let off = ComingValues { driver: Some(false), ..ComingValues::default() };
    let one = "the ClusterPolicy's single DaemonSet for all nodes";
    let kernels = "the ClusterPolicy's DaemonSets of precompiled drivers, one per kernel";
    for (live, coming, expected) in [
        (LiveIdentity::Compiled, ComingValues::default(), None),
        (LiveIdentity::Precompiled, ComingValues::default(), None),
        (LiveIdentity::Toolkit, ComingValues::default(), None),
        (LiveIdentity::NvidiaDriver, ComingValues::default(), None),
        (LiveIdentity::Compiled, precompiled(true), Some(kernels)),
        (LiveIdentity::Compiled, precompiled(false), None),
        (LiveIdentity::Precompiled, precompiled(false), Some(one)),
        (LiveIdentity::Precompiled, precompiled(true), None),
        (LiveIdentity::Compiled, crd(true), Some("DaemonSets of NVIDIADrivers")),
        (LiveIdentity::NvidiaDriver, crd(true), None),
        (LiveIdentity::NvidiaDriver, crd(false), Some(one)),
        (LiveIdentity::NvidiaDriver, precompiled(true), None),
        (LiveIdentity::Toolkit, toolkit(false), Some(one)),
        (LiveIdentity::Compiled, toolkit(true), None),
        (LiveIdentity::Compiled, off.clone(), Some("no driver DaemonSet at all")),
        (LiveIdentity::NvidiaDriver, off, Some("no driver DaemonSet at all")),
    ] {
        assert_eq!(becomes(live, coming.clone()).as_deref(), expected, "{live:?} {coming:?}");
    }
}

#[test]
fn the_driver_toolkit_counts_on_openshift_only() {
    let mut scene = fleet(LiveIdentity::Compiled);
    scene.coming().driver_toolkit = Some(true);
    assert_eq!(scene.texts(), Vec::<String>::new());
    scene
        .node("gpu-0")
        .labels
        .insert("feature.node.kubernetes.io/system-os_release.OSTREE_VERSION".into(), "418".into());
    let findings = scene.findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].nodes, ["gpu-0", "gpu-1", "gpu-2"]);
}

#[test]
fn nodes_whose_kernel_left_daemon_set_are_named() {
    let key = "feature.node.kubernetes.io/kernel-version.full";
    let mut scene = fleet(LiveIdentity::Precompiled);
    scene.observed.daemon_sets[0].node_selector.insert(key.into(), "6.8.0-40".into());
    for name in ["gpu-0", "gpu-1", "gpu-2"] {
        scene.node(name).labels.insert(key.into(), "6.8.0-40".into());
    }
    assert_eq!(scene.texts(), Vec::<String>::new());
    scene.node("gpu-1").labels.insert(key.into(), "6.8.0-41".into());
    assert_eq!(
        scene.texts(),
        [
            "daemon-set-identity: the node selector of daemonset/nvidia-driver-daemonset no longer selects 1 node, so the driver pods there are deleted at once: gpu-1 (feature.node.kubernetes.io/kernel-version.full is 6.8.0-41, but was 6.8.0-40)"
        ]
    );
}

#[test]
fn cloud_native_stack_95_disabling_ofed_driver_removes_its_pods() {
    let mut scene = PreflightScene::new(1);
    scene.settings.driver = Driver::Ofed;
    scene.node("gpu-0").labels.insert(names::NIC_PRESENT_LABEL.into(), "true".into());
    scene.observed.nic_cluster_policy = OptionalApi::Served(None);
    scene.observed.daemon_sets = vec![ObservedDaemonSet {
        name: "mofed-ubuntu22.04-5b8c-ds".into(),
        uid: "mofed".into(),
        template_labels: labels(&[
            (names::OFED_DRIVER_LABEL, ""),
            (names::OFED_OWNER_LABEL, "nnp-storage"),
        ]),
        ..ObservedDaemonSet::default()
    }];
    Arc::make_mut(&mut scene.observed.pods.edit()[0]).owner = Some("mofed".into());
    assert_eq!(scene.texts(), Vec::<String>::new());
    scene.coming().driver = Some(false);
    assert_eq!(
        scene.texts(),
        [
            "daemon-set-identity: the operator would replace daemonset/mofed-ubuntu22.04-5b8c-ds with no driver DaemonSet at all: it would delete the driver pods of 1 node at once, while workloads run"
        ]
    );
}
