//! The report of a run as a self-contained HTML page without scripts.

use serde::Serialize;

use super::text::{head, outcome};
use crate::cli::acceptance_result::acceptance_text;
use contract::exit::ExitCode;
use contract::record::acceptance::AcceptanceResult;
use deployer::template::{RenderError, TemplateSet};
use ops::report::{NodeTimeline, RunReport, Timeline, timeline};
use ops::time::format_duration;

const NAME: &str = "report.html.j2";
const SOURCE: &str = include_str!("../../../templates/report/report.html.j2");

#[derive(Serialize)]
struct ReportPage<'a> {
    program: &'static str,
    rollouts: Vec<PageRollout<'a>>,
}

#[derive(Serialize)]
struct PageRollout<'a> {
    title: &'a str,
    /// `good`, `bad` or `open`.
    verdict: &'static str,
    badge: String,
    head: Vec<String>,
    timeline: Option<Timeline>,
    nodes: Vec<PageNode<'a>>,
    notes: &'a [String],
    at: String,
}

#[derive(Serialize)]
struct PageNode<'a> {
    name: &'a str,
    outcome: &'static str,
    took: String,
    reason: &'a str,
    evicted: Vec<&'a str>,
    replaced: Vec<String>,
    tests: Vec<String>,
}

/// Renders the page.
///
/// # Errors
/// The template cannot be rendered, which is a bug of this program.
pub(in crate::cli) fn page(reports: &[RunReport]) -> Result<String, RenderError> {
    let page = ReportPage {
        program: concat!("gpu-rollout ", env!("CARGO_PKG_VERSION")),
        rollouts: reports.iter().map(rollout).collect(),
    };
    TemplateSet::new(&[(NAME, SOURCE)])?.render(NAME, &page)
}

fn rollout(report: &RunReport) -> PageRollout<'_> {
    let verdict = report.run.as_ref().map(|run| run.verdict.as_ref());
    let (class, badge) = match verdict {
        Some(Some(verdict)) if verdict.exit == ExitCode::Success.number() => {
            ("good", "settled".to_owned())
        }
        Some(Some(verdict)) => ("bad", format!("{}, exit {}", verdict.code, verdict.exit)),
        Some(None) => ("open", "in progress".to_owned()),
        None => ("open", "no hook".to_owned()),
    };
    PageRollout {
        title: &report.title,
        verdict: class,
        badge,
        head: head(report),
        timeline: timeline(report),
        nodes: report.nodes.iter().map(node).collect(),
        notes: &report.notes,
        at: format!("{:.0}", report.at),
    }
}

/// Formats the result of an acceptance test with its message.
fn test(result: &AcceptanceResult) -> String {
    let message = result.message.trim();
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    acceptance_text(result) + &message
}

fn node(bar: &NodeTimeline) -> PageNode<'_> {
    PageNode {
        name: &bar.node,
        outcome: outcome(bar),
        took: bar.seconds.map_or_else(String::new, |seconds| {
            format_duration(jiff::SignedDuration::from_secs(seconds))
        }),
        reason: bar.reason.as_deref().unwrap_or_default(),
        evicted: bar.evicted.iter().map(|one| one.pod.as_str()).collect(),
        replaced: bar.replaced.iter().map(|one| format!("{} ({})", one.pod, one.cause)).collect(),
        tests: bar.acceptance.iter().map(test).collect(),
    }
}
