//! The engine, without any cluster: fixtures in, decisions out.

mod fleet;
mod foreign;
mod ofed;
mod plugin_releases;
mod plugins;
mod regressions;
mod restarts;
mod settle;
mod simulation;
mod traces;
