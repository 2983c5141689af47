//! The report as metrics, for the textfile collector of Prometheus' node exporter or a Pushgateway.
//! The hook's own metrics disappear with its pod.

use super::RunReport;
use contract::metrics::{self as table, Metric, MetricSamples};

/// Formats the metrics of all runs. A rollout without a hook release has none, because it has no
/// run record.
pub fn format_metrics(reports: &[RunReport]) -> String {
    let mut samples = MetricSamples::default();
    for report in reports {
        if let Some((namespace, release)) =
            report.release.as_deref().and_then(|release| release.split_once('/'))
        {
            samples.about(namespace, release, report.driver);
            add_to(&mut samples, report);
        }
    }
    samples.text()
}

fn add_to(samples: &mut MetricSamples, report: &RunReport) {
    let Some(run) = &report.run else { return };
    let at = |at: jiff::Timestamp| at.as_duration().as_secs_f64();
    let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let mut add = |metric: &Metric, value: f64| samples.add(metric, [], value);
    if let Some(verdict) = &run.verdict {
        add(&table::LAST_EXIT_CODE, f64::from(verdict.exit));
    }
    add(&table::LAST_START, at(run.started_at));
    if let Some(ended_at) = run.ended_at {
        add(&table::LAST_END, at(ended_at));
    }
    let totals = &report.totals;
    add(&table::LAST_EVICTED, number(totals.evicted));
    add(&table::LAST_REPLACED, number(totals.replaced));
    let outcomes = [
        ("done", totals.done),
        ("failed", totals.failed),
        ("deferred", totals.deferred),
        ("gone", totals.gone),
        ("open", totals.open),
    ];
    if let Some(halt) = &run.halt {
        samples.add(&table::LAST_HALTED, [halt.cause.name()], 1.0);
    }
    for (outcome, count) in outcomes {
        samples.add(&table::LAST_NODES, [outcome], number(count));
    }
}
