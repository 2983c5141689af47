//! Predicts what the next deployment would do to this cluster: the engine, or the model of NVIDIA's controller, run in virtual time on what is there now.
//! Nothing is written.

use std::sync::Arc;

use contract::driver::Driver;
use contract::names;
use contract::settings::{Mode, Settings};
use kube_io::gpus::GpuUse;
use nvidia_upgrade::controller_generation::ControllerGeneration;
use observed::workload::Workload;
use planner::policies::{NodePool, has_policy_per_driver};
use simulator::found_fleet::{FoundFleet, FoundNode};
use simulator::random::TimeSpread;
use simulator::report::SimulationReport;
use simulator::setup::{PoolSetup, SimulationSetup, SimulationTimes};

use super::observe::RolloutSnapshot;
use change::changes;
use times::measured;

mod change;
mod fleet;
mod outcome;
mod prediction;
mod times;

pub use change::{DriverChange, NodeStep};
pub use outcome::{
    PlannedEviction, PlannedNamespace, PlannedNode, PlannedOrder, PlannedWave, RolloutPlan,
    SecondsRange,
};
pub use prediction::{RolloutPrediction, predict};
pub use times::MeasuredSeconds;

/// A hook waits no longer than this in a prediction: without a hook release there is no budget.
const LONGEST: u64 = 14 * 24 * 3600;

/// What is to be deployed.
#[derive(Clone, Debug)]
pub struct ProposedDeployment {
    /// The settings of its hook.
    pub settings: Settings,
    /// The version of the driver, where it is said.
    pub driver: Option<String>,
    /// The version of the operator's chart.
    pub chart: Option<String>,
    /// The operator's version, where its own controller upgrades the driver.
    pub operator: Option<String>,
}

/// What is not known and has to be assumed.
#[derive(Clone, Copy, Debug)]
pub struct PlanAssumptions {
    /// From a driver pod's creation to its readiness, in milliseconds. `None`: as it took the pods that are there.
    pub driver: Option<TimeSpread>,
    /// How long jobs that are waited for still run, in milliseconds.
    pub jobs: TimeSpread,
    /// How many runs are drawn, next to the quickest and the slowest one.
    pub runs: u64,
    /// The random seed.
    pub seed: u64,
}

/// What a prediction starts from.
#[derive(Clone, Copy)]
pub(crate) struct PlanInput<'a> {
    /// The cluster.
    pub(crate) snapshot: &'a RolloutSnapshot,
    /// What comes. `None`: nothing; what is still to be done there.
    pub(crate) proposed: Option<&'a ProposedDeployment>,
    /// The pods on the nodes that need the driver.
    pub(crate) pods: &'a [Workload],
    /// Who has which GPUs.
    pub(crate) gpus: &'a GpuUse,
    /// What else is assumed.
    pub(crate) assumed: PlanAssumptions,
}

/// Predicts what would happen. `simulate` runs these worlds and has their reports in the same order. `None`: these upgrades are in no model (OFED, or
/// an operator of which it is not known how its controller behaves).
pub(crate) fn plan(
    input: PlanInput<'_>,
    simulate: impl FnOnce(&[SimulationSetup]) -> Vec<SimulationReport>,
) -> Option<RolloutPlan> {
    let PlanInput { snapshot, proposed, assumed, .. } = input;
    if snapshot.settings.driver == Driver::Ofed {
        return None;
    }
    let live = ProposedDeployment::of_live(snapshot);
    let proposed = proposed.unwrap_or(&live);
    let driver = snapshot.settings.driver;
    if driver == Driver::Gpu
        && proposed.settings.mode != Mode::Drive
        && ControllerGeneration::from_version(driver, proposed.operator.as_deref()).is_none()
    {
        return None;
    }
    let changes = changes(snapshot, proposed);
    let measured = measured(&snapshot.observed, snapshot.settings.driver);
    let times = times::times(&measured, assumed.driver);
    let fleet = fleet::find_fleet(input, proposed, &changes);
    let setup = setup(snapshot, proposed, &changes, (times, fleet), assumed);
    let reports = simulate(&runs(&setup, assumed));
    Some(outcome::plan(input, proposed, changes, &measured, &setup, &reports))
}

impl ProposedDeployment {
    /// What is deployed already.
    pub(crate) fn of_live(snapshot: &RolloutSnapshot) -> Self {
        let operator = snapshot.observed.operator.as_ref();
        Self {
            settings: snapshot.settings.clone(),
            driver: None,
            chart: None,
            operator: operator
                .filter(|_| snapshot.settings.mode != Mode::Drive)
                .and_then(|operator| operator.version.clone()),
        }
    }
}

/// The world that is there, with the times that are drawn.
fn setup(
    snapshot: &RolloutSnapshot,
    proposed: &ProposedDeployment,
    changes: &change::DriverChanges,
    (times, fleet): (SimulationTimes, FoundFleet),
    assumed: PlanAssumptions,
) -> SimulationSetup {
    let mut settings = proposed.settings.clone();
    settings.budget_seconds = settings.budget_seconds.min(LONGEST);
    if proposed.operator.is_some() && !settings.mode.decides() {
        // NVIDIA's controller uses the policy of the live object, unless another one is proposed.
        settings.upgrade.policy = if proposed.chart.is_none() {
            snapshot.policy.clone()
        } else {
            settings.upgrade.policy
        };
    }
    let pools = pools(snapshot, proposed, &fleet);
    let from = changes.from.clone().unwrap_or_else(|| "0.1".to_owned());
    let asked = changes.to.clone().unwrap_or_else(|| "0.2".to_owned());
    SimulationSetup {
        nodes: fleet.nodes.len(),
        group_size: 0,
        seed: assumed.seed,
        times,
        workers: Vec::new(),
        gpus: 0,
        dra: !snapshot.observed.dra.daemon_sets.is_empty(),
        operands: false,
        // Another template with the same driver is another revision all the same.
        to: if asked == from { format!("{asked}-next") } else { asked },
        from,
        found: Some(Arc::new(fleet)),
        faults: Vec::new(),
        same_config: false,
        hook_node: None,
        operator: proposed.operator.clone(),
        operator_upgrade: None,
        pools,
        tells: false,
        thorough: false,
        clocks: simulator::clocks::SimulatedClocks::default(),
        mutation: None,
        settings,
    }
}

/// The NVIDIADrivers with their limits, where each has its own and the operator decides. What is deployed reaches only the chart's.
fn pools(
    snapshot: &RolloutSnapshot,
    proposed: &ProposedDeployment,
    fleet: &FoundFleet,
) -> Vec<PoolSetup> {
    let per_driver =
        proposed.operator.as_deref().is_some_and(|version| has_policy_per_driver(Some(version)));
    if !per_driver || proposed.settings.mode.decides() {
        return Vec::new();
    }
    let of = |pool: &NodePool| {
        let name = pool.owner.clone()?;
        let policy = match name.as_str() {
            names::DEFAULT_NVIDIA_DRIVER if proposed.chart.is_some() => {
                &proposed.settings.upgrade.policy
            }
            _ => &pool.policy,
        };
        Some(PoolSetup {
            max_parallel_upgrades: policy.max_parallel_upgrades,
            max_unavailable: policy.max_unavailable,
            name,
        })
    };
    let pools: Vec<PoolSetup> = snapshot.pools.iter().filter_map(of).collect();
    let has_pool = |node: &FoundNode| {
        pools.iter().any(|pool| node.node.driver_owner() == Some(pool.name.as_str()))
    };
    // A node that none of them owns is in no model.
    if fleet.nodes.iter().all(has_pool) { pools } else { Vec::new() }
}

/// The quickest world, the slowest one, and some between.
fn runs(setup: &SimulationSetup, assumed: PlanAssumptions) -> Vec<SimulationSetup> {
    let fixed = |spread: fn(TimeSpread) -> u64| {
        let constant = move |drawn: TimeSpread| TimeSpread::Constant(spread(drawn));
        let found = setup.found.as_ref().map(|found| {
            Arc::new(FoundFleet { job_time: constant(found.job_time), ..FoundFleet::clone(found) })
        });
        SimulationSetup { times: setup.times.each(constant), found, ..setup.clone() }
    };
    let drawn = (0..assumed.runs)
        .map(|run| SimulationSetup { seed: assumed.seed.wrapping_add(run), ..setup.clone() });
    [fixed(TimeSpread::least), fixed(TimeSpread::most)].into_iter().chain(drawn).collect()
}
