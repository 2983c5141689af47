//! The upgrade engine. It is pure: no I/O, no clock, no Kubernetes client. [`decide::decide`] takes
//! the observed state, the settings and the memory, and returns actions, waits and, at the end, a
//! verdict. Decisions depend on levels, never on edges.

pub mod abort;
pub mod acceptance;
pub mod action;
pub mod baseline;
pub mod budget_estimate;
pub mod decide;
pub mod device_plugin;
pub mod dra_plugin;
pub mod dra_staleness;
pub mod drive_upgrade;
pub mod gather;
pub mod hold;
pub mod memory;
pub mod node;
pub mod note;
pub mod operands;
pub mod pods;
pub mod policies;
pub mod pools;
pub mod preflight;
pub mod progress;
pub mod reason;
pub mod retain;
pub mod rolling_update;
pub mod spec;
#[cfg(test)]
mod tests;
mod time;
pub mod waits;
pub mod write_refusals;
