//! A setup for unit tests of the parts.

use super::clocks::SimulatedClocks;
use super::setup::{SimulationSetup, SimulationTimes};

/// Returns a setup of an idle fleet with `nodes` nodes, without workloads and faults.
pub(super) fn setup(nodes: usize) -> SimulationSetup {
    SimulationSetup {
        settings: fixture::settings::settings(),
        nodes,
        group_size: 0,
        seed: 1,
        times: SimulationTimes::default(),
        workers: Vec::new(),
        gpus: 8,
        found: None,
        faults: Vec::new(),
        from: "570.1".to_owned(),
        to: "580.2".to_owned(),
        same_config: false,
        hook_node: None,
        dra: false,
        operands: false,
        operator: None,
        operator_upgrade: None,
        pools: Vec::new(),
        tells: false,
        thorough: false,
        clocks: SimulatedClocks::default(),
        mutation: None,
    }
}
