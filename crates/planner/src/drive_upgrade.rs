//! The driver upgrade that is ours, node by node: mode `drive` does it, mode `steer` begins and ends it.

pub mod cause;
pub mod record;
pub mod start_limits;
pub mod state;
