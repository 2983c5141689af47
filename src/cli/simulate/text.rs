//! A simulation as text: durations, nodes, pods and verdicts of all runs, and the timeline of the
//! first run.

use std::collections::BTreeMap;
use std::fmt::Write;

use contract::count::{Count, with_noun};
use contract::duration::Duration;
use contract::exit::ExitCode;
use contract::proof::step_count;
use contract::record::Verdict;
use contract::settings::Settings;
use ops::simulation::{Quantiles, SimulationSummary, has_failing_drivers};
use planner::policies::controller_pace;
use simulator::report::SimulationReport;
use simulator::timeline;

/// What to do about a time budget that is too small.
const MORE_TIME: &str = "raise `rollout.gpuDriver.perNode`, from which the time budget is computed, or upgrade more nodes at once";
/// What to do if the time budget is not the cause.
const NO_MORE_TIME: &str = "the time budget is not the cause: nodes whose new driver does not start (--fail) block other nodes";

pub(super) fn summary_text(
    summary: &SimulationSummary<'_>,
    reports: &[SimulationReport],
    settings: &Settings,
) -> String {
    let SimulationSummary {
        mode,
        nodes,
        budget_seconds,
        seconds,
        unavailable,
        pods_evicted,
        drivers_replaced,
        reached_before_halt,
        ..
    } = summary;
    let length = |seconds: u64| Duration::from_secs(seconds).to_string();
    let limit = settings.upgrade.policy.max_unavailable.unwrap_or(Count::Percent(100));
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for report in reports {
        let end = report.verdict.as_ref().map_or_else(
            || "without a verdict".to_owned(),
            |Verdict { code, .. }| format!("with exit code {} ({})", code.number(), code.name()),
        );
        *ends.entry(end).or_default() += 1;
    }
    let ends: Vec<String> =
        ends.iter().map(|(end, runs)| format!("{} {end}", with_noun(*runs, "run"))).collect();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "mode {mode}, {}, {}; runs: {}",
        with_noun(*nodes, "node"),
        at_once(settings, *nodes),
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
    let replaced = range(*drivers_replaced);
    let _ = writeln!(
        text,
        "replaced     the driver on {replaced} of {}, also where the new one does not work",
        with_noun(*nodes, "node")
    );
    let has_steps = settings.upgrade.canary.is_some() || !settings.upgrade.ramp.is_empty();
    if let Some(first) = reports.first().filter(|report| has_steps && report.needs_proof) {
        let _ = writeln!(text, "steps        seed {}: {}", first.seed, steps(first, settings));
    }
    if let Some(reached) = reached_before_halt {
        let halted = reports.iter().filter(|report| report.halted_at.is_some()).count();
        let reached = range(*reached);
        let _ = writeln!(
            text,
            "halted       in {}, when the new driver was on {reached} of {}",
            with_noun(halted, "run"),
            with_noun(*nodes, "node")
        );
    }
    let _ = writeln!(text, "ended        {}", ends.join(", "));
    if let Some((report, failed)) = reports
        .iter()
        .filter_map(|report| Some((report, report.verdict.as_ref()?)))
        .find(|(_, verdict)| verdict.code != ExitCode::Success)
    {
        let seed = report.seed;
        let _ = writeln!(text, "             seed {seed}: {}", failed.message_without_hint());
        if failed.code == ExitCode::Budget {
            let hint = if has_failing_drivers(report) { NO_MORE_TIME } else { MORE_TIME };
            let _ = writeln!(text, "             hint: {hint}");
        }
    }
    if let Some(first) = reports.first() {
        let names: Vec<String> = (0..*nodes).map(|index| format!("gpu-{index}")).collect();
        let _ = write!(text, "\n{}", timeline::text(first, &names));
    }
    text
}

/// Describes when each step of a run ended.
fn steps(report: &SimulationReport, settings: &Settings) -> String {
    let upgrade = &settings.upgrade;
    let count = step_count(upgrade.canary.as_ref(), &upgrade.ramp);
    let length = |milliseconds: u64| Duration::from_secs(milliseconds.div_ceil(1000)).to_string();
    let ends: Vec<String> = (1..)
        .zip(&report.step_ends)
        .take(count)
        .map(|(step, at)| format!("step {step} of {count} ended after {}", length(*at)))
        .collect();
    let halted = report.halted_at.map(|at| format!("the rollout halted after {}", length(at)));
    let all: Vec<String> = ends.into_iter().chain(halted).collect();
    if all.is_empty() {
        format!("no step of {count} ended before the last one")
    } else {
        all.join(", ")
    }
}

/// Says how many nodes are upgraded at once, and which limits this number comes from.
fn at_once(settings: &Settings, nodes: usize) -> String {
    let policy = &settings.upgrade.policy;
    // In every mode, as long as no node has failed.
    let number = controller_pace(policy, settings, nodes).parallel();
    let parallel = if policy.max_parallel_upgrades == 0 {
        "unlimited".to_owned()
    } else {
        policy.max_parallel_upgrades.to_string()
    };
    let unavailable = policy
        .max_unavailable
        .map_or_else(String::new, |count| format!(", maxUnavailable {count}"));
    format!("{number} at once (maxParallelUpgrades {parallel}{unavailable})")
}

/// Formats one number or a range.
fn range(quantiles: Quantiles) -> String {
    let Quantiles { least, most, .. } = quantiles;
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

#[cfg(test)]
mod tests {
    use contract::policy::{Policy, UpgradeSettings};

    use super::*;

    #[test]
    fn steps_have_their_ends_and_the_halt() {
        let upgrade = UpgradeSettings {
            ramp: ["10%", "50%"].map(|share| share.parse().expect("a share")).to_vec(),
            ..UpgradeSettings::default()
        };
        let settings = Settings { upgrade, ..Settings::default() };
        let mut report = SimulationReport::default();
        assert_eq!(steps(&report, &settings), "no step of 3 ended before the last one");
        report.step_ends = vec![60_000];
        report.halted_at = Some(120_000);
        assert_eq!(
            steps(&report, &settings),
            "step 1 of 3 ended after 1m, the rollout halted after 2m"
        );
    }

    /// The header said `4 at once`, although `maxUnavailable` allowed only two of eight nodes.
    #[test]
    fn at_once_is_the_effective_number_of_nodes() {
        for (max_parallel_upgrades, max_unavailable, expected) in [
            (4, Some(Count::Percent(25)), "2 at once (maxParallelUpgrades 4, maxUnavailable 25%)"),
            (1, Some(Count::Number(3)), "1 at once (maxParallelUpgrades 1, maxUnavailable 3)"),
            (
                0,
                Some(Count::Percent(50)),
                "4 at once (maxParallelUpgrades unlimited, maxUnavailable 50%)",
            ),
            (0, None, "8 at once (maxParallelUpgrades unlimited)"),
        ] {
            let policy = Policy { max_parallel_upgrades, max_unavailable, ..Policy::default() };
            let upgrade = UpgradeSettings { policy, ..UpgradeSettings::default() };
            let settings = Settings { upgrade, ..Settings::default() };
            assert_eq!(at_once(&settings, 8), expected);
        }
    }
}
