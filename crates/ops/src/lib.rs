//! What a person at a workstation is told of a rollout, and what is done for one: the engine's own judgement on what is in the cluster at this moment. It
//! works beside NVIDIA's controllers without any bundle of ours; where there is one, by what its hook goes by. Only [`apply`], [`pause`] and [`abort`] write.

pub mod abort;
pub mod advice;
pub mod apply;
pub mod change;
pub mod deployed;
pub mod doctor;
pub mod find;
pub mod hold_status;
pub mod image;
pub mod observe;
pub mod obstacle;
pub mod pause;
pub mod plan;
pub mod preflight;
pub mod proposal;
pub mod remedy;
pub mod report;
pub mod session;
pub mod simulation;
pub mod status;
pub mod support;
pub mod target;
pub mod time;
pub mod wait_start;
pub mod why;
