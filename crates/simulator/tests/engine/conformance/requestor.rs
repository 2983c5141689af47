//! Lines 131 to 143: the maintenance-operator's mode.

use contract::driver::Driver;
use nvidia_upgrade::operator::work;
use nvidia_upgrade::pass::Requestor;
use nvidia_upgrade::snapshot::{MaintenanceObject, NodeEntry};
use nvidia_upgrade::{ControllerGeneration, ControllerState, PassOptions, pass};
use observed::workload;
use observed::{
    ImageSpec, LiveUpgradePolicy, NicClusterPolicy, Observed, ObservedNode, OptionalApi,
};

use super::fixture::{
    cordoned, enabled, node, old, options, orphaned, rules, snapshot, state_of, with, writes,
};

const NOTHING: [&str; 0] = [];
const MARKED: &str = "a: nvidia.com/gpu-driver-upgrade-requestor-mode=true";
const UNMARKED: &str = "a: nvidia.com/gpu-driver-upgrade-requestor-mode removed";
const INITIALLY_GONE: &str =
    "a: nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable removed";
const VALIDATED: &str = "a: nvidia.com/gpu-driver-upgrade-validation-start-time removed";

fn requestor(prefix: &str) -> Requestor {
    Requestor { id: "ours".into(), namespace: "default".into(), prefix: prefix.into() }
}

fn shared() -> PassOptions {
    PassOptions { requestor: Some(requestor("nvidia-operator")), ..options() }
}

fn run(entry: NodeEntry<'static>) -> Vec<String> {
    writes(&pass(&snapshot([entry]), &rules(), &shared()))
}

fn maintained(
    entry: NodeEntry<'static>,
    requestor: &'static str,
    additional: &[&'static str],
    reason: Option<&'static str>,
) -> NodeEntry<'static> {
    with(entry, |entry| {
        entry.notes.requestor = entry.state != ControllerState::UpgradeRequired;
        entry.maintenance = Some(MaintenanceObject {
            requestor,
            additional: additional.to_vec(),
            reason,
            deleting: false,
        });
    })
}

#[test]
fn line_131_an_object_is_made_for_each_node() {
    let created =
        ["a: create nodemaintenance/nvidia-operator-a", MARKED, "a: node-maintenance-required"];
    assert_eq!(run(old("a", ControllerState::UpgradeRequired)), created);
    let own = PassOptions { requestor: Some(requestor("network-operator")), ..options() };
    let entry = maintained(old("a", ControllerState::UpgradeRequired), "theirs", &[], None);
    let outcome = pass(&snapshot([entry]), &rules(), &own);
    assert_eq!(
        writes(&outcome)[0],
        "a: create nodemaintenance/network-operator-a",
        "objects are shared under the common prefix only"
    );
}

#[test]
fn line_132_another_ones_object_is_joined_once() {
    let joined =
        run(maintained(old("a", ControllerState::UpgradeRequired), "theirs", &["others"], None));
    assert_eq!(
        joined,
        ["a: join nodemaintenance/nvidia-operator-a", MARKED, "a: node-maintenance-required"]
    );
    for (owner, additional) in [("ours", &[] as &[&str]), ("theirs", &["ours"])] {
        let known =
            run(maintained(old("a", ControllerState::UpgradeRequired), owner, additional, None));
        assert_eq!(known, [MARKED, "a: node-maintenance-required"]);
    }
}

#[test]
fn line_133_unready_object_is_awaited() {
    for reason in [None, Some("Pending"), Some("Draining"), Some("RequestorFailed")] {
        assert_eq!(
            run(maintained(
                old("a", ControllerState::NodeMaintenanceRequired),
                "theirs",
                &["ours"],
                reason
            )),
            NOTHING,
            "{reason:?}"
        );
    }
}

#[test]
fn line_134_ready_object_releases_the_node() {
    let ready =
        maintained(old("a", ControllerState::NodeMaintenanceRequired), "ours", &[], Some("Ready"));
    assert_eq!(run(ready.clone()), ["a: pod-restart-required"]);
    let left =
        with(ready, |entry| entry.maintenance.as_mut().expect("it is there").deleting = true);
    assert_eq!(run(left), ["a: pod-restart-required"], "even one on its way out");
}

#[test]
fn line_135_without_its_object_a_node_begins_again() {
    assert_eq!(run(old("a", ControllerState::NodeMaintenanceRequired)), ["a: upgrade-required"]);
}

#[test]
fn line_136_node_started_in_place_continues_so() {
    assert_eq!(
        run(old("a", ControllerState::CordonRequired)),
        ["a: cordon", "a: wait-for-jobs-required"]
    );
}

#[test]
fn line_137_the_owner_deletes_the_object() {
    let entry =
        maintained(node("a", ControllerState::UncordonRequired), "ours", &[], Some("Ready"));
    assert_eq!(
        run(entry.clone()),
        ["a: upgrade-done", UNMARKED, "a: delete nodemaintenance/nvidia-operator-a"]
    );
    let deleting =
        with(entry, |entry| entry.maintenance.as_mut().expect("it is there").deleting = true);
    assert_eq!(run(deleting), ["a: upgrade-done", UNMARKED]);
}

#[test]
fn line_138_one_who_joined_leaves_it() {
    let entry = maintained(
        node("a", ControllerState::UncordonRequired),
        "theirs",
        &["ours"],
        Some("Ready"),
    );
    assert_eq!(
        run(entry),
        ["a: upgrade-done", UNMARKED, "a: leave nodemaintenance/nvidia-operator-a"]
    );
    let foreign =
        maintained(node("a", ControllerState::UncordonRequired), "theirs", &[], Some("Ready"));
    assert_eq!(run(foreign), ["a: upgrade-done", UNMARKED]);
}

#[test]
fn line_139_the_end_is_always_an_uncordon() {
    for owner in ["ours", "theirs"] {
        let entry = with(
            maintained(
                cordoned(node("a", ControllerState::ValidationRequired)),
                owner,
                &["ours"],
                None,
            ),
            |entry| {
                entry.notes.initially_unschedulable = true;
                entry.validators =
                    vec![nvidia_upgrade::snapshot::ValidatorPod { name: "v", ready: true }];
            },
        );
        assert_eq!(run(entry), [VALIDATED, "a: uncordon-required", INITIALLY_GONE]);
    }
}

#[test]
fn line_140_requests_and_loading_drivers_need_upgrade_here() {
    assert_eq!(
        run(with(orphaned("a", ControllerState::Done), |entry| entry.notes.requested =
            Some("true"))),
        ["a: upgrade-required"]
    );
    assert_eq!(
        run(with(node("a", ControllerState::Done), |entry| entry.notes.safe_load = Some("true"))),
        ["a: upgrade-required"]
    );
}

#[test]
fn line_141_node_started_in_place_ends_so() {
    let entry = with(cordoned(node("a", ControllerState::ValidationRequired)), |entry| {
        entry.notes.initially_unschedulable = true;
        entry.validators = vec![nvidia_upgrade::snapshot::ValidatorPod { name: "v", ready: true }];
    });
    assert_eq!(run(entry), [VALIDATED, "a: upgrade-done", INITIALLY_GONE]);
}

#[test]
fn line_142_no_limit_applies_but_skip_label() {
    let skipped =
        with(old("b", ControllerState::UpgradeRequired), |entry| entry.skip = Some("true"));
    let entries = [
        old("a", ControllerState::UpgradeRequired),
        skipped,
        old("c", ControllerState::UpgradeRequired),
    ];
    let strict = enabled(contract::policy::Policy::default());
    let outcome = pass(&snapshot(entries), &strict, &shared());
    let states = ["a", "b", "c"].map(|name| state_of(&outcome, name));
    assert_eq!(
        states,
        [
            Some(ControllerState::NodeMaintenanceRequired),
            None,
            Some(ControllerState::NodeMaintenanceRequired)
        ]
    );
}

#[test]
fn line_143_switched_off_its_labels_and_objects_go() {
    let state = Driver::Ofed.traits().state_label.to_owned();
    let labeled = ObservedNode {
        name: "a".into(),
        labels: [(state, "upgrade-done".to_owned())].into(),
        ..ObservedNode::default()
    };
    let object = |name: &str, who: &str| workload::NodeMaintenance {
        name: name.into(),
        requestor: who.into(),
        ..workload::NodeMaintenance::default()
    };
    let mut observed =
        Observed { nodes: [("a".to_owned(), labeled)].into(), ..Observed::default() };
    observed.nodes.insert("b", ObservedNode { name: "b".into(), ..ObservedNode::default() });
    observed.workloads.maintenances =
        OptionalApi::Served(vec![object("ours-a", "ours"), object("theirs-a", "theirs")]);
    let policy = |auto_upgrade| NicClusterPolicy {
        ofed: Some(ImageSpec::default()),
        upgrade_policy: LiveUpgradePolicy { auto_upgrade, ..LiveUpgradePolicy::default() },
        ..NicClusterPolicy::default()
    };
    let requestor = requestor("network-operator");
    for off in [None, Some(policy(false))] {
        observed.nic_cluster_policy = OptionalApi::Served(off);
        let found = work(&observed, Driver::Ofed, ControllerGeneration::Network, Some(&requestor));
        assert_eq!(
            (found.cleaned.as_slice(), found.maintenances.as_slice(), found.parts.len()),
            (&["a".to_owned()][..], &["ours-a".to_owned()][..], 0)
        );
        assert_eq!(
            work(&observed, Driver::Ofed, ControllerGeneration::Network, None).maintenances,
            [] as [&str; 0],
            "the mode is off"
        );
    }
    observed.nic_cluster_policy = OptionalApi::Served(Some(policy(true)));
    let found = work(&observed, Driver::Ofed, ControllerGeneration::Network, Some(&requestor));
    assert!(found.cleaned.is_empty() && found.maintenances.is_empty() && found.parts.len() == 1);
}
