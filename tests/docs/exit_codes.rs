//! `docs/exit-codes.md` has one complete row for each exit code.

use contract::exit::ExitCode;

use crate::cells;

#[test]
fn every_exit_code_has_its_row() {
    let page = include_str!("../../docs/exit-codes.md");
    let rows: Vec<Vec<&str>> =
        page.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect();
    let found: Vec<(String, String)> =
        rows.iter().map(|row| (row[0].to_owned(), row[1].to_owned())).collect();
    let expected: Vec<(String, String)> = ExitCode::ALL
        .iter()
        .map(|code| (code.number().to_string(), format!("`{}`", code.name())))
        .collect();
    assert_eq!(
        found, expected,
        "docs/exit-codes.md must have one row per code, in the order of the numbers"
    );
    for row in rows {
        assert!(
            row.len() == 5 && row.iter().all(|cell| !cell.is_empty()),
            "docs/exit-codes.md: an empty cell in {row:?}"
        );
    }
}

/// Run records contain the name that serde writes. Messages contain that of `name()`.
#[test]
fn the_name_is_the_same_in_records() {
    for code in ExitCode::ALL {
        assert_eq!(serde_json::to_value(code).unwrap(), code.name());
    }
}
