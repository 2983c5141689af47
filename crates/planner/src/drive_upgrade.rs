//! The driver upgrade by the hook, node by node: mode `drive` performs it, mode `steer` starts and
//! ends it.

pub mod cause;
pub mod failed_proof;
pub mod record;
pub mod start_limits;
pub mod state;
