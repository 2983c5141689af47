//! The engine, without any cluster: fixtures in, decisions out.

#![expect(clippy::print_stderr, reason = "soak tests say what they measured")]
#![expect(clippy::disallowed_methods, reason = "one scenario alone is chosen by the environment")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test is about one kind of fault")]

#[path = "../fixture/settings.rs"]
mod settings;

mod chance;
mod conformance;
mod drive;
mod fleet;
mod foreign;
mod makespan;
mod mutations;
mod ofed;
mod plugin_releases;
mod plugins;
mod regressions;
mod restarts;
mod scenarios;
mod script;
mod seeds;
mod settle;
mod simulation;
mod traces;
mod vendor;
