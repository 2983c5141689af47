//! The summary of many runs. These types define the format of `gpu-rollout simulate -o json`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use contract::exit::ExitCode;
use contract::record::Verdict;
use contract::settings::Settings;
use planner::drive_upgrade::state::UpgradeState;
use planner::progress::is_failing;
use simulator::report::SimulationReport;

/// Quantiles of a value over all runs.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Quantiles {
    /// The minimum.
    pub least: u64,
    /// The median.
    pub median: u64,
    /// The 90th percentile.
    pub ninety_percent: u64,
    /// The maximum.
    pub most: u64,
}

impl Quantiles {
    fn from_values(values: impl Iterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = values.collect();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            sorted
                .get((sorted.len() * percent).div_ceil(100).saturating_sub(1))
                .copied()
                .unwrap_or(0)
        };
        Self { least: rank(0), median: rank(50), ninety_percent: rank(90), most: rank(100) }
    }

    fn from_counts(counts: impl Iterator<Item = usize>) -> Self {
        Self::from_values(counts.map(|count| u64::try_from(count).unwrap_or(u64::MAX)))
    }
}

/// The summary of one run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunSummary<'a> {
    seed: u64,
    seconds: u64,
    verdict: Option<ExitCode>,
    message: Option<String>,
    unavailable: usize,
    pods_evicted: usize,
    /// The nodes that were canaries.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    canaries: &'a BTreeSet<String>,
    /// When each step ended, without the last one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    step_end_seconds: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    halted_at_seconds: Option<u64>,
    writes: &'a BTreeMap<&'static str, usize>,
    nodes: BTreeMap<&'a str, Vec<StateEntry<'a>>>,
}

/// The time at which a node enters a state.
#[derive(Debug, Serialize)]
struct StateEntry<'a> {
    seconds: u64,
    /// `null`: the upgrade has released the node.
    state: Option<&'a str>,
    cordoned: bool,
}

/// The summary of all runs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulationSummary<'a> {
    /// The mode.
    pub mode: &'static str,
    /// The number of nodes.
    pub nodes: usize,
    /// The time budget of the hook, in seconds.
    pub budget_seconds: u64,
    /// The duration of the upgrade, in seconds.
    pub seconds: Quantiles,
    /// The maximum number of nodes that are unavailable at the same time.
    pub unavailable: Quantiles,
    /// The number of evicted pods.
    pub pods_evicted: Quantiles,
    /// The number of nodes whose driver was replaced, whether it works or not.
    pub drivers_replaced: Quantiles,
    /// The same, of the runs that halted: how many nodes the new driver reached. Absent: no run
    /// halted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached_before_halt: Option<Quantiles>,
    runs: Vec<RunSummary<'a>>,
}

impl<'a> SimulationSummary<'a> {
    /// Summarizes the runs of a fleet.
    pub fn new(reports: &'a [SimulationReport], settings: &Settings, nodes: usize) -> Self {
        let has_halted = |report: &SimulationReport| report.halted_at.is_some();
        let halted = reports.iter().filter(|report| has_halted(report));
        Self {
            mode: settings.mode.name(),
            nodes,
            budget_seconds: settings.budget_seconds,
            seconds: Quantiles::from_values(reports.iter().map(seconds)),
            unavailable: Quantiles::from_counts(
                reports.iter().map(|report| report.peak_unavailable),
            ),
            pods_evicted: Quantiles::from_counts(reports.iter().map(|report| report.pods_evicted)),
            drivers_replaced: Quantiles::from_counts(reports.iter().map(drivers_replaced)),
            reached_before_halt: reports
                .iter()
                .any(has_halted)
                .then(|| Quantiles::from_counts(halted.map(drivers_replaced))),
            runs: reports.iter().map(RunSummary::new).collect(),
        }
    }
}

impl<'a> RunSummary<'a> {
    fn new(report: &'a SimulationReport) -> Self {
        let entered = |(at, state, cordoned): &'a (u64, Option<String>, bool)| StateEntry {
            seconds: at / 1000,
            state: state.as_deref(),
            cordoned: *cordoned,
        };
        Self {
            seed: report.seed,
            seconds: seconds(report),
            verdict: report.verdict.as_ref().map(|verdict| verdict.code),
            message: report.verdict.as_ref().map(Verdict::message_without_hint),
            unavailable: report.peak_unavailable,
            pods_evicted: report.pods_evicted,
            canaries: &report.canaries,
            step_end_seconds: report.step_ends.iter().map(|at| at.div_ceil(1000)).collect(),
            halted_at_seconds: report.halted_at.map(|at| at.div_ceil(1000)),
            writes: &report.writes,
            nodes: report
                .states
                .iter()
                .map(|(node, states)| (node.as_str(), states.iter().map(entered).collect()))
                .collect(),
        }
    }
}

/// Returns the number of nodes whose driver was replaced.
fn drivers_replaced(report: &SimulationReport) -> usize {
    let restarted = Some(UpgradeState::PodRestartRequired.name());
    let has_restarted = |states: &&Vec<(u64, Option<String>, bool)>| {
        states.iter().any(|(_, state, _)| state.as_deref() == restarted)
    };
    report.states.values().filter(has_restarted).count()
}

fn seconds(report: &SimulationReport) -> u64 {
    report.duration.div_ceil(1000)
}

/// Returns whether, at the end of a run, there are nodes whose new driver does not start.
pub fn has_failing_drivers(report: &SimulationReport) -> bool {
    // In a simulation, nodes fail only because of their driver.
    let failed = Some(UpgradeState::UpgradeFailed.name());
    let mut last = report.states.values().filter_map(|states| states.last());
    last.any(|(_, state, _)| state.as_deref() == failed)
        || report.waits.iter().any(|wait| is_failing(&wait))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use planner::reason::{Reason, Wait};

    use super::*;

    #[test]
    fn drivers_that_do_not_start_are_recognized() {
        let wait = |trouble: Option<&str>, restarts| Wait {
            node: Some("gpu-0".into()),
            reason: Arc::new(Reason::DriverNotReady {
                state: Some("pod-restart-required".to_owned()),
                trouble: trouble.map(str::to_owned),
                restarts,
            }),
            since: jiff::Timestamp::UNIX_EPOCH,
        };
        for (state, wait, expected) in [
            ("pod-restart-required", wait(None, 0), false),
            ("pod-restart-required", wait(Some("CrashLoopBackOff"), 9), true),
            ("upgrade-failed", wait(None, 0), true),
        ] {
            let entered = vec![(0, None, false), (1000, Some(state.to_owned()), true)];
            let mut report = SimulationReport::default();
            report.waits = [wait].into_iter().collect();
            report.states = [("gpu-0".to_owned(), entered)].into();
            assert_eq!(has_failing_drivers(&report), expected, "{state}");
        }
    }

    #[test]
    fn hint_is_removed_from_middle_of_message() {
        let verdict = |message: &str, hint: Option<&str>| Verdict {
            code: ExitCode::Budget,
            message: message.to_owned(),
            reasons: Vec::new(),
            at: jiff::Timestamp::UNIX_EPOCH,
            hint: hint.map(str::to_owned),
        };
        let late = verdict("a; b; hint: wait; or not; released: c", Some("wait; or not"));
        assert_eq!(late.message_without_hint(), "a; b; released: c");
        assert_eq!(verdict("a; b", None).message_without_hint(), "a; b");
    }
}
