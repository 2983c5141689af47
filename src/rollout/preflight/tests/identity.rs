//! Driver DaemonSets that give way to others (gpu-operator#2166).

use crate::contract::driver::Driver;
use crate::contract::names;
use crate::contract::preflight::Coming;
use crate::rollout::observed::{Api, DaemonSet, NvidiaDriver};

use super::scene::{Scene, labels};

/// What a live DaemonSet is recognized by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Live {
    Compiled,
    Precompiled,
    Toolkit,
    NvidiaDriver,
}

fn fleet(live: Live) -> Scene {
    let mut scene = Scene::new(3);
    scene.observed.nvidia_drivers =
        Api::Served(vec![NvidiaDriver { name: "default".into(), uid: "crd".into(), ..NvidiaDriver::default() }]);
    let template = &mut scene.observed.daemon_sets[0];
    let own = |key: &str| labels(&[names::DRIVER_COMPONENT, (key, "true")]);
    match live {
        Live::Compiled => {}
        Live::Precompiled => template.template_labels = own("nvidia.com/precompiled"),
        Live::Toolkit => template.template_labels = own("openshift.driver-toolkit"),
        Live::NvidiaDriver => template.owner = Some("crd".into()),
    }
    scene
}

/// What takes the DaemonSet's place.
fn becomes(live: Live, coming: Coming) -> Option<String> {
    let mut scene = fleet(live);
    *scene.coming() = coming;
    let texts: Vec<String> = scene.texts().into_iter().filter(|text| text.starts_with("daemon-set-identity")).collect();
    let text = texts.first()?;
    let (_, rest) = text.split_once(" gives way to ").expect("what it becomes");
    let (becomes, cost) = rest.split_once(": ").expect("what that means");
    assert_eq!(cost, "the driver pods of 3 nodes go at once, whatever runs there");
    Some(becomes.to_owned())
}

#[test]
fn gpu_operator_2166_every_trigger_of_a_replaced_daemon_set_is_found() {
    let precompiled = |value| Coming { precompiled: Some(value), ..Coming::default() };
    let crd = |value| Coming { nvidia_drivers: Some(value), ..Coming::default() };
    let toolkit = |value| Coming { driver_toolkit: Some(value), ..Coming::default() };
    let off = Coming { driver: Some(false), ..Coming::default() };
    let one = "the ClusterPolicy's one DaemonSet for all nodes";
    let kernels = "the ClusterPolicy's DaemonSets of precompiled drivers, one a kernel";
    for (live, coming, expected) in [
        (Live::Compiled, Coming::default(), None),
        (Live::Precompiled, Coming::default(), None),
        (Live::Toolkit, Coming::default(), None),
        (Live::NvidiaDriver, Coming::default(), None),
        (Live::Compiled, precompiled(true), Some(kernels)),
        (Live::Compiled, precompiled(false), None),
        (Live::Precompiled, precompiled(false), Some(one)),
        (Live::Precompiled, precompiled(true), None),
        (Live::Compiled, crd(true), Some("DaemonSets of NVIDIADrivers")),
        (Live::NvidiaDriver, crd(true), None),
        (Live::NvidiaDriver, crd(false), Some(one)),
        (Live::NvidiaDriver, precompiled(true), None),
        (Live::Toolkit, toolkit(false), Some(one)),
        (Live::Compiled, toolkit(true), None),
        (Live::Compiled, off.clone(), Some("no driver DaemonSet at all")),
        (Live::NvidiaDriver, off, Some("no driver DaemonSet at all")),
    ] {
        assert_eq!(becomes(live, coming.clone()).as_deref(), expected, "{live:?} {coming:?}");
    }
}

#[test]
fn the_driver_toolkit_counts_on_openshift_only() {
    let mut scene = fleet(Live::Compiled);
    scene.coming().driver_toolkit = Some(true);
    assert_eq!(scene.texts(), Vec::<String>::new());
    scene.node("gpu-0").labels.insert("feature.node.kubernetes.io/system-os_release.OSTREE_VERSION".into(), "418".into());
    let findings = scene.findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].nodes, ["gpu-0", "gpu-1", "gpu-2"]);
}

#[test]
fn nodes_whose_kernel_has_left_their_daemon_set_are_named() {
    let key = "feature.node.kubernetes.io/kernel-version.full";
    let mut scene = fleet(Live::Precompiled);
    scene.observed.daemon_sets[0].node_selector.insert(key.into(), "6.8.0-40".into());
    for name in ["gpu-0", "gpu-1", "gpu-2"] {
        scene.node(name).labels.insert(key.into(), "6.8.0-40".into());
    }
    assert_eq!(scene.texts(), Vec::<String>::new());
    scene.node("gpu-1").labels.insert(key.into(), "6.8.0-41".into());
    assert_eq!(
        scene.texts(),
        [
            "daemon-set-identity: 1 nodes have left the node selector of daemonset/nvidia-driver-daemonset, which takes their driver pods away \
          at once: gpu-1 (feature.node.kubernetes.io/kernel-version.full is 6.8.0-41, and was 6.8.0-40)"
        ]
    );
}

#[test]
fn cloud_native_stack_95_an_ofed_driver_that_is_switched_off_takes_its_pods_away() {
    let mut scene = Scene::new(1);
    scene.settings.driver = Driver::Ofed;
    scene.node("gpu-0").labels.insert(names::NIC_PRESENT_LABEL.into(), "true".into());
    scene.observed.nic_cluster_policy = Api::Served(None);
    scene.observed.daemon_sets = vec![DaemonSet {
        name: "mofed-ubuntu22.04-5b8c-ds".into(),
        uid: "mofed".into(),
        template_labels: labels(&[(names::OFED_DRIVER_LABEL, ""), (names::OFED_OWNER_LABEL, "nnp-storage")]),
        ..DaemonSet::default()
    }];
    scene.observed.pods[0].owner = Some("mofed".into());
    assert_eq!(scene.texts(), Vec::<String>::new());
    scene.coming().driver = Some(false);
    assert_eq!(
        scene.texts(),
        [
            "daemon-set-identity: daemonset/mofed-ubuntu22.04-5b8c-ds gives way to no driver DaemonSet at all: the driver pods of 1 nodes go at \
          once, whatever runs there"
        ]
    );
}
