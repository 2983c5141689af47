//! No text recommends Helm's flags that use values of an older revision.

use std::path::{Path, PathBuf};

/// Everything that users read, and that programs run for them.
const PLACES: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs",
    "charts",
    "templates",
    "bundles",
    "src",
    "crates",
];

/// Helm's flags `--reuse-values` and `--reset-then-reuse-values` use the values of the last
/// successful revision. After a failed hook, they would restore the previous mode. A paragraph may
/// name them only to warn of them.
#[test]
fn flags_with_older_values_are_only_warned_of() {
    let mut warnings = 0;
    let mut wrong = Vec::new();
    for (path, text) in PLACES.iter().flat_map(|place| texts(&crate::root(place))) {
        for paragraph in text.split("\n\n").filter(|text| text.contains("reuse-values")) {
            if paragraph.contains("Do not use") || paragraph.contains("Not used") {
                warnings += 1;
            } else {
                wrong.push(format!("{}: {paragraph}", path.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(warnings >= 3, "only {warnings} warnings were found");
}

fn texts(path: &Path) -> Vec<(PathBuf, String)> {
    // The tests of crates try the flags.
    if path.ends_with("tests") {
        return Vec::new();
    }
    if path.is_dir() {
        let entries = std::fs::read_dir(path).expect("a directory of the project");
        return entries.flat_map(|entry| texts(&entry.expect("an entry").path())).collect();
    }
    // Pictures are not text.
    std::fs::read_to_string(path).map(|text| vec![(path.to_owned(), text)]).unwrap_or_default()
}
