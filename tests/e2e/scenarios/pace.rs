//! Measures the cost of a driven upgrade, and how much longer it takes than its drivers do. It is
//! not a test. `make bench` runs it; `make e2e` does not.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::harness::audit::Request;
use crate::harness::fleet::{DRA_NAMESPACE, NEW, OLD, Release};
use crate::harness::hook_release::{HookRelease, QUIET_SECONDS};
use crate::harness::meter::{Measured, Meter};
use crate::harness::node_timeline::NodeTimeline;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};
use crate::harness::turns::Turns;

mod one_by_one;

/// The fleets. `make soak` measures larger ones (`scenarios::scale`).
const SIZES: [usize; 2] = [10, 100];
const LIMIT: Duration = Duration::from_mins(100);
const BUDGET_SECONDS: u64 = 3_000;
/// Seconds of a real driver: the minimum of the GPU Operator's start-up probe and an installation.
const REAL_DRIVER: u64 = 130;
const DRIVER: &str = "app.kubernetes.io/component=nvidia-driver";
/// The pods that a node needs before it is released, as namespace and labels.
const PODS: [(&str, &str); 5] = [
    (OPERATOR_NAMESPACE, DRIVER),
    (OPERATOR_NAMESPACE, "app=nvidia-container-toolkit-daemonset"),
    (OPERATOR_NAMESPACE, "app=nvidia-device-plugin-daemonset"),
    (OPERATOR_NAMESPACE, "app=nvidia-operator-validator"),
    (DRA_NAMESPACE, "nvidia-dra-driver-gpu-component=kubelet-plugin"),
];

/// Measures growing fleets, each with a tenth of its nodes at once and fast drivers.
#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn drive_on_fleets_that_grow() -> Result<()> {
    scenario_within(LIMIT, "pace", async |stack| {
        stack.fleet(Script::seeded(12), 3, true).await?;
        let (mut rows, mut before, mut release) = (Vec::new(), 3, &NEW);
        for size in SIZES {
            stack.grow(before, size).await?;
            stack.rewrite(|live| live.driver_manager = true)?;
            rows.push(run(stack, release, size, size.div_ceil(10)).await?);
            // Alternates the releases, so that the running one is old each time.
            (before, release) = (size, if release.driver == NEW.driver { &OLD } else { &NEW });
        }
        table(&rows);
        Ok(())
    })
    .await
}

/// Measures eight nodes, four at once, with drivers as slow as real ones: two rounds.
#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn drive_with_slow_drivers() -> Result<()> {
    scenario_within(LIMIT, "pace-real", async |stack| {
        stack.fleet(Script::seeded(13), 8, true).await?;
        let milliseconds = REAL_DRIVER * 1_000;
        stack.rewrite(|live| live.driver = (milliseconds, milliseconds + 1))?;
        let timeline = NodeTimeline::record(&stack.client);
        table(&[run(stack, &NEW, 8, 4).await?]);
        let cordons = timeline.cordons();
        let (from, node) = cordons.first().context("no node was cordoned")?;
        let (to, _) = cordons.last().context("no node was cordoned")?;
        print_events(
            "drive, a node of the first four, in seconds from its cordon",
            timeline.between(node, (*from, *to)),
        );
        Ok(())
    })
    .await
}

/// Prints what happened to a node, in order.
fn print_events(title: &str, mut events: Vec<(SignedDuration, String)>) {
    events.sort();
    eprintln!("\n{title}:");
    for (at, what) in events {
        eprintln!("{:>7.2}  {what}", at.as_secs_f64());
    }
}

/// One upgrade.
struct Row {
    nodes: usize,
    parallel: usize,
    measured: Measured,
    /// The time from the first cordon until the release of the last node.
    upgrade: SignedDuration,
    requests: usize,
    writes: usize,
    /// The time from a node's driver being ready until the start of the node that takes its slot:
    /// median and longest.
    after_driver: (SignedDuration, SignedDuration),
    /// The same from the readiness of all pods that depend on the driver: toolkit, device plugin,
    /// validator, DRA plugin.
    after_pods: (SignedDuration, SignedDuration),
}

async fn run(stack: &Stack, release: &Release, nodes: usize, parallel: usize) -> Result<Row> {
    let settings = json!({
        "component": {"version": release.chart}, "mode": "drive", "tasks": ["settle", "drive", "reroll"],
        "budgetSeconds": BUDGET_SECONDS,
        "upgrade": {"policy": {"maxParallelUpgrades": parallel, "maxUnavailable": "50%"}, "startSeconds": 600},
    });
    let hook = HookRelease::new(stack, "gpu-rollout");
    let (turns, begin) = (Turns::record(&stack.client), Timestamp::now());
    let meter = Meter::start(stack.control_plane.port);
    stack
        .deploy("gpu-operator", release.chart, OPERATOR_NAMESPACE, &release.driven_values())
        .await?;
    let said = hook.deploy(&release.driven_values(), &settings).await?;
    let measured = meter.end()?;
    ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
    let requests: Vec<Request> =
        hook.requests(begin)?.into_iter().filter(|request| request.resource != "leases").collect();
    let (mut starts, mut ends) = (turns.starts(), turns.ends());
    ensure!(
        starts.len() == nodes && ends.len() == nodes,
        "not every node was upgraded once: {} started, {} ended",
        starts.len(),
        ends.len()
    );
    starts.sort();
    ends.sort();
    let upgrade = ends
        .last()
        .zip(starts.first())
        .map(|(end, start)| end.duration_since(*start))
        .unwrap_or_default();
    Ok(Row {
        nodes,
        parallel,
        measured,
        upgrade,
        requests: requests.len(),
        writes: requests.iter().filter(|request| request.is_write()).count(),
        after_driver: handovers(
            &starts,
            parallel,
            ready(stack, &[(OPERATOR_NAMESPACE, DRIVER)]).await?,
        )?,
        after_pods: handovers(&starts, parallel, ready(stack, &PODS).await?)?,
    })
}

/// Returns when the last of these pods of each node became ready, in order.
async fn ready(stack: &Stack, pods: &[(&str, &str)]) -> Result<Vec<Timestamp>> {
    let mut nodes: BTreeMap<String, Timestamp> = BTreeMap::new();
    for (namespace, labels) in pods {
        let pods = stack.pods_by_node(namespace, labels).await?;
        for (node, time) in pods.keys().zip(stack.ready_times(pods.values())?) {
            nodes.entry(node.clone()).and_modify(|last| *last = time.max(*last)).or_insert(time);
        }
    }
    let mut times: Vec<Timestamp> = nodes.into_values().collect();
    times.sort();
    Ok(times)
}

/// Returns how long free slots stayed unused: median and longest.
fn handovers(
    starts: &[Timestamp],
    parallel: usize,
    free: Vec<Timestamp>,
) -> Result<(SignedDuration, SignedDuration)> {
    let mut times: Vec<SignedDuration> = starts
        .iter()
        .skip(parallel)
        .zip(free)
        .map(|(start, free)| start.duration_since(free))
        .collect();
    times.sort();
    let median = times.get(times.len() / 2).copied().context("more nodes than slots")?;
    Ok((median, times.last().copied().unwrap_or(median)))
}

fn table(rows: &[Row]) {
    eprintln!(
        "\n{:<6} {:>6} {:>9} {:>9} {:>9} {:>9} {:>13} {:>11} {:>17} {:>17}",
        "drive",
        "at once",
        "wall s",
        "upgrade s",
        "CPU s",
        "peak MiB",
        "requests/node",
        "writes/node",
        "after driver s",
        "after its pods s"
    );
    for row in rows {
        let Row { nodes, parallel, measured, upgrade, requests, writes, after_driver, after_pods } =
            row;
        let Measured { wall, peak_kib, processor } = measured;
        #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
        let mean = |count: usize| count as f64 / *nodes as f64;
        let pair = |(median, longest): &(SignedDuration, SignedDuration)| {
            format!("{:.2}, {:.2}", median.as_secs_f64(), longest.as_secs_f64())
        };
        eprintln!(
            "{nodes:<6} {parallel:>7} {:>9.1} {:>9.1} {processor:>9.2} {:>9} {:>13.1} {:>11.1} {:>17} {:>17}",
            wall.as_secs_f64(),
            upgrade.as_secs_f64(),
            peak_kib / 1024,
            mean(*requests),
            mean(*writes),
            pair(after_driver),
            pair(after_pods),
        );
    }
    eprintln!(
        "\nafter: from the readiness of a node's driver (of all its pods) to the start of the node that takes its slot: median, longest"
    );
    eprintln!(
        "requests without those for the Lease; wall: the life of the hook's process, with a quiet period of {QUIET_SECONDS} s\n"
    );
}
