//! Lines 131 to 143: the maintenance-operator's mode.

use gpu_rollout::contract::driver::Driver;
use gpu_rollout::rollout::observed::workload;
use gpu_rollout::rollout::observed::{Api, ImageSpec, NicClusterPolicy, Node, Observed, UpgradePolicy};
use gpu_rollout::rollout::vendor::operator::work;
use gpu_rollout::rollout::vendor::pass::Requestor;
use gpu_rollout::rollout::vendor::snapshot::{Entry, Maintenance};
use gpu_rollout::rollout::vendor::{Generation, Options, State, pass};

use super::fixture::{cordoned, node, old, options, orphaned, rules, snapshot, with, writes};

const NOTHING: [&str; 0] = [];
const MARKED: &str = "a: nvidia.com/gpu-driver-upgrade-requestor-mode=true";
const UNMARKED: &str = "a: nvidia.com/gpu-driver-upgrade-requestor-mode removed";
const INITIALLY_GONE: &str = "a: nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable removed";
const VALIDATED: &str = "a: nvidia.com/gpu-driver-upgrade-validation-start-time removed";

fn requestor(prefix: &str) -> Requestor {
    Requestor { id: "ours".into(), namespace: "default".into(), prefix: prefix.into() }
}

fn shared() -> Options {
    Options { requestor: Some(requestor("nvidia-operator")), ..options() }
}

fn run(entry: Entry<'static>) -> Vec<String> {
    writes(&pass(&snapshot([entry]), &rules(), &shared()))
}

fn maintained(entry: Entry<'static>, requestor: &'static str, additional: &[&'static str], reason: Option<&'static str>) -> Entry<'static> {
    with(entry, |entry| {
        entry.notes.requestor = entry.state != State::UpgradeRequired;
        entry.maintenance = Some(Maintenance { requestor, additional: additional.to_vec(), reason, deleting: false });
    })
}

#[test]
fn line_131_an_object_is_made_for_each_node() {
    let created = ["a: create nodemaintenance/nvidia-operator-a", MARKED, "a: node-maintenance-required"];
    assert_eq!(run(old("a", State::UpgradeRequired)), created);
    let own = Options { requestor: Some(requestor("network-operator")), ..options() };
    let entry = maintained(old("a", State::UpgradeRequired), "theirs", &[], None);
    let outcome = pass(&snapshot([entry]), &rules(), &own);
    assert_eq!(writes(&outcome)[0], "a: create nodemaintenance/network-operator-a", "objects are shared under the common prefix only");
}

#[test]
fn line_132_another_ones_object_is_joined_once() {
    let joined = run(maintained(old("a", State::UpgradeRequired), "theirs", &["others"], None));
    assert_eq!(joined, ["a: join nodemaintenance/nvidia-operator-a", MARKED, "a: node-maintenance-required"]);
    for (owner, additional) in [("ours", &[] as &[&str]), ("theirs", &["ours"])] {
        let known = run(maintained(old("a", State::UpgradeRequired), owner, additional, None));
        assert_eq!(known, [MARKED, "a: node-maintenance-required"]);
    }
}

#[test]
fn line_133_an_object_that_is_not_ready_is_waited_for() {
    for reason in [None, Some("Pending"), Some("Draining"), Some("RequestorFailed")] {
        assert_eq!(run(maintained(old("a", State::NodeMaintenanceRequired), "theirs", &["ours"], reason)), NOTHING, "{reason:?}");
    }
}

#[test]
fn line_134_a_ready_object_lets_the_node_go_on() {
    let ready = maintained(old("a", State::NodeMaintenanceRequired), "ours", &[], Some("Ready"));
    assert_eq!(run(ready.clone()), ["a: pod-restart-required"]);
    let left = with(ready, |entry| entry.maintenance.as_mut().expect("it is there").deleting = true);
    assert_eq!(run(left), ["a: pod-restart-required"], "even one on its way out");
}

#[test]
fn line_135_without_its_object_a_node_begins_again() {
    assert_eq!(run(old("a", State::NodeMaintenanceRequired)), ["a: upgrade-required"]);
}

#[test]
fn line_136_a_node_that_began_in_place_goes_on_so() {
    assert_eq!(run(old("a", State::CordonRequired)), ["a: cordon", "a: wait-for-jobs-required"]);
}

#[test]
fn line_137_the_owner_deletes_the_object() {
    let entry = maintained(node("a", State::UncordonRequired), "ours", &[], Some("Ready"));
    assert_eq!(run(entry.clone()), ["a: upgrade-done", UNMARKED, "a: delete nodemaintenance/nvidia-operator-a"]);
    let deleting = with(entry, |entry| entry.maintenance.as_mut().expect("it is there").deleting = true);
    assert_eq!(run(deleting), ["a: upgrade-done", UNMARKED]);
}

#[test]
fn line_138_one_who_joined_leaves_it() {
    let entry = maintained(node("a", State::UncordonRequired), "theirs", &["ours"], Some("Ready"));
    assert_eq!(run(entry), ["a: upgrade-done", UNMARKED, "a: leave nodemaintenance/nvidia-operator-a"]);
    let foreign = maintained(node("a", State::UncordonRequired), "theirs", &[], Some("Ready"));
    assert_eq!(run(foreign), ["a: upgrade-done", UNMARKED]);
}

#[test]
fn line_139_the_end_is_always_an_uncordon() {
    for owner in ["ours", "theirs"] {
        let entry = with(maintained(cordoned(node("a", State::ValidationRequired)), owner, &["ours"], None), |entry| {
            entry.notes.initially_unschedulable = true;
            entry.validators = vec![gpu_rollout::rollout::vendor::snapshot::Validator { name: "v", ready: true }];
        });
        assert_eq!(run(entry), [VALIDATED, "a: uncordon-required", INITIALLY_GONE]);
    }
}

#[test]
fn line_140_requests_and_loading_drivers_need_an_upgrade_here_too() {
    assert_eq!(run(with(orphaned("a", State::Done), |entry| entry.notes.requested = Some("true"))), ["a: upgrade-required"]);
    assert_eq!(run(with(node("a", State::Done), |entry| entry.notes.safe_load = Some("true"))), ["a: upgrade-required"]);
}

#[test]
fn line_141_a_node_that_began_in_place_ends_so() {
    let entry = with(cordoned(node("a", State::ValidationRequired)), |entry| {
        entry.notes.initially_unschedulable = true;
        entry.validators = vec![gpu_rollout::rollout::vendor::snapshot::Validator { name: "v", ready: true }];
    });
    assert_eq!(run(entry), [VALIDATED, "a: upgrade-done", INITIALLY_GONE]);
}

#[test]
fn line_142_there_is_no_limit_and_the_skip_label_holds() {
    let skipped = with(old("b", State::UpgradeRequired), |entry| entry.skip = Some("true"));
    let entries = [old("a", State::UpgradeRequired), skipped, old("c", State::UpgradeRequired)];
    let strict = gpu_rollout::rollout::vendor::Rules::on(gpu_rollout::contract::policy::Policy::default());
    let outcome = pass(&snapshot(entries), &strict, &shared());
    let states = ["a", "b", "c"].map(|name| outcome.state_of(name));
    assert_eq!(states, [Some(State::NodeMaintenanceRequired), None, Some(State::NodeMaintenanceRequired)]);
}

#[test]
fn line_143_switched_off_its_labels_and_objects_go() {
    let state = Driver::Ofed.traits().state_label.to_owned();
    let labeled = Node { name: "a".into(), labels: [(state, "upgrade-done".to_owned())].into(), ..Node::default() };
    let object =
        |name: &str, who: &str| workload::Maintenance { name: name.into(), requestor: who.into(), ..workload::Maintenance::default() };
    let mut observed = Observed { nodes: [("a".to_owned(), labeled)].into(), ..Observed::default() };
    observed.nodes.insert("b", Node { name: "b".into(), ..Node::default() });
    observed.workloads.maintenances = Api::Served(vec![object("ours-a", "ours"), object("theirs-a", "theirs")]);
    let policy = |auto_upgrade| NicClusterPolicy {
        ofed: Some(ImageSpec::default()),
        upgrade_policy: UpgradePolicy { auto_upgrade, ..UpgradePolicy::default() },
        ..NicClusterPolicy::default()
    };
    let requestor = requestor("network-operator");
    for off in [None, Some(policy(false))] {
        observed.nic_cluster_policy = Api::Served(off);
        let found = work(&observed, Driver::Ofed, Generation::Network, Some(&requestor));
        assert_eq!(
            (found.cleaned.as_slice(), found.maintenances.as_slice(), found.parts.len()),
            (&["a".to_owned()][..], &["ours-a".to_owned()][..], 0)
        );
        assert_eq!(work(&observed, Driver::Ofed, Generation::Network, None).maintenances, [] as [&str; 0], "the mode is off");
    }
    observed.nic_cluster_policy = Api::Served(Some(policy(true)));
    let found = work(&observed, Driver::Ofed, Generation::Network, Some(&requestor));
    assert!(found.cleaned.is_empty() && found.maintenances.is_empty() && found.parts.len() == 1);
}
