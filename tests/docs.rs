//! The reference pages agree with the tables of the program, and their links are valid.

#![expect(clippy::unwrap_used, reason = "a panic names the place in a failed test")]

use std::path::{Path, PathBuf};

mod docs {
    mod aicr;
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
    mod rights;
    mod shown_recipes;
    mod site;
    mod structure;
    mod support;
    mod traps;
    mod values;
}

/// Returns a path in the repository.
fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares the part of a page that is generated from `source`, between its two marks, with
/// `expected`. With `UPDATE`, writes it.
#[track_caller]
fn generated(page: &str, source: &str, expected: &str) {
    let start =
        format!("<!-- Made from {source}; `UPDATE=1 cargo test --test docs` updates it. -->\n");
    let text = std::fs::read_to_string(root(page)).unwrap();
    let (before, rest) = text.split_once(&start).unwrap();
    let (found, after) = rest.split_once("<!-- end -->\n").unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root(page), format!("{before}{start}{expected}<!-- end -->\n{after}"))
            .unwrap();
    } else {
        assert_eq!(found, expected, "{page} is stale: UPDATE=1 cargo test --test docs");
    }
}

/// Returns the cells of a row of a Markdown table.
fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}
