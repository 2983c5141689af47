//! The driver upgrade that we do ourselves (mode `drive`), node by node.

pub mod cause;
pub mod record;
pub mod state;
pub mod throttle;
