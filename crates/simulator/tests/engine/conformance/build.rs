//! Lines 1 to 12: the controller's snapshot.

use std::sync::Arc;

use contract::driver::Driver;
use nvidia_upgrade::pass::{PassError, Requestor};
use nvidia_upgrade::snapshot::{PodRevision, SnapshotError, SnapshotInputs};
use nvidia_upgrade::{ControllerState, UpgradeSnapshot, pass};
use observed::workload::NodeMaintenance;
use observed::{
    ClusterPolicy, Labels, Observed, ObservedDaemonSet, ObservedNode, ObservedPod,
    ObservedRevision as ControllerRevision, OptionalApi,
};

use super::fixture::{enabled, options, rules};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

const APP: (&str, &str) = ("app", "nvidia-driver-daemonset");

/// A cluster with a ClusterPolicy and nothing else.
fn cluster() -> Observed {
    Observed {
        cluster_policy: OptionalApi::Served(Some(ClusterPolicy::default())),
        ..Observed::default()
    }
}

fn node(observed: &mut Observed, name: &str) {
    let node = ObservedNode {
        name: name.into(),
        ready: true,
        labels: labels(&[("gpu", "true")]),
        ..ObservedNode::default()
    };
    observed.nodes.insert(name, node);
}

fn daemon_set(observed: &mut Observed, name: &str, desired: i32) {
    let selector = labels(&[("gpu", "true")]);
    let template_labels = labels(&[APP]);
    observed.daemon_sets.push(ObservedDaemonSet {
        name: name.into(),
        uid: name.into(),
        desired,
        template_labels,
        node_selector: selector,
        ..ObservedDaemonSet::default()
    });
    observed.revisions.push(ControllerRevision {
        owner: name.into(),
        revision: 2,
        hash: "new".into(),
    });
    observed.revisions.push(ControllerRevision {
        owner: name.into(),
        revision: 1,
        hash: "old".into(),
    });
}

fn pod(observed: &mut Observed, name: &str, owner: Option<&str>, node: &str) {
    observed.pods.push(ObservedPod {
        name: name.into(),
        owner: owner.map(str::to_owned),
        orphaned: owner.is_none(),
        node: Some(node.into()),
        revision: Some("new".into()),
        labels: labels(&[APP]),
        running: true,
        containers_ready: true,
        ..ObservedPod::default()
    });
}

/// One node with its pod.
fn fleet() -> Observed {
    let mut observed = cluster();
    node(&mut observed, "a");
    daemon_set(&mut observed, "drivers", 1);
    pod(&mut observed, "drivers-1", Some("drivers"), "a");
    observed
}

fn seen(observed: &Observed) -> UpgradeSnapshot<'_> {
    UpgradeSnapshot::from_observed(observed, &SnapshotInputs::from_observed(observed, Driver::Gpu))
}

fn blocked(observed: &Observed) -> Option<String> {
    let snapshot = seen(observed);
    let outcome = pass(&snapshot, &rules(), &options());
    assert_eq!(
        outcome.error,
        snapshot.blocked.clone().map(PassError::Build),
        "nothing is done for any node"
    );
    assert!(snapshot.blocked.is_none() || outcome.writes.is_empty());
    snapshot.blocked.map(|error| error.to_string())
}

#[test]
fn line_001_without_pods_there_is_nothing_to_see() {
    assert_eq!(seen(&cluster()), UpgradeSnapshot::default());
}

#[test]
fn line_002_pod_on_node_is_one_entry() {
    let observed = fleet();
    let snapshot = seen(&observed);
    assert_eq!(snapshot.entries.len(), 1);
    let entry = &snapshot.entries[0];
    assert_eq!(
        (entry.node, entry.state, entry.pod.revision),
        ("a", ControllerState::Unknown, PodRevision::Newest)
    );
    assert_eq!(snapshot.blocked, None);
}

#[test]
fn line_003_pending_pod_without_node_only_counts() {
    let mut observed = fleet();
    observed.daemon_sets[0].desired = 2;
    pod(&mut observed, "drivers-2", Some("drivers"), "b");
    let pod = observed.pods.find_mut("b", |pod| pod.name == "drivers-2").expect("the pod");
    (pod.unbound, pod.running) = (true, false);
    assert_eq!(seen(&observed).entries.len(), 1);
    assert_eq!(blocked(&observed), None);
}

#[test]
fn line_004_a_pod_without_owner_is_orphaned() {
    let mut observed = cluster();
    node(&mut observed, "a");
    pod(&mut observed, "left", None, "a");
    let snapshot = seen(&observed);
    assert_eq!(
        (snapshot.entries[0].state, snapshot.entries[0].pod.revision),
        (ControllerState::Unknown, PodRevision::Orphaned)
    );
}

#[test]
fn line_005_too_few_pods_block_everything() {
    let mut observed = fleet();
    node(&mut observed, "b");
    observed.daemon_sets[0].desired = 2;
    assert_eq!(
        blocked(&observed).as_deref(),
        Some("daemonset/drivers needs 2 pods, but has 1; none on b")
    );
    let expected = SnapshotError::PodCount {
        daemon_set: "drivers".into(),
        desired: 2,
        owned: 1,
        missing: vec!["b".into()],
        surplus: Vec::new(),
    };
    assert_eq!(seen(&observed).blocked, Some(expected));
}

#[test]
fn line_006_too_many_pods_block_everything() {
    let mut observed = fleet();
    pod(&mut observed, "drivers-2", Some("drivers"), "gone");
    assert_eq!(
        blocked(&observed).as_deref(),
        Some("daemonset/drivers needs 1 pods, but has 2; one too many on gone")
    );
}

#[test]
fn line_007_pods_of_other_owners_are_not_seen() {
    let mut observed = fleet();
    pod(&mut observed, "other", Some("another-owner"), "a");
    assert_eq!(seen(&observed).entries.len(), 1);
    assert_eq!(blocked(&observed), None);
}

#[test]
fn line_008_pod_of_removed_node_blocks_everything() {
    let mut observed = fleet();
    observed.nodes.clear();
    assert_eq!(
        blocked(&observed).as_deref(),
        Some("pod/drivers-1 is on node/a, which does not exist")
    );
}

#[test]
fn line_009_running_pod_without_node_blocks_everything() {
    let mut observed = fleet();
    Arc::make_mut(&mut observed.pods.edit()[0]).unbound = true;
    assert_eq!(
        blocked(&observed).as_deref(),
        Some("pod/drivers-1 is not Pending, but has no node")
    );
}

#[test]
fn line_010_missing_and_empty_label_are_equal() {
    let mut observed = fleet();
    let label = Driver::Gpu.traits().state_label.to_owned();
    observed.nodes.get_mut("a").expect("it is there").labels.insert(label, String::new());
    assert_eq!(seen(&observed).entries[0].state, ControllerState::Unknown);
}

#[test]
fn line_011_daemon_sets_are_one_fleet() {
    let mut observed = fleet();
    node(&mut observed, "b");
    daemon_set(&mut observed, "drivers-6.8", 1);
    pod(&mut observed, "drivers-6.8-1", Some("drivers-6.8"), "b");
    let snapshot = seen(&observed);
    assert_eq!(snapshot.entries.iter().map(|entry| entry.node).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn line_012_maintenance_by_name_belongs_to_node() {
    let mut observed = fleet();
    let requestor = Requestor {
        id: "ours".into(),
        namespace: "default".into(),
        prefix: "nvidia-operator".into(),
    };
    let inputs = SnapshotInputs {
        requestor: Some(&requestor),
        ..SnapshotInputs::from_observed(&observed, Driver::Gpu)
    };
    assert_eq!(UpgradeSnapshot::from_observed(&observed, &inputs).entries[0].maintenance, None);
    let named = |name: &str| NodeMaintenance {
        namespace: "default".into(),
        name: name.into(),
        node: "a".into(),
        requestor: "x".into(),
        ..NodeMaintenance::default()
    };
    observed.workloads.maintenances =
        OptionalApi::Served(vec![named("other-a"), named("nvidia-operator-a")]);
    let snapshot = UpgradeSnapshot::from_observed(&observed, &inputs);
    assert_eq!(snapshot.entries[0].maintenance.as_ref().map(|object| object.requestor), Some("x"));
    assert_eq!(
        seen(&observed).entries[0].maintenance,
        None,
        "without that mode it is not looked at"
    );
}

#[test]
fn older_revision_is_outdated_missing_one_ends_pass() {
    let mut observed = fleet();
    Arc::make_mut(&mut observed.pods.edit()[0]).revision = Some("old".into());
    assert_eq!(seen(&observed).entries[0].pod.revision, PodRevision::Older);
    Arc::make_mut(&mut observed.pods.edit()[0]).revision = None;
    let outcome = pass(&seen(&observed), &enabled(rules().policy), &options());
    assert_eq!(
        outcome.error.expect("an error").to_string(),
        "pod/drivers-1 on node/a has no label controller-revision-hash"
    );
    Arc::make_mut(&mut observed.pods.edit()[0]).revision = Some("new".into());
    observed.revisions.clear();
    let outcome = pass(&seen(&observed), &rules(), &options());
    assert_eq!(
        outcome.error.expect("an error").to_string(),
        "the DaemonSet of pod/drivers-1 on node/a has no ControllerRevision"
    );
}
