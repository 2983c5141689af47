//! Measures ten nodes one by one, with drivers that are ready at once: what is left is the time that
//! the operands, the controllers and the hook need for each node.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{LIMIT, print_events};
use crate::harness::fleet::{NEW, OLD, Release};
use crate::harness::hook_release::{HookRelease, QUIET_SECONDS};
use crate::harness::node_timeline::NodeTimeline;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};

const NODES: usize = 10;
/// The upgrades of a mode. The median is the result.
const RUNS: usize = 3;
/// The real controller's sleep.
const TICK: Duration = Duration::from_mins(2);

/// How a mode upgrades.
struct Mode {
    name: &'static str,
    values: fn(&Release) -> Value,
    /// The tasks of the hook before the operator, if there is one.
    before: Option<&'static [&'static str]>,
    tasks: &'static [&'static str],
}

#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn drive() -> Result<()> {
    measured(&Mode {
        name: "drive",
        values: Release::driven_values,
        before: None,
        tasks: &["settle", "drive", "reroll"],
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn assist() -> Result<()> {
    measured(&Mode {
        name: "assist",
        values: Release::values,
        before: None,
        tasks: &["settle", "wake", "reroll"],
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn steer() -> Result<()> {
    measured(&Mode {
        name: "steer",
        values: Release::steered_values,
        before: Some(&["preflight", "hold"]),
        tasks: &["settle", "wake", "steer", "reroll"],
    })
    .await
}

/// Measures one mode: upgrades to the new driver and back.
async fn measured(mode: &Mode) -> Result<()> {
    scenario_within(LIMIT, &format!("pace-{}", mode.name), async |stack| {
        // The upgrade controller takes its tick when it starts, so the script never changes.
        stack
            .fleet(Script { driver: (0, 1), tick: TICK, ..Script::seeded(12) }, NODES, true)
            .await?;
        // The first upgrade is not measured, because a new operator replaces all operands. In the next
        // one, its leader may still be younger than a minute: the hook then waits longer for it, but
        // this is not the median.
        let old = Release { driver: OLD.driver, ..NEW };
        upgrade(stack, mode, &old).await?;
        let mut runs = Vec::new();
        for release in [&NEW, &old].into_iter().cycle().take(RUNS) {
            let run = upgrade(stack, mode, release).await?;
            run.print_totals(mode.name);
            runs.push(run);
        }
        runs.sort_by_key(|run| run.total);
        runs.get(RUNS / 2).context("one upgrade")?.print_nodes(mode.name);
        Ok(())
    })
    .await
}

/// Upgrades the fleet to a release.
async fn upgrade(stack: &Stack, mode: &Mode, release: &Release) -> Result<Run> {
    let values = (mode.values)(release);
    let settings = |tasks: &[&str]| {
        json!({
            "component": {"version": release.chart}, "mode": mode.name, "tasks": tasks,
            "upgrade": {"policy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"}},
        })
    };
    let timeline = NodeTimeline::record(&stack.client);
    if let Some(tasks) = mode.before {
        deploy_hook(stack, "gpu-rollout-pre", &values, &settings(tasks)).await?;
    }
    stack.deploy("gpu-operator", release.chart, OPERATOR_NAMESPACE, &values).await?;
    let ended = deploy_hook(stack, "gpu-rollout", &values, &settings(mode.tasks)).await?;
    Run::new(timeline, ended)
}

/// Deploys a hook release, and returns when its Job succeeded.
async fn deploy_hook(
    stack: &Stack,
    name: &str,
    values: &Value,
    settings: &Value,
) -> Result<Timestamp> {
    let hook = HookRelease::new(stack, name);
    let said = hook.deploy(values, settings).await?;
    ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
    Ok(hook.verdict().await?.at)
}

/// One upgrade of the fleet.
struct Run {
    timeline: NodeTimeline,
    /// When each node was cordoned, in this order.
    cordons: Vec<(Timestamp, String)>,
    /// From the first cordon to the last uncordon.
    total: SignedDuration,
    /// From the last uncordon to the verdict.
    verdict_after: SignedDuration,
    /// From a node's cordon to that of the next, with the place of the first of them, from the
    /// shortest to the longest.
    gaps: Vec<(SignedDuration, usize)>,
}

impl Run {
    fn new(mut timeline: NodeTimeline, ended: Timestamp) -> Result<Self> {
        timeline.stop();
        let cordons = timeline.cordons();
        ensure!(cordons.len() == NODES, "{} of {NODES} nodes were cordoned", cordons.len());
        let last = timeline.last_of("node: uncordoned")?;
        let mut gaps: Vec<(SignedDuration, usize)> = (1..NODES)
            .map(|next| (cordons[next].0.duration_since(cordons[next - 1].0), next - 1))
            .collect();
        gaps.sort();
        let (total, verdict_after) =
            (last.duration_since(cordons[0].0), ended.duration_since(last));
        Ok(Self { timeline, cordons, total, verdict_after, gaps })
    }

    fn typical(&self) -> (SignedDuration, usize) {
        self.gaps[self.gaps.len() / 2]
    }

    fn slowest(&self) -> (SignedDuration, usize) {
        self.gaps[self.gaps.len() - 1]
    }

    fn print_totals(&self, mode: &str) {
        eprintln!(
            "\n{mode}, {NODES} nodes one by one: {:.1} s from the first cordon to the last uncordon; from cordon to cordon: median {:.2} s, longest {:.2} s; from the last uncordon to the verdict: {:.2} s, of which the quiet period is {QUIET_SECONDS} s",
            self.total.as_secs_f64(),
            self.typical().0.as_secs_f64(),
            self.slowest().0.as_secs_f64(),
            self.verdict_after.as_secs_f64(),
        );
    }

    /// Prints where the time of a node went: from its cordon to that of the next node.
    fn print_nodes(&self, mode: &str) {
        for (word, (_, place)) in [("typical", self.typical()), ("slowest", self.slowest())] {
            let title = format!(
                "{mode}, the {word} node of the median upgrade, in seconds from its cordon to that of the next"
            );
            let ((from, node), (to, next)) = (&self.cordons[place], &self.cordons[place + 1]);
            let mut events = self.timeline.between(node, (*from, *to));
            let of_next = self.timeline.between(next, (*from, *to)).into_iter();
            events.extend(of_next.map(|(at, what)| (at, format!("next {what}"))));
            print_events(&title, events);
        }
    }
}
