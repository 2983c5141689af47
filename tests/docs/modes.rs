//! `docs/modes.md` has the tables of the program. `UPDATE=1` updates them.

use std::fmt::Write;

use contract::settings::Mode;
use contract::task::Task;
use recipe::rules::modes::KEYS;

use crate::root;

const PAGE: &str = "docs/modes.md";
const END: &str = "<!-- end -->\n";

/// Compares the text between the mark of `source` and the next end mark with `expected`. With
/// `UPDATE`, writes it.
fn check(source: &str, expected: &str) {
    let start =
        format!("<!-- Made from {source}; `UPDATE=1 cargo test --test docs` updates it. -->\n");
    let page = std::fs::read_to_string(root(PAGE)).unwrap();
    let (before, rest) = page.split_once(&start).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root(PAGE), format!("{before}{start}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, expected, "{PAGE} is stale: UPDATE=1 cargo test --test docs");
}

fn list(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "–".to_owned() } else { names.join(", ") }
}

/// One test for both tables, because both write the same page.
#[test]
fn the_tables_are_those_of_the_program() {
    let mut tasks =
        "\n| Mode | Release before the operator | Release after the operator |\n|---|---|---|\n"
            .to_owned();
    for mode in Mode::ALL {
        let of = |is_step: bool| {
            list(
                mode.tasks()
                    .iter()
                    .filter(|task| task.is_step() == is_step)
                    .map(|task| Task::name(*task)),
            )
        };
        writeln!(tasks, "| `{}` | {} | {} |", mode.name(), of(true), of(false)).unwrap();
    }
    check("crates/contract/src/mode.rs", &format!("{tasks}\n"));
    let mut keys = "\n| Key | Modes |\n|---|---|\n".to_owned();
    for (key, modes) in KEYS {
        writeln!(keys, "| `{key}` | {} |", list(modes.iter().map(|mode| mode.name()))).unwrap();
    }
    check("crates/recipe/src/rules/modes.rs", &format!("{keys}\n"));
}
