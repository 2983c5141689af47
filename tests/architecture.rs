//! The direction of imports and the shape of the tree, as `ARCHITECTURE.md` says it: this test is where the rules are kept.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::path::Path;

mod architecture {
    mod imports;
    mod paths;
    mod rooms;
    mod shape;
    mod words;
}

/// The files with this ending below a folder of the repository, sorted: path from the root, and text.
fn files(folder: &str, endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(folder, endings, &mut found);
    found.sort();
    found
}

fn collect(folder: &str, endings: &[&str], found: &mut Vec<(String, String)>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&path, endings, found);
        } else if endings.iter().any(|ending| path.ends_with(ending)) {
            let text = std::fs::read_to_string(root.join(&path)).unwrap();
            found.push((path, text));
        }
    }
}

/// Fails with all findings, one a line.
#[track_caller]
fn expect_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
