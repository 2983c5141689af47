//! Stories of upgrades. The setup is above the line `---`, the expected story below it. `UPDATE=1`
//! rewrites the story.

use std::fmt::Write;
use std::path::PathBuf;

use simulator::report::{SecondsText, SimulationReport};
use simulator::simulate;

use crate::makespan::most_writes;
use crate::parameters::word;
use crate::script::read;

const LINE: &str = "---\n";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/engine/scenarios")
}

/// Returns the story of a run with its results.
fn told(report: &SimulationReport) -> String {
    let mut text = report.describe();
    let verdict = report.verdict.as_ref().map_or_else(
        || "none".to_owned(),
        |verdict| format!("{:?}: {}", verdict.code, verdict.message),
    );
    writeln!(text, "{:>8} {verdict}\n", SecondsText(report.duration).to_string())
        .expect("a String takes it");
    for wait in report.waits.iter() {
        writeln!(text, "waits: {wait}").expect("a String takes it");
    }
    let deaths = report.outcomes.iter().map(|(node, outcome)| format!("{node} {outcome:?}"));
    writeln!(text, "outcomes: {}", deaths.collect::<Vec<_>>().join(", "))
        .expect("a String takes it");
    writeln!(
        text,
        "unavailable at once: {}; in progress at once: {}; pods evicted: {}, refused {}; most writes on a node: {}",
        report.peak_unavailable,
        report.peak_in_progress,
        report.pods_evicted,
        report.refused_evictions,
        most_writes(report)
    )
    .expect("a String takes it");
    for violation in &report.violations {
        writeln!(text, "VIOLATION {violation}").expect("a String takes it");
    }
    text
}

#[test]
fn every_scenario_goes_as_it_is_written() {
    let only = word("SCENARIO");
    let mut wrong = Vec::new();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let (given, written) = text.split_once(LINE).unwrap_or((&text, ""));
        let report = simulate(&read(given));
        let found = told(&report);
        if !report.violations.is_empty() {
            wrong.push(format!("{name}: {}", report.violations.join("\n")));
        }
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, format!("{given}{LINE}{found}")).expect("writable");
        } else if found != written {
            wrong.push(format!(
                "{name}\n{}",
                similar::TextDiff::from_lines(written, &found).unified_diff().context_radius(2)
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nhint: UPDATE=1 cargo test --test engine scenario rewrites them",
        wrong.join("\n")
    );
}
