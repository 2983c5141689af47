//! The summary of `bundle render` for programs: an array with one entry per recipe and deployer.

use std::path::Path;

use serde::Serialize;

use crate::printer::Printer;
use bundle::info::ReleaseInfo;
use bundle::render::{RenderFailure, RenderOutcome, RenderedBundle};
use contract::exit::ExitCode;

/// One bundle, or the error why there is none.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RenderEntry<'a> {
    /// The recipe as on the command line, or the file of a directory.
    file: &'a str,
    /// `metadata.name`; `null` if it could not be read.
    recipe: Option<&'a str>,
    deployer: &'a str,
    /// `null` if no bundle was written.
    directory: Option<&'a Path>,
    /// Whether the bundle replaced an older one.
    replaced: bool,
    /// As in `bundle-info.yaml`.
    releases: &'a [ReleaseInfo],
    notes: Vec<String>,
    /// The findings in the recipe, as text.
    findings: Option<&'a str>,
    error: Option<RenderEntryError<'a>>,
}

#[derive(Serialize)]
struct RenderEntryError<'a> {
    message: &'a str,
    hint: Option<&'a str>,
}

/// Prints all entries. Returns the exit code of the command if nothing else has failed.
pub(super) fn print(
    outcomes: &[RenderOutcome],
    findings: &[Option<String>],
    printer: &mut Printer,
) -> ExitCode {
    let entries: Vec<RenderEntry<'_>> = outcomes
        .iter()
        .zip(findings)
        .flat_map(|(outcome, findings)| {
            outcome.bundles.iter().map(|bundle| entry(outcome, findings.as_deref(), bundle))
        })
        .collect();
    printer.json(&entries)
}

fn entry<'a>(
    outcome: &'a RenderOutcome,
    findings: Option<&'a str>,
    bundle: &'a RenderedBundle,
) -> RenderEntry<'a> {
    let written = bundle.result.as_ref().and_then(|result| result.as_ref().ok());
    let failure = outcome.failure.as_ref().or_else(|| bundle.result.as_ref()?.as_ref().err());
    RenderEntry {
        file: &outcome.file,
        recipe: outcome.name.as_deref(),
        deployer: bundle.deployer.name,
        directory: written.map(|_| bundle.directory.as_path()),
        replaced: written.is_some_and(|written| written.replaced),
        releases: &outcome.releases,
        notes: outcome.notes.iter().cloned().chain(bundle.notes(outcome.label())).collect(),
        findings,
        error: failure.map(|RenderFailure { message, hint, .. }| RenderEntryError {
            message,
            hint: hint.as_deref(),
        }),
    }
}
