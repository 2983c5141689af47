//! A model of the world in virtual time, in which the engine drives upgrades: nodes, their kubelets, the DaemonSets of the operator,
//! workloads with PodDisruptionBudgets, the hook process with caches that lag behind, and faults. It is the test bed of the engine and the
//! base of `gpu-rollout simulate`.
//!
//! Everything follows from [`setup::SimulationSetup`] and its seed: the same on every machine. Times are drawn for each node by its name, so that another
//! policy meets the same nodes.

pub mod clocks;
pub mod fault;
pub mod found_fleet;
pub mod random;
pub mod refusals;
pub mod report;
pub mod setup;
pub mod timeline;

mod budgets;
mod check;
mod hook;
mod model_check;
mod objects;
mod operand_pods;
mod operands;
mod operator;
mod others;
mod server;
mod simulated_node;
pub mod upgrade_controller;
mod view;
mod workers;
mod workload_pods;
mod world;

use report::SimulationReport;
use setup::SimulationSetup;
use world::World;

/// Runs the world until the hook comes to a verdict.
pub fn simulate(setup: &SimulationSetup) -> SimulationReport {
    World::new(setup).run()
}
