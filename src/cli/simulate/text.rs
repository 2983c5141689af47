//! A simulation as text: durations, nodes, pods and verdicts of all runs, and the timeline of the
//! first run.

use std::collections::BTreeMap;
use std::fmt::Write;

use contract::count::{Count, with_noun};
use contract::duration::Duration;
use contract::exit::ExitCode;
use contract::settings::Settings;
use ops::simulation::{Quantiles, SimulationSummary, message_without_hint};
use simulator::report::SimulationReport;
use simulator::timeline;

/// What to do about a time budget that is too small.
const MORE_TIME: &str = "raise `rollout.gpuDriver.perNode`, from which the time budget is computed, or upgrade more nodes at once";

pub(super) fn summary_text(
    summary: &SimulationSummary<'_>,
    reports: &[SimulationReport],
    settings: &Settings,
) -> String {
    let SimulationSummary {
        mode, nodes, budget_seconds, seconds, unavailable, pods_evicted, ..
    } = summary;
    let length = |seconds: u64| Duration::from_secs(seconds).to_string();
    let policy = &settings.upgrade.policy;
    let limit = policy.max_unavailable.unwrap_or(Count::Percent(100));
    let parallel = if policy.max_parallel_upgrades == 0 {
        "any number".to_owned()
    } else {
        policy.max_parallel_upgrades.to_string()
    };
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for report in reports {
        *ends
            .entry(report.verdict.as_ref().map_or("none", |verdict| verdict.code.name()))
            .or_default() += 1;
    }
    let ends: Vec<String> = ends.iter().map(|(name, count)| format!("{name} in {count}")).collect();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "mode {mode}, {}, {parallel} at once, {limit} may be unavailable; runs: {}",
        with_noun(*nodes, "node"),
        reports.len()
    );
    let _ = writeln!(
        text,
        "duration     minimum {}, median {}, 90th percentile {}, maximum {}; time budget {}",
        length(seconds.least),
        length(seconds.median),
        length(seconds.ninety_percent),
        length(seconds.most),
        length(*budget_seconds)
    );
    let _ = writeln!(
        text,
        "unavailable  {} at once, limit {}",
        range(*unavailable),
        limit.resolve(*nodes)
    );
    let _ = writeln!(text, "evicted      {} pods", range(*pods_evicted));
    let _ = writeln!(text, "ended        {}", ends.join(", "));
    if let Some(failed) = reports
        .iter()
        .filter_map(|report| report.verdict.as_ref())
        .find(|verdict| verdict.code != ExitCode::Success)
    {
        let _ = writeln!(text, "             {}", message_without_hint(failed));
        if failed.code == ExitCode::Budget {
            let _ = writeln!(text, "             hint: {MORE_TIME}");
        }
    }
    if let Some(first) = reports.first() {
        let names: Vec<String> = (0..*nodes).map(|index| format!("gpu-{index}")).collect();
        let _ = write!(text, "\n{}", timeline::text(first, &names));
    }
    text
}

/// Formats one number or a range.
fn range(quantiles: Quantiles) -> String {
    let Quantiles { least, most, .. } = quantiles;
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}
