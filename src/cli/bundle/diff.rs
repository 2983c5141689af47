//! `gpu-rollout bundle diff`.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use crate::cli::format::OutputFormat;
use crate::printer::Printer;
use bundle::diff::values::ValueChange;
use bundle::diff::{BundleDifference, DifferenceKind, FileDifference, ReleaseDifference, diff};
use contract::exit::ExitCode;

/// Arguments of `gpu-rollout bundle diff`.
#[derive(Debug, clap::Args)]
pub struct DiffArguments {
    /// Directory of the old bundle
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// Directory of the new bundle
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Output format: a summary of each release followed by the details, or one JSON document
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

impl DiffArguments {
    /// Runs the command. Returns [`ExitCode::Different`] if there is a difference.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { old, new, output } = self;
        let difference = match diff(&old, &new) {
            Ok(difference) => difference,
            Err(error) => {
                printer.error(&error.to_string(), Some(error.hint()));
                return ExitCode::Input;
            }
        };
        let written = match output {
            OutputFormat::Text => {
                printer.data(&text(&difference));
                ExitCode::Success
            }
            OutputFormat::Json => printer.json(&difference),
        };
        if written != ExitCode::Success {
            return written;
        }
        if difference.is_empty() { ExitCode::Success } else { ExitCode::Different }
    }
}

fn text(difference: &BundleDifference) -> String {
    if difference.is_empty() {
        return "no difference\n".to_owned();
    }
    let mut text = String::new();
    let width =
        difference.releases.iter().map(|release| release.name.len()).max().unwrap_or_default();
    for release in &difference.releases {
        write_line(
            &mut text,
            format_args!("{} {:width$}  {}", sign(release.change), release.name, summary(release)),
        );
    }
    for release in &difference.releases {
        write_line(&mut text, format_args!("\n{} {}", sign(release.change), release.name));
        write_changes(&mut text, &release.facts);
        write_changes(&mut text, &release.values);
        if release.change == DifferenceKind::Changed {
            write_files(&mut text, &release.files);
        }
    }
    if !difference.bundle.is_empty() || !difference.files.is_empty() {
        text.push_str("\nthe bundle itself\n");
        write_changes(&mut text, &difference.bundle);
        write_files(&mut text, &difference.files);
    }
    text.trim_start().to_owned()
}

fn sign(change: DifferenceKind) -> char {
    match change {
        DifferenceKind::Added => '+',
        DifferenceKind::Removed => '-',
        DifferenceKind::Changed => '~',
    }
}

/// Returns the most important differences of a release in one line.
fn summary(release: &ReleaseDifference) -> String {
    let mut parts = Vec::new();
    match release.change {
        DifferenceKind::Added => parts.push(format!("new ({})", release.release_kind)),
        DifferenceKind::Removed => parts.push(format!("removed ({})", release.release_kind)),
        DifferenceKind::Changed => {
            if let Some(ValueChange { old: Some(old), new: Some(new), .. }) =
                release.facts.iter().find(|change| change.path == "version")
            {
                parts.push(format!("{} → {}", plain(old), plain(new)));
            }
        }
    }
    if let Some(reason) = &release.unsupported {
        parts.push(format!("unsupported downgrade: {reason}"));
    }
    let counted =
        [(release.values.len(), "value", "values"), (release.files.len(), "file", "files")];
    for (count, one, many) in counted
        .into_iter()
        .filter(|(count, ..)| *count > 0 && release.change == DifferenceKind::Changed)
    {
        parts.push(format!("{count} {}", if count == 1 { one } else { many }));
    }
    match release.fires {
        Some(true) => parts.push("fires".to_owned()),
        Some(false) => parts.push("does not fire".to_owned()),
        None => {}
    }
    if parts.is_empty() { "order or timeouts".to_owned() } else { parts.join(", ") }
}

fn write_changes(text: &mut String, changes: &[ValueChange]) {
    for ValueChange { path, old, new } in changes {
        match (old, new) {
            (Some(old), Some(new)) => write_line(text, format_args!("    {path}: {old} → {new}")),
            (Some(old), None) => write_line(text, format_args!("  - {path}: {old}")),
            (None, Some(new)) => write_line(text, format_args!("  + {path}: {new}")),
            (None, None) => {}
        }
    }
}

fn write_files(text: &mut String, files: &[FileDifference]) {
    for FileDifference { path, change } in files {
        write_line(text, format_args!("  {} {path}", sign(*change)));
    }
}

fn write_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{line}");
}

/// Formats a value; a string without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
