//! Simulates the upgrade that a recipe asks for, on nodes and pods that are made up.

use contract::settings::{Mode, Settings};
use contract::task::Task;
use recipe::model::Recipe;
use simulator::clocks::SimulatedClocks;
use simulator::fault::{Fault, ScheduledFault};
use simulator::random::{SeededRandom, TimeSpread};
use simulator::setup::{PodPlacement, SimulationSetup, SimulationTimes, WorkloadSetup};

use super::plan::ProposedDeployment;
use super::proposal::ProposalError;

mod summary;

pub use summary::{Quantiles, SimulationSummary};

/// How many nodes are simulated at most: what the hook is made for.
pub const MOST_NODES: usize = 10_000;

/// The same where NVIDIA's controller is in the model: each of its passes visits every node.
const MOST_OPERATED_NODES: usize = 1_000;

/// What is assumed of the fleet.
#[derive(Clone, Copy, Debug)]
pub struct FleetAssumptions {
    /// From a driver pod's creation to its readiness, in milliseconds.
    pub driver_time: TimeSpread,
    /// How many pods with a GPU each node has.
    pub pods: usize,
    /// How many nodes of a hundred get a driver that never starts.
    pub failing_percent: u64,
}

/// The fleet of a recipe, and its upgrade.
pub struct FleetSimulation {
    proposed: ProposedDeployment,
    nodes: usize,
    assumed: FleetAssumptions,
}

/// Why a recipe cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// It is not known what the recipe would do.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// It has no node, or too many.
    #[error("the recipe's cluster.gpuNodes is {0}: 1 to {MOST_NODES} nodes can be simulated")]
    NodeCount(usize),
    /// It has too many nodes for the model of NVIDIA's controller.
    #[error("in mode `{}` at most {MOST_OPERATED_NODES} nodes can be simulated, found {nodes}", mode.name())]
    OperatedNodeCount {
        /// The mode.
        mode: Mode,
        /// How many nodes it has.
        nodes: usize,
    },
}

impl SimulationError {
    /// Returns what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Proposal(error) => error.hint(),
            Self::NodeCount(_) => Some("say how many with --nodes".to_owned()),
            Self::OperatedNodeCount { .. } => Some(
                "each pass of NVIDIA's controller looks at every node; say how many with --nodes"
                    .to_owned(),
            ),
        }
    }
}

impl FleetSimulation {
    /// Prepares the simulation of a recipe.
    ///
    /// # Errors
    /// It is not known what the recipe would do, or it has too many nodes.
    pub fn new(recipe: &Recipe, assumed: FleetAssumptions) -> Result<Self, SimulationError> {
        let proposed = ProposedDeployment::from_recipe(recipe)?;
        let nodes = usize::try_from(recipe.cluster.gpu_nodes).unwrap_or(usize::MAX);
        if !(1..=MOST_NODES).contains(&nodes) {
            return Err(SimulationError::NodeCount(nodes));
        }
        if proposed.operator.is_some() && nodes > MOST_OPERATED_NODES {
            return Err(SimulationError::OperatedNodeCount { mode: proposed.settings.mode, nodes });
        }
        Ok(Self { proposed, nodes, assumed })
    }

    /// Returns the settings of the recipe's hook.
    pub fn settings(&self) -> &Settings {
        &self.proposed.settings
    }

    /// Returns how many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Makes the world of one run.
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
        SimulationSetup {
            settings: proposed.settings.clone(),
            nodes: *nodes,
            group_size: 0,
            seed,
            times: SimulationTimes { driver: assumed.driver_time, ..SimulationTimes::default() },
            workers: workload.into_iter().collect(),
            gpus: assumed.pods.saturating_mul(2).max(8),
            faults: (0..*nodes).filter(fails).map(fault).collect(),
            from: "0.1".to_owned(),
            to: proposed.driver.clone().unwrap_or_else(|| "0.2".to_owned()),
            same_config: false,
            found: None,
            hook_node: None,
            dra: proposed.settings.has(Task::Reroll),
            operands: false,
            tells: false,
            operator: proposed.operator.clone(),
            operator_upgrade: None,
            pools: Vec::new(),
            thorough: false,
            clocks: SimulatedClocks::default(),
            mutation: None,
        }
    }
}
