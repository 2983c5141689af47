//! `gpu-rollout explain`: explains an exit code, a lint or a check with the tables of the
//! documentation, so that no browser is needed.

use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use super::format::OutputFormat;
use super::table::{push_wrapped, table};
use super::terminal::width;
use crate::printer::Printer;
use contract::exit::ExitCode;

/// A page of the documentation with a table of entries.
struct ExplainPage {
    /// What an entry is.
    kind: &'static str,
    /// Its file in `docs/`.
    file: &'static str,
    text: &'static str,
    /// How many columns at the start contain names of the entry.
    names: usize,
}

const PAGES: [ExplainPage; 3] = [
    ExplainPage {
        kind: "exit code",
        file: "exit-codes.md",
        text: include_str!("../../docs/exit-codes.md"),
        names: 2,
    },
    ExplainPage {
        kind: "check of the preflight",
        file: "preflight.md",
        text: include_str!("../../docs/preflight.md"),
        names: 1,
    },
    ExplainPage {
        kind: "lint",
        file: "lints.md",
        text: include_str!("../../docs/lints.md"),
        names: 1,
    },
];

/// The headings of the columns that say what an entry means.
const MEANINGS: [&str; 2] = ["What it means", "What it finds"];

/// Arguments of `gpu-rollout explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout explain 20
  gpu-rollout explain nodes-failed
  gpu-rollout explain empty-dir
  gpu-rollout explain            # list everything")]
pub struct ExplainArguments {
    /// Number or name of an exit code, or name of a lint or check [default: list all of them]
    name: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

/// One explained exit code, lint or check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ExplainEntry {
    /// What the entry is.
    kind: &'static str,
    /// Number and name of an exit code; the name of anything else.
    names: Vec<String>,
    /// The explanation, one section per column of the table.
    sections: Vec<ExplainSection>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ExplainSection {
    heading: String,
    text: String,
}

impl ExplainArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { name, output } = self;
        let entries = entries();
        let Some(name) = name else {
            match output {
                OutputFormat::Json => return printer.json(&entries),
                OutputFormat::Text => printer.data(&list(&entries)),
            }
            return ExitCode::Success;
        };
        let matching: Vec<&ExplainEntry> =
            entries.iter().filter(|entry| entry.names.contains(&name)).collect();
        if matching.is_empty() {
            printer.error(
                &format!("`{name}` is not an exit code, a lint or a check"),
                Some("`gpu-rollout explain` lists all of them; for the reason of a node, use `gpu-rollout why NODE`"),
            );
            return ExitCode::Usage;
        }
        match output {
            OutputFormat::Json => return printer.json(&matching),
            OutputFormat::Text => matching.iter().for_each(|entry| printer.data(&text(entry))),
        }
        ExitCode::Success
    }
}

fn entries() -> Vec<ExplainEntry> {
    PAGES.iter().flat_map(of_page).collect()
}

/// Returns the rows of the page's first table.
fn of_page(page: &ExplainPage) -> Vec<ExplainEntry> {
    let mut rows = page
        .text
        .lines()
        .skip_while(|line| !line.starts_with("| "))
        .take_while(|line| line.starts_with('|'))
        .map(|line| cells(line, page.file));
    let headings = rows.next().unwrap_or_default();
    let entry = |row: Vec<String>| ExplainEntry {
        kind: page.kind,
        names: row.iter().take(page.names).map(|name| name.trim_matches('`').to_owned()).collect(),
        sections: headings
            .iter()
            .zip(row)
            .skip(page.names)
            .map(|(heading, text)| ExplainSection { heading: heading.clone(), text })
            .collect(),
    };
    // The second line separates the header from the rows.
    rows.skip(1).map(entry).collect()
}

fn cells(line: &str, file: &str) -> Vec<String> {
    line.trim_matches('|').split(" | ").map(|cell| plain(cell.trim(), file)).collect()
}

/// Replaces each link of a page by its text and the page that it leads to, because a terminal
/// cannot follow links.
fn plain(text: &str, file: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((label, target, after)) = link.split_once("](").and_then(|(label, link)| {
            let (target, after) = link.split_once(')')?;
            Some((label, target, after))
        }) else {
            break;
        };
        plain.push_str(before);
        // Writing to a String cannot fail.
        let _ = write!(plain, "{label} ({})", linked_page(target, file));
        rest = after;
    }
    plain.push_str(rest);
    without_emphasis(&plain)
}

/// Removes the asterisks of emphasis, but not those in code, such as `*-crds`.
fn without_emphasis(text: &str) -> String {
    let mut is_code = false;
    text.chars()
        .filter(|&character| {
            if character == '`' {
                is_code = !is_code;
            }
            is_code || character != '*'
        })
        .collect()
}

/// Returns the page that a link in `file` leads to, without the anchor.
fn linked_page(target: &str, file: &str) -> String {
    match target.split_once('#').map_or(target, |(page, _)| page) {
        "" => format!("docs/{file}"),
        page if page.contains("://") => page.to_owned(),
        page => format!("docs/{page}"),
    }
}

fn list(entries: &[ExplainEntry]) -> String {
    let row = |entry: &ExplainEntry| {
        let meaning = entry
            .sections
            .iter()
            .find(|section| MEANINGS.contains(&section.heading.as_str()))
            .map(|section| section.text.as_str())
            .unwrap_or_default();
        let sentence = meaning.split_inclusive(". ").next().unwrap_or_default().trim();
        vec![entry.names.join(" "), entry.kind.to_owned(), sentence.to_owned()]
    };
    table(&["NAME", "WHAT", "MEANS"], &entries.iter().map(row).collect::<Vec<_>>(), width())
}

fn text(entry: &ExplainEntry) -> String {
    let mut text = format!("{} ({})\n", entry.names.join(" "), entry.kind);
    for section in &entry.sections {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{}:", section.heading);
        push_wrapped(&mut text, ("  ", "  "), &section.text, width().unwrap_or(100));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_accepts_exit_code_number_or_name() {
        let entries = entries();
        for code in ExitCode::ALL {
            let names = [code.number().to_string(), code.name().to_owned()];
            let entry = entries
                .iter()
                .find(|entry| entry.names == names)
                .unwrap_or_else(|| panic!("{names:?}"));
            let headings: Vec<&str> =
                entry.sections.iter().map(|section| section.heading.as_str()).collect();
            assert_eq!(headings, ["What it means", "What to look at", "What to do"]);
        }
    }

    #[test]
    fn every_check_and_every_lint_is_explained() {
        let entries = entries();
        let checks = contract::check::PreflightCheck::ALL
            .into_iter()
            .map(contract::check::PreflightCheck::name);
        for name in checks.chain(diagnostics::lint::Lint::ALL.map(diagnostics::lint::Lint::name)) {
            let entry = entries
                .iter()
                .find(|entry| entry.names == [name])
                .unwrap_or_else(|| panic!("{name}"));
            assert!(
                entry.sections.len() >= 3
                    && entry.sections.iter().all(|section| !section.text.is_empty()),
                "{entry:?}"
            );
        }
    }

    #[test]
    fn every_entry_has_one_meaning() {
        for entry in entries() {
            let headings = entry.sections.iter().map(|section| section.heading.as_str());
            let count = headings.filter(|heading| MEANINGS.contains(heading)).count();
            assert_eq!(count, 1, "{entry:?}");
        }
    }

    #[test]
    fn list_shows_meaning_of_check() {
        let entries = entries();
        let check = entries.iter().filter(|entry| entry.names == ["time-budget"]);
        let text = list(&check.cloned().collect::<Vec<_>>());
        assert!(text.contains("A time budget of the Job"), "{text}");
    }

    #[test]
    fn links_show_their_pages() {
        for (text, expected) in [
            ("see [all](a.md) of *them* [1] x", "see all (docs/a.md) of them [1] x"),
            ("[a right](a.md#rights), [b](to/b.md)", "a right (docs/a.md), b (docs/to/b.md)"),
            ("see [Rules](#rules).", "see Rules (docs/lints.md)."),
            ("[a](https://example.com/x#y)", "a (https://example.com/x)"),
            ("`[a]` stays", "`[a]` stays"),
        ] {
            assert_eq!(plain(text, "lints.md"), expected);
        }
    }

    #[test]
    fn asterisks_in_code_stay() {
        for (text, expected) in [
            ("the `*-crds` release", "the `*-crds` release"),
            ("**blocks**, `a*b` and *then* `*`", "blocks, `a*b` and then `*`"),
            ("*see [`*.b`](a.md)*", "see `*.b` (docs/a.md)"),
        ] {
            assert_eq!(plain(text, "lints.md"), expected);
        }
    }
}
