//! Compares the duration of a rollout with the optimum of a list schedule, in which the next node
//! starts as soon as a slot is free.

use contract::exit::ExitCode;
use simulator::random::TimeSpread;
use simulator::report::SimulationReport;
use simulator::setup::{SimulationSetup, SimulationTimes};
use simulator::simulate;

use crate::parameters::show;
use crate::script::given;

const SLOTS: u32 = 25;

/// Times in milliseconds that are the same on every node. Only the times of drivers differ.
const FIXED: SimulationTimes = SimulationTimes {
    operand_end: TimeSpread::Constant(3_000),
    recreate: TimeSpread::Constant(200),
    driver: TimeSpread::HeavyTail { least: 60_000, most: 3_600_000 },
    toolkit: TimeSpread::Constant(4_000),
    validator: TimeSpread::Constant(10_000),
    plugin: TimeSpread::Constant(2_000),
    publish: TimeSpread::Constant(200),
    replace: TimeSpread::Constant(500),
    pod_start: TimeSpread::Constant(5_000),
    pull: TimeSpread::Constant(5_000),
    acceptance: TimeSpread::Constant(30_000),
    grace_percent: TimeSpread::Constant(50),
    watch: TimeSpread::Uniform(20, 120),
    call: TimeSpread::Constant(10),
    disruption: TimeSpread::Constant(100),
    operator: TimeSpread::Constant(1_000),
    lease: TimeSpread::Constant(16_000),
};

/// The time of a node in addition to its driver: end of the old pod, creation of the new one,
/// toolkit, validator. The plugin is ready before the validator.
const BESIDE: u64 = 3_000 + 200 + 4_000 + 10_000;

fn fleet(nodes: usize) -> SimulationSetup {
    let mut setup = given(nodes, 11);
    setup.tells = false;
    // Such a large fleet needs too many decisions to make each of them twice.
    setup.thorough = false;
    setup.times = FIXED;
    setup.settings.budget_seconds = 30 * 24 * 3600;
    setup.settings.upgrade.policy.max_parallel_upgrades = SLOTS;
    setup.settings.upgrade.policy.max_unavailable = None;
    setup.settings.upgrade.start_seconds = 7200;
    setup
}

/// Returns the highest number of writes on one node, without evictions.
pub(crate) fn most_writes(report: &SimulationReport) -> usize {
    report.writes_by_node.values().copied().max().unwrap_or(0)
}

fn is_within_five_percent(nodes: usize) {
    let report = simulate(&fleet(nodes));
    assert_eq!(report.violations, Vec::<String>::new());
    assert_eq!(report.verdict.as_ref().map(|verdict| verdict.code), Some(ExitCode::Success));
    let mut order: Vec<(u64, &String)> =
        report.states.iter().map(|(node, states)| (states[0].0, node)).collect();
    order.sort();
    let mut slots = vec![0_u64; SLOTS as usize];
    for (_, node) in order {
        let slot = slots.iter_mut().min().expect("there are slots");
        *slot += report.driver_times[node] + BESIDE;
    }
    let bound = slots.into_iter().max().expect("there are slots");
    let took = report.last_node;
    let over = took.saturating_sub(bound) * 10_000 / bound;
    show(&format!(
        "{nodes} nodes: {took} ms, bound {bound} ms, {}.{:02} % over; {} decisions",
        over / 100,
        over % 100,
        report.decisions
    ));
    assert!(took * 100 <= bound * 105, "{took} ms; a list of the same nodes takes {bound} ms");
    assert_eq!(report.peak_in_progress, SLOTS as usize);
    assert!(most_writes(&report) <= 8, "{} writes on a node", most_writes(&report));
}

#[test]
fn hundred_nodes_take_as_long_as_listing() {
    is_within_five_percent(100);
}

#[test]
#[ignore = "`make soak`"]
fn soak_thousand_nodes_take_as_long_as_listing() {
    is_within_five_percent(1_000);
}

#[test]
#[ignore = "`make soak`"]
fn soak_ten_thousand_nodes() {
    let mut setup = fleet(10_000);
    setup.times.driver = TimeSpread::Constant(120_000);
    setup.settings.upgrade.policy.max_parallel_upgrades = 1_000;
    let report = simulate(&setup);
    assert_eq!(report.violations, Vec::<String>::new());
    assert_eq!(report.verdict.as_ref().map(|verdict| verdict.code), Some(ExitCode::Success));
    assert!(most_writes(&report) <= 8, "{} writes on a node", most_writes(&report));
    show(&format!("10000 nodes: {} ms, {} decisions", report.duration, report.decisions));
}
