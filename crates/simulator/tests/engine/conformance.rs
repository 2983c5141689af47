//! Compares the model of NVIDIA's controller with its behavior, by the line numbers of
//! `docs/conformance.md`.

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
