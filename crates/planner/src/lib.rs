//! The upgrade engine. Pure: no I/O, no clock, no Kubernetes client. [`decide::decide`] takes what is observed, the settings and what
//! is remembered, and answers with actions, waits and, at the end, a verdict. Decisions are on levels, never on edges.

pub mod abort;
pub mod action;
pub mod baseline;
pub mod decide;
pub mod device_plugin;
pub mod dra_plugin;
pub mod dra_staleness;
pub mod drive_upgrade;
pub mod estimate;
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
pub mod refused_write;
pub mod retain;
pub mod spec;
#[cfg(test)]
mod tests;
mod time;
mod watched;
