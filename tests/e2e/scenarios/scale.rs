//! Measures the cost of the hook in fleets of 10, 100 and 1,000 nodes: an installation, and upgrades
//! with a drain, 50 nodes at once. It is not a test. `make soak` runs it; `make e2e` does not.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::fixed_work::FixedWork;
use crate::harness::fleet::{DRA_NAMESPACE, NEW, OLD, Release};
use crate::harness::hook_release::HookRelease;
use crate::harness::meter::{Measured, Meter};
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script, driver_version, is_ready};
use crate::harness::workloads::{NAMESPACE, Serving};

/// Sets the number of nodes of the largest fleet.
const LARGEST: &str = "GPU_ROLLOUT_SOAK_NODES";
const SIZES: [usize; 3] = [10, 100, 1_000];
const AT_ONCE: usize = 50;
/// The time limit of a fleet, and the time budget of each of its runs. In mode `assist`, a thousand
/// nodes need more than an hour on two CPUs: NVIDIA's controller writes ten states per second.
const LIMIT: Duration = Duration::from_hours(3);
const BUDGET_SECONDS: u64 = 7_200;
/// All GPUs of a node, so that each node has one pod to evict.
const GPUS: usize = 8;
/// Milliseconds until a driver is ready: shorter than with real drivers, but long enough that the
/// changes of nodes do not coincide. With drivers that are ready at once, a small fleet is done before
/// the hook has seen it change, and the control plane merges the changes of its nodes into few
/// updates. In a large fleet it merges hardly any, and each node would seem to cost twice as much.
const DRIVER: (u64, u64) = (60_000, 90_000);
/// The measured fleets run one chart of the operator, because a new one replaces all operands.
const FIRST: Release = Release { driver: OLD.driver, ..NEW };

#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make soak"]
async fn cost_is_proportional_to_nodes() -> Result<()> {
    let largest =
        std::env::var(LARGEST).map_or(Ok(SIZES[2]), |text| text.parse()).context(LARGEST)?;
    let mut rows = Vec::new();
    for nodes in SIZES.into_iter().filter(|nodes| *nodes < largest).chain([largest]) {
        scenario_within(LIMIT, &format!("scale-{nodes}"), async |stack| {
            rows.extend(fleet(stack, nodes).await?);
            Ok(())
        })
        .await?;
    }
    table(&mut rows);
    Ok(())
}

/// One run of the hook.
#[derive(Clone, Copy)]
struct Row {
    what: &'static str,
    nodes: usize,
    measured: Measured,
    /// The processor time of the fixed work in seconds, while the run was measured.
    fixed_work: f64,
    /// Requests without those for the Lease, whose number depends on the duration only.
    requests: usize,
    writes: usize,
    evictions: usize,
}

/// Installs a fleet, upgrades it in mode `drive`, and then in mode `assist`.
async fn fleet(stack: &mut Stack, nodes: usize) -> Result<[Row; 3]> {
    stack.play(Script { driver: DRIVER, ..Script::seeded(14) }).await?;
    let names = stack.add_gpu_nodes_at_once(0..nodes).await?;
    let drain = json!({"enable": true, "force": true, "timeoutSeconds": 600});
    let limits = json!({"maxParallelUpgrades": AT_ONCE, "maxUnavailable": "50%"});
    let mut policy = limits.clone();
    (policy["drain"], policy["podDeletion"]) = (drain.clone(), json!({"enable": false}));
    let drive = json!({
        "mode": "drive", "tasks": ["settle", "drive", "reroll"],
        "upgrade": {"policy": policy, "startSeconds": 1_200},
    });

    let installed = run(stack, "install", nodes, &FIRST.driven_values(), &drive).await?;

    let dra =
        json!({"nvidiaDriverRoot": "/run/nvidia/driver", "gpuResourcesEnabledOverride": true});
    stack.deploy("nvidia-dra-driver-gpu", "25.12.0", DRA_NAMESPACE, &dra).await?;
    stack.await_served(nodes).await?;
    stack.create_namespace(NAMESPACE).await?;
    stack
        .run(&Serving { name: "train", replicas: nodes, gpus: GPUS, ..Serving::default() })
        .await?;
    stack.await_serving_within(LIMIT, "train", nodes).await?;

    let driven = run(stack, "drive", nodes, &NEW.driven_values(), &drive).await?;
    check_drivers(stack, &names, NEW.driver).await?;
    stack.await_serving_within(LIMIT, "train", nodes).await?;

    let mut policy = limits;
    (policy["drain"], policy["autoUpgrade"]) = (drain, true.into());
    let values = json!({"driver": {"version": FIRST.driver, "upgradePolicy": policy}});
    let settings = json!({"mode": "assist", "tasks": ["settle", "wake", "reroll"]});
    let assisted = run(stack, "assist", nodes, &values, &settings).await?;
    check_drivers(stack, &names, FIRST.driver).await?;

    // In `assist`, NVIDIA's controller evicts the pods.
    ensure!(driven.evictions >= nodes, "{} of {nodes} nodes were drained", driven.evictions);
    Ok([installed, driven, assisted])
}

/// Deploys the operator and the hook, and measures the hook.
async fn run(
    stack: &Stack,
    what: &'static str,
    nodes: usize,
    values: &Value,
    settings: &Value,
) -> Result<Row> {
    let hook = HookRelease::new(stack, "gpu-rollout");
    let mut settings = settings.clone();
    settings["component"] = json!({"version": NEW.chart});
    settings["budgetSeconds"] = BUDGET_SECONDS.into();
    let (begin, meter) = (Timestamp::now(), Meter::start(stack.control_plane.port));
    let fixed_work = FixedWork::start();
    stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, values).await?;
    let said = hook.deploy(values, &settings).await?;
    ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
    let (measured, fixed_work) = (meter.end()?, fixed_work.end()?);
    let mut requests = hook.requests(begin)?;
    requests.retain(|request| request.resource != "leases");
    let count = |resource: &str| {
        requests
            .iter()
            .filter(|request| request.resource == resource && request.code == 201)
            .count()
    };
    let row = Row {
        what,
        nodes,
        measured,
        fixed_work,
        requests: requests.len(),
        writes: requests.iter().filter(|request| request.is_write()).count(),
        evictions: count("pods/eviction"),
    };
    table(&mut [row]);
    Ok(row)
}

/// Checks that every node runs this driver.
async fn check_drivers(stack: &Stack, names: &[String], version: &str) -> Result<()> {
    let drivers = stack.drivers().await?;
    for name in names {
        let pod = drivers.get(name).with_context(|| format!("no driver on {name}"))?;
        let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.as_deref());
        ensure!(
            is_ready(pod) && image.is_some_and(|image| driver_version(image) == version),
            "{name}: {image:?}"
        );
    }
    Ok(())
}

/// Prints the rows of each run, from the smallest fleet to the largest, with what each node more
/// than in the fleet before has added. For the differences, the CPU times of a run are multiplied so
/// that the fixed work would have taken as long as in the first row.
fn table(rows: &mut [Row]) {
    rows.sort_by_key(|row| (row.what != "install", row.what != "drive", row.nodes));
    eprintln!(
        "\n{:<8} {:>6} {:>8} {:>9} {:>9} {:>13} {:>9} {:>14} {:>12} {:>12} {:>12} {:>13}",
        "run",
        "nodes",
        "wall s",
        "requests",
        "CPU s",
        "fixed work ms",
        "peak MiB",
        "evictions/node",
        "writes/node",
        "requests +1",
        "CPU ms +1",
        "memory KiB +1",
    );
    let Some(first) = rows.first().map(|row| row.fixed_work) else { return };
    let processor = |row: &Row| row.measured.processor * first / row.fixed_work;
    let mut before: Option<&Row> = None;
    for row in &*rows {
        let Row { what, nodes, measured, fixed_work, requests, writes, evictions } = row;
        #[expect(clippy::cast_precision_loss, reason = "means for people")]
        let added =
            before.filter(|before| before.what == *what).map_or_else(String::new, |before| {
                let nodes = (nodes - before.nodes) as f64;
                format!(
                    " {:>12.2} {:>12.2} {:>13.1}",
                    (*requests as f64 - before.requests as f64) / nodes,
                    (processor(row) - processor(before)) * 1_000.0 / nodes,
                    (measured.peak_kib as f64 - before.measured.peak_kib as f64) / nodes,
                )
            });
        #[expect(clippy::cast_precision_loss, reason = "means for people")]
        let mean = |count: usize| count as f64 / *nodes as f64;
        eprintln!(
            "{what:<8} {nodes:>6} {:>8.1} {requests:>9} {:>9.2} {:>13.2} {:>9} {:>14.2} {:>12.2}{added}",
            measured.wall.as_secs_f64(),
            measured.processor,
            fixed_work * 1_000.0,
            measured.peak_kib / 1024,
            mean(*evictions),
            mean(*writes),
        );
        before = Some(row);
    }
    eprintln!(
        "\n+1: for each node more than in the fleet before, with CPU times of a machine as fast as in the\nfirst row (tests/e2e/harness/fixed_work.rs). Requests without those for the Lease.\n"
    );
}
