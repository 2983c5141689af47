//! `docs/device-plugin.md` has the program's tables of rules and keys. `UPDATE=1` updates them.

use std::fmt::Write as _;

use device_plugin_config::keys::{ConfigKeyKind, ConfigKeyReader, KEYS};
use device_plugin_config::rule::ConfigRule;
use diagnostics::diagnostic::Severity;

use crate::root;

const PAGE: &str = "docs/device-plugin.md";

#[test]
fn the_tables_are_those_of_the_program() {
    let page = std::fs::read_to_string(root(PAGE)).unwrap();
    let fresh = with_table(&with_table(&page, "rules", &rules()), "keys", &keys());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root(PAGE), fresh).unwrap();
        return;
    }
    assert!(page == fresh, "{PAGE} is out of date: run UPDATE=1 cargo test --test docs");
}

/// Returns the page with this table between its marks.
fn with_table(page: &str, name: &str, table: &str) -> String {
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&start).expect("the page marks where the table starts");
    let (_, after) = rest.split_once(&end).expect("the page marks where the table ends");
    format!("{before}{start}{table}{end}{after}")
}

fn rules() -> String {
    let mut table =
        "| Rule | Level | What the plugin does | Why it matters |\n|---|---|---|---|\n".to_owned();
    for rule in ConfigRule::ALL {
        let about = rule.about();
        let level = match about.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        writeln!(table, "| `{}` | {level} | {} | {} |", about.name, about.plugin, about.why)
            .unwrap();
    }
    table
}

fn keys() -> String {
    let mut table =
        "| Key | Value | Default | Overridden by | Since | Read by |\n|---|---|---|---|---|---|\n"
            .to_owned();
    let code = |words: &[&str]| {
        words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    };
    for key in KEYS {
        let what = match key.kind {
            ConfigKeyKind::Map => "map",
            ConfigKeyKind::Maps => "list of maps",
            ConfigKeyKind::Text => "string",
            ConfigKeyKind::Switch => "boolean",
            ConfigKeyKind::Whole => "integer",
            ConfigKeyKind::Wholes => "list of integers",
            ConfigKeyKind::Texts => "string or list of strings",
            ConfigKeyKind::Duration => "duration (`90s`, `1m30s`)",
            ConfigKeyKind::Devices => "`all`, a number or a list",
        };
        let what = if key.words.is_empty() { what.to_owned() } else { code(key.words) };
        let reader = match key.reader {
            ConfigKeyReader::Both => "both",
            ConfigKeyReader::Plugin => "plugin",
            ConfigKeyReader::Discovery => "GFD",
        };
        let since = key.since.to_string();
        let since = since.trim_end_matches(".0");
        writeln!(
            table,
            "| `{}` | {what} | {} | {} | {since} | {reader} |",
            key.path.replace(".[]", "[]"),
            key.default,
            code(key.environment)
        )
        .unwrap();
    }
    table
}
