//! The engine, without any cluster: fixtures in, decisions out.

#[path = "../fixture/settings.rs"]
mod settings;

mod conformance;
mod drive;
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
mod vendor;
