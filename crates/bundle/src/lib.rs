//! Bundles as trees of files: common files, checksums, atomic writes, verification, comparison.

pub mod air_gap;
pub mod build;
pub mod chart_package;
pub mod checksums;
pub mod device_plugin;
pub mod diff;
mod directory;
pub mod error;
pub mod images;
pub mod info;
pub mod package;
pub mod promises;
pub mod read;
pub mod render;
pub mod signature;
pub mod signed;
pub mod target;
pub mod tree;
pub mod verify;
pub mod write;

pub use build::{BundleInput, build};
pub use directory::{MAX_BYTES, MAX_ENTRIES};
pub use error::BundleError;
pub use read::{read, recipe_path};
pub use signed::{VerifyError, has_signature, verify_signed};
pub use tree::BundleTree;
pub use verify::{BundleFinding, verify};
pub use write::{WriteError, WriteSummary, write};

#[cfg(test)]
mod tests;
