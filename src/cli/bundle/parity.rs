//! `gpu-rollout bundle parity`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::facts::{describe_value, of_directory};
use crate::cli::format::OutputFormat;
use crate::cli::table::table;
use crate::printer::Printer;
use contract::exit::ExitCode;
use parity::{BundleFacts, FactDifference, ParityReport, compare};

/// How many characters of a digest are printed: enough to distinguish two digests.
const DIGEST_SHOWN: usize = 12;
/// The length of a digest in characters.
const DIGEST_LENGTH: usize = 64;

/// Arguments of `gpu-rollout bundle parity`.
#[derive(Debug, clap::Args)]
pub struct ParityArguments {
    /// Directories of the bundles, at least two
    #[arg(value_name = "DIR", num_args = 2.., required = true)]
    directories: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

impl ParityArguments {
    /// Runs the command. Prints the differences to standard output.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let all: Vec<_> =
            self.directories.iter().map(|directory| of_directory(directory, printer)).collect();
        let Some(bundles) = all.into_iter().collect::<Option<Vec<_>>>() else {
            return ExitCode::Input;
        };
        let parity = compare(&bundles);
        let is_only =
            |deployer: &str| bundles.iter().filter(|other| other.deployer == deployer).count() == 1;
        let columns: Vec<String> = bundles
            .iter()
            .zip(&self.directories)
            .map(|(bundle, directory)| {
                if is_only(&bundle.deployer) {
                    bundle.deployer.clone()
                } else {
                    directory.display().to_string()
                }
            })
            .collect();
        match self.output {
            OutputFormat::Json => {
                let bundles: Vec<Value> = bundles
                    .iter()
                    .zip(&self.directories)
                    .map(|(bundle, directory)| json!({"directory": directory.display().to_string(), "deployer": bundle.deployer}))
                    .collect();
                let ParityReport { equal, differences, not_expressible } = &parity;
                let document = json!({"equal": equal, "bundles": bundles, "differences": differences, "notExpressible": not_expressible});
                printer.json(&document);
            }
            OutputFormat::Text => printer.data(&parity_table(&columns, &parity)),
        }
        // The result comes first, then what a deployer cannot express.
        if parity.equal {
            printer.note(&format!("{} deploy the same things", columns.join(", ")));
        } else {
            let count = parity.differences.len();
            printer.error(
                &format!("{} do not deploy the same things: {count} difference{}", columns.join(", "), if count == 1 { "" } else { "s" }),
                Some("render them from the same recipe with the same version of gpu-rollout; `gpu-rollout bundle verify DIR` shows what was edited"),
            );
        }
        if self.output == OutputFormat::Text {
            not_expressible(&parity, &bundles, printer);
        }
        if parity.equal { ExitCode::Success } else { ExitCode::Different }
    }
}

/// Prints what a deployer cannot express.
fn not_expressible(parity: &ParityReport, bundles: &[BundleFacts], printer: &mut Printer) {
    for unsaid in &parity.not_expressible {
        let is_all = bundles.iter().any(|bundle| {
            bundle.deployer == unsaid.deployer && bundle.releases.len() == unsaid.releases.len()
        });
        let releases = if is_all { "all releases".to_owned() } else { unsaid.releases.join(", ") };
        printer.note(&format!(
            "not expressible with {}: {}: {} ({releases})",
            unsaid.deployer, unsaid.fact, unsaid.reason
        ));
    }
}

/// Returns a table with release, fact and a column for each bundle; empty if there is no
/// difference.
fn parity_table(columns: &[String], parity: &ParityReport) -> String {
    if parity.differences.is_empty() {
        return String::new();
    }
    let header: Vec<&str> =
        ["RELEASE", "FACT"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    let row = |difference: &FactDifference| {
        let cells = difference.values.iter().map(|value| cell(value.as_ref(), &difference.values));
        [difference.release.clone(), difference.fact.clone()].into_iter().chain(cells).collect()
    };
    table(&header, &parity.differences.iter().map(row).collect::<Vec<_>>(), None)
}

/// Formats a value as short as possible: the items of a list that not all bundles have, the start
/// of a digest.
fn cell(value: Option<&Value>, all: &[Option<Value>]) -> String {
    match value {
        None => "-".to_owned(),
        Some(Value::Array(list))
            if all.iter().all(|value| value.as_ref().is_some_and(Value::is_array)) =>
        {
            let lists = || all.iter().flatten().filter_map(Value::as_array);
            let own: Vec<String> = list
                .iter()
                .filter(|item| !lists().all(|list| list.contains(item)))
                .map(describe_value)
                .collect();
            let has_more = own.len() < list.len();
            match own.as_slice() {
                // The same items in another order.
                [] if lists().all(|other| other.len() == list.len()) => {
                    list.iter().map(describe_value).collect::<Vec<_>>().join(", ")
                }
                [] => if has_more { "…" } else { "-" }.to_owned(),
                own => format!("{}{}", if has_more { "…, " } else { "" }, own.join(", ")),
            }
        }
        Some(Value::String(text))
            if text.len() == DIGEST_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            format!("{}…", &text[..DIGEST_SHOWN])
        }
        Some(value) => describe_value(value),
    }
}
