//! The operator commands: what a workstation reports of a rollout and does for one, by the engine's own decisions on the state of the cluster. Works with
//! NVIDIA's controllers alone; where there is a hook release, with its settings. Only [`apply`], [`pause`] and [`abort`] write.
//!
//! [`session`] has the rollouts of a cluster, [`observe`] makes a snapshot of each. [`proposal`], [`deployed`] and [`simulation`] know recipes; the other
//! modules do not.

pub mod abort;
pub mod advice;
pub mod apply;
pub mod change;
pub mod command_error;
pub mod deployed;
pub mod doctor;
pub mod find_rollouts;
pub mod hold_status;
mod image;
pub mod node_write;
pub mod observe;
pub mod obstacle;
pub mod pause;
pub mod plan;
pub mod preflight;
pub mod proposal;
pub mod remedy;
pub mod report;
pub mod run_phase;
pub mod session;
pub mod simulation;
pub mod status;
pub mod support;
pub mod target;
pub mod time;
pub mod user_request;
pub mod wait_start;
pub mod why;
