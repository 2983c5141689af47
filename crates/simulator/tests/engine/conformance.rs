//! What NVIDIA's controller does, line by line as `docs/conformance.md` numbers it, held against the model of it.

mod build;
mod deletion;
pub(crate) mod fixture;
mod jobs;
mod operator;
mod outdated;
mod requestor;
mod restart;
mod start;
mod throttle;
mod users;
mod validation;
mod writes;
