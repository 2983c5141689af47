//! `gpu-rollout`: one binary, two roles. On a workstation it turns recipes into bundles and
//! operates rollouts (feature `cli`). In the cluster it is the hook Job that every bundle carries.
//! The hook's image is built without `cli`, and has no renderer, simulator or catalog.
//!
//! This package contains only the command line. Everything else is a crate in `crates/`;
//! `ARCHITECTURE.md` describes the crates.

#[cfg(feature = "cli")]
pub mod cli;
pub mod hook_command;
#[cfg(not(feature = "cli"))]
pub mod image;
pub mod printer;

#[cfg(feature = "cli")]
pub use cli::Cli;
#[cfg(not(feature = "cli"))]
pub use image::Cli;
