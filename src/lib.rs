//! `gpu-rollout`: one binary with two lives.
//!
//! * On a workstation: `recipe → release → deployer → bundle` turns a recipe into the files of a deployer.
//! * In the cluster: `cluster → rollout → cluster`, wired by `hook`, is the Job that every bundle carries.
//!
//! Imports point one way; `tests/architecture.rs` holds the table. `ARCHITECTURE.md` is the map with the reasons.

pub mod bundle;
pub mod catalog;
pub mod cli;
pub mod cluster;
pub mod console;
pub mod contract;
pub mod deployer;
pub mod device_plugin;
pub mod hook;
pub mod recipe;
pub mod release;
pub mod rollout;
pub mod simulate;
pub mod text;
