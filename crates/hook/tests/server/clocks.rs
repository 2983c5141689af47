//! Clocks that disagree: whatever the pod's, the server's and the nodes' clocks say, the run is the one of clocks that agree.

use contract::exit::ExitCode;
use hook::RunEnd;
use jiff::SignedDuration;

use crate::world::{World, at};

/// Skews in minutes: of the hook's pod and of the nodes, against the API server.
const SKEWS: [(i64, i64); 7] =
    [(-40, 0), (60, 0), (0, -60), (0, 60), (-60, 60), (60, -60), (-3, 3)];

/// What a run wrote, in its order.
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

/// Three nodes of which two are upgraded; the hook's pod starts when the first is under way.
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

/// A node's clock steps while its driver is being replaced: its container times are no order any more.
#[tokio::test(flavor = "local", start_paused = true)]
async fn node_clock_that_steps_hides_no_stale_plugin() {
    // The plugins of this world started 81 minutes before.
    for minutes in [-90, 60] {
        let mut world = World::at_rest(1);
        world.server.state().node_skew = SignedDuration::from_mins(minutes);
        world.upgrade(&[0]);
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(
            ended.message, "settled: 1 of 1 nodes done; 1 DRA plugins replaced",
            "{minutes} minutes"
        );
    }
}

/// The pod of a Job that started 10 minutes ago has the rest of the budget, whatever its own clock says.
#[tokio::test(flavor = "local", start_paused = true)]
async fn replacement_pod_with_skew_keeps_the_deadline() {
    for minutes in [0, -60, 60] {
        let mut world = World::at_rest(1);
        world.settings.budget_seconds = 1200;
        world.pass(600).await;
        world.pod_skew = SignedDuration::from_mins(minutes);
        // The operator never gets to the bump.
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

/// Nodes that were there when the run began are waited for by its replacement pods; those that joined later are not.
#[tokio::test(flavor = "local", start_paused = true)]
async fn replacement_pod_keeps_the_cohort() {
    let mut world = World::at_rest(2);
    world.upgrade(&[0, 1]);
    let first = world.start("pod-a", "job-1");
    world.pass(10).await;
    first.handle.abort();
    // By its own object it has been there for long: a clock that was set, or a restored backup.
    world.join("gpu-2", -100_000);
    let ended = world.run("pod-b", "job-1").await;
    assert_eq!(
        ended.message,
        "settled: 2 of 2 nodes done; 2 DRA plugins replaced; 1 GPU nodes joined after the run started; the hook does not wait for them"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn node_created_by_fast_server_is_awaited() {
    let mut world = World::at_rest(1);
    // An API server whose clock was an hour ahead made this node.
    world.join("gpu-1", 3600);
    world.upgrade(&[0, 1]);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.message, "settled: 2 of 2 nodes done; 2 DRA plugins replaced");
    assert!(world.second() < at(3600).as_second());
}

/// The cohort is the run's: another Job of the same deployment looks at the nodes that there are now.
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
