//! Artifacts in OCI registries: addresses, archives, the credentials of `docker login`, push and
//! pull. Decides nothing about what an artifact contains.

pub mod artifact;
mod client;
mod credentials;
mod error;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod reference;

pub use client::{PulledArtifact, RegistryClient};
pub use error::RegistryError;
