//! NVIDIA's upgrade library and our model of it (`crates/nvidia-upgrade/src/lib.rs`) agree. In
//! small seeded worlds on a real API server, both perform the same pass over the same objects.
//! After each pass, every node, every pod and every pending eviction must be as in the model. The
//! library runs in `tests/tools/upgrade-controller`, one pass at a time.
//!
//! `docs/conformance.md` has the consequences of each difference. A failure names the seed of its
//! world: `GPU_ROLLOUT_WORLD=N` runs only that world.

mod actions;
mod api;
mod draw;
mod library;
mod model;
mod policy;
mod seen;
mod workloads;
mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;

use self::api::Server;
use self::draw::Draw;
use self::library::Library;
use self::model::{Expected, Model};
use self::seen::{Picture, Seen};
use self::world::World;
use crate::harness::control_plane::ControlPlane;
use crate::harness::run_directory::RunDirectory;
use crate::harness::wait::until;

/// Selects one world by its seed.
const ONE: &str = "GPU_ROLLOUT_WORLD";
/// Passes per world.
const PASSES: usize = 24;
/// From this number of worlds on, every rare step must occur.
const MANY: usize = 100;
/// The number of worlds between two reports of the progress.
const PROGRESS: usize = 50;
/// Concurrent worlds, if there are many. A world spends most of its time waiting.
const LANES: usize = 4;
/// Rare steps, each of which must occur in a run of many worlds.
const RARE: [(&str, &str); 10] = [
    ("upgrade-required", "pod-restart-required"),
    ("wait-for-jobs-required", "drain-required"),
    ("pod-deletion-required", "drain-required"),
    ("pod-deletion-required", "upgrade-failed"),
    ("drain-required", "upgrade-failed"),
    ("pod-restart-required", "upgrade-failed"),
    ("validation-required", "upgrade-failed"),
    ("validation-required", "upgrade-done"),
    ("upgrade-failed", "uncordon-required"),
    ("upgrade-done", ""),
];
/// Longer than evictions with a short limit take.
const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn twenty_worlds() -> Result<()> {
    // The last one has a node with an owned and an orphaned driver pod, which was cordoned before.
    agree("agreement", (0..19).chain([1_384]).collect()).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn five_hundred_worlds() -> Result<()> {
    agree("agreement-many", (1_000..1_500).collect()).await
}

async fn agree(name: &str, seeds: Vec<u64>) -> Result<()> {
    let seeds = match std::env::var(ONE) {
        Ok(seed) => vec![seed.parse().with_context(|| format!("{ONE}={seed}"))?],
        Err(_) => seeds,
    };
    let lanes = if seeds.len() < MANY { 1 } else { LANES };
    let told = RefCell::default();
    let seeds = RefCell::new(seeds.into_iter());
    try_join_all((0..lanes).map(|lane| lives(format!("{name}-{lane}"), &seeds, &told))).await?;
    let told = told.into_inner();
    eprintln!(
        "{name}: {} worlds, {} passes, {} of them with an error",
        told.worlds, told.passes, told.errors
    );
    for ((from, to), times) in &told.moves {
        eprintln!("{name}: {times:5} × {from:?} → {to:?}");
    }
    ensure!(
        told.worlds == 1 || told.moves.values().sum::<usize>() > 10 * told.worlds,
        "too few nodes changed their state"
    );
    let missing = RARE
        .iter()
        .find(|(from, to)| !told.moves.contains_key(&((*from).to_owned(), (*to).to_owned())));
    ensure!(told.worlds < MANY || missing.is_none(), "no node made the step {missing:?}");
    Ok(())
}

/// Runs worlds until no seeds are left, on an API server of their own.
async fn lives(
    name: String,
    seeds: &RefCell<impl Iterator<Item = u64>>,
    told: &RefCell<Told>,
) -> Result<()> {
    let mut directory = RunDirectory::create(&name)?;
    let control_plane = ControlPlane::start_server(directory.path(), None).await?;
    let server = Server::new(control_plane.client.clone());
    world::prepare(&server).await?;
    let next = || seeds.borrow_mut().next();
    while let Some(seed) = next() {
        let library = |of| Library::start(directory.path(), &control_plane.kubeconfig, of);
        live(&server, seed, library, told)
            .await
            .with_context(|| format!("world {seed} (alone: {ONE}={seed})"))?;
        world::clear(&server).await?;
        let played = told.borrow().worlds;
        if played.is_multiple_of(PROGRESS) {
            eprintln!("{name}: {played} worlds have run");
        }
    }
    directory.succeeded();
    Ok(())
}

/// The events of all worlds.
#[derive(Debug, Default)]
struct Told {
    worlds: usize,
    passes: usize,
    /// Passes that ended with an error, in the library and in the model.
    errors: usize,
    /// How often a node changed from one state to another in a pass.
    moves: BTreeMap<(String, String), usize>,
}

/// Runs one world.
async fn live(
    server: &Server,
    seed: u64,
    start: impl Fn(library::Of) -> Result<Library>,
    told: &RefCell<Told>,
) -> Result<()> {
    let mut world = World::create(server, Draw::new(seed)).await?;
    let mut library = start(world.of)?;
    let mut model = Model::new(world.of);
    for pass in 0..PASSES {
        let done = world.act().await?;
        if done.killed {
            // Evictions and drains end with the process.
            library.kill().await?;
            library = start(world.of)?;
            model = Model::new(world.of);
        }
        let between = || format!("before pass {pass}, after {:?}", done.actions);
        // Waiting evictions may have continued.
        let before = Seen::look(server, world.of).await?;
        let expected = model.settle(&before);
        reach(server, &mut library, world.of, &expected).await.with_context(between)?;

        let before = Seen::look(server, world.of).await?;
        let expected = model.pass(&before);
        let said = library.pass().await?;
        let pass = || {
            format!(
                "in pass {pass}, after {:?}; the library returned {said:?}, the model {:?}",
                done.actions, expected.error
            )
        };
        let same = match (&said.error, expected.library_error()) {
            (Some(said), Some(expected)) => said.contains(&expected),
            (None, None) => true,
            _ => false,
        };
        ensure!(same, "the errors of library and model differ {}", pass());
        let both_go_on = said.error.is_some() || said.on == expected.on;
        ensure!(both_go_on, "only one of library and model has upgrades enabled {}", pass());
        reach(server, &mut library, world.of, &expected).await.with_context(pass)?;
        let mut told = told.borrow_mut();
        told.passes += 1;
        told.errors += usize::from(said.error.is_some());
        for (from, to) in expected.picture.moves_since(&before.picture) {
            *told.moves.entry((from.to_owned(), to.to_owned())).or_default() += 1;
        }
    }
    told.borrow_mut().worlds += 1;
    library.kill().await
}

/// Waits until the cluster is as in the model, with the same number of running evictions and
/// drains.
async fn reach(
    server: &Server,
    library: &mut Library,
    of: library::Of,
    expected: &Expected,
) -> Result<()> {
    let mut last = String::new();
    until("the cluster to be as in the model", LIMIT, async || {
        let tasks = library.tasks().await?;
        let picture = Picture::look(server, of).await?;
        last = picture.difference(&expected.picture);
        if tasks != expected.tasks {
            last = format!(
                "{last}{tasks} evictions and drains are running, expected {}\n",
                expected.tasks
            );
        }
        Ok(last.is_empty().then_some(()))
    })
    .await
    .with_context(|| format!("in the cluster (-), in the model (+):\n{last}"))
}
