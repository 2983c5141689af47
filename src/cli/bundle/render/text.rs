//! The summary of `bundle render` for people.

use std::path::Path;

use crate::printer::Printer;
use bundle::WriteSummary;
use bundle::render::{RenderFailure, RenderOutcome, RenderedBundle};
use contract::count::with_noun;
use deployer::{BundleSource, shell_word};
use release::model::IMAGE_WITHOUT_REGISTRY;

/// Prints everything about one bundle, and the next steps. `findings`: of each recipe, drawn.
pub(super) fn print_single(
    outcomes: &[RenderOutcome],
    findings: &[Option<String>],
    source: Option<&BundleSource>,
    printer: &mut Printer,
) {
    for (outcome, findings) in outcomes.iter().zip(findings) {
        print_recipe(outcome, findings.as_deref(), printer);
        for bundle in &outcome.bundles {
            match &bundle.result {
                None => {}
                Some(Err(failure)) => print_failure(failure, printer),
                Some(Ok(written)) => {
                    printer.note(&format!(
                        "{} `{}`: {}",
                        verb(written),
                        bundle.directory.display(),
                        with_noun(outcome.releases.len(), "release")
                    ));
                    print_releases(outcome, printer);
                    print_notes("note", &outcome.notes, printer);
                    print_notes("note", &bundle.notes(outcome.label()), printer);
                    print_next(outcome, bundle, source, printer);
                }
            }
        }
    }
}

/// Prints one line for each of many bundles, and a summary. `findings`: of each recipe, drawn.
pub(super) fn print_many(
    outcomes: &[RenderOutcome],
    findings: &[Option<String>],
    printer: &mut Printer,
) {
    for (outcome, findings) in outcomes.iter().zip(findings) {
        printer.note(&head(outcome));
        print_recipe(outcome, findings.as_deref(), printer);
        for bundle in &outcome.bundles {
            match &bundle.result {
                None => {}
                Some(Err(failure)) => print_failure(failure, printer),
                Some(Ok(written)) => {
                    printer.note(&format!("  {} `{}`", verb(written), bundle.directory.display()));
                    print_notes("  note", &bundle.notes(outcome.label()), printer);
                }
            }
        }
        print_notes("  note", &outcome.notes, printer);
    }
    print_summary(outcomes, printer);
}

/// Returns the first line about a recipe.
fn head(outcome: &RenderOutcome) -> String {
    let file = &outcome.file;
    let result = if outcome.failure.is_some() {
        "no bundle".to_owned()
    } else {
        with_noun(outcome.releases.len(), "release")
    };
    match &outcome.name {
        Some(name) if name != file => format!("{name} (`{file}`): {result}"),
        Some(_) | None => format!("`{file}`: {result}"),
    }
}

fn print_recipe(outcome: &RenderOutcome, findings: Option<&str>, printer: &mut Printer) {
    if let Some(findings) = findings {
        printer.drawn_findings(findings);
    }
    if let Some(failure) = &outcome.failure {
        print_failure(failure, printer);
    }
}

fn print_failure(failure: &RenderFailure, printer: &mut Printer) {
    printer.error(&failure.message, failure.hint.as_deref());
}

fn verb(written: &WriteSummary) -> &'static str {
    if written.replaced { "replaced" } else { "wrote" }
}

fn print_releases(outcome: &RenderOutcome, printer: &mut Printer) {
    let width = outcome.releases.iter().map(|release| release.name.len()).max().unwrap_or_default();
    for (index, (release, line)) in outcome.releases.iter().zip(&outcome.lines).enumerate() {
        printer.note(&format!("  {:>2}  {:width$}  {line}", index + 1, release.name));
    }
}

fn print_notes(word: &str, list: &[String], printer: &mut Printer) {
    for note in list {
        printer.note(&format!("{word}: {note}"));
    }
}

fn print_next(
    outcome: &RenderOutcome,
    bundle: &RenderedBundle,
    source: Option<&BundleSource>,
    printer: &mut Printer,
) {
    let directory = shell_path(&bundle.directory);
    printer.note("next:");
    printer.note(&format!("  gpu-rollout bundle verify {directory}"));
    if outcome.notes.iter().any(|note| note == IMAGE_WITHOUT_REGISTRY) {
        printer.note("  # build and push the hook's image, and render again with --hook-image REGISTRY/gpu-rollout:TAG");
    }
    let recipe = outcome.name.as_deref().unwrap_or_default();
    for line in (bundle.deployer.next)(recipe, &directory, source) {
        printer.note(&format!("  {line}"));
    }
}

fn print_summary(outcomes: &[RenderOutcome], printer: &mut Printer) {
    let all = outcomes.iter().map(|outcome| outcome.bundles.len()).sum::<usize>();
    let written = outcomes
        .iter()
        .flat_map(|outcome| &outcome.bundles)
        .filter(|bundle| matches!(bundle.result, Some(Ok(_))))
        .count();
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| outcome.failures().next().is_some())
        .map(|outcome| outcome.file.as_str())
        .collect();
    if failed.is_empty() {
        let readme = if written == 1 { "its README.md" } else { "the README.md of each" };
        printer.note(&format!(
            "{} of {} written; {readme} describes how to deploy it",
            with_noun(written, "bundle"),
            with_noun(outcomes.len(), "recipe")
        ));
    } else {
        let names: Vec<String> = failed.iter().map(|name| format!("`{name}`")).collect();
        printer.note(&format!(
            "{written} of {} written; {} of {} failed: {}",
            with_noun(all, "bundle"),
            failed.len(),
            with_noun(outcomes.len(), "recipe"),
            names.join(", ")
        ));
    }
}

fn shell_path(path: &Path) -> String {
    // `DIR/` and `DIR` are the same directory; the printed commands append a slash.
    let path = path.to_string_lossy();
    let path = path.trim_end_matches('/');
    shell_word(path).unwrap_or_else(|| format!("{path:?}"))
}
