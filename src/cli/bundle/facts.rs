//! `gpu-rollout bundle facts`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::format::OutputFormat;
use crate::printer::Printer;
use contract::exit::ExitCode;
use parity::{BundleFacts, compare, read_facts};

/// Arguments of `gpu-rollout bundle facts`.
#[derive(Debug, clap::Args)]
pub struct FactsArguments {
    /// Directory of the bundle
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

impl FactsArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Some(facts) = of_directory(&self.directory, printer) else { return ExitCode::Input };
        match self.output {
            OutputFormat::Text => printer.data(&text(&facts)),
            OutputFormat::Json => return printer.json(&facts),
        }
        ExitCode::Success
    }
}

/// Reads the facts of the bundle in `directory`. Prints an error if that fails.
pub(super) fn of_directory(directory: &Path, printer: &mut Printer) -> Option<BundleFacts> {
    let files = match bundle::read(directory) {
        Ok(files) => files,
        Err(error) => {
            printer.error(&error.to_string(), Some(error.hint()));
            return None;
        }
    };
    let hint = Some("name a directory that `gpu-rollout bundle render` wrote");
    read_facts(&files)
        .map_err(|error| printer.error(&format!("`{}`: {error}", directory.display()), hint))
        .ok()
}

/// Formats the facts: one heading per release, one line per fact.
fn text(facts: &BundleFacts) -> String {
    let mut lines = vec![format!("deployer: {}", facts.deployer)];
    let mut releases: Vec<_> = facts.releases.iter().collect();
    // A release that waits for more releases comes later.
    releases.sort_by_key(|(_, release)| release.after.releases.len());
    for (name, release) in releases {
        lines.extend([String::new(), name.clone()]);
        let mut line = |fact: &str, value: &str| lines.push(format!("  {fact}: {value}"));
        for (fact, value) in compare::leaves(release) {
            // `ls` shows the files of a chart as well.
            if !fact.starts_with("chart.files") {
                line(&fact, &describe_value(&value));
            }
        }
        let after: Vec<&str> = release.after.releases.iter().map(String::as_str).collect();
        line("after", &after.join(", "));
        line("gated by", &release.evidence.gated_by);
        for timeout in &release.evidence.timeouts {
            line(
                "timeout",
                &format!("{} s ({}: {})", timeout.seconds, timeout.file, timeout.setting),
            );
        }
    }
    lines.join("\n") + "\n"
}

/// Formats a value for people.
pub(super) fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(describe_value).collect::<Vec<_>>().join(", "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            match compare::reason(value) {
                Some(reason) => format!("not expressible: {reason}"),
                None => value.to_string(),
            }
        }
    }
}
