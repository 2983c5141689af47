//! The same engine for the Network Operator's driver: the different names and the different rules.

use std::collections::BTreeMap;

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::record::NodeOutcome;
use contract::task::Task;
use observed::{
    ImageSpec, Labels, LiveUpgradePolicy, NicClusterPolicy, Observed, ObservedContainer,
    ObservedDaemonSet, ObservedDeployment, ObservedNode, ObservedPod, ObservedRevision,
    OptionalApi,
};
use planner::budget_estimate;
use planner::decide::Decision;
use planner::memory::RunMemory;
use planner::note::DecisionNote;
use planner::reason::Reason;

use crate::fleet::{Fleet, at, named, reason_of, waits};
use crate::settings::settings;

const OLD: &str = "24.10-0.7.0.0-0";
const NEW: &str = "25.01-0.6.0.0-0";

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn policy(fleet: &mut Fleet) -> &mut NicClusterPolicy {
    match &mut fleet.observed.nic_cluster_policy {
        OptionalApi::Served(Some(policy)) => policy,
        OptionalApi::Served(None) | OptionalApi::Absent => {
            panic!("the network has a NicClusterPolicy")
        }
    }
}

fn image(version: &str) -> String {
    format!("nvcr.io/nvidia/mellanox/doca-driver:{version}-ubuntu22.04-amd64")
}

/// Renders the template from the policy as revision `revision`, as the operator does.
fn observes(fleet: &mut Fleet, version: &str, revision: i64, hash: &str) {
    fleet.observed.daemon_sets[0].images =
        BTreeMap::from([("mofed-container".to_owned(), image(version))]);
    fleet.observed.revisions.push(ObservedRevision {
        owner: "mofed".into(),
        revision,
        hash: hash.into(),
    });
}

/// Sets the node's driver pod.
fn driver(fleet: &mut Fleet, node: &str, hash: &str, version: &str, second: i64) {
    fleet.observed.pods.edit().retain(|pod| pod.node.as_deref() != Some(node));
    let uid = fleet.uid();
    fleet.observed.pods.push(ObservedPod {
        name: format!("mofed-{uid}"),
        uid,
        owner: Some("mofed".into()),
        node: Some(node.into()),
        revision: Some(hash.into()),
        labels: labels(&[(names::OFED_DRIVER_LABEL, "")]),
        running: true,
        ready: true,
        ready_since: Some(at(second)),
        created: at(second),
        containers: vec![ObservedContainer {
            name: "mofed-container".into(),
            image: image(version),
            started: Some(at(second)),
            restarts: 0,
        }],
        ..ObservedPod::default()
    });
}

fn state(fleet: &mut Fleet, node: &str, state: &str) {
    fleet.node(node).labels.insert(names::OFED_UPGRADE_STATE_LABEL.into(), state.into());
}

fn nic_node(fleet: &mut Fleet, name: &str) {
    let uid = fleet.uid();
    let labels = labels(&[(names::NIC_PRESENT_LABEL, "true")]);
    fleet.observed.nodes.insert(
        name,
        ObservedNode {
            name: name.into(),
            uid,
            created: at(-9000),
            ready: true,
            ready_since: Some(at(-9000)),
            labels,
            ..ObservedNode::default()
        },
    );
}

/// Returns settled nodes `nic-0` … with their driver.
pub(crate) fn network(nodes: usize) -> Fleet {
    let mut fleet = Fleet::at_rest(0);
    fleet.settings.component = "network-operator".into();
    fleet.settings.driver = Driver::Ofed;
    fleet.settings.tasks = vec![Task::Settle];
    fleet.settings.expected.nic_cluster_policy = true;
    fleet.observed = Observed {
        operator: Some(ObservedDeployment {
            replicas: 1,
            current: 1,
            updated: 1,
            available: 1,
            observed: true,
            ..ObservedDeployment::default()
        }),
        nic_cluster_policy: OptionalApi::Served(Some(NicClusterPolicy {
            uid: "policy".into(),
            generation: 1,
            observed_generation: Some(1),
            ofed: Some(ImageSpec {
                repository: Some("nvcr.io/nvidia/mellanox".into()),
                image: Some("doca-driver".into()),
                version: Some(OLD.into()),
            }),
            upgrade_policy: LiveUpgradePolicy {
                auto_upgrade: true,
                max_parallel: Some(2),
                max_unavailable: None,
                ..LiveUpgradePolicy::default()
            },
            ..NicClusterPolicy::default()
        })),
        daemon_sets: vec![ObservedDaemonSet {
            name: "mofed-ubuntu22.04-5b8c-ds".into(),
            uid: "mofed".into(),
            observed: true,
            on_delete: true,
            desired: i32::try_from(nodes).expect("few"),
            template_labels: labels(&[
                (names::OFED_DRIVER_LABEL, ""),
                (names::OFED_OWNER_LABEL, names::OFED_OWNER_POLICY),
            ]),
            node_selector: labels(&[(names::NIC_PRESENT_LABEL, "true")]),
            ..ObservedDaemonSet::default()
        }],
        ..Observed::default()
    };
    observes(&mut fleet, OLD, 1, "old");
    for index in 0..nodes {
        let name = format!("nic-{index}");
        nic_node(&mut fleet, &name);
        driver(&mut fleet, &name, "old", OLD, -5000);
    }
    fleet
}

/// Returns the decision after the quiet period, from second 0 on.
fn settles(fleet: &mut Fleet) -> Decision {
    let first = fleet.decide(0);
    assert_eq!(waits(&first), ["*:Quiet"]);
    let decision = fleet.decide(15);
    let verdict = decision.verdict.as_ref().expect("settled");
    assert_eq!(verdict.code, ExitCode::Success, "{}", verdict.message);
    decision
}

#[test]
fn a_network_at_rest_is_settled() {
    assert_eq!(named(settles(&mut network(2)).verdict.as_ref().expect("settled")), ["*:Settled"]);
}

#[test]
fn bump_is_followed_from_policy_to_last_node() {
    let mut fleet = network(2);
    fleet.settings.expected.ofed_driver_version = Some(NEW.into());
    let decision = fleet.decide(0);
    assert_eq!(
        decision.waits.at(0).reason.to_string(),
        format!(
            "spec.ofedDriver.version of NicClusterPolicy `nic-cluster-policy` is `{OLD}`, but must be `{NEW}`"
        )
    );
    policy(&mut fleet).ofed.as_mut().expect("an OFED driver").version = Some(NEW.into());
    assert_eq!(waits(&fleet.decide(1)), ["*:SpecNotObserved"]);
    observes(&mut fleet, NEW, 2, "new");
    fleet.observed.daemon_sets[0].observed = false;
    assert_eq!(
        waits(&fleet.decide(2)),
        ["*:SpecNotObserved"],
        "the DaemonSet controller has yet to see it"
    );
    fleet.observed.daemon_sets[0].observed = true;
    assert_eq!(waits(&fleet.decide(3)), ["nic-0:DriverOutOfDate", "nic-1:DriverOutOfDate"]);
    assert_eq!(
        budget_estimate::budget_seconds(&fleet.observed, &fleet.settings),
        Some(600 + 900),
        "two at once: no maxUnavailable here"
    );
    state(&mut fleet, "nic-0", "drain-required");
    fleet.observed.pods.edit().retain(|pod| pod.node.as_deref() != Some("nic-0"));
    assert_eq!(waits(&fleet.decide(4)), ["nic-0:DriverPodMissing", "nic-1:DriverOutOfDate"]);
    driver(&mut fleet, "nic-0", "new", NEW, 10);
    state(&mut fleet, "nic-0", "uncordon-required");
    assert_eq!(waits(&fleet.decide(11)), ["nic-0:UpgradeUnfinished", "nic-1:DriverOutOfDate"]);
    state(&mut fleet, "nic-0", "upgrade-done");
    driver(&mut fleet, "nic-1", "new", NEW, 20);
    state(&mut fleet, "nic-1", "upgrade-done");
    fleet.pass(21);
    assert_eq!(named(&fleet.decide(36).verdict.expect("settled")), ["*:Settled"]);
}

#[test]
fn reported_generation_of_operator_counts_only_for_itself() {
    let mut fleet = network(1);
    policy(&mut fleet).generation = 7;
    policy(&mut fleet).observed_generation = Some(6);
    let decision = fleet.decide(0);
    assert_eq!(
        decision.waits.at(0).reason.to_string(),
        "the operator has not observed the newest spec: observedGeneration of condition Ready of nicclusterpolicy/nic-cluster-policy is `6`, expected `7`"
    );
    policy(&mut fleet).observed_generation = Some(7);
    assert!(fleet.decide(1).well);
    policy(&mut fleet).observed_generation = None;
    fleet.settings.component_version = Some("26.7.0".into());
    assert_eq!(waits(&fleet.decide(2)), ["*:SpecNotObserved"], "this one tells, and has not yet");
}

#[test]
fn operator_without_reported_generation_gets_a_minute() {
    let mut fleet = network(1);
    policy(&mut fleet).observed_generation = None;
    fleet.settings.component_version = Some("26.4.1".into());
    fleet.pass(0);
    assert_eq!(fleet.decide(59).verdict, None);
    assert_eq!(fleet.decide(60).verdict.expect("over").code, ExitCode::Success);
}

#[test]
fn every_driver_daemon_set_needs_an_observed_generation() {
    for of_node_policy in [false, true] {
        let mut fleet = network(1);
        if of_node_policy {
            policy(&mut fleet).ofed = None;
            fleet.observed.daemon_sets[0]
                .template_labels
                .insert(names::OFED_OWNER_LABEL.into(), "nnp-storage".into());
        }
        fleet.observed.daemon_sets[0].observed = false;
        assert_eq!(waits(&fleet.decide(0)), ["*:SpecNotObserved"], "{of_node_policy}");
    }
}

#[test]
fn failed_node_has_advice_and_skipped_is_deferred() {
    let mut fleet = network(3);
    policy(&mut fleet).ofed.as_mut().expect("an OFED driver").version = Some(NEW.into());
    observes(&mut fleet, NEW, 2, "new");
    driver(&mut fleet, "nic-0", "new", NEW, 10);
    state(&mut fleet, "nic-0", "upgrade-done");
    state(&mut fleet, "nic-1", "upgrade-failed");
    fleet.node("nic-2").labels.insert(names::OFED_UPGRADE_SKIP_LABEL.into(), "true".into());
    state(&mut fleet, "nic-2", "upgrade-required");
    let decision = fleet.decide(0);
    assert_eq!(waits(&decision), ["nic-1:UpgradeFailed"]);
    assert_eq!(decision.outcomes["nic-2"], NodeOutcome::Deferred);
    fleet.pass(600);
    let decision = fleet.decide(615);
    assert_eq!(reason_of(&decision, "nic-1"), Reason::UpgradeFailed { trouble: None });
    assert_eq!(
        reason_of(&decision, "nic-2"),
        Reason::Skipped { label: names::OFED_UPGRADE_SKIP_LABEL }
    );
    let verdict = decision.verdict.expect("over");
    assert_eq!(
        (verdict.code, named(&verdict)),
        (ExitCode::NodesFailed, vec!["nic-1:UpgradeFailed".to_owned()])
    );
}

#[test]
fn hosts_own_ofed_driver_is_accepted_and_named() {
    let mut fleet = network(2);
    policy(&mut fleet).ofed = None;
    assert_eq!(settles(&mut fleet).notes, [DecisionNote::OfedOfHost { has_policy: true }]);
    let mut fleet = network(2);
    fleet.observed.nic_cluster_policy = OptionalApi::Served(None);
    assert_eq!(waits(&fleet.decide(0)), ["*:PolicyMissing"], "the values have one");
    fleet.settings.expected.nic_cluster_policy = false;
    fleet.memory = RunMemory::new(at(0), at(3000));
    assert_eq!(settles(&mut fleet).notes, [DecisionNote::OfedOfHost { has_policy: false }]);
}

#[test]
fn network_operator_557_driver_without_matching_nodes_is_not_awaited() {
    let mut fleet = network(0);
    assert_eq!(waits(&fleet.decide(0)), ["*:NoNodeFeatures"], "NFD has not looked for NICs yet");
    nic_node(&mut fleet, "cpu-0");
    fleet.node("cpu-0").labels = labels(&[("feature.node.kubernetes.io/cpu-model.family", "6")]);
    // A pool without nodes keeps its old template.
    policy(&mut fleet).ofed.as_mut().expect("an OFED driver").version = Some(NEW.into());
    fleet.memory = RunMemory::new(at(0), at(3000));
    let decision = settles(&mut fleet);
    assert_eq!(decision.notes, [DecisionNote::NoNodesWithDevice { device: "NIC" }]);
    assert!(decision.outcomes.values().next().is_none());
}

#[test]
fn unserved_nodes_are_awaited_unless_affinity_excludes_them() {
    let mut fleet = network(1);
    nic_node(&mut fleet, "nic-1");
    assert!(
        fleet.decide(0).well,
        "the DaemonSet has all the pods that it wants: its affinity leaves the node out"
    );
    fleet.observed.daemon_sets[0].desired = 2;
    assert_eq!(waits(&fleet.decide(1)), ["nic-1:DriverPodMissing"]);
    fleet.observed.daemon_sets[0].desired = 1;
    fleet.observed.daemon_sets[0].node_selector.insert("kernel".into(), "5".into());
    fleet.node("nic-0").labels.insert("kernel".into(), "5".into());
    fleet.node("nic-1").labels.insert("kernel".into(), "6".into());
    assert_eq!(waits(&fleet.decide(2)), ["nic-1:NodeWithoutDaemonSet"]);
    policy(&mut fleet).node_affinity = true;
    assert!(fleet.decide(3).well);
    fleet.observed.daemon_sets.clear();
    assert_eq!(waits(&fleet.decide(4)), ["*:DaemonSetMissing"]);
}

#[test]
fn node_policy_drivers_are_judged_by_node_alone() {
    let mut fleet = network(1);
    policy(&mut fleet).ofed = None;
    fleet.observed.daemon_sets[0]
        .template_labels
        .insert(names::OFED_OWNER_LABEL.into(), "nnp-storage".into());
    assert_eq!(
        settles(&mut fleet).outcomes.values().copied().collect::<Vec<_>>(),
        [NodeOutcome::Done]
    );
    observes(&mut fleet, NEW, 2, "new");
    assert_eq!(waits(&fleet.decide(20)), ["nic-0:DriverOutOfDate"]);
}

#[test]
fn image_without_registry_is_known_by_its_name() {
    let mut fleet = network(1);
    policy(&mut fleet).ofed.as_mut().expect("an OFED driver").repository = None;
    assert!(fleet.decide(0).well);
    policy(&mut fleet).ofed.as_mut().expect("an OFED driver").version = Some(NEW.into());
    assert_eq!(waits(&fleet.decide(1)), ["*:SpecNotObserved"]);
}

#[test]
fn the_gpu_operators_labels_mean_nothing_here() {
    let mut fleet = network(1);
    fleet.node("nic-0").labels.insert(names::UPGRADE_STATE_LABEL.into(), "upgrade-failed".into());
    fleet.join("gpu-0", -9000);
    assert_eq!(
        settles(&mut fleet).outcomes.values().copied().collect::<Vec<_>>(),
        [NodeOutcome::Done]
    );
    assert_eq!(settings().driver, Driver::Gpu);
}

#[test]
fn each_grace_time_ends_with_own_exit_code() {
    type Change = fn(&mut Fleet);
    let cases: [(&str, Change, ExitCode, &str); 5] = [
        (
            "no CRD",
            |fleet| fleet.observed.nic_cluster_policy = OptionalApi::Absent,
            ExitCode::ApiMissing,
            "*:PolicyApiMissing",
        ),
        (
            "no object",
            |fleet| fleet.observed.nic_cluster_policy = OptionalApi::Served(None),
            ExitCode::OperatorMissing,
            "*:PolicyMissing",
        ),
        (
            "no operator",
            |fleet| fleet.observed.operator = None,
            ExitCode::OperatorMissing,
            "*:OperatorMissing",
        ),
        (
            "another driver",
            |fleet| fleet.settings.expected.ofed_driver_version = Some(NEW.into()),
            ExitCode::Precondition,
            "*:Precondition",
        ),
        (
            "another operator",
            |fleet| {
                fleet.observed.operator.as_mut().expect("it is there").chart =
                    Some("network-operator-24.7.1".into());
                fleet.settings.component_version = Some("26.4.1".into());
            },
            ExitCode::Precondition,
            "*:OtherChart",
        ),
    ];
    for (name, change, code, reason) in cases {
        let mut fleet = network(1);
        change(&mut fleet);
        assert!(fleet.decide(0).verdict.is_none(), "{name}");
        let verdict = fleet.decide(120).verdict.unwrap_or_else(|| panic!("{name}: no verdict"));
        assert_eq!((verdict.code, named(&verdict)), (code, vec![reason.to_owned()]), "{name}");
        // No reason of the OFED driver mentions the other operator.
        assert!(!verdict.message.contains("GPU Operator"), "{name}: {}", verdict.message);
    }
}
