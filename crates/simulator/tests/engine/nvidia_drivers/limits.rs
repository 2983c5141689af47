//! The limits of each NVIDIADriver: what its nodes wait for, and that they hold in simulations.

use contract::count::Count;
use contract::exit::ExitCode;
use contract::names;
use contract::settings::Mode;
use contract::task::Task;
use nvidia_upgrade::explain;
use observed::{ImageSpec, NvidiaDriver, OptionalApi};
use planner::budget_estimate;
use planner::decide::{Action, Decision};
use planner::reason::Reason;
use proptest::prelude::*;
use simulator::fault::{Fault, ScheduledFault};
use simulator::setup::{PoolSetup, SimulationSetup};
use simulator::simulate;

use super::{belongs, driver, drivers};
use crate::fleet::{Fleet, NEW, OLD};
use crate::script::given;

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

/// The nodes of different NVIDIADrivers are upgraded in parallel, so the slowest pool determines
/// the budget.
#[test]
fn budget_is_that_of_the_slowest_nvidia_driver() {
    let mut fleet = fleet();
    let seconds = |fleet: &Fleet| {
        budget_estimate::budget_seconds(&fleet.observed, &fleet.settings)
            .expect("nodes are out of date")
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
