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
/// The real controller's sleep.
const TICK: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn drive() -> Result<()> {
    let tasks: &[&str] = &["settle", "drive", "reroll"];
    measured("drive", &NEW.driven_values(), None, tasks).await
}

#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn assist() -> Result<()> {
    measured("assist", &NEW.values(), None, &["settle", "wake", "reroll"]).await
}

#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn steer() -> Result<()> {
    let tasks: &[&str] = &["settle", "wake", "steer", "reroll"];
    measured("steer", &NEW.steered_values(), Some(&["preflight", "hold"]), tasks).await
}

/// Measures one mode. `before`: the tasks of the hook before the operator, if there is one.
async fn measured(
    mode: &str,
    values: &Value,
    before: Option<&[&str]>,
    tasks: &[&str],
) -> Result<()> {
    scenario_within(LIMIT, &format!("pace-{mode}"), async |stack| {
        let nodes = stack.fleet(Script::seeded(12), NODES, true).await?;
        // The operator is upgraded before: for 15 s after that, no driver is replaced.
        let old = Release { driver: OLD.driver, ..NEW };
        stack.deploy("gpu-operator", old.chart, OPERATOR_NAMESPACE, &old.values()).await?;
        stack.await_validated(&nodes, Duration::from_mins(3)).await?;
        stack.await_policy("ready").await?;
        stack.rewrite(|live| (live.driver, live.tick) = ((0, 1), TICK))?;
        let timeline = NodeTimeline::record(&stack.client);
        let settings = |tasks: &[&str]| {
            json!({
                "component": {"version": NEW.chart}, "mode": mode, "tasks": tasks,
                "upgrade": {"policy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"}},
            })
        };
        if let Some(tasks) = before {
            deploy_hook(stack, "gpu-rollout-pre", values, &settings(tasks)).await?;
        }
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, values).await?;
        let ended = deploy_hook(stack, "gpu-rollout", values, &settings(tasks)).await?;
        print(mode, &timeline, ended)
    })
    .await
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

/// Prints the total time, and where the time of a typical node went: from its cordon to that of the
/// next node.
fn print(mode: &str, timeline: &NodeTimeline, ended: Timestamp) -> Result<()> {
    let cordons = timeline.cordons();
    ensure!(cordons.len() == NODES, "{} of {NODES} nodes were cordoned", cordons.len());
    let (first, last) = (cordons[0].0, timeline.last_of("node: uncordoned")?);
    let mut gaps: Vec<(SignedDuration, usize)> = (1..cordons.len())
        .map(|next| (cordons[next].0.duration_since(cordons[next - 1].0), next - 1))
        .collect();
    gaps.sort();
    let typical = *gaps.get(gaps.len() / 2).context("more than one node")?;
    let longest = *gaps.last().context("more than one node")?;
    eprintln!(
        "\n{mode}, {NODES} nodes one by one: {:.1} s from the first cordon to the last uncordon; from cordon to cordon: median {:.2} s, longest {:.2} s; from the last uncordon to the verdict: {:.2} s, of which the quiet period is {QUIET_SECONDS} s",
        last.duration_since(first).as_secs_f64(),
        typical.0.as_secs_f64(),
        longest.0.as_secs_f64(),
        ended.duration_since(last).as_secs_f64(),
    );
    for (word, (_, place)) in [("typical", typical), ("slowest", longest)] {
        let title =
            format!("{mode}, a {word} node, in seconds from its cordon to that of the next");
        let ((from, node), (to, next)) = (&cordons[place], &cordons[place + 1]);
        let of_next = timeline.between(next, (*from, *to)).into_iter();
        let mut events = timeline.between(node, (*from, *to));
        events.extend(of_next.map(|(at, what)| (at, format!("next {what}"))));
        print_events(&title, events);
    }
    Ok(())
}
