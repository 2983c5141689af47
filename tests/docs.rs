//! The reference pages say what the program's own tables say, and their links lead somewhere.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::path::{Path, PathBuf};

mod docs {
    mod cli;
    mod commands;
    mod conformance;
    mod deployers;
    mod device_plugin;
    mod exit_codes;
    mod failures;
    mod json;
    mod labels;
    mod links;
    mod lints;
    mod metrics;
    mod modes;
    mod pictures;
    mod preflight;
    mod recipe;
    mod recipes;
    mod rights;
    mod traps;
}

/// A path in the repository.
fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The cells of a row of a Markdown table.
fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}
