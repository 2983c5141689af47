//! What many runs come to.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use contract::count::Count;
use contract::duration::Duration;
use contract::exit::ExitCode;
use contract::settings::Settings;
use simulator::report::SimulationReport;
use simulator::timeline;

/// Least, middle, most of what the runs gave, and what nine of ten stay within.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Quantiles {
    least: u64,
    median: u64,
    ninety_percent: u64,
    most: u64,
}

impl Quantiles {
    fn from_values(values: impl Iterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = values.collect();
        sorted.sort_unstable();
        let rank = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0);
        Self { least: rank(0), median: rank(50), ninety_percent: rank(90), most: rank(100) }
    }

    /// One number, or a range.
    fn range(self) -> String {
        if self.least == self.most { self.most.to_string() } else { format!("{} to {}", self.least, self.most) }
    }
}

/// One run for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunSummary<'a> {
    seed: u64,
    seconds: u64,
    verdict: Option<ExitCode>,
    message: Option<&'a str>,
    unavailable: usize,
    pods_evicted: usize,
    writes: &'a BTreeMap<&'static str, usize>,
    nodes: BTreeMap<&'a str, Vec<StateEntry<'a>>>,
}

/// A node enters a state.
#[derive(Debug, Serialize)]
struct StateEntry<'a> {
    seconds: u64,
    /// `null`: it is given back.
    state: Option<&'a str>,
    cordoned: bool,
}

/// All runs for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SimulationSummary<'a> {
    mode: &'static str,
    nodes: usize,
    budget_seconds: u64,
    seconds: Quantiles,
    unavailable: Quantiles,
    pods_evicted: Quantiles,
    runs: Vec<RunSummary<'a>>,
}

fn seconds(report: &SimulationReport) -> u64 {
    report.duration.div_ceil(1000)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

pub(super) fn json<'a>(reports: &'a [SimulationReport], settings: &Settings, nodes: usize) -> SimulationSummary<'a> {
    let entered = |(at, state, cordoned): &'a (u64, Option<String>, bool)| StateEntry {
        seconds: at / 1000,
        state: state.as_deref(),
        cordoned: *cordoned,
    };
    let run = |report: &'a SimulationReport| RunSummary {
        seed: report.seed,
        seconds: seconds(report),
        verdict: report.verdict.as_ref().map(|verdict| verdict.code),
        message: report.verdict.as_ref().map(|verdict| verdict.message.as_str()),
        unavailable: report.peak_unavailable,
        pods_evicted: report.pods_evicted,
        writes: &report.writes,
        nodes: report.states.iter().map(|(node, states)| (node.as_str(), states.iter().map(entered).collect())).collect(),
    };
    SimulationSummary {
        mode: settings.mode.name(),
        nodes,
        budget_seconds: settings.budget_seconds,
        seconds: Quantiles::from_values(reports.iter().map(seconds)),
        unavailable: Quantiles::from_values(reports.iter().map(|report| number(report.peak_unavailable))),
        pods_evicted: Quantiles::from_values(reports.iter().map(|report| number(report.pods_evicted))),
        runs: reports.iter().map(run).collect(),
    }
}

pub(super) fn text(reports: &[SimulationReport], settings: &Settings, nodes: usize) -> String {
    let time = Quantiles::from_values(reports.iter().map(seconds));
    let length = |seconds: u64| Duration::from_secs(seconds).to_string();
    let policy = &settings.upgrade.policy;
    let limit = policy.max_unavailable.unwrap_or(Count::Percent(100));
    let parallel = if policy.max_parallel_upgrades == 0 { "any number".to_owned() } else { policy.max_parallel_upgrades.to_string() };
    let unavailable = Quantiles::from_values(reports.iter().map(|report| number(report.peak_unavailable)));
    let evicted = Quantiles::from_values(reports.iter().map(|report| number(report.pods_evicted)));
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for report in reports {
        let name = report.verdict.as_ref().map_or_else(|| "none".to_owned(), |verdict| verdict.code.name().to_owned());
        *ends.entry(name).or_default() += 1;
    }
    let ends: Vec<String> = ends.iter().map(|(name, count)| format!("{name} in {count}")).collect();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "mode {}, {nodes} nodes, {parallel} at once, {limit} may be unavailable; runs: {}",
        settings.mode.name(),
        reports.len()
    );
    let _ = writeln!(
        text,
        "duration     {} at least, {} in the middle, {} in nine of ten, {} at most; the hook has {}",
        length(time.least),
        length(time.median),
        length(time.ninety_percent),
        length(time.most),
        length(settings.budget_seconds)
    );
    let _ = writeln!(text, "unavailable  {} nodes at once, of {}", unavailable.range(), limit.resolve(nodes));
    let _ = writeln!(text, "evicted      {} pods", evicted.range());
    let _ = writeln!(text, "ended        {}", ends.join(", "));
    if let Some(message) = reports.iter().filter_map(|report| report.verdict.as_ref()).find(|verdict| verdict.code != ExitCode::Success) {
        let _ = writeln!(text, "             {}", message.message);
    }
    if let Some(first) = reports.first() {
        let names: Vec<String> = (0..nodes).map(|index| format!("gpu-{index}")).collect();
        let _ = write!(text, "\n{}", timeline::text(first, &names));
    }
    text
}
