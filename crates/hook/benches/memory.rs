//! Measures the memory of the hook's caches for 10,000 nodes. The hook's own client reads from a
//! server that generates each page on request. `cargo test` does not run it, because peak memory is
//! that of the whole process.
#![expect(clippy::print_stdout, reason = "the table is the output")]
#![expect(clippy::unwrap_used, reason = "a panic shows the location")]

use std::time::{Duration, Instant};

use contract::settings::{Mode, Settings};
use contract::task::Task;
use jiff::Timestamp;
use kube_io::watches::{CacheState, Watches};
use observed::Observed;
use planner::decide::decide;
use planner::memory::RunMemory;

use fixture::{operator, settings};

#[path = "memory/objects.rs"]
mod objects;

#[path = "memory/server.rs"]
mod server;

use server::Server;

/// The allocator of the hook (`src/main.rs`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Nodes of the fleet.
const NODES: usize = 10_000;
/// The memory limit of a hook Job for 10,000 nodes.
const LIMIT_MIB: f64 = 192.0;

/// Returns a field of `/proc/self/status` in MiB.
fn status(figure: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

fn row(what: &str, begin: Instant) {
    println!(
        "{what:<44} {:>9.1} ms {:>8.1} MiB now {:>8.1} MiB peak",
        milliseconds(begin),
        status("VmRSS"),
        status("VmHWM")
    );
}

fn milliseconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

async fn in_step(watches: &Watches) {
    while watches.sync() != CacheState::InStep {
        watches.changed().await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = Server::new(NODES);
    let client = server.client();
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let tasks = vec![Task::Settle, Task::Drive, Task::Reroll];
    let settings = Settings { mode: Mode::Drive, tasks, ..settings::settings() };
    let size = objects::object("/api/v1/nodes", "", 0).len();
    println!(
        "{NODES} nodes of {size} bytes; on each six operand pods, a DRA plugin and a ResourceSlice\n"
    );
    row("at the start", Instant::now());
    let begin = Instant::now();
    let watches = Watches::start(&client, &settings, vec![settings::DRA.into()], Some("v1"));
    in_step(&watches).await;
    row("everything listed", begin);
    println!("{:<44} {:>9.1} MiB", "sent by the server", server.sent.lock().unwrap());
    let begin = Instant::now();
    let before = watches.observed(now);
    row("a snapshot", begin);
    let begin = Instant::now();
    let observed = watches.observed(now);
    row("a second one", begin);
    counted(&observed);
    let begin = Instant::now();
    assert!(before == observed, "two snapshots of the same caches differ");
    row("comparison of both", begin);
    let mut observed = observed;
    let mut memory = RunMemory::new(now, now + Duration::from_hours(1));
    operator::is_quiet(&mut observed, &mut memory, now);
    let begin = Instant::now();
    let decision = decide(&observed, &settings, &memory, now);
    row("a first decision", begin);
    let begin = Instant::now();
    let decision = decide(&observed, &settings, &decision.memory, now);
    row("a second decision", begin);
    let begin = Instant::now();
    server.endings.send_modify(|endings| *endings += 1);
    while watches.sync() == CacheState::InStep {
        watches.changed().await;
    }
    in_step(&watches).await;
    row("everything listed again, all at once", begin);
    assert!(watches.observed(now) == before, "a snapshot after a new list differs");
    drop((observed, decision));
    let peak = status("VmHWM");
    assert!(peak <= LIMIT_MIB, "{peak:.1} MiB");
}

fn counted(observed: &Observed) {
    let slices = observed.dra.slices.served().unwrap().len();
    let operands = observed.operand_pods.len();
    let counts = [
        observed.nodes.len(),
        observed.pods.len(),
        observed.validators.len(),
        operands,
        observed.dra.pods.len(),
        slices,
    ];
    assert_eq!(counts, [NODES, 2 * NODES, NODES, 4 * NODES, NODES, NODES]);
    assert!(observed.nodes.values().all(|node| node.labels.len() >= 80));
}
