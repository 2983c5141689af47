//! Predicts what the next deployment would change in this cluster: runs the engine, or the model of
//! NVIDIA's controller, in virtual time on the live state. Writes nothing.

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
mod steps;
mod times;

pub use change::{DriverChange, NodeStep};
pub use outcome::{
    PlannedEviction, PlannedNamespace, PlannedNode, PlannedOrder, PlannedWave, RolloutPlan,
    SecondsRange,
};
pub use prediction::{RolloutPrediction, predict};
pub use steps::PlannedStep;
pub use times::MeasuredSeconds;

/// The maximum time budget of a hook in a prediction, in seconds: without a hook release there is
/// no budget.
const LONGEST: u64 = 14 * 24 * 3600;

/// A deployment to predict.
#[derive(Clone, Debug)]
pub struct ProposedDeployment {
    /// The settings of its hook.
    pub settings: Settings,
    /// The version of the driver, if the recipe sets it.
    pub driver: Option<String>,
    /// The version of the operator's chart.
    pub chart: Option<String>,
    /// The operator's version, if its own controller upgrades the driver.
    pub operator: Option<String>,
}

/// Assumptions about what is unknown.
#[derive(Clone, Copy, Debug)]
pub struct PlanAssumptions {
    /// The time from a driver pod's creation to its readiness, in milliseconds. `None`: measured on
    /// the current pods.
    pub driver: Option<TimeSpread>,
    /// How long jobs that the policy waits for still run, in milliseconds.
    pub jobs: TimeSpread,
    /// How many random runs to simulate, in addition to the quickest and the slowest one.
    pub runs: u64,
    /// The random seed.
    pub seed: u64,
}

/// The input of a prediction.
#[derive(Clone, Copy)]
pub(crate) struct PlanInput<'a> {
    /// The observed state of the rollout.
    pub(crate) snapshot: &'a RolloutSnapshot,
    /// The deployment to predict. `None`: finish what is deployed.
    pub(crate) proposed: Option<&'a ProposedDeployment>,
    /// The pods on the nodes that need the driver.
    pub(crate) pods: &'a [Workload],
    /// The GPUs of nodes and pods.
    pub(crate) gpus: &'a GpuUse,
    /// The assumptions about what is unknown.
    pub(crate) assumed: PlanAssumptions,
}

/// Predicts a rollout. `simulate` runs these worlds and returns their reports in the same order.
/// Returns `None` if there is no model of these upgrades (OFED, or an operator version whose
/// controller is unknown).
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
    /// Returns what is already deployed.
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

/// Creates the world of a simulation from the live state and the times to draw.
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
    let idle =
        SimulationSetup::new(settings, fleet.nodes.len(), assumed.seed).deployed_at(snapshot.now);
    SimulationSetup {
        times,
        gpus: 0,
        found: Some(Arc::new(fleet)),
        dra: !snapshot.observed.dra.daemon_sets.is_empty(),
        // A changed template is another revision even with the same driver.
        to: if asked == from { format!("{asked}-next") } else { asked },
        from,
        operator: proposed.operator.clone(),
        pools,
        ..idle
    }
}

/// Returns the NVIDIADrivers with their limits, if each has its own and the operator decides. A
/// deployment changes only the NVIDIADriver of the chart.
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
    // There is no model of a node that belongs to none of them.
    if fleet.nodes.iter().all(has_pool) { pools } else { Vec::new() }
}

/// Returns the quickest world, the slowest one, and random ones between them.
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
