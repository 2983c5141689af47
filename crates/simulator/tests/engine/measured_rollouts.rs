//! The duration of simulated rollouts in mode `assist`, compared with measured ones. Simulations
//! once took 25 seconds too long for each wave if drivers were quick.

use contract::count::Count;
use simulator::random::TimeSpread;
use simulator::setup::{OperatorUpgrade, SimulationSetup};
use simulator::simulate;

use crate::parameters::show;
use crate::script::{given, operated};

/// An upgrade of operator and driver from v25.10.1 to v26.3.1 that `make bench` measured
/// (`scenarios::calibration`: the real API server, NVIDIA's library with its tick of two minutes).
struct MeasuredRollout {
    nodes: usize,
    at_once: u32,
    /// The time that a driver takes to start, in seconds.
    driver: u64,
    /// The duration, in seconds.
    took: u64,
}

const MEASURED: [MeasuredRollout; 5] = [
    MeasuredRollout { nodes: 6, at_once: 2, driver: 1, took: 40 },
    MeasuredRollout { nodes: 6, at_once: 2, driver: 130, took: 428 },
    MeasuredRollout { nodes: 30, at_once: 4, driver: 1, took: 82 },
    MeasuredRollout { nodes: 100, at_once: 10, driver: 1, took: 159 },
    MeasuredRollout { nodes: 100, at_once: 25, driver: 130, took: 615 },
];

/// How much a simulation may differ from the measurement, in percent: the pods of the measured
/// cluster also compete for its two processors.
const TOLERANCE: u64 = 20;

fn setup(measured: &MeasuredRollout) -> SimulationSetup {
    let mut setup = given(measured.nodes, 91);
    operated(&mut setup, "assist v26.3.1");
    setup.operator_upgrade = Some(OperatorUpgrade { from: "v25.10.1".to_owned(), ready: 1_000 });
    (setup.tells, setup.thorough, setup.dra) = (false, false, false);
    setup.times.driver = TimeSpread::Constant(measured.driver * 1_000);
    // The operands of the measured cluster.
    setup.times.operand_end = TimeSpread::Uniform(0, setup.times.operand_end.most());
    setup.times.toolkit = TimeSpread::Constant(300);
    setup.times.validator = TimeSpread::Constant(300);
    setup.times.lease = TimeSpread::Constant(3_000);
    let policy = &mut setup.settings.upgrade.policy;
    policy.max_parallel_upgrades = measured.at_once;
    policy.max_unavailable = Some(Count::Percent(50));
    setup
}

#[test]
fn assisted_rollouts_take_as_long_as_measured() {
    let mut wrong = Vec::new();
    for measured in &MEASURED {
        let report = simulate(&setup(measured));
        let predicted = report.last_node / 1_000;
        let MeasuredRollout { nodes, at_once, driver, took } = measured;
        let line = format!(
            "{nodes} nodes, {at_once} at once, drivers of {driver} s: {predicted} s, measured {took} s"
        );
        show(&line);
        if predicted.abs_diff(*took) * 100 > took * TOLERANCE {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
