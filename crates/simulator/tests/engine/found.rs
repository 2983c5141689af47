//! A run with a found fleet is the same as one with an equal generated fleet.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::policy::PodDeletionPolicy;
use jiff::Timestamp;
use observed::workload::{DisruptionBudget, PodController, PodPhase, Workload};
use observed::{ObservedNode, OptionalApi};
use simulator::found_fleet::{FoundFleet, FoundNode, FoundPod};
use simulator::random::TimeSpread;
use simulator::report::SimulationReport;
use simulator::setup::SimulationSetup;
use simulator::simulate;

use crate::script::given;

const NODES: usize = 4;

fn now() -> Timestamp {
    "2026-11-22T03:00:00Z".parse().expect("a moment")
}

fn node(index: usize) -> ObservedNode {
    let labels = [
        "gpu.present",
        "gpu.deploy.driver",
        "gpu.deploy.container-toolkit",
        "gpu.deploy.operator-validator",
    ];
    ObservedNode {
        name: format!("gpu-{index}"),
        uid: format!("node-{index}"),
        created: now(),
        ready: true,
        ready_since: Some(now()),
        labels: labels
            .iter()
            .map(|label| (format!("nvidia.com/{label}"), "true".to_owned()))
            .collect(),
        ..ObservedNode::default()
    }
}

/// Returns a pod with a GPU of the ReplicaSet `train`.
fn pod(name: &str, node: &str) -> Workload {
    Workload {
        namespace: "ml".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        node: node.to_owned(),
        labels: [("app".to_owned(), "train".to_owned())].into_iter().collect(),
        phase: PodPhase::Running,
        ready: true,
        created: now(),
        grace_seconds: 30,
        controller: Some(PodController {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "train".to_owned(),
            uid: "train".to_owned(),
        }),
        resources: BTreeSet::from(["nvidia.com/gpu".to_owned()]),
        ..Workload::default()
    }
}

fn found() -> FoundFleet {
    FoundFleet {
        nodes: (0..NODES).map(|index| FoundNode::new(&node(index), 8, true, now())).collect(),
        pods: (0..NODES)
            .map(|index| {
                FoundPod::new(&pod(&format!("train-{index}"), &format!("gpu-{index}")), 1, now())
            })
            .collect(),
        budgets: Vec::new(),
        claims: OptionalApi::Absent,
        job_time: TimeSpread::Constant(0),
    }
}

fn run(found: FoundFleet) -> SimulationReport {
    let mut setup = SimulationSetup { found: Some(Arc::new(found)), ..given(NODES, 7) };
    setup.settings.upgrade.policy.max_parallel_upgrades = 1;
    setup.settings.upgrade.policy.pod_deletion =
        Some(PodDeletionPolicy { timeout_seconds: 300, ..PodDeletionPolicy::default() });
    let report = simulate(&setup);
    assert_eq!(report.violations, [""; 0], "{}", report.describe());
    report
}

fn evicted(report: &SimulationReport) -> Vec<&str> {
    let of_before = |uid: &&String| uid.starts_with("train-");
    report.evicted.keys().filter(of_before).map(String::as_str).collect()
}

fn succeeded(report: &SimulationReport) {
    let verdict = report.verdict.as_ref().expect("a verdict");
    assert_eq!(verdict.code, ExitCode::Success, "{}", report.describe());
}

#[test]
fn every_gpu_pod_leaves_its_node_and_returns() {
    let report = run(found());
    succeeded(&report);
    assert_eq!(
        evicted(&report),
        ["train-0", "train-1", "train-2", "train-3"],
        "{}",
        report.describe()
    );
    assert_eq!(report.peak_unavailable, 1);
}

#[test]
fn node_with_new_driver_is_not_touched() {
    let mut found = found();
    found.nodes[2].outdated = false;
    let report = run(found);
    succeeded(&report);
    assert_eq!(evicted(&report), ["train-0", "train-1", "train-3"], "{}", report.describe());
    assert!(!report.writes_by_node.contains_key("gpu-2"), "{}", report.describe());
}

#[test]
fn the_same_configuration_keeps_pods_where_they_are() {
    let mut found = found();
    found.nodes[1].same_config = true;
    let report = run(found);
    succeeded(&report);
    assert_eq!(evicted(&report), ["train-0", "train-2", "train-3"], "{}", report.describe());
    assert!(
        report.states.contains_key("gpu-1"),
        "its driver pod is restarted all the same: {}",
        report.describe()
    );
}

/// A budget that counts pods on other nodes permits more evictions than the fleet's own pods would
/// allow.
#[test]
fn a_budget_counts_what_runs_elsewhere() {
    let budget = |healthy: i32, expected: i32| DisruptionBudget {
        namespace: "ml".to_owned(),
        name: "train".to_owned(),
        selector: "app=train".parse().ok(),
        min_available: Some("4".to_owned()),
        healthy,
        desired: 4,
        expected,
        allowed: healthy - 4,
        observed: true,
        ..DisruptionBudget::default()
    };
    let report = run(FoundFleet { budgets: vec![budget(6, 6)], ..found() });
    succeeded(&report);
    assert_eq!(evicted(&report).len(), NODES, "{}", report.describe());
    let report = run(FoundFleet { budgets: vec![budget(4, 4)], ..found() });
    assert_eq!(evicted(&report), [""; 0], "{}", report.describe());
    assert!(
        report.verdict.is_some_and(|verdict| verdict.code != ExitCode::Success),
        "it can never be done"
    );
}

/// All GPUs are in use, so an evicted pod must wait until its node is back.
#[test]
fn pods_find_room_only_where_gpus_are_free() {
    let mut full = found();
    for node in &mut full.nodes {
        node.gpus = 1;
    }
    let budget = DisruptionBudget {
        namespace: "ml".to_owned(),
        name: "train".to_owned(),
        selector: "app=train".parse().ok(),
        max_unavailable: Some("1".to_owned()),
        allowed: 1,
        healthy: 4,
        desired: 3,
        expected: 4,
        observed: true,
        ..DisruptionBudget::default()
    };
    full.budgets = vec![budget];
    let mut setup = SimulationSetup { found: Some(Arc::new(full)), ..given(NODES, 7) };
    setup.settings.upgrade.policy.max_parallel_upgrades = 0;
    setup.settings.upgrade.policy.max_unavailable = Some(Count::Percent(100));
    setup.settings.upgrade.policy.pod_deletion =
        Some(PodDeletionPolicy { timeout_seconds: 3600, ..PodDeletionPolicy::default() });
    setup.settings.budget_seconds = 8 * 3600;
    let report = simulate(&setup);
    assert_eq!(report.violations, [""; 0], "{}", report.describe());
    succeeded(&report);
    assert!(report.refused_evictions > 0, "the budget held some back: {}", report.describe());
}

/// The traces of a rollout in progress are removed from a node before the planned one starts.
#[test]
fn node_in_progress_is_adopted_with_its_cordon() {
    let gpu = Driver::Gpu.traits();
    let mut busy = node(0);
    busy.labels.insert(gpu.state_label.to_owned(), "drain-required".to_owned());
    busy.labels.insert(
        "nvidia.com/gpu.deploy.operator-validator".to_owned(),
        "paused-for-driver-upgrade".to_owned(),
    );
    busy.unschedulable = true;
    let released = FoundNode::new(&busy, 8, true, now()).node;
    assert!(!released.unschedulable && !released.labels.contains_key(gpu.state_label));
    assert_eq!(
        released.labels.get("nvidia.com/gpu.deploy.operator-validator").map(String::as_str),
        Some("true")
    );
    let mut foreign = node(0);
    foreign.unschedulable = true;
    assert!(FoundNode::new(&foreign, 8, true, now()).node.unschedulable, "a foreign cordon stays");
}
