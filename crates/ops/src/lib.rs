//! The commands for a live cluster: they report, preview and control rollouts from a workstation.
//! They use the engine's own decisions on the state of the cluster. They also work where NVIDIA's
//! controllers upgrade alone. Where there is a hook release, they use its settings. Only [`apply`],
//! [`pause`], [`abort`], [`user_request`] and [`acceptance`] write.
//!
//! [`session`] has the rollouts of a cluster, and [`observe`] creates a snapshot of each. Only
//! [`proposal`], [`deployed`] and [`simulation`] use recipes.

pub mod abort;
pub mod acceptance;
pub mod advice;
pub mod apply;
pub mod command_error;
mod deploy_again;
pub mod deployed;
pub mod doctor;
pub mod find_rollouts;
pub mod hold_status;
mod image;
pub mod node_request;
pub mod node_write;
pub mod observe;
pub mod obstacle;
pub mod pause;
pub mod plan;
pub mod preflight;
pub mod proposal;
pub mod proven_nodes;
pub mod remedy;
pub mod report;
pub mod run_phase;
pub mod session;
pub mod simulation;
pub mod status;
pub mod support_bundle;
pub mod target;
pub mod time;
mod upgrade_steps;
pub mod user_request;
pub mod wait_start;
pub mod why;
