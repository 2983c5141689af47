//! `docs/failures.md` has each report of `tests/data/failures.txt` once, with existing tests or a
//! reason, and names every test that is named after a report.

use std::collections::{BTreeMap, BTreeSet};

use super::traps::tests;
use crate::{cells, root};

const PAGE: &str = "docs/failures.md";
const REPORTS: &str = "tests/data/failures.txt";
/// The folders of tests that are files and not functions. The file's name is that of the test.
const FILES: [(&str, &str); 2] = [
    ("crates/simulator/tests/engine/scenarios", "txt"),
    ("crates/recipe/tests/recipe/bad", "yaml"),
];
/// The starts of a reason that replaces a test, or that explains what the named tests do not cover.
const REASONS: [&str; 3] = ["Not applicable: ", "The vendor's: ", "Not done: "];

/// Returns the reports by name, in the notation of the page: `[name#number](address)`.
fn reports() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(root(REPORTS)).unwrap();
    let mut reports = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (name, repository) = (words.next().unwrap(), words.next().unwrap());
        for number in words {
            let id = format!("{name}#{number}");
            let issue = if number.parse::<u32>().is_ok() {
                format!("/issues/{number}")
            } else {
                String::new()
            };
            let written = if repository == "-" {
                id.clone()
            } else {
                format!("[{id}](https://github.com/{repository}{issue})")
            };
            assert_eq!(reports.insert(id.clone(), written), None, "{REPORTS}: {id} twice");
        }
    }
    reports
}

/// Returns the names of test functions and of test files.
fn proofs() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    tests(&root("tests"), &mut known);
    tests(&root("src"), &mut known);
    tests(&root("crates"), &mut known);
    for (folder, ending) in FILES {
        let paths = std::fs::read_dir(root(folder)).unwrap().map(|entry| entry.unwrap().path());
        let named = paths.filter(|path| path.extension().is_some_and(|found| found == ending));
        known.extend(
            named.filter_map(|path| {
                path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned)
            }),
        );
    }
    known
}

/// Whether a test is named after a report: `gpu-operator-2509-` for a file, `gpu_operator_2509_`
/// for a function.
fn is_after(proof: &str, report: &str) -> bool {
    proof.replace('-', "_").starts_with(&format!("{}_", report.replace(['#', '-', '.'], "_")))
}

#[test]
fn every_report_has_its_tests_or_a_reason() {
    let (reports, known) = (reports(), proofs());
    let page = std::fs::read_to_string(root(PAGE)).unwrap();
    let is_head = |row: &Vec<&str>| row[0] == "Report" || row[0].starts_with("---");
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for row in
        page.lines().filter(|line| line.starts_with('|')).map(cells).filter(|row| !is_head(row))
    {
        let [ids, what, done, proof] = row[..] else {
            panic!("{PAGE}: {} cells in {row:?}", row.len())
        };
        assert!(!what.is_empty() && !done.is_empty(), "{PAGE}: an empty cell in {row:?}");
        let mut of_row: Vec<&str> = Vec::new();
        for written in ids.split(", ") {
            let report = reports.iter().find(|(_, known)| *known == written);
            let (id, _) = report.unwrap_or_else(|| panic!("{PAGE}: {REPORTS} has no {written}"));
            assert!(told.insert(id), "{PAGE}: duplicate report {id}");
            of_row.push(id);
        }
        let named: BTreeSet<&str> = proof.split('`').skip(1).step_by(2).collect();
        for test in &named {
            assert!(known.contains(*test), "{PAGE}: {ids}: there is no test `{test}`");
        }
        let reason = proof.rsplit('`').next().unwrap().trim_start_matches("; ");
        let gives_reason = REASONS
            .iter()
            .any(|start| reason.strip_prefix(start).is_some_and(|rest| rest.len() > 20));
        assert!(
            gives_reason || reason.is_empty(),
            "{PAGE}: {ids}: `{reason}` is not a valid reason"
        );
        assert!(gives_reason || !named.is_empty(), "{PAGE}: {ids}: neither a test nor a reason");
        for test in known.iter().filter(|test| of_row.iter().any(|id| is_after(test, id))) {
            assert!(
                named.contains(test.as_str()),
                "{PAGE}: {ids}: `{test}` is named after it, but missing in the row"
            );
        }
    }
    let missing: Vec<&String> = reports.keys().filter(|id| !told.contains(id.as_str())).collect();
    assert_eq!(missing, [""; 0], "{PAGE} has no row for these reports");
}

#[test]
fn tests_are_called_after_reports() {
    assert!(is_after("gpu-operator-2509-one-failed-node", "gpu-operator#2509"));
    assert!(is_after("gpu_operator_2509_nodes_that_wait", "gpu-operator#2509"));
    assert!(!is_after("gpu_operator_25_nodes", "gpu-operator#2509"));
    assert!(!is_after("gpu_operator_2509_nodes", "gpu-operator#250"));
}
