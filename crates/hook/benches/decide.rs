//! Measures the time of one decision in a large fleet after a change of one node. `cargo test` does
//! not run it: `make bench` builds it optimized.
#![expect(clippy::print_stdout, reason = "the table is the output")]
#![expect(clippy::unwrap_used, reason = "a panic shows the location")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::settings::{Mode, Settings};
use contract::task::Task;
use jiff::Timestamp;
use kube_io::watches::{CacheState, Watches};
use observed::{Labels, Observed, ObservedNode, ObservedPod, OptionalApi};
use planner::action::NodePatch;
use planner::decide::{Action, Planner};
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
/// Decisions that are timed.
const ROUNDS: usize = 51;
/// Nodes that are upgraded at the same time.
const PARALLEL: u32 = 25;

/// Returns the fleet as the hook's own caches show it, so that each page is decoded as in the hook.
async fn seen(settings: &Settings) -> (Watches, Observed) {
    let client = Server::new(NODES).client();
    let watches = Watches::start(&client, settings, vec![settings::DRA.into()], Some("v1"));
    while watches.sync() != CacheState::InStep {
        watches.changed().await;
    }
    let observed = watches.observed("2026-11-21T12:00:00Z".parse().unwrap());
    (watches, observed)
}

fn set(entries: &mut Labels, changes: &BTreeMap<String, Option<String>>) {
    for (key, value) in changes {
        match value {
            Some(value) => entries.insert(key.clone(), value.clone()),
            None => entries.remove(key),
        };
    }
}

/// Applies a patch to a node.
fn patch(node: &mut ObservedNode, patch: &NodePatch) {
    set(&mut node.labels, &patch.labels);
    set(&mut node.annotations, &patch.annotations);
    node.unschedulable = patch.unschedulable.unwrap_or(node.unschedulable);
    node.version.push('1');
}

/// Makes all plugins start after the driver and the toolkit that they serve.
fn with_plugins_in_order(observed: &mut Observed) {
    for pod in observed.pods.edit().iter_mut().map(Arc::make_mut) {
        pod.ready_since = pod.containers.iter().filter_map(|container| container.started).max();
        for container in &mut pod.containers {
            container.started = container.started.map(|started| started - Duration::from_hours(1));
        }
        pod.ready_since = pod.ready_since.map(|since| since - Duration::from_mins(10));
    }
}

/// Changes the fleet to the middle of an upgrade: half of the nodes are done, and all slots are
/// taken.
fn in_the_middle(observed: &mut Observed) {
    for revision in &mut observed.revisions {
        "newest".clone_into(&mut revision.hash);
    }
    for (index, pod) in observed
        .pods
        .edit()
        .iter_mut()
        .map(Arc::make_mut)
        .filter(|pod| pod.labels.get("app.kubernetes.io/component").is_some())
        .enumerate()
    {
        if index % 2 == 0 {
            pod.revision = Some("newest".to_owned());
        }
    }
}

/// Changes the fleet to one that NVIDIA's controller upgrades: each node has its state label, and
/// 25 nodes are in progress.
fn under_the_operator(observed: &mut Observed) {
    if let Some(operator) = &mut observed.operator {
        operator.version = Some("v26.7.0".to_owned());
    }
    if let OptionalApi::Served(Some(policy)) = &mut observed.cluster_policy {
        policy.upgrade_policy.auto_upgrade = true;
        policy.upgrade_policy.max_parallel = Some(PARALLEL);
    }
    let newest = |pod: &&Arc<ObservedPod>| pod.revision.as_deref() == Some("newest");
    let done: BTreeSet<String> =
        observed.pods.shared().filter(newest).filter_map(|pod| pod.node.clone()).collect();
    let names: Vec<String> = observed.nodes.values().map(|node| node.name.clone()).collect();
    let mut under_way = PARALLEL;
    for name in names {
        let node = observed.nodes.get_mut(&name).unwrap();
        let state = if done.contains(&name) {
            "upgrade-done"
        } else if under_way > 0 {
            under_way -= 1;
            node.unschedulable = true;
            "drain-required"
        } else {
            "upgrade-required"
        };
        node.labels.insert("nvidia.com/gpu-driver-upgrade-state".to_owned(), state.to_owned());
    }
}

fn a_node(observed: &mut Observed, number: usize) {
    observed.nodes.get_mut(&format!("node-{number:05}")).unwrap().version.push('2');
}

fn a_pod(observed: &mut Observed, number: usize) {
    let node = format!("node-{number:05}");
    let pod = observed.pods.shared_on(&node).next().map(Arc::clone);
    let mut pod = pod.unwrap();
    let changed = Arc::make_mut(&mut pod);
    changed.ready_since = changed.ready_since.map(|since| since + Duration::from_secs(1));
    let key = format!("{}/{}", pod.namespace, pod.name);
    observed.pods.insert(&node, key, pod);
}

/// A node leaves the DaemonSets of all operands, or returns to them.
fn operand_nodes(observed: &mut Observed, number: usize) {
    for daemon_set in observed.daemon_sets.iter_mut().filter(|daemon_set| !daemon_set.on_delete) {
        daemon_set.desired += if number.is_multiple_of(4) { 1 } else { -1 };
    }
}

/// Alternates between two changes of the controller: a node starts its upgrade, or a node returns
/// to its pending state.
fn a_turn(observed: &mut Observed, number: usize) {
    let state = "nvidia.com/gpu-driver-upgrade-state";
    let is = |node: &ObservedNode, value: &str| {
        node.labels.get(state).is_some_and(|found| found == value)
    };
    let find = |value: &str| {
        observed
            .nodes
            .values()
            .filter(|node| is(node, value))
            .map(|node| node.name.clone())
            .nth(number % 7)
    };
    let (from, to) = if number.is_multiple_of(4) {
        ("upgrade-required", "cordon-required")
    } else {
        ("cordon-required", "upgrade-required")
    };
    let name = find(from).or_else(|| {
        observed.nodes.values().find(|node| is(node, from)).map(|node| node.name.clone())
    });
    if let Some(node) = name.and_then(|name| observed.nodes.get_mut(&name)) {
        node.labels.insert(state.to_owned(), to.to_owned());
        node.version.push('2');
    }
}

fn row(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let shown = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{what:<44} {:>9.2} ms median {:>9.2} ms best {:>9.2} ms most",
        shown(times[times.len() / 2]),
        shown(times[0]),
        shown(times[times.len() - 1])
    );
}

/// Decides until no more nodes are patched. Then measures decisions, and changes one node or one
/// driver pod before each.
fn measure(
    what: &str,
    mut observed: Observed,
    settings: &Settings,
    change: fn(&mut Observed, usize),
) {
    let begin: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let mut now = begin;
    let mut memory = RunMemory::new(begin, begin + Duration::from_hours(10));
    let mut planner = Planner::default();
    loop {
        operator::is_quiet(&mut observed, &mut memory, now);
        let decision = planner.decide(&observed, settings, &memory, now);
        memory = decision.memory;
        let mut patched = false;
        for action in &decision.actions {
            if let Action::PatchNode(change) = action {
                patch(observed.nodes.get_mut(&change.node).unwrap(), change);
                patched = true;
            }
        }
        now += Duration::from_secs(1);
        if !patched {
            break;
        }
    }
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        now += Duration::from_millis(200);
        change(&mut observed, 4_000 + round / 2 * 2);
        operator::is_quiet(&mut observed, &mut memory, now);
        let started = Instant::now();
        let decision = planner.decide(&observed, settings, &memory, now);
        times.push(started.elapsed());
        memory = decision.memory;
    }
    row(what, times);
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut settings = Settings {
        mode: Mode::Drive,
        tasks: vec![Task::Settle, Task::Drive, Task::Reroll],
        ..settings::settings()
    };
    settings.upgrade.policy.max_parallel_upgrades = PARALLEL;
    let (watches, mut observed) = seen(&settings).await;
    with_plugins_in_order(&mut observed);
    println!("{NODES} nodes, one of which changes before each decision\n");
    let mut times = Vec::new();
    for _ in 0..9 {
        let started = Instant::now();
        let again = watches.observed("2026-11-21T12:00:00Z".parse().unwrap());
        times.push(started.elapsed());
        drop(again);
    }
    row("a snapshot of the caches", times);
    measure("drive, nothing to do", observed.clone(), &settings, a_node);
    let mut middle = observed.clone();
    in_the_middle(&mut middle);
    measure("drive, in the middle", middle.clone(), &settings, a_node);
    measure("drive, in the middle, a driver pod", middle.clone(), &settings, a_pod);
    measure(
        "drive, in the middle, nodes of the operands",
        middle.clone(),
        &settings,
        operand_nodes,
    );
    under_the_operator(&mut middle);
    let assist = Settings {
        mode: Mode::Assist,
        tasks: vec![Task::Settle, Task::Wake, Task::Reroll],
        ..settings.clone()
    };
    measure("assist, in the middle", middle.clone(), &assist, a_node);
    measure("assist, in the middle, a driver pod", middle.clone(), &assist, a_pod);
    measure("assist, in the middle, a slot that changes", middle.clone(), &assist, a_turn);
    let observe = Settings {
        mode: Mode::Observe,
        tasks: vec![Task::Settle, Task::Reroll],
        ..settings.clone()
    };
    measure("observe, in the middle", middle.clone(), &observe, a_node);
    let steer = Settings {
        mode: Mode::Steer,
        tasks: vec![Task::Settle, Task::Wake, Task::Steer, Task::Reroll],
        ..settings.clone()
    };
    measure("steer, in the middle", middle, &steer, a_node);
}
