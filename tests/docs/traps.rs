//! `docs/traps.md` names only existing tests, and every test that is named after a trap.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{cells, root};

const PAGE: &str = "docs/traps.md";
/// The start of a reason why no test is possible.
const CANNOT_OCCUR: &str = "Cannot occur: ";
/// The start of a reason why the trap concerns a controller and not a bundle.
const NOT_IN_A_BUNDLE: &str = "Not in a bundle: ";

/// Collects the names of all test functions in a folder of Rust files.
pub(super) fn tests(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests(&path, names);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                    is_test = true;
                } else if let Some(rest) =
                    line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))
                {
                    if is_test {
                        names.extend(rest.split('(').next().map(str::to_owned));
                    }
                    is_test = false;
                }
            }
        }
    }
}

#[test]
fn every_trap_has_its_test_or_its_reason() {
    let mut known = BTreeSet::new();
    tests(&root("tests"), &mut known);
    tests(&root("src"), &mut known);
    tests(&root("crates"), &mut known);
    let page = std::fs::read_to_string(root(PAGE)).unwrap();
    let mut named = BTreeSet::new();
    let is_head =
        |row: &Vec<&str>| row[0] == "Trap" || row[0] == "Setting" || row[0].starts_with("---");
    for row in
        page.lines().filter(|line| line.starts_with('|')).map(cells).filter(|row| !is_head(row))
    {
        assert!(row.iter().all(|cell| !cell.is_empty()), "{PAGE}: an empty cell in {row:?}");
        let proof = row.last().unwrap();
        if proof.starts_with(CANNOT_OCCUR) || proof.starts_with(NOT_IN_A_BUNDLE) {
            continue;
        }
        for test in proof.split(", ") {
            let test = test.trim_matches('`');
            assert!(known.contains(test), "{PAGE}: there is no test `{test}`");
            named.insert(test.to_owned());
        }
    }
    // Numbered traps are those of the GPU Operator's operands.
    // `crates/simulator/tests/engine/operand_traps.rs` has their table.
    let is_deployers = |name: &str| {
        name.strip_prefix("trap_")
            .is_some_and(|rest| !rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let missing: Vec<&String> =
        known.iter().filter(|name| is_deployers(name) && !named.contains(*name)).collect();
    assert_eq!(missing, [""; 0], "{PAGE} does not name these tests");
}
