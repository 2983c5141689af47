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
    findings: Option<String>,
    error: Option<RenderEntryError<'a>>,
}

#[derive(Serialize)]
struct RenderEntryError<'a> {
    message: &'a str,
    hint: Option<&'a str>,
}

/// Prints all entries. Returns the exit code of the command if nothing else has failed.
pub(super) fn print(outcomes: &[RenderOutcome], printer: &mut Printer) -> ExitCode {
    let entries: Vec<RenderEntry<'_>> = outcomes
        .iter()
        .flat_map(|outcome| outcome.bundles.iter().map(move |bundle| entry(outcome, bundle)))
        .collect();
    printer.json(&entries)
}

fn entry<'a>(outcome: &'a RenderOutcome, bundle: &'a RenderedBundle) -> RenderEntry<'a> {
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
        findings: (!outcome.findings.is_empty()).then(|| outcome.findings.render_plain()),
        error: failure.map(|RenderFailure { message, hint, .. }| RenderEntryError {
            message,
            hint: hint.as_deref(),
        }),
    }
}
