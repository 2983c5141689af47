//! The machinery of the end-to-end tests. [`scenario::scenario`] starts a [`stack::Stack`] and runs a story on it.

pub(crate) mod apply;
pub(crate) mod audit;
pub(crate) mod bundle;
pub(crate) mod certificates;
pub(crate) mod control_plane;
pub(crate) mod dump;
pub(crate) mod fleet;
pub(crate) mod git;
pub(crate) mod helm;
pub(crate) mod hook_release;
pub(crate) mod kwok;
pub(crate) mod meter;
pub(crate) mod network;
pub(crate) mod node_agent;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod rights;
pub(crate) mod run_directory;
pub(crate) mod scenario;
pub(crate) mod stack;
pub(crate) mod stand_in;
pub(crate) mod tools;
pub(crate) mod trace;
pub(crate) mod turns;
pub(crate) mod wait;
pub(crate) mod workloads;
