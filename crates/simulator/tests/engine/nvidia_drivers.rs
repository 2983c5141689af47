//! Several NVIDIADrivers, each with a policy of its own. A node waits for the limit of its own
//! NVIDIADriver, regardless of changes in the others. Each decision is made twice
//! ([`Fleet::decide`]): incrementally and from scratch.

use contract::count::Count;
use contract::exit::ExitCode;
use contract::names;
use contract::settings::{ExpectedNvidiaDriver, Mode};
use contract::task::Task;
use nvidia_upgrade::explain;
use observed::{
    ImageSpec, Labels, LiveUpgradePolicy, NvidiaDriver, ObservedDaemonSet, OptionalApi,
    PolicyCondition, PolicyConditions,
};
use planner::decide::{Action, Decision};
use planner::estimate;
use planner::reason::Reason;
use proptest::prelude::*;
use simulator::fault::{Fault, ScheduledFault};
use simulator::setup::{PoolSetup, SimulationSetup};
use simulator::simulate;

use crate::fleet::{Fleet, NEW, OLD, named, waits};
use crate::script::given;

fn driver(name: &str, max_parallel: u32) -> NvidiaDriver {
    let upgrade_policy = LiveUpgradePolicy {
        stated: true,
        auto_upgrade: true,
        max_parallel: Some(max_parallel),
        ..LiveUpgradePolicy::default()
    };
    NvidiaDriver {
        name: name.into(),
        uid: format!("driver-{name}"),
        generation: 1,
        upgrade_policy,
        ..NvidiaDriver::default()
    }
}

/// Returns eight nodes. The even ones belong to `one`, which upgrades one at a time, the odd ones
/// to `two`, which upgrades two.
fn fleet() -> Fleet {
    let mut fleet = Fleet::migrating(8);
    fleet.is_assisted("v26.7.0");
    fleet.policy().uses_nvidia_drivers = true;
    fleet.policy().upgrade_policy.auto_upgrade = false;
    let image = ImageSpec {
        repository: Some("nvcr.io/nvidia".into()),
        image: Some("driver".into()),
        version: Some(NEW.into()),
    };
    let drivers = [driver("one", 1), driver("two", 2)]
        .map(|driver| NvidiaDriver { driver: image.clone(), ..driver });
    fleet.observed.nvidia_drivers = OptionalApi::Served(drivers.to_vec());
    fleet.observed.daemon_sets[0].owner = Some("driver-one".into());
    fleet.observed.daemon_sets[0].desired = 8;
    for index in 0..8 {
        belongs(&mut fleet, index, if index % 2 == 0 { "one" } else { "two" });
    }
    for node in ["gpu-0", "gpu-1", "gpu-3"] {
        fleet.state(node, "pod-restart-required");
        fleet.node(node).unschedulable = true;
        fleet.driver_pod(node).deleting = true;
    }
    fleet
}

pub(crate) fn belongs(fleet: &mut Fleet, index: usize, owner: &str) {
    fleet
        .node(&format!("gpu-{index}"))
        .labels
        .insert(names::DRIVER_OWNER_LABEL.into(), owner.into());
}

/// Returns the limit that a node waits for, and the nodes that use it up.
fn limit(decision: &Decision, node: &str) -> Option<(u32, Vec<String>)> {
    let wait = decision.waits.iter().find(|wait| wait.node.as_deref() == Some(node))?;
    let Reason::DriverOutOfDate { why: Some(why), .. } = &*wait.reason else { return None };
    let explain::ControllerWait::Parallel { limit, holders, .. } = &**why else { return None };
    // They are in the order of their pods.
    let mut names: Vec<String> = holders.iter().map(|holder| holder.node.clone()).collect();
    names.sort();
    Some((*limit, names))
}

fn held_by(limit: u32, nodes: &[&str]) -> (u32, Vec<String>) {
    (limit, nodes.iter().map(|node| (*node).to_owned()).collect())
}

#[test]
fn node_waits_for_its_own_nvidia_drivers_limit() {
    let mut fleet = fleet();
    fleet.pass(0);
    let decision = fleet.decide(1);
    assert_eq!(limit(&decision, "gpu-2"), Some(held_by(1, &["gpu-0"])), "{:#?}", decision.waits);
    assert_eq!(limit(&decision, "gpu-5"), Some(held_by(2, &["gpu-1", "gpu-3"])));
    // A node of one driver ends, and the next one takes its slot. The waits of the other driver's
    // nodes do not change.
    fleet.migrate("gpu-1", 2);
    fleet.node("gpu-1").unschedulable = false;
    fleet.state("gpu-5", "cordon-required");
    let decision = fleet.decide(3);
    assert_eq!(limit(&decision, "gpu-2"), Some(held_by(1, &["gpu-0"])));
    assert_eq!(limit(&decision, "gpu-7"), Some(held_by(2, &["gpu-3", "gpu-5"])));
}

#[test]
fn adopted_node_waits_for_new_nvidia_drivers_limit() {
    let mut fleet = fleet();
    fleet.pass(0);
    fleet.pass(1);
    belongs(&mut fleet, 6, "two");
    let decision = fleet.decide(2);
    assert_eq!(limit(&decision, "gpu-6"), Some(held_by(2, &["gpu-1", "gpu-3"])));
    // A node in progress moves to the other driver with its slot.
    belongs(&mut fleet, 0, "two");
    let decision = fleet.decide(3);
    assert_eq!(limit(&decision, "gpu-6"), Some(held_by(2, &["gpu-0", "gpu-1", "gpu-3"])));
    // A node without an NVIDIADriver gets no reason for its wait.
    fleet.node("gpu-6").labels.remove(names::DRIVER_OWNER_LABEL);
    let decision = fleet.decide(4);
    assert_eq!(limit(&decision, "gpu-6"), None);
}

/// Returns three settled nodes of the chart's own NVIDIADriver, with an operator of this version.
pub(crate) fn pool_at_rest(version: &str) -> Fleet {
    let mut fleet = Fleet::at_rest(3);
    fleet.observed.operator.as_mut().expect("the operator").version = Some(version.into());
    fleet.policy().uses_nvidia_drivers = true;
    let image = ImageSpec {
        repository: Some("nvcr.io/nvidia".into()),
        image: Some("driver".into()),
        version: Some(OLD.into()),
    };
    let chart = NvidiaDriver {
        is_default: true,
        field_manager: Some("helm".into()),
        driver: image,
        ..driver("default", 1)
    };
    fleet.observed.nvidia_drivers = OptionalApi::Served(vec![chart]);
    for daemon_set in &mut fleet.observed.daemon_sets {
        if daemon_set.uid == "driver-ds" {
            daemon_set.owner = Some("driver-default".into());
        }
    }
    for index in 0..3 {
        belongs(&mut fleet, index, "default");
    }
    fleet
}

pub(crate) fn drivers(fleet: &mut Fleet) -> &mut Vec<NvidiaDriver> {
    match &mut fleet.observed.nvidia_drivers {
        OptionalApi::Served(drivers) => drivers,
        OptionalApi::Absent => panic!("the API is served"),
    }
}

/// Returns the reason of the first wait of the whole fleet.
fn fleet_reason(fleet: &mut Fleet, second: i64) -> Option<Reason> {
    let decision = fleet.decide(second);
    decision.waits.iter().find(|wait| wait.node.is_none()).map(|wait| (*wait.reason).clone())
}

fn precondition(
    name: &str,
    field: &'static str,
    expected: &str,
    found: &str,
    manager: Option<&str>,
) -> Reason {
    Reason::Precondition {
        kind: "NVIDIADriver",
        name: name.into(),
        field,
        expected: expected.into(),
        found: found.into(),
        manager: manager.map(Into::into),
    }
}

/// A deployer without order starts the hook before the operator's chart, when everything is settled
/// on the old driver.
#[test]
fn default_nvidia_driver_with_old_version_is_unsettled() {
    for version in ["v25.10.1", "v26.3.1", "v26.7.0"] {
        let mut fleet = pool_at_rest(version);
        assert!(fleet.decide(0).well, "{version}");
        fleet.settings.expected.driver_version = Some(NEW.into());
        fleet.settings.expected.nvidia_drivers = Some(true);
        fleet.settings.expected.default_nvidia_driver = Some(ExpectedNvidiaDriver {
            version: Some(NEW.into()),
            ..ExpectedNvidiaDriver::default()
        });
        let expected = precondition("default", "spec.version", NEW, OLD, Some("helm"));
        assert_eq!(fleet_reason(&mut fleet, 1), Some(expected), "{version}");
        let verdict = fleet.decide(121).verdict.expect("the grace time is over");
        assert_eq!(verdict.code, ExitCode::Precondition);
        assert_eq!(named(&verdict), ["*:Precondition"], "{version}");
    }
}

#[test]
fn missing_default_nvidia_driver_is_awaited() {
    let mut fleet = pool_at_rest("v26.7.0");
    drivers(&mut fleet)[0].name = "mine".into();
    for index in 0..3 {
        belongs(&mut fleet, index, "mine");
    }
    assert!(fleet.decide(0).well, "the recipe says nothing of it");
    fleet.settings.expected.default_nvidia_driver = Some(ExpectedNvidiaDriver::default());
    let missing = Reason::PolicyMissing { kind: "NVIDIADriver", name: "default".into() };
    assert_eq!(fleet_reason(&mut fleet, 1), Some(missing));
}

#[test]
fn values_with_nvidia_drivers_wait_for_cluster_policy() {
    let mut fleet = Fleet::at_rest(1);
    fleet.settings.expected.nvidia_drivers = Some(true);
    let Some(Reason::Precondition { field, .. }) = fleet_reason(&mut fleet, 0) else {
        panic!("it is not settled")
    };
    assert_eq!(field, "spec.driver.useNvidiaDriverCRD");
}

/// The chart copies `driver.upgradePolicy` into its NVIDIADriver from v26.7 on; before that the
/// object has no such field.
#[test]
fn default_nvidia_driver_policy_matches_from_26_7() {
    for (version, waits) in [("v26.3.3", false), ("v26.7.0", true)] {
        let mut fleet = pool_at_rest(version);
        fleet.settings.expected.default_nvidia_driver = Some(ExpectedNvidiaDriver::default());
        fleet.settings.expected.upgrade_policy.max_parallel_upgrades = Some(4);
        let expected = precondition(
            "default",
            "spec.upgradePolicy.maxParallelUpgrades",
            "4",
            "1",
            Some("helm"),
        );
        let reason = fleet_reason(&mut fleet, 0);
        assert_eq!(reason == Some(expected), waits, "{version}: {reason:?}");
        assert_eq!(fleet.decide(0).well, !waits, "{version}");
    }
}

/// Without the hook's holds, the operator would start as many nodes as each of these policies
/// allows.
#[test]
fn steer_requires_one_node_of_every_nvidia_driver() {
    let steer = |version: &str, change: &dyn Fn(&mut Fleet)| {
        let mut fleet = pool_at_rest(version);
        fleet.settings.mode = Mode::Steer;
        drivers(&mut fleet)[0].upgrade_policy.max_unavailable = Some("25%".into());
        let mut other = drivers(&mut fleet)[0].clone();
        (other.name, other.uid, other.is_default) = ("blue".into(), "driver-blue".into(), false);
        other.node_selector = Labels::from([("pool".to_owned(), "blue".to_owned())]);
        drivers(&mut fleet).push(other);
        change(&mut fleet);
        fleet_reason(&mut fleet, 0)
    };
    let is_quiet = |reason: Option<Reason>| matches!(reason, Some(Reason::Quiet { .. }));
    assert!(is_quiet(steer("v26.7.0", &|_| {})));
    for (index, name) in ["default", "blue"].into_iter().enumerate() {
        let field = |change: &dyn Fn(&mut LiveUpgradePolicy)| {
            steer("v26.7.0", &|fleet| change(&mut drivers(fleet)[index].upgrade_policy))
        };
        let manager = Some("helm");
        let parallel =
            precondition(name, "spec.upgradePolicy.maxParallelUpgrades", "1", "3", manager);
        assert_eq!(field(&|policy| policy.max_parallel = Some(3)), Some(parallel));
        let all = precondition(name, "spec.upgradePolicy.maxParallelUpgrades", "1", "0", manager);
        assert_eq!(field(&|policy| policy.max_parallel = Some(0)), Some(all), "0 means no limit");
        let off = precondition(name, "spec.upgradePolicy.autoUpgrade", "true", "false", manager);
        assert_eq!(field(&|policy| policy.auto_upgrade = false), Some(off));
    }
    let wide =
        precondition("default", "spec.upgradePolicy.maxUnavailable", "25%", "100%", Some("helm"));
    assert_eq!(
        steer("v26.7.0", &|fleet| drivers(fleet)[0].upgrade_policy.max_unavailable =
            Some("100%".into())),
        Some(wide)
    );
    let narrow =
        |fleet: &mut Fleet| drivers(fleet)[0].upgrade_policy.max_unavailable = Some("1".into());
    assert!(is_quiet(steer("v26.7.0", &narrow)));
    // Up to v26.3 the ClusterPolicy's policy governs the nodes of all of them.
    assert!(is_quiet(
        steer("v26.3.3", &|fleet| drivers(fleet)[0].upgrade_policy.max_parallel = Some(3))
    ));
    let Some(Reason::Precondition { kind, field, .. }) =
        steer("v26.3.3", &|fleet| fleet.policy().upgrade_policy.max_unavailable = None)
    else {
        panic!("without a limit it does not fail closed")
    };
    assert_eq!((kind, field), ("ClusterPolicy", "spec.driver.upgradePolicy.maxUnavailable"));
}

/// While the labeler has not yet processed a node, "nothing is out of date" is the state before its
/// upgrade.
#[test]
fn gpu_node_without_owner_is_not_done() {
    let mut fleet = pool_at_rest("v26.7.0");
    fleet.node("gpu-1").labels.remove(names::DRIVER_OWNER_LABEL);
    fleet.observed.daemon_sets[0]
        .node_selector
        .insert(names::DRIVER_OWNER_LABEL.into(), "default".into());
    let decision = fleet.decide(0);
    assert_eq!(waits(&decision), ["gpu-1:NodeInOtherPool"]);
    assert_eq!(
        *decision.waits[0].reason,
        Reason::NodeInOtherPool { wanted: "default".into(), found: None }
    );
    // With an operator that sets no such label, the selectors determine the nodes of each
    // NVIDIADriver.
    fleet.observed.operator.as_mut().expect("the operator").version = Some("v26.3.3".into());
    assert_eq!(waits(&fleet.decide(1)), ["gpu-1:NodeWithoutDaemonSet"]);
    // A node that no NVIDIADriver selects has no driver of the operator.
    drivers(&mut fleet)[0].node_selector = Labels::from([("pool".to_owned(), "other".to_owned())]);
    drivers(&mut fleet)[0].is_default = false;
    assert_eq!(waits(&fleet.decide(2)), ["*:Quiet"]);
}

/// The operator does nothing when a node of the default NVIDIADriver gets the label of a pool.
#[test]
fn node_labeled_into_pool_waits_for_its_owner() {
    let mut fleet = pool_at_rest("v26.7.0");
    let mut blue = drivers(&mut fleet)[0].clone();
    (blue.name, blue.uid, blue.is_default) = ("blue".into(), "driver-blue".into(), false);
    blue.node_selector = Labels::from([("pool".to_owned(), "blue".to_owned())]);
    drivers(&mut fleet).push(blue);
    assert!(fleet.decide(0).well);
    fleet.node("gpu-2").labels.insert("pool".into(), "blue".into());
    let decision = fleet.decide(1);
    assert_eq!(waits(&decision), ["gpu-2:NodeInOtherPool"]);
    let expected = Reason::NodeInOtherPool { wanted: "blue".into(), found: Some("default".into()) };
    assert_eq!(*decision.waits[0].reason, expected);
    // Its owner has changed and the pool has no DaemonSet for it yet.
    belongs(&mut fleet, 2, "blue");
    fleet.observed.daemon_sets[0]
        .node_selector
        .insert(names::DRIVER_OWNER_LABEL.into(), "default".into());
    assert_eq!(waits(&fleet.decide(2)), ["gpu-2:NodeWithoutDaemonSet"]);
    let of_blue = ObservedDaemonSet {
        uid: "blue-ds".into(),
        owner: Some("driver-blue".into()),
        ..fleet.observed.daemon_sets[0].clone()
    };
    let selector = Labels::from([(names::DRIVER_OWNER_LABEL.to_owned(), "blue".to_owned())]);
    fleet.observed.daemon_sets.push(ObservedDaemonSet { node_selector: selector, ..of_blue });
    assert_eq!(
        waits(&fleet.decide(3)),
        ["gpu-2:DriverOutOfDate"],
        "the pod is of the other pool's DaemonSet"
    );
}

pub(crate) fn failed(reason: &str, message: &str) -> PolicyConditions {
    let condition = |is_true, reason: &str, message: &str| {
        Some(PolicyCondition { is_true, reason: reason.into(), message: message.into() })
    };
    PolicyConditions {
        ready: condition(false, "Error", ""),
        error: condition(true, reason, message),
    }
}

/// Conflicting selectors, a missing Secret, an invalid combination: only the condition gives the
/// reason.
#[test]
fn failed_nvidia_driver_ends_run_after_grace_time() {
    for (reason, message) in [
        (
            "ConflictingNodeSelector",
            "conflicting NVIDIADriver NodeSelectors found for resource: default, nodeSelector: \"pool=blue\"",
        ),
        ("ReconcileFailed", "secrets \"license\" not found"),
    ] {
        let mut fleet = pool_at_rest("v26.7.0");
        drivers(&mut fleet)[0].conditions = failed(reason, message);
        let expected = Reason::ReconcileFailed {
            kind: "NVIDIADriver",
            name: "default".into(),
            reason: reason.into(),
            message: message.into(),
        };
        assert_eq!(fleet_reason(&mut fleet, 0), Some(expected));
        assert_eq!(fleet.decide(119).verdict, None);
        let verdict = fleet.decide(120).verdict.expect("the grace time is over");
        assert_eq!(verdict.code, ExitCode::OperatorMissing);
        assert_eq!(named(&verdict), ["*:ReconcileFailed"]);
    }
}

/// The condition goes when the operator reconciles again, and an NVIDIADriver without nodes blocks
/// nothing.
#[test]
fn failed_nvidia_driver_without_nodes_is_not_awaited() {
    let mut fleet = pool_at_rest("v26.7.0");
    let mut idle = driver("idle", 1);
    idle.node_selector = Labels::from([("pool".to_owned(), "none".to_owned())]);
    idle.conditions = failed("ReconcileFailed", "invalid");
    drivers(&mut fleet).push(idle);
    assert!(fleet.decide(0).well);
    drivers(&mut fleet)[0].conditions = failed("ReconcileFailed", "the object has been modified");
    assert_eq!(waits(&fleet.decide(1)), ["*:ReconcileFailed"]);
    drivers(&mut fleet)[0].conditions = PolicyConditions::default();
    assert!(fleet.decide(2).well);
}

/// Up to v26.3.3, `status.state` is `ready` while the NVIDIADriver rolls, and a pool without nodes
/// is never ready. The hook ignores both.
#[test]
fn rolling_nvidia_driver_is_judged_by_its_pods() {
    let mut fleet = pool_at_rest("v26.3.3");
    drivers(&mut fleet)[0].conditions =
        failed("DriverNotReady", "Waiting for driver pod to be ready");
    assert!(fleet.decide(0).well, "desired 0 somewhere, and every node is current");
    drivers(&mut fleet)[0].driver.version = Some(NEW.into());
    assert_eq!(waits(&fleet.decide(1)), ["*:SpecNotObserved"]);
}

/// The nodes of different NVIDIADrivers are upgraded in parallel, so the slowest pool determines
/// the budget.
#[test]
fn budget_is_that_of_the_slowest_nvidia_driver() {
    let mut fleet = fleet();
    let seconds = |fleet: &Fleet| {
        estimate::budget_seconds(&fleet.observed, &fleet.settings).expect("nodes are out of date")
    };
    let (per_node, overhead) =
        (fleet.settings.per_node_seconds, contract::budget::OVERHEAD_SECONDS);
    assert_eq!(seconds(&fleet), 4 * per_node + overhead, "four nodes of `one`, one at a time");
    drivers(&mut fleet)[0].upgrade_policy.max_parallel = Some(4);
    assert_eq!(seconds(&fleet), 2 * per_node + overhead, "four nodes of `two`, two at a time");
}

/// A retried node uses a slot of its own NVIDIADriver, not of the fleet.
#[test]
fn failed_node_is_retried_within_its_nvidia_driver() {
    let mut fleet = fleet();
    // `one` is idle, `two` uses both of its slots.
    fleet.state("gpu-0", "upgrade-failed");
    fleet.driver("gpu-0", "old", OLD, -5000);
    fleet.state("gpu-7", "upgrade-failed");
    fleet.pass(0);
    let retried = |decision: &Decision| {
        let labels = |action: &Action| {
            let Action::PatchNode(patch) = action else { return None };
            let state = patch.labels.get(names::UPGRADE_STATE_LABEL).cloned().flatten();
            state.is_some_and(|state| state == "upgrade-required").then(|| patch.node.clone())
        };
        decision.actions.iter().filter_map(labels).collect::<Vec<_>>()
    };
    assert_eq!(retried(&fleet.decide(3600 - 100)), ["gpu-0"]);
}

/// Returns a setup in which the operator upgrades the nodes of these NVIDIADrivers, and the hook
/// has this mode.
fn world(nodes: usize, seed: u64, pools: &[(u32, Count)], mode: Mode) -> SimulationSetup {
    let mut setup = given(nodes, seed);
    setup.operator = Some("v26.7.0".to_owned());
    setup.settings.mode = mode;
    setup.settings.tasks = match mode {
        Mode::Steer => vec![Task::Settle, Task::Wake, Task::Steer, Task::Reroll],
        Mode::Observe | Mode::Assist | Mode::Drive => vec![Task::Settle, Task::Wake, Task::Reroll],
    };
    let pool =
        |(index, (max_parallel_upgrades, max_unavailable)): (usize, &(u32, Count))| PoolSetup {
            name: format!("pool-{index}"),
            max_parallel_upgrades: *max_parallel_upgrades,
            max_unavailable: Some(*max_unavailable),
        };
    setup.pools = pools.iter().enumerate().map(pool).collect();
    setup
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// The hook wakes the operator for every NVIDIADriver, and no wake-up makes it exceed the
    /// limits of one of them.
    #[test]
    fn limits_of_each_nvidia_driver_hold(
        seed in 0..1_000_u64,
        nodes in 4..10_usize,
        limits in prop::collection::vec((1..3_u32, 1..3_u32), 2..4),
    ) {
        let pools: Vec<(u32, Count)> = limits.iter().map(|(parallel, away)| (*parallel, Count::Number(*away))).collect();
        let report = simulate(&world(nodes, seed, &pools, Mode::Assist));
        prop_assert_eq!(&report.violations, &Vec::<String>::new());
        prop_assert_eq!(report.verdict.as_ref().map(|verdict| verdict.code), Some(ExitCode::Success));
        for (index, (parallel, away)) in limits.iter().enumerate() {
            let peak = report.peak_of_pool.get(&format!("pool-{index}")).copied().unwrap_or(0);
            prop_assert!(peak <= *parallel.min(away) as usize, "pool-{}: {} nodes at once", index, peak);
        }
    }

    /// The hook and its holds are gone. The operator continues with one node of each NVIDIADriver
    /// at a time.
    #[test]
    fn steer_fails_closed_without_holds(seed in 0..1_000_u64, nodes in 4..10_usize, lost_at in 30..400_u64) {
        let quarter = Count::Percent(25);
        let mut setup = world(nodes, seed, &[(1, quarter), (1, quarter)], Mode::Steer);
        setup.settings.upgrade.policy.max_parallel_upgrades = 1;
        let traits = setup.settings.driver.traits();
        let at = lost_at * 1000;
        setup.faults = vec![ScheduledFault { at, fault: Fault::KillHook(3_600_000) }];
        for node in (0..nodes).map(|index| format!("gpu-{index}")) {
            let label = Fault::Label(node.clone(), traits.skip_label.to_owned(), None);
            let hold = Fault::Annotate(node, traits.hold.to_owned(), None);
            setup.faults.extend([label, hold].map(|fault| ScheduledFault { at: at + 1, fault }));
        }
        let report = simulate(&setup);
        prop_assert_eq!(&report.violations, &Vec::<String>::new());
        prop_assert!(report.verdict.is_some());
        // The node that the hook had released bypasses the limit, because it is cordoned.
        for (pool, peak) in &report.peak_of_pool {
            prop_assert!(*peak <= 2, "{}: {} nodes at once", pool, peak);
        }
        prop_assert!(report.peak_in_progress <= 3, "{} nodes at once", report.peak_in_progress);
    }
}
