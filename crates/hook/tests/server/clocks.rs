//! Clocks that disagree. The run must be the same as with equal clocks of pod, server and nodes.

use contract::exit::ExitCode;
use hook::RunEnd;
use jiff::SignedDuration;

use crate::world::{World, at};

/// Skews in minutes: of the hook's pod and of the nodes, against the API server.
const SKEWS: [(i64, i64); 7] =
    [(-40, 0), (60, 0), (0, -60), (0, 60), (-60, 60), (60, -60), (-3, 3)];

/// Returns the writes of a run, in their order.
fn writes(world: &World, pod: &str) -> Vec<String> {
    let of_run = world
        .writes(pod)
        .into_iter()
        .filter(|entry| !matches!(entry.request.resource.as_str(), "leases" | "events"));
    of_run
        .map(|entry| {
            format!("{} {} {}", entry.request.verb, entry.request.resource, entry.request.name)
        })
        .collect()
}

/// Upgrades two of three nodes. The hook's pod starts when the first one is in progress.
async fn run((pod, node): (i64, i64)) -> (RunEnd, Vec<String>) {
    let mut world = World::at_rest(3);
    world.server.state().node_skew = SignedDuration::from_mins(node);
    world.pod_skew = SignedDuration::from_mins(pod);
    world.upgrade(&[0, 1, 2]);
    let ended = world.run("pod-a", "job-1").await;
    (ended, writes(&world, "pod-a"))
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn clock_skew_changes_neither_verdict_nor_writes() {
    let undisturbed = run((0, 0)).await;
    assert_eq!(undisturbed.0.message, "settled: 3 of 3 nodes done; 3 DRA plugins replaced");
    for skew in SKEWS {
        assert_eq!(run(skew).await, undisturbed, "pod and nodes ahead by {skew:?} minutes");
    }
}

/// A node's clock steps while its driver is being replaced, so its container times do not show the
/// order any more.
#[tokio::test(flavor = "local", start_paused = true)]
async fn node_clock_that_steps_hides_no_stale_plugin() {
    // The plugins of this world started 81 minutes before.
    for minutes in [-90, 60] {
        let mut world = World::at_rest(1);
        world.server.state().node_skew = SignedDuration::from_mins(minutes);
        world.upgrade(&[0]);
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(
            ended.message, "settled: 1 of 1 nodes done; 1 DRA plugin replaced",
            "{minutes} minutes"
        );
    }
}

/// The pod of a Job that started 10 minutes ago has the rest of the budget, regardless of its own
/// clock.
#[tokio::test(flavor = "local", start_paused = true)]
async fn replacement_pod_with_skew_keeps_the_deadline() {
    for minutes in [0, -60, 60] {
        let mut world = World::at_rest(1);
        world.settings.budget_seconds = 1200;
        world.pass(600).await;
        world.pod_skew = SignedDuration::from_mins(minutes);
        // The operator never acts on the new version.
        world.pace.operator = 100_000;
        world.upgrade(&[0]);
        let ended = world.run("pod-a", "job-1").await;
        assert!(
            matches!(ended.code, ExitCode::Budget | ExitCode::OperatorMissing),
            "{minutes} minutes: {}",
            ended.message
        );
        // The budget without the margin.
        assert!(
            (1100..=1112).contains(&world.second()),
            "{minutes} minutes: ended after {} s",
            world.second()
        );
    }
}

/// Replacement pods wait for the nodes that existed at the start of the run, and not for nodes that
/// joined later.
#[tokio::test(flavor = "local", start_paused = true)]
async fn replacement_pod_keeps_the_cohort() {
    let mut world = World::at_rest(2);
    world.upgrade(&[0, 1]);
    let first = world.start("pod-a", "job-1");
    world.pass(10).await;
    first.handle.abort();
    // By its own object the node is old, as after a change of the clock or a restored backup.
    world.join("gpu-2", -100_000);
    let ended = world.run("pod-b", "job-1").await;
    assert_eq!(
        ended.message,
        "settled: 2 of 2 nodes done; 2 DRA plugins replaced; 1 GPU node joined after the run started; the hook does not wait for such nodes"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn node_created_by_fast_server_is_awaited() {
    let mut world = World::at_rest(1);
    // An API server whose clock is an hour ahead created this node.
    world.join("gpu-1", 3600);
    world.upgrade(&[0, 1]);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.message, "settled: 2 of 2 nodes done; 2 DRA plugins replaced");
    assert!(world.second() < at(3600).as_second());
}

/// The cohort belongs to the run. Another Job of the same deployment takes the current nodes.
#[tokio::test(flavor = "local", start_paused = true)]
async fn next_job_waits_for_a_joined_node() {
    let mut world = World::at_rest(1);
    world.upgrade(&[0]);
    assert_eq!(world.run("pod-a", "job-1").await.code, ExitCode::Success);
    world.join("gpu-1", 0);
    world.install(&world.settings.clone(), "job-2");
    let pod = world.start("pod-b", "job-2");
    world.pass(60).await;
    assert!(!pod.handle.is_finished(), "its driver is out of date");
    pod.handle.abort();
}
