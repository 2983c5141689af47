//! Tests of the engine without a cluster: fixtures in, decisions out.

use fixture::{operator, settings};

mod chance;
mod clocks;
mod conformance;
mod drive;
mod drive_operands;
mod failures;
mod fleet;
mod foreign;
mod found;
mod kills;
mod makespan;
mod mutations;
mod nvidia_drivers;
mod ofed;
mod operand_nemeses;
mod operand_traps;
mod operands;
mod operator_leadership;
mod operator_upgrades;
mod parameters;
mod pauses;
mod plugin_releases;
mod plugins;
mod refusals;
mod regressions;
mod restarts;
mod scenarios;
mod script;
mod search;
mod seeds;
mod settle;
mod simulation;
mod traces;
mod unwanted;
mod vendor;
