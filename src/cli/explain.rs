//! `gpu-rollout explain`: what a code, a lint or a check means, from the pages of the documentation, where no browser is at hand.

use std::fmt::Write;

use clap::Args;
use serde::Serialize;

use super::format::OutputFormat;
use super::table::{push_wrapped, table};
use super::terminal::width;
use crate::printer::Printer;
use contract::exit::ExitCode;

/// A page with a table whose first columns name things.
struct ExplainPage {
    /// What the things are.
    kind: &'static str,
    text: &'static str,
    /// How many columns name it.
    names: usize,
}

const PAGES: [ExplainPage; 3] = [
    ExplainPage { kind: "exit code", text: include_str!("../../docs/exit-codes.md"), names: 2 },
    ExplainPage {
        kind: "check of the preflight",
        text: include_str!("../../docs/preflight.md"),
        names: 1,
    },
    ExplainPage { kind: "lint", text: include_str!("../../docs/lints.md"), names: 1 },
];

/// Arguments of `gpu-rollout explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout explain 20
  gpu-rollout explain nodes-failed
  gpu-rollout explain empty-dir
  gpu-rollout explain            # everything that it knows")]
pub struct ExplainArguments {
    /// A number or a name; none: list them all
    name: Option<String>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

/// One thing that can be explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ExplainEntry {
    /// What it is.
    kind: &'static str,
    /// How it is called: number and name of an exit code, name of everything else.
    names: Vec<String>,
    /// What is said of it, with the heading of each.
    sections: Vec<ExplainSection>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ExplainSection {
    heading: String,
    text: String,
}

impl ExplainArguments {
    /// Prints what is known.
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
                &format!("nothing is called `{name}`"),
                Some("`gpu-rollout explain` lists everything; why a node waits says `gpu-rollout why NODE`"),
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

/// The rows of the page's first table.
fn of_page(page: &ExplainPage) -> Vec<ExplainEntry> {
    let mut rows = page
        .text
        .lines()
        .skip_while(|line| !line.starts_with("| "))
        .take_while(|line| line.starts_with('|'))
        .map(cells);
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
    // The second line only divides.
    rows.skip(1).map(entry).collect()
}

fn cells(line: &str) -> Vec<String> {
    line.trim_matches('|').split(" | ").map(|cell| plain(cell.trim())).collect()
}

/// A text without links: pages are not at hand.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((label, after)) = link
            .split_once("](")
            .and_then(|(label, target)| Some((label, target.split_once(')')?.1)))
        else {
            break;
        };
        plain.push_str(before);
        plain.push_str(label);
        rest = after;
    }
    plain.push_str(rest);
    plain.replace('*', "")
}

fn list(entries: &[ExplainEntry]) -> String {
    let row = |entry: &ExplainEntry| {
        let first = entry
            .sections
            .iter()
            .map(|section| section.text.as_str())
            .find(|text| text.len() > 30)
            .unwrap_or_default();
        let sentence = first.split_inclusive(". ").next().unwrap_or_default().trim();
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
    fn links_become_their_words() {
        assert_eq!(plain("see [all](a.md) of *them* [1] x"), "see all of them [1] x");
        assert_eq!(plain("`[a]` stays"), "`[a]` stays");
    }
}
