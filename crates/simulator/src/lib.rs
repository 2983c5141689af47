//! A simulation in virtual time in which the engine drives upgrades. It models nodes, their
//! kubelets, the DaemonSets of the operator, workloads with PodDisruptionBudgets, the hook process
//! with lagging caches, and faults. It is the test bed of the engine and the base of `gpu-rollout
//! simulate`. [`setup::SimulationSetup`] and its seed determine the whole run, so it is the same on
//! every machine. Times are drawn for each node by its name, so runs with different policies have
//! the same nodes.

pub mod acceptance;
pub mod clocks;
pub mod controller_loop;
pub mod fault;
pub mod found_fleet;
pub mod moment;
pub mod random;
pub mod refusals;
pub mod report;
pub mod setup;
pub mod timeline;

mod budgets;
mod caches;
mod cluster;
mod context;
mod event;
mod event_queue;
#[cfg(test)]
mod fixture;
mod hook;
mod hook_state;
mod hook_writes;
mod invariants;
mod model_check;
mod nodes;
mod objects;
mod operand_pods;
mod operands;
mod operator;
mod operator_objects;
mod pauses;
mod pods;
mod test_pods;
mod text_difference;
mod upgrade_controller;
mod wake_check;
mod watches;
mod workload;
mod workloads;
mod world;

use moment::MomentObserver;
use report::SimulationReport;
use setup::SimulationSetup;
use world::World;

/// Runs the simulation until the hook has a verdict.
pub fn simulate(setup: &SimulationSetup) -> SimulationReport {
    World::new(setup).run(None)
}

/// Runs the simulation as [`simulate`] does, and calls `observer` after each decision of the hook.
pub fn simulate_observed(
    setup: &SimulationSetup,
    observer: MomentObserver<'_>,
) -> SimulationReport {
    World::new(setup).run(Some(observer))
}
