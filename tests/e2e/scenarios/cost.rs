//! Measures the cost of the hook. It is not a test. `make bench` runs it; `make e2e` does not.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::audit::Request;
use crate::harness::fleet::OLD;
use crate::harness::hook_release::HookRelease;
use crate::harness::meter::{Measured, Meter};
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;

/// Nodes of the large fleet, unless `GPU_ROLLOUT_BENCH_NODES` is set.
const NODES: usize = 1_000;
const SMALL: usize = 3;
const LIMIT: Duration = Duration::from_mins(50);
/// The re-roll of hundreds of plugins takes longer than any step of the tests.
const BUDGET_SECONDS: u64 = 1_800;
/// The row of a run that has nothing to do.
const NOTHING: &str = "nothing to do";

/// Measures a small fleet, then a large one: a run after the fleet has grown, one with other
/// settings, and one with nothing to do.
#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn cost_of_hook_in_small_and_large_fleet() -> Result<()> {
    let nodes = std::env::var("GPU_ROLLOUT_BENCH_NODES")
        .map_or(Ok(NODES), |text| text.parse())
        .context("GPU_ROLLOUT_BENCH_NODES")?;
    scenario_within(LIMIT, "cost", async |stack| {
        stack.fleet(Script::seeded(11), SMALL, true).await?;
        let mut rows = measure(stack, SMALL).await?;
        stack.grow(SMALL, nodes).await?;
        rows.extend(measure(stack, nodes).await?);
        table(&rows);
        Ok(())
    })
    .await
}

/// One run of the hook.
struct Row {
    what: &'static str,
    nodes: usize,
    wall: Duration,
    peak_kib: u64,
    requests: usize,
    writes: usize,
    /// Stale plugins that the hook replaced. On new nodes, the plugin starts before its driver. So
    /// the first run on a grown fleet replaces many.
    replaced: usize,
}

async fn measure(stack: &Stack, nodes: usize) -> Result<Vec<Row>> {
    let hook = HookRelease::new(stack, "gpu-rollout");
    let mut rows = Vec::new();
    // Another setting changes the digest, so the hook does not find a completed run.
    for (what, setting) in
        [("after growing", nodes % 7), ("another setting", nodes % 7 + 1), (NOTHING, nodes % 7 + 1)]
    {
        rows.push(
            run(
                stack,
                &hook,
                what,
                nodes,
                &json!({"tolerateNotReady": setting, "budgetSeconds": BUDGET_SECONDS}),
            )
            .await?,
        );
    }
    Ok(rows)
}

async fn run(
    stack: &Stack,
    hook: &HookRelease<'_>,
    what: &'static str,
    nodes: usize,
    settings: &Value,
) -> Result<Row> {
    let begin = Timestamp::now();
    let meter = Meter::start(stack.control_plane.port);
    let said = hook.deploy(&OLD.values(), settings).await?;
    let Measured { wall, peak_kib, .. } = meter.end()?;
    ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
    let requests = hook.requests(begin)?;
    let writes = requests.iter().filter(|request| Request::is_write(request)).count();
    ensure!((writes == 0) == (what == NOTHING), "{what}: {writes} writes\n{}", hook.logs().await?);
    ensure!(stack.plugins().await?.len() == nodes, "a node has no plugin");
    let replaced = requests
        .iter()
        .filter(|request| request.verb == "delete" && request.resource == "pods")
        .count();
    Ok(Row { what, nodes, wall, peak_kib, requests: requests.len(), writes, replaced })
}

fn table(rows: &[Row]) {
    eprintln!(
        "\n{:<18} {:>6} {:>9} {:>9} {:>9} {:>7} {:>9}",
        "hook", "nodes", "wall s", "peak MiB", "requests", "writes", "replaced"
    );
    for Row { what, nodes, wall, peak_kib, requests, writes, replaced } in rows {
        let wall = wall.as_secs_f64();
        let peak = *peak_kib / 1024;
        eprintln!(
            "{what:<18} {nodes:>6} {wall:>9.2} {peak:>9} {requests:>9} {writes:>7} {replaced:>9}"
        );
    }
    eprintln!(
        "\nwall: from the start of the container's process to its end; a run that is not done waits for a quiet period of 3 s\n"
    );
}
