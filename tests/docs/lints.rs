//! `docs/lints.md` has one complete row for each lint, and the rules of
//! `bundles/compatibility.yaml`. `UPDATE=1` updates the rules.

use std::fmt::Write;

use catalog::compatibility_table::{CompatibilityLevel, rules};
use diagnostics::lint::Lint;

use crate::{cells, generated, root};

const PAGE: &str = "docs/lints.md";

/// Returns the rows of the table that follows a heading.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, section) = page
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("{PAGE} has no heading {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    section.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

#[test]
fn every_lint_has_its_row() {
    let page = std::fs::read_to_string(root(PAGE)).unwrap();
    let rows = rows(&page, "Lints");
    let found: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    assert_eq!(
        found,
        Lint::ALL.map(Lint::name),
        "{PAGE} must have one row per lint, in the order of `Lint::ALL`"
    );
    for row in rows {
        assert!(
            row.len() == 5 && row.iter().all(|cell| !cell.is_empty()),
            "{PAGE}: an empty cell in {row:?}"
        );
    }
}

#[test]
fn the_rules_are_those_of_the_table() {
    let mut expected =
        "\n| Rule | Level | What is wrong | What to do | Source |\n|---|---|---|---|---|\n"
            .to_owned();
    for rule in rules() {
        let level = if rule.level == CompatibilityLevel::Error { "error" } else { "warning" };
        writeln!(
            expected,
            "| `{}` | {level} | {} | {} | {} |",
            rule.name, rule.message, rule.hint, rule.source
        )
        .unwrap();
    }
    expected.push('\n');
    generated(PAGE, "bundles/compatibility.yaml", &expected);
}

/// Every example file of a lint is of a lint that there is.
#[test]
fn examples_are_of_existing_lints() {
    for kind in ["bad", "good"] {
        for entry in std::fs::read_dir(root("crates/recipe/tests/recipe").join(kind)).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let Some(name) = file.strip_prefix("lint-").and_then(|name| name.strip_suffix(".yaml"))
            else {
                continue;
            };
            assert!(
                Lint::ALL.iter().any(|lint| name.starts_with(lint.name())),
                "crates/recipe/tests/recipe/{kind}/{file}"
            );
        }
    }
}
