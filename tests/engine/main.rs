//! The engine, without any cluster: fixtures in, decisions out.

mod fleet;
mod plugins;
mod settle;
mod simulation;
mod traces;
