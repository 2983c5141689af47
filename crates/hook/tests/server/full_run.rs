//! One complete run, and the runs that follow it.

use contract::exit::ExitCode;
use contract::record::NodeOutcome;

use crate::world::{World, named};

#[tokio::test(flavor = "local", start_paused = true)]
async fn stale_plugins_are_replaced_once_and_run_recorded() {
    let mut world = World::at_rest(4);
    world.upgrade(&[2, 0, 3, 1]);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(ended.message, "settled: 4 of 4 nodes done; 4 DRA plugins replaced");
    world.assert_replaced_once();
    let run = world.recorded().unwrap();
    assert_eq!(run.verdict.unwrap().code, ExitCode::Success);
    assert!(
        world
            .recorded_nodes()
            .values()
            .all(|node| node.outcome == Some(NodeOutcome::Done) && node.replaced.len() == 1)
    );
    assert_eq!(world.recorded_nodes().len(), 4);
    assert_eq!(world.holder(), None, "the Lease was released");
    let events = world.events();
    let count = |reason: &str| events.iter().filter(|(found, _)| found == reason).count();
    assert_eq!(
        ["RolloutBegan", "DraPluginReplaced", "DraPluginBack", "RolloutSettled"].map(count),
        [1, 4, 4, 1],
        "{events:?}"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn replacement_pod_with_stored_verdict_ends_at_once() {
    let mut world = World::at_rest(1);
    world.upgrade(&[0]);
    let first = world.run("pod-a", "job-1").await;
    let before = world.log().len();
    let second = world.run("pod-b", "job-1").await;
    assert_eq!(first, second);
    let asked: Vec<_> = world.log()[before..]
        .iter()
        .map(|entry| (entry.request.verb, entry.request.resource.clone()))
        .collect();
    assert_eq!(asked, [("get", "jobs".to_owned()), ("get", "configmaps".to_owned())]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn new_job_with_same_digest_writes_nothing() {
    let mut world = World::at_rest(3);
    world.upgrade(&[0, 1, 2]);
    world.run("pod-a", "job-1").await;
    let before = world.log().len();
    let settings = world.settings.clone();
    world.install(&settings, "job-2");
    let ended = world.run("pod-b", "job-2").await;
    assert_eq!(ended.code, ExitCode::Success);
    assert_eq!(named(&ended), ["*:NothingToDo"]);
    assert!(!ended.message.contains('.'), "times in messages are whole seconds: {}", ended.message);
    let log = world.log();
    let other: Vec<_> = log[before..]
        .iter()
        .filter(|entry| !matches!(entry.request.verb, "get" | "list" | "watch" | "discover"))
        .collect();
    assert!(other.is_empty(), "{other:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn same_digest_runs_again_if_live_state_changed() {
    let mut world = World::at_rest(2);
    world.run("pod-a", "job-1").await;
    let settings = world.settings.clone();
    world.install(&settings, "job-2");
    world.upgrade(&[1, 0]);
    let ended = world.run("pod-b", "job-2").await;
    assert_eq!(ended.message, "settled: 2 of 2 nodes done; 2 DRA plugins replaced");
    world.assert_replaced_once();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn another_digest_runs_again() {
    let mut world = World::at_rest(2);
    world.run("pod-a", "job-1").await;
    world.settings.digest = "e".repeat(64);
    let settings = world.settings.clone();
    world.install(&settings, "job-2");
    let ended = world.run("pod-b", "job-2").await;
    assert_eq!(ended.message, "settled: 2 of 2 nodes done; 0 DRA plugins replaced");
    let run = world.recorded().unwrap();
    assert_eq!((run.digest.as_str(), run.job.as_str()), ("e".repeat(64).as_str(), "job-2"));
    assert!(world.deletions().is_empty());
}
