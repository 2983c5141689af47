//! What the hook costs: no test, a measurement. `make bench` runs it; `make e2e` does not.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::audit::Request;
use crate::harness::fleet::OLD;
use crate::harness::hook_release::HookRelease;
use crate::harness::kwok;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;
use crate::harness::wait::until;

/// Nodes of the large fleet, unless `GPU_ROLLOUT_BENCH_NODES` says otherwise.
const NODES: usize = 1_000;
const SMALL: usize = 3;
/// Nodes that are added at once.
const AT_ONCE: usize = 25;
const LIMIT: Duration = Duration::from_mins(50);
/// Re-rolling hundreds of plugins takes longer than anything in the tests.
const BUDGET_SECONDS: u64 = 1_800;
/// The row of a run that finds its work done.
const NOTHING: &str = "nothing to do";

/// A small fleet, then a large one; on each a run after it has grown, one with other settings, and one with nothing to do.
#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn the_hook_on_a_small_and_a_large_fleet() -> Result<()> {
    let nodes = std::env::var("GPU_ROLLOUT_BENCH_NODES").map_or(Ok(NODES), |text| text.parse()).context("GPU_ROLLOUT_BENCH_NODES")?;
    scenario_within(LIMIT, "cost", async |stack| {
        stack.fleet(Script::seeded(11), SMALL, true).await?;
        let mut rows = measure(stack, SMALL).await?;
        grow(stack, nodes).await?;
        rows.extend(measure(stack, nodes).await?);
        table(&rows);
        Ok(())
    })
    .await
}

/// Nodes up to this number, each with driver and serving plugin.
async fn grow(stack: &Stack, nodes: usize) -> Result<()> {
    let begin = Instant::now();
    // Nothing about how they come up matters here.
    stack.rewrite(|script| {
        script.driver_manager = false;
        script.driver = (0, 1);
    })?;
    let names: Vec<String> = (SMALL..nodes).map(|index| format!("gpu-{index}")).collect();
    stream::iter(&names).map(|name| kwok::add_gpu_node(&stack.client, name)).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    until("every plugin to serve", LIMIT, async || Ok((stack.served().await?.len() == nodes).then_some(()))).await?;
    stack.await_policy("ready").await?;
    eprintln!("cost: {nodes} nodes after {:.1?}", begin.elapsed());
    Ok(())
}

/// One run of the hook.
struct Row {
    what: &'static str,
    nodes: usize,
    wall: Duration,
    peak_kib: u64,
    requests: usize,
    writes: usize,
    /// Plugins that the hook found stale and replaced. Nodes that come up have their plugin before the driver that it serves, so a
    /// first run on a fleet that has just grown has much to do.
    replaced: usize,
}

async fn measure(stack: &Stack, nodes: usize) -> Result<Vec<Row>> {
    let hook = HookRelease::new(stack, "gpu-rollout");
    let mut rows = Vec::new();
    // Another setting is another digest, and so a run that is not known to be done.
    for (what, setting) in [("after growing", nodes % 7), ("another setting", nodes % 7 + 1), (NOTHING, nodes % 7 + 1)] {
        rows.push(run(stack, &hook, what, nodes, &json!({"tolerateNotReady": setting, "budgetSeconds": BUDGET_SECONDS})).await?);
    }
    Ok(rows)
}

async fn run(stack: &Stack, hook: &HookRelease<'_>, what: &'static str, nodes: usize, settings: &Value) -> Result<Row> {
    let begin = Timestamp::now();
    let watch = Watch::start(stack.control_plane.port);
    let said = hook.deploy(&OLD.values(), settings).await?;
    let (wall, peak_kib) = watch.end()?;
    ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
    let requests = hook.requests(begin)?;
    let writes = requests.iter().filter(|request| Request::is_write(request)).count();
    ensure!((writes == 0) == (what == NOTHING), "{what}: {writes} writes\n{}", hook.logs().await?);
    ensure!(stack.plugins().await?.len() == nodes, "every node has its plugin");
    let replaced = requests.iter().filter(|request| request.verb == "delete" && request.resource == "pods").count();
    Ok(Row { what, nodes, wall, peak_kib, requests: requests.len(), writes, replaced })
}

fn table(rows: &[Row]) {
    eprintln!("\n{:<18} {:>6} {:>9} {:>9} {:>9} {:>7} {:>9}", "hook", "nodes", "wall s", "peak MiB", "requests", "writes", "replaced");
    for Row { what, nodes, wall, peak_kib, requests, writes, replaced } in rows {
        let wall = wall.as_secs_f64();
        let peak = *peak_kib / 1024;
        eprintln!("{what:<18} {nodes:>6} {wall:>9.2} {peak:>9} {requests:>9} {writes:>7} {replaced:>9}");
    }
    eprintln!("\nwall: from the start of the container's process to its end; a run that is not done waits for a quiet period of 3 s\n");
}

/// Looks every few milliseconds at the hook's process from outside, on a thread of its own.
struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<u32, Seen>>,
}

struct Seen {
    first: Instant,
    last: Instant,
    peak_kib: u64,
}

impl Watch {
    /// Begins with the hooks that talk to the API server on this port.
    fn start(port: u16) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeMap::new();
            while !told.load(Ordering::Relaxed) {
                for (process, peak_kib) in hooks(port) {
                    let now = Instant::now();
                    let entry = seen.entry(process).or_insert(Seen { first: now, last: now, peak_kib });
                    entry.last = now;
                    entry.peak_kib = entry.peak_kib.max(peak_kib);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            seen
        });
        Self { over, thread }
    }

    /// How long the one process lived, and the most memory that it had resident.
    fn end(self) -> Result<(Duration, u64)> {
        self.over.store(true, Ordering::Relaxed);
        let seen = self.thread.join().map_err(|_| anyhow!("the thread that watches the hook has panicked"))?;
        ensure!(seen.len() == 1, "one hook process was expected, {} were seen", seen.len());
        let one = seen.values().next().context("one process")?;
        Ok((one.last - one.first, one.peak_kib))
    }
}

/// The processes of hooks of one API server and the peak of their resident memory in KiB.
fn hooks(port: u16) -> Vec<(u32, u64)> {
    let server = format!("KUBERNETES_SERVICE_PORT={port}");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes
        .filter_map(|process| {
            let command = fs::read(format!("/proc/{process}/cmdline")).ok()?;
            command.starts_with(b"/gpu-rollout\0hook\0run").then_some(())?;
            let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
            environment.split(|byte| *byte == 0).find(|variable| *variable == server.as_bytes())?;
            let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            Some((process, peak.split_whitespace().next()?.parse().ok()?))
        })
        .collect()
}
