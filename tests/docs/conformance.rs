//! `docs/conformance.md` has each of the 153 lines once, with the tests named after it or a reason,
//! and a verdict.

use std::collections::{BTreeMap, BTreeSet};

use crate::{cells, root};

const PAGE: &str = "docs/conformance.md";
/// The number of lines.
const LINES: u32 = 153;
/// The start of a cell with a reason why no test is possible.
const NOT_APPLICABLE: &str = "Not applicable: ";
/// The start of a verdict with a reason why `drive` differs.
const BETTER: &str = "Better: ";
/// The start of a verdict that `drive` does not differ.
const SAME: &str = "Same";

/// Returns the lines that a test is named after: `line_067_and_070_…`, `line_029_to_036_and_046_…`.
fn lines_of(test: &str) -> BTreeSet<u32> {
    let mut lines = BTreeSet::new();
    let (mut last, mut through) = (0, false);
    for word in test.strip_prefix("line_").into_iter().flat_map(|rest| rest.split('_')) {
        match (word, word.parse::<u32>()) {
            ("and" | "to", _) => through = word == "to",
            (_, Ok(line)) if word.len() == 3 => {
                lines.extend(if through { last..=line } else { line..=line });
                last = line;
            }
            _ => break,
        }
    }
    lines
}

/// Returns the tests in `crates/simulator/tests/engine/conformance` by line.
fn tests() -> BTreeMap<u32, BTreeSet<String>> {
    let mut found: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(root("crates/simulator/tests/engine/conformance")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let after_test = text
            .split("#[test]")
            .skip(1)
            .filter_map(|part| part.split("fn ").nth(1)?.split('(').next());
        for test in after_test {
            for line in lines_of(test) {
                found.entry(line).or_default().insert(test.to_owned());
            }
        }
    }
    found
}

/// Whether a cell has text after `start`.
fn gives_reason(cell: &str, start: &str) -> bool {
    cell.strip_prefix(start).is_some_and(|reason| reason.trim().len() > 5)
}

#[test]
fn every_line_has_tests_or_reason_and_verdict() {
    let page = std::fs::read_to_string(root(PAGE)).unwrap();
    let rows = page.lines().filter(|line| line.starts_with('|')).map(cells);
    let rows: Vec<_> = rows.filter_map(|row| Some((row[0].parse::<u32>().ok()?, row))).collect();
    assert_eq!(
        rows.iter().map(|(line, _)| *line).collect::<Vec<_>>(),
        (1..=LINES).collect::<Vec<_>>(),
        "{PAGE} does not have each line once, in order"
    );
    let tests = tests();
    for (line, row) in rows {
        let [_, behavior, model, drive] = row[..] else {
            panic!("{PAGE}: line {line} has {} cells", row.len())
        };
        assert!(!behavior.is_empty(), "{PAGE}: line {line} has no description");
        let named: BTreeSet<String> =
            model.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let known = tests.get(&line).cloned().unwrap_or_default();
        assert_eq!(named, known, "{PAGE}: line {line} does not name its tests");
        assert!(
            !known.is_empty() || gives_reason(model, NOT_APPLICABLE),
            "{PAGE}: line {line} has neither a test nor a reason"
        );
        let same = drive == SAME || gives_reason(drive, "Same: ");
        assert!(
            same || gives_reason(drive, BETTER) || gives_reason(drive, NOT_APPLICABLE),
            "{PAGE}: line {line} has no verdict: {drive}"
        );
    }
}

#[test]
fn names_of_tests_contain_their_lines() {
    assert_eq!(lines_of("line_067_and_070_pods_that_may_go"), BTreeSet::from([67, 70]));
    assert_eq!(lines_of("line_029_to_031_and_046_the_vectors"), BTreeSet::from([29, 30, 31, 46]));
    assert_eq!(lines_of("line_081_allocated_gpus_count_from_v26_7"), BTreeSet::from([81]));
    assert_eq!(lines_of("a_start_that_is_no_time"), BTreeSet::new());
}
