//! The report of a run as text: the verdict, one line per node, and a timeline.

use std::fmt::Write;

use jiff::SignedDuration;

use crate::cli::acceptance_result::{acceptance_summary, acceptance_text};
use crate::cli::table::{counted, table};
use crate::cli::user_request::request_text;
use contract::count::with_noun;
use contract::record::NodeOutcome;
use ops::report::{NodeTimeline, ReportedRun, RunReport, SpanKind};
use ops::run_phase::RunPhase;
use ops::time::format_duration;

/// The width of the timeline in columns.
const COLUMNS: i64 = 60;

pub(super) fn report_text(report: &RunReport, width: Option<usize>) -> String {
    let mut text = format!("{}\n", report.title);
    for line in head(report) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    if !report.nodes.is_empty() {
        let has_tests = report.nodes.iter().any(|bar| !bar.acceptance.is_empty());
        let rows: Vec<Vec<String>> = report.nodes.iter().map(|bar| cells(bar, has_tests)).collect();
        let mut header = vec!["NODE", "OUTCOME", "TOOK", "EVICTED", "REPLACED"];
        header.extend(has_tests.then_some("TESTS"));
        header.push("REASON");
        let _ = write!(text, "\n{}", table(&header, &rows, width));
    }
    text.push_str(&drawing(report));
    text.push_str(&refused_tests(report));
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Returns the lines about the run as a whole, for the text and the page.
pub(super) fn head(report: &RunReport) -> Vec<String> {
    let mut lines = vec![match &report.run {
        Some(run) => ended(run),
        None => "no hook has run here: the report shows only what is on the nodes".to_owned(),
    }];
    let totals = &report.totals;
    let counts = [
        (totals.done, "done"),
        (totals.failed, "failed"),
        (totals.deferred, "deferred"),
        (totals.gone, "removed from the cluster"),
        (totals.open, "not finished"),
    ];
    let counts = counted(&counts);
    let counts = if counts.is_empty() { String::new() } else { format!(": {counts}") };
    lines.push(format!(
        "{}, {} of them affected{counts}; mode {}",
        with_noun(totals.nodes, "node"),
        totals.touched,
        report.mode
    ));
    lines.push(format!(
        "the hook evicted {} and replaced {}",
        with_noun(totals.evicted, "pod"),
        with_noun(totals.replaced, "plugin pod")
    ));
    let requests = report.requests.iter();
    lines.extend(requests.map(|request| format!("request: {}", request_text(request, report.at))));
    lines
}

fn ended(run: &ReportedRun) -> String {
    let took = format_duration(SignedDuration::from_secs(run.seconds));
    match &run.verdict {
        Some(verdict) => {
            format!(
                "{} (exit {}) after {took}, started {:.0}: {}",
                verdict.code, verdict.exit, run.started_at, verdict.message
            )
        }
        None if run.phase == RunPhase::Aborted => {
            format!("aborted after {took}, started {:.0}", run.started_at)
        }
        None if !run.phase.has_job() => {
            format!(
                "ended without a verdict after {took}, started {:.0}: its Job was deleted, or all its pods failed",
                run.started_at
            )
        }
        None => format!("in progress for {took}, started {:.0}", run.started_at),
    }
}

/// Returns the word for the outcome of a node.
pub(super) fn outcome(bar: &NodeTimeline) -> &'static str {
    match bar.outcome {
        Some(NodeOutcome::Done) => "done",
        Some(NodeOutcome::Gone) => "gone",
        Some(NodeOutcome::Deferred) => "deferred",
        Some(NodeOutcome::Failed) => "failed",
        None => "open",
    }
}

/// Formats each acceptance test that a node did not pass, with its message.
fn refused_tests(report: &RunReport) -> String {
    let mut text = String::new();
    for bar in &report.nodes {
        for result in bar.acceptance.iter().filter(|result| !result.verdict.accepts()) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n{}: {}", bar.node, acceptance_text(result));
            for line in result.message.lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
    }
    text
}

fn cells(bar: &NodeTimeline, has_tests: bool) -> Vec<String> {
    let count = |count: usize| if count > 0 { count.to_string() } else { "-".to_owned() };
    let took = bar.seconds.map_or_else(
        || "-".to_owned(),
        |seconds| format_duration(SignedDuration::from_secs(seconds)),
    );
    let reason = bar.reason.clone().unwrap_or_default();
    let mut cells = vec![
        bar.node.clone(),
        outcome(bar).to_owned(),
        took,
        count(bar.evicted.len()),
        count(bar.replaced.len()),
    ];
    cells.extend(has_tests.then(|| acceptance_summary(&bar.acceptance)));
    cells.push(reason);
    cells
}

/// Draws the timeline: one line per node, one column per span of time.
fn drawing(report: &RunReport) -> String {
    let spans = || report.nodes.iter().flat_map(|bar| &bar.spans);
    let (Some(from), Some(to)) =
        (spans().map(|span| span.from).min(), spans().map(|span| span.to).max())
    else {
        return String::new();
    };
    let seconds = to.duration_since(from).as_secs().max(1);
    let column = (seconds + COLUMNS - 1) / COLUMNS;
    let name = report.nodes.iter().map(|bar| bar.node.len()).max().unwrap_or(0);
    let mut text = format!(
        "\none column is {}, from {from:.0}:\n",
        format_duration(SignedDuration::from_secs(column))
    );
    for bar in report.nodes.iter().filter(|bar| !bar.spans.is_empty()) {
        let sign = |index: i64| {
            // The middle of each span of time.
            let at = from
                .saturating_add(SignedDuration::from_millis(index * column * 1000 + column * 500))
                .unwrap_or(to);
            bar.spans
                .iter()
                .find(|span| span.from <= at && at < span.to)
                .map_or(' ', |span| span.kind.sign())
        };
        let signs: String = (0..(seconds + column - 1) / column).map(sign).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:name$}  {}", bar.node, signs.trim_end());
    }
    let used = |kind: &SpanKind| spans().any(|span| span.kind == *kind);
    let legend: Vec<String> = SpanKind::ALL
        .iter()
        .filter(|kind| used(kind))
        .map(|kind| format!("{} {}", kind.sign(), kind.text()))
        .collect();
    text + "  " + &legend.join(", ") + "\n"
}
