//! Lines 144 to 151 and 153: the actions of the GPU Operator around the passes.

use std::sync::Arc;

use contract::driver::Driver;
use contract::names;
use jiff::Timestamp;
use nvidia_upgrade::controller_generation::TICK;
use nvidia_upgrade::operator::{ReconciliationPlan, orphaned, unfinished, upgrade_enabled, work};
use nvidia_upgrade::pass::{PassError, PassWrite};
use nvidia_upgrade::snapshot::DriverSelection;
use nvidia_upgrade::wake::{WakingChange, changes};
use nvidia_upgrade::{
    ControllerGeneration, ControllerState, PassOptions, PolicyRules, UpgradeSnapshot, pass,
};
use observed::{
    ClusterPolicy, Labels, LiveUpgradePolicy, NvidiaDriver, Observed, ObservedDaemonSet,
    ObservedNode, ObservedPod, OptionalApi,
};

const STATE: &str = "nvidia.com/gpu-driver-upgrade-state";
const SKIP: &str = "nvidia.com/gpu-driver-upgrade.skip";

fn on() -> LiveUpgradePolicy {
    LiveUpgradePolicy { auto_upgrade: true, ..LiveUpgradePolicy::default() }
}

fn node(observed: &mut Observed, name: &str, pairs: &[(&str, &str)]) {
    let mut labels: Labels =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    labels.insert(names::GPU_PRESENT_LABEL.into(), "true".into());
    observed.nodes.insert(
        name,
        ObservedNode {
            name: name.into(),
            uid: name.into(),
            ready: true,
            labels,
            ..ObservedNode::default()
        },
    );
}

fn owned(observed: &mut Observed, name: &str, owner: &str, state: ControllerState) {
    node(observed, name, &[(names::DRIVER_OWNER_LABEL, owner), (STATE, state.label())]);
}

fn driver(name: &str, auto_upgrade: bool) -> NvidiaDriver {
    NvidiaDriver {
        name: name.into(),
        uid: name.into(),
        upgrade_policy: LiveUpgradePolicy { auto_upgrade, ..on() },
        ..NvidiaDriver::default()
    }
}

fn driver_pod(observed: &mut Observed, node: &str) {
    observed.pods.push(ObservedPod {
        name: format!("driver-{node}"),
        node: Some(node.into()),
        orphaned: true,
        running: true,
        labels: [(names::DRIVER_COMPONENT.0.to_owned(), names::DRIVER_COMPONENT.1.to_owned())]
            .into(),
        ..ObservedPod::default()
    });
}

fn reconcile(observed: &Observed) -> ReconciliationPlan<'_> {
    work(observed, Driver::Gpu, ControllerGeneration::Gpu26_7, None)
}

#[test]
fn line_144_states_go_without_any_policy() {
    let mut observed = Observed::default();
    node(&mut observed, "a", &[(STATE, "upgrade-done")]);
    node(&mut observed, "b", &[]);
    let found = reconcile(&observed);
    assert_eq!(
        (found.cleaned.as_slice(), found.parts.len(), found.again()),
        (&["a".to_owned()][..], 0, None)
    );
}

#[test]
fn line_145_a_driver_without_policy_is_upgraded() {
    let object = serde_json::json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": {"name": "a"}, "spec": {}});
    let view =
        observed::project::nvidia_driver(&serde_json::from_value(object).expect("an object"))
            .expect("a view");
    let observed =
        Observed { nvidia_drivers: OptionalApi::Served(vec![view]), ..Observed::default() };
    let found = reconcile(&observed);
    assert_eq!((found.parts.len(), found.again()), (1, Some(TICK)));
    let policy = &found.parts[0].rules.policy;
    assert_eq!(
        (policy.max_parallel_upgrades, policy.max_unavailable.map(|limit| limit.to_string())),
        (1, Some("25%".to_owned()))
    );
    assert!(policy.pod_deletion.is_some() && policy.drain.is_none());
    assert_eq!(
        DriverSelection::from_observed(&observed, Driver::Gpu).labels(),
        [("app.kubernetes.io/component", "nvidia-driver")]
    );
}

#[test]
fn line_146_only_disabled_drivers_nodes_lose_state() {
    let mut observed = Observed {
        nvidia_drivers: OptionalApi::Served(vec![driver("on", true), driver("off", false)]),
        ..Observed::default()
    };
    owned(&mut observed, "a", "on", ControllerState::Done);
    owned(&mut observed, "b", "off", ControllerState::Done);
    node(&mut observed, "c", &[(STATE, "upgrade-done")]);
    for name in ["a", "b", "c"] {
        driver_pod(&mut observed, name);
    }
    owned(&mut observed, "d", "nobody", ControllerState::Done);
    let found = reconcile(&observed);
    assert_eq!(found.cleaned, Vec::<String>::new());
    let cleaned =
        found.parts.iter().map(|part| (part.owner, part.cleaned.clone())).collect::<Vec<_>>();
    assert_eq!(cleaned, [(Some("on"), vec![]), (Some("off"), vec!["b".to_owned()])]);
    assert_eq!(
        found.parts[0].snapshot.entries.iter().map(|entry| entry.node).collect::<Vec<_>>(),
        ["a"]
    );
}

#[test]
fn line_147_the_cluster_policy_decides_the_mode() {
    let policy =
        ClusterPolicy { driver_enabled: true, upgrade_policy: on(), ..ClusterPolicy::default() };
    let with = |policy: ClusterPolicy| Observed {
        cluster_policy: OptionalApi::Served(Some(policy)),
        ..Observed::default()
    };
    let mut observed = with(policy.clone());
    assert_eq!(
        DriverSelection::from_observed(&observed, Driver::Gpu).labels(),
        [("app", "nvidia-driver-daemonset")]
    );
    assert_eq!(reconcile(&observed).parts.len(), 1);
    node(&mut observed, "a", &[(STATE, "upgrade-done")]);
    observed.cluster_policy =
        OptionalApi::Served(Some(ClusterPolicy { sandbox_workloads: true, ..policy.clone() }));
    assert_eq!(
        reconcile(&observed),
        ReconciliationPlan {
            parts: Vec::new(),
            cleaned: vec!["a".into()],
            maintenances: Vec::new()
        }
    );
    let drivers = with(ClusterPolicy { uses_nvidia_drivers: true, ..policy.clone() });
    assert_eq!(reconcile(&drivers).parts.len(), 0, "there is no NVIDIADriver");
    let old = work(&drivers, Driver::Gpu, ControllerGeneration::Gpu26_3, None);
    assert_eq!(old.parts.len(), 1, "before v26.7 the ClusterPolicy's policy was for all");
    observed.cluster_policy = OptionalApi::Served(None);
    let without = work(&observed, Driver::Gpu, ControllerGeneration::Gpu26_3, None);
    assert_eq!(without, ReconciliationPlan::default(), "and without one nothing was done");
    let mut open_shift = with(policy);
    let template_labels = [(names::DRIVER_TOOLKIT_LABEL.to_owned(), "true".to_owned())].into();
    open_shift
        .daemon_sets
        .push(ObservedDaemonSet { template_labels, ..ObservedDaemonSet::default() });
    assert_eq!(
        DriverSelection::from_observed(&open_shift, Driver::Gpu),
        DriverSelection::OpenShift
    );
}

#[test]
fn line_148_state_and_skip_labels_wake_it() {
    let mut before = Observed::default();
    node(&mut before, "a", &[]);
    let changed = |key: &str, value: &str| {
        let mut after = before.clone();
        after.nodes.get_mut("a").expect("it is there").labels.insert(key.into(), value.into());
        after
    };
    // The change of one node alone is judged as that of the fleet is.
    let woken = |before: &Observed, after: &Observed, generation: ControllerGeneration| {
        let is_woken = generation.is_woken(before, after, Driver::Gpu);
        let by_node = ["a", "cpu"].into_iter().any(|name| {
            let [before, after] = [before, after].map(|observed| observed.nodes.get(name));
            generation.is_woken_by_node(before, after, Driver::Gpu)
        });
        assert_eq!(by_node, is_woken);
        is_woken
    };
    let wakes = |after: &Observed, generation| woken(&before, after, generation);
    for (key, value, newest, older) in [
        (STATE, "upgrade-done", true, true),
        (SKIP, "true", true, false),
        (SKIP, "anything", true, false),
        ("kubernetes.io/x", "y", false, false),
    ] {
        let after = changed(key, value);
        assert_eq!(
            (
                wakes(&after, ControllerGeneration::Gpu26_7),
                wakes(&after, ControllerGeneration::Gpu26_3)
            ),
            (newest, older),
            "{key}={value}"
        );
    }
    let mut cordoned = before.clone();
    cordoned.nodes.get_mut("a").expect("it is there").unschedulable = true;
    assert!(!wakes(&cordoned, ControllerGeneration::Gpu26_7));
    let mut noted = before.clone();
    noted
        .nodes
        .get_mut("a")
        .expect("it is there")
        .annotations
        .insert("nvidia.com/gpu-driver-upgrade-requested".into(), "true".into());
    assert!(!wakes(&noted, ControllerGeneration::Gpu26_7));
    assert!(
        noted != before && ControllerGeneration::Network.is_woken(&before, &noted, Driver::Ofed)
    );
    let mut another = before.clone();
    node(&mut another, "cpu", &[]);
    assert!(wakes(&another, ControllerGeneration::Gpu25), "a node comes");
    assert!(woken(&another, &before, ControllerGeneration::Gpu25), "a node goes");
    let mut created_again = before.clone();
    created_again.nodes.get_mut("a").expect("it is there").uid = "another".into();
    assert!(wakes(&created_again, ControllerGeneration::Gpu25), "another node of the name");
}

#[test]
fn ready_driver_wakes_only_the_network_operator() {
    let mut before = Observed {
        cluster_policy: OptionalApi::Served(Some(ClusterPolicy::default())),
        ..Observed::default()
    };
    for (labels, driver) in [
        (("app", "nvidia-driver-daemonset"), Driver::Gpu),
        ((names::OFED_DRIVER_LABEL, ""), Driver::Ofed),
    ] {
        before.pods = vec![ObservedPod {
            uid: "p".into(),
            labels: [(labels.0.to_owned(), labels.1.to_owned())].into(),
            ..ObservedPod::default()
        }]
        .into();
        let mut after = before.clone();
        Arc::make_mut(&mut after.pods.edit()[0]).ready = true;
        assert!(changes(&before, &after, driver).contains(&WakingChange::DaemonSetStatus));
        assert!(ControllerGeneration::Network.is_woken(&before, &after, driver));
        assert!(!ControllerGeneration::Gpu26_7.is_woken(&before, &after, driver));
    }
}

#[test]
fn line_149_the_annotation_follows_the_policy() {
    let policy =
        ClusterPolicy { driver_enabled: true, upgrade_policy: on(), ..ClusterPolicy::default() };
    let mut observed =
        Observed { cluster_policy: OptionalApi::Served(Some(policy)), ..Observed::default() };
    for (name, value) in [("absent", None), ("other", Some("false")), ("right", Some("true"))] {
        node(&mut observed, name, &[]);
        let annotations = &mut observed.nodes.get_mut(name).expect("it is there").annotations;
        annotations.extend(
            value.map(|value| (names::UPGRADE_ENABLED_ANNOTATION.to_owned(), value.to_owned())),
        );
    }
    let texts =
        |writes: Vec<PassWrite>| writes.iter().map(PassWrite::to_string).collect::<Vec<_>>();
    let key = names::UPGRADE_ENABLED_ANNOTATION;
    assert_eq!(
        texts(upgrade_enabled(&observed)),
        [format!("absent: {key}=true"), format!("other: {key}=true")]
    );
    observed.cluster_policy = OptionalApi::Served(Some(ClusterPolicy::default()));
    assert_eq!(
        texts(upgrade_enabled(&observed)),
        [format!("other: {key} removed"), format!("right: {key} removed")]
    );
}

/// A change after which a driver pod does not count as left behind.
type Spoil = fn(&mut ObservedPod);

#[test]
fn line_150_orphaned_driver_on_owned_node_needs_upgrade() {
    let mut observed = Observed {
        nvidia_drivers: OptionalApi::Served(vec![driver("on", true)]),
        ..Observed::default()
    };
    for state in ControllerState::ALL {
        let name = format!("node-{state}");
        owned(&mut observed, &name, "on", state);
        driver_pod(&mut observed, &name);
    }
    node(&mut observed, "unowned", &[]);
    driver_pod(&mut observed, "unowned");
    let spoiled: [(&str, Spoil); 3] = [
        ("owned-pod", |pod| pod.orphaned = false),
        ("not-running", |pod| pod.running = false),
        ("unscheduled", |pod| pod.unbound = true),
    ];
    for (name, spoil) in spoiled {
        owned(&mut observed, name, "on", ControllerState::Done);
        driver_pod(&mut observed, name);
        spoil(observed.pods.find_mut(name, |_| true).expect("its pod"));
    }
    assert_eq!(orphaned(&observed), ["node-unknown", "node-upgrade-done"]);
    let mut deleted = driver("on", true);
    deleted.deleting = true;
    observed.nvidia_drivers = OptionalApi::Served(vec![deleted]);
    assert_eq!(orphaned(&observed), [] as [&str; 0]);
}

#[test]
fn line_151_unfinished_owned_nodes_keep_policy_unready() {
    let mut observed = Observed::default();
    for (name, state) in [
        ("done", ControllerState::Done),
        ("unknown", ControllerState::Unknown),
        ("pending", ControllerState::UpgradeRequired),
        ("failed", ControllerState::Failed),
    ] {
        owned(&mut observed, name, "on", state);
    }
    node(&mut observed, "odd", &[(names::DRIVER_OWNER_LABEL, "on"), (STATE, "no-such-state")]);
    node(
        &mut observed,
        "skipped",
        &[(names::DRIVER_OWNER_LABEL, "on"), (STATE, "upgrade-required"), (SKIP, "true")],
    );
    node(&mut observed, "unowned", &[(STATE, "upgrade-required")]);
    assert_eq!(unfinished(&observed), ["failed", "odd", "pending"]);
}

#[test]
fn line_153_policy_without_drain_ends_old_passes() {
    for (generation, refuses) in [
        (ControllerGeneration::Gpu25, true),
        (ControllerGeneration::Gpu26_3, true),
        (ControllerGeneration::Gpu26_7, false),
    ] {
        for lacks_drain in [true, false] {
            let live = LiveUpgradePolicy { lacks_drain, ..on() };
            let outcome = pass(
                &UpgradeSnapshot::default(),
                &PolicyRules::from_live(&live),
                &PassOptions::new(generation, Timestamp::UNIX_EPOCH),
            );
            let expected = (refuses && lacks_drain).then_some(PassError::NoDrain);
            assert_eq!(outcome.error, expected, "{generation:?}, without a drain: {lacks_drain}");
        }
    }
}
