//! A setup for unit tests of the parts.

use super::setup::SimulationSetup;

/// Returns a setup of an idle fleet with `nodes` nodes, without workloads and faults.
pub(super) fn setup(nodes: usize) -> SimulationSetup {
    SimulationSetup {
        from: "570.1".to_owned(),
        to: "580.2".to_owned(),
        ..SimulationSetup::new(fixture::settings::settings(), nodes, 1)
    }
}
