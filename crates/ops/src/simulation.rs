//! Simulates the upgrade of a recipe on simulated nodes and pods.

use std::collections::BTreeMap;

use contract::settings::Settings;
use contract::task::Task;
use observed::Labels;
use recipe::model::Recipe;
use simulator::acceptance::{AcceptanceEffect, AcceptanceFault, AcceptanceFaults};
use simulator::fault::{Fault, ScheduledFault};
use simulator::random::{SeededRandom, TimeSpread};
use simulator::setup::{PodPlacement, SimulationSetup, SimulationTimes, WorkloadSetup};

use super::plan::ProposedDeployment;
use super::proposal::ProposalError;

mod summary;

pub use simulator::acceptance::FaultyNodes;
pub use summary::{Quantiles, SimulationSummary, has_failing_drivers};

/// The maximum number of simulated nodes, for which the hook is designed.
pub const MOST_NODES: usize = 10_000;

/// Assumptions about the fleet.
#[derive(Clone, Debug)]
pub struct FleetAssumptions {
    /// The time from a driver pod's creation to its readiness, in milliseconds.
    pub driver_time: TimeSpread,
    /// The number of pods with a GPU on each node.
    pub pods: usize,
    /// The percentage of nodes whose new driver never starts.
    pub failing_percent: u64,
    /// The nodes on which acceptance tests with the new driver fail. `None`: they pass everywhere.
    pub failing_acceptance: Option<FaultyNodes>,
}

impl FleetAssumptions {
    /// Returns the labels of the nodes by name: every second node has the label of the nodes whose
    /// tests fail, and the others have another value.
    fn labels(&self, nodes: usize) -> BTreeMap<String, Labels> {
        let Some(FaultyNodes::Label { key, value }) = &self.failing_acceptance else {
            return BTreeMap::new();
        };
        let label = |index: usize| {
            let value = if index.is_multiple_of(2) { value.as_str() } else { "other" };
            [(key.clone(), value.to_owned())].into_iter().collect()
        };
        (0..nodes).map(|index| (format!("gpu-{index}"), label(index))).collect()
    }
}

/// The simulated fleet of a recipe, and its upgrade.
pub struct FleetSimulation {
    proposed: ProposedDeployment,
    nodes: usize,
    assumed: FleetAssumptions,
}

/// Why a recipe cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The effect of the recipe cannot be predicted.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// The recipe has no nodes, or too many.
    #[error("cannot simulate the recipe's cluster.gpuNodes: expected 1 to {MOST_NODES}, found {0}")]
    NodeCount(usize),
}

impl SimulationError {
    /// Returns the hint: what to do about the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Proposal(error) => error.hint(),
            Self::NodeCount(_) => Some("set the number of nodes with --nodes".to_owned()),
        }
    }
}

impl FleetSimulation {
    /// Prepares the simulation of a recipe.
    ///
    /// # Errors
    /// The effect of the recipe cannot be predicted, or it has no nodes or too many.
    pub fn new(recipe: &Recipe, assumed: FleetAssumptions) -> Result<Self, SimulationError> {
        let proposed = ProposedDeployment::from_recipe(recipe)?;
        let nodes = usize::try_from(recipe.cluster.gpu_nodes).unwrap_or(usize::MAX);
        if !(1..=MOST_NODES).contains(&nodes) {
            return Err(SimulationError::NodeCount(nodes));
        }
        Ok(Self { proposed, nodes, assumed })
    }

    /// Returns the settings of the recipe's hook.
    pub fn settings(&self) -> &Settings {
        &self.proposed.settings
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Creates the world of one run.
    pub fn setup(&self, seed: u64) -> SimulationSetup {
        let Self { proposed, nodes, assumed } = self;
        let fails = |index: &usize| {
            SeededRandom::stream(seed, "fails", u64::try_from(*index).unwrap_or(0))
                .percent(assumed.failing_percent)
        };
        let fault = |index: usize| ScheduledFault {
            at: 0,
            fault: Fault::DriverFails(format!("gpu-{index}"), None),
        };
        let workload = (assumed.pods > 0)
            .then(|| WorkloadSetup::new("train", PodPlacement::Each(assumed.pods)));
        let idle =
            SimulationSetup::new(proposed.settings.clone(), *nodes, seed).deployed_in_window();
        let to = proposed.driver.clone().unwrap_or_else(|| idle.to.clone());
        let failing_test = assumed.failing_acceptance.clone().map(|nodes| AcceptanceFault {
            version: Some(to.clone()),
            ..AcceptanceFault::new(AcceptanceEffect::Fails { exit_code: 1 }, nodes)
        });
        SimulationSetup {
            acceptance: AcceptanceFaults {
                faults: failing_test.into_iter().collect(),
                log_fault: None,
            },
            labels: assumed.labels(*nodes),
            times: SimulationTimes { driver: assumed.driver_time, ..SimulationTimes::default() },
            workers: workload.into_iter().collect(),
            gpus: assumed.pods.saturating_mul(2).max(8),
            faults: (0..*nodes).filter(fails).map(fault).collect(),
            to,
            dra: proposed.settings.has(Task::Reroll),
            operator: proposed.operator.clone(),
            ..idle
        }
    }
}
