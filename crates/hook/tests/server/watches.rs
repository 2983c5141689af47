//! Watches that end, lag, or send everything twice. The hook must not act early or twice because of
//! them.

use contract::exit::ExitCode;

use crate::fake::fault::Break;
use crate::world::World;

fn migrating(nodes: usize) -> World {
    let mut world = World::at_rest(nodes);
    let order: Vec<usize> = (0..nodes).rev().collect();
    world.upgrade(&order);
    world
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn broken_watches_at_any_time_change_nothing() {
    for how in [Break::EndOfFile, Break::Gone, Break::Error, Break::Cut] {
        for period in [1, 2, 7, 13] {
            let world = migrating(2);
            let pod = world.start("pod-a", "job-1");
            while world.second() < 150 {
                world.pass(period).await;
                world.server.change(|state| state.breaks.push(how));
            }
            let ended = world.ends(pod).await;
            assert_eq!(
                ended.code,
                ExitCode::Success,
                "{how:?} every {period} s: {}",
                ended.message
            );
            world.assert_replaced_once();
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_history_that_is_gone_is_listed_anew() {
    let world = migrating(2);
    let pod = world.start("pod-a", "job-1");
    while world.second() < 150 {
        world.pass(5).await;
        world.server.change(|state| {
            state.compacted = state.store.version + 1;
            state.breaks.push(Break::EndOfFile);
        });
        // A change is needed before lists are newer than the compacted version.
        world.edit("nodes", "", "gpu-0", |node| {
            node["metadata"]["annotations"]["touched"] = world.second().to_string().into();
        });
    }
    let ended = world.ends(pod).await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    world.assert_replaced_once();
    assert!(world.log().iter().any(|entry| entry.status == 410), "the server answered 410");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn events_that_come_twice_are_seen_once() {
    let world = migrating(3);
    world.server.change(|state| state.duplicate = true);
    assert_eq!(world.run("pod-a", "job-1").await.code, ExitCode::Success);
    world.assert_replaced_once();
}

/// Runs with a lagging server, whose lists and watches show an older state for a while.
async fn lagging(resources: &[&'static str], from: u64, seconds: u64) {
    let world = migrating(2);
    let pod = world.start("pod-a", "job-1");
    world.pass(from).await;
    world.server.change(|state| {
        let past = state.store.history.len().saturating_sub(12) as u64;
        state.frozen = Some((resources.to_vec(), past));
        state.breaks.push(Break::Gone);
    });
    world.pass(seconds).await;
    world.server.change(|state| state.frozen = None);
    let ended = world.ends(pod).await;
    assert_eq!(ended.code, ExitCode::Success, "{resources:?} from {from}: {}", ended.message);
    world.assert_replaced_once();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn old_list_deletes_nothing_early_or_twice() {
    for from in (30..100).step_by(3) {
        lagging(&["pods"], from, 40).await;
        lagging(&["nodes", "daemonsets", "controllerrevisions"], from, 40).await;
        lagging(
            &[
                "pods",
                "nodes",
                "daemonsets",
                "controllerrevisions",
                "resourceslices",
                "clusterpolicies",
            ],
            from,
            20,
        )
        .await;
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn replacement_pod_shown_the_past_repeats_nothing() {
    for from in (30..100).step_by(3) {
        let world = migrating(2);
        let first = world.start("pod-a", "job-1");
        world.pass(from).await;
        first.handle.abort();
        world.server.change(|state| {
            state.frozen =
                Some((vec!["pods"], state.store.history.len().saturating_sub(12) as u64));
        });
        let second = world.start("pod-b", "job-1");
        world.pass(60).await;
        world.server.change(|state| state.frozen = None);
        let ended = world.ends(second).await;
        assert_eq!(ended.code, ExitCode::Success, "{from}: {}", ended.message);
        world.assert_replaced_once();
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn server_that_ends_watches_is_asked_with_pauses() {
    let world = migrating(1);
    world.server.state().watch_seconds = Some(0);
    assert_eq!(world.run("pod-a", "job-1").await.code, ExitCode::Success);
    world.assert_replaced_once();
    let watches = world.log().iter().filter(|entry| entry.request.verb == "watch").count();
    let resources = 15;
    let most = usize::try_from(world.second()).unwrap() * 2 * resources;
    assert!(watches <= most, "{watches} in {} s", world.second());
}
