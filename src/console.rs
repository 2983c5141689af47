//! What a person at a workstation is told of a rollout, and what is done for one: the engine's own judgement on what is in the cluster at this moment. It
//! works beside NVIDIA's controllers without any bundle of ours; where there is one, by what its hook goes by. Only [`act`], [`pause`] and [`abort`] write.

pub mod abort;
pub mod act;
pub mod change;
pub mod doctor;
pub mod find;
pub mod held;
pub mod image;
pub mod look;
pub mod obstacle;
pub mod pause;
pub mod plan;
pub mod preflight;
pub mod remedy;
pub mod report;
pub mod since;
pub mod status;
pub mod subject;
pub mod support;
