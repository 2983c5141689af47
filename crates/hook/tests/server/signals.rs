//! SIGTERM at any time: the pod ends soon, releases the Lease and leaves a complete record. The
//! Job's next pod finishes the work.

use std::time::Duration;

use contract::budget::TERMINATION_GRACE_SECONDS;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::settings::Mode;
use serde_json::json;

use crate::driven::Driven;
use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Request;
use crate::world::{Pod, World};

fn migrating() -> World {
    let mut world = World::at_rest(2);
    world.upgrade(&[1, 0]);
    world
}

/// Sends the signal. The pod must end before the kubelet would kill it.
async fn terminate(world: &World, pod: Pod) -> hook::RunEnd {
    let before = world.second();
    pod.stop.send_replace(true);
    let ended = world.ends(pod).await;
    let took = world.second() - before;
    assert!(took < i64::try_from(TERMINATION_GRACE_SECONDS).unwrap(), "killed after {took} s");
    ended
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn signal_at_any_time_leaves_work_to_successor() {
    for milliseconds in (0..60).map(|step| step * 2).chain((1..120).map(|step| step * 997)) {
        let world = migrating();
        let first = world.start("pod-a", "job-1");
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        let ended = terminate(&world, first).await;
        assert_ne!(
            world.holder().as_deref(),
            Some("pod-a"),
            "at {milliseconds} ms the Lease was kept"
        );
        if ended.code == ExitCode::Success {
            assert!(world.recorded().unwrap().verdict.is_some());
        } else {
            assert_eq!(
                ended.code,
                ExitCode::Interrupted,
                "at {milliseconds} ms: {}",
                ended.message
            );
        }
        let ended = world.run("pod-b", "job-1").await;
        assert_eq!(ended.code, ExitCode::Success, "at {milliseconds} ms: {}", ended.message);
        world.assert_replaced_once();
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn signal_after_written_verdict_does_not_change_it() {
    let world = migrating();
    let pod = world.start("pod-a", "job-1");
    while world.recorded().is_none_or(|run| run.verdict.is_none()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!pod.handle.is_finished());
    assert_eq!(terminate(&world, pod).await.code, ExitCode::Success);
    assert_eq!(world.holder(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn signal_is_handled_while_server_is_away() {
    for silent in [false, true] {
        for from in [0, 1, 5, 43, 44, 45, 46, 60] {
            for later in [1, 12, 30, 100] {
                let world = migrating();
                let first = world.start("pod-a", "job-1");
                world.pass(from).await;
                if silent {
                    world.server.goes_silent(200);
                } else {
                    world.server.goes_away(200);
                }
                world.pass(later).await;
                let ended = terminate(&world, first).await;
                assert_eq!(ended.code, ExitCode::Interrupted, "{}", ended.message);
                let ended = world.run("pod-b", "job-1").await;
                assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
                world.assert_replaced_once();
            }
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn pod_waiting_for_lease_ends_at_once() {
    let world = migrating();
    let first = world.start("pod-a", "job-1");
    // Before the first hook yields the Lease to wait for the operator.
    world.pass(2).await;
    let second = world.start("pod-b", "job-1");
    world.pass(2).await;
    let ended = terminate(&world, second).await;
    assert_eq!(
        (ended.code, ended.message.as_str()),
        (ExitCode::Interrupted, "ended by a signal while waiting for the Lease")
    );
    assert!(world.writes("pod-b").is_empty());
    assert_eq!(world.ends(first).await.code, ExitCode::Success);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn signal_is_handled_between_unanswered_deletions() {
    let mut world = World::at_rest(12);
    world.pace.parallel = 12;
    world.upgrade(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    world.server.state().faults.push(Fault::new(
        |request| request.is("delete", "pods"),
        0,
        6,
        Effect::Hang,
    ));
    let first = world.start("pod-a", "job-1");
    while !world.log().iter().any(|entry| entry.request.is("delete", "pods")) {
        world.pass(1).await;
    }
    assert_eq!(terminate(&world, first).await.code, ExitCode::Interrupted);
    assert_eq!(world.holder(), None);
    assert_eq!(world.run("pod-b", "job-1").await.code, ExitCode::Success);
    world.assert_replaced_once();
}

/// Regression: while the hook gathered changes, which takes a second in this fleet, it noticed no
/// signal, and no loss of the Lease.
#[tokio::test(flavor = "local", start_paused = true)]
async fn signal_is_handled_while_changes_are_gathered() {
    let mut world = World::at_rest(500);
    world.settings.mode = Mode::Observe;
    world.upgrade(&[0]);
    let pod = world.start("pod-a", "job-1");
    tokio::time::sleep(Duration::from_millis(4_300)).await;
    world.edit("nodes", "", "gpu-1", |node| node["spec"]["unschedulable"] = json!(true));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begin = tokio::time::Instant::now();
    assert_eq!(terminate(&world, pod).await.code, ExitCode::Interrupted);
    let took = begin.elapsed();
    assert!(took < Duration::from_millis(200), "{took:?}");
}

/// Regression: the record contained no eviction that the API server accepted after the last write
/// of the record. The busy server delays it until the record has been written.
#[tokio::test(flavor = "local", start_paused = true)]
async fn evictions_before_a_signal_are_in_the_report() {
    let fleet = Driven::new(Driver::Gpu, |settings| {
        settings.upgrade.policy.pod_deletion.as_mut().unwrap().timeout_seconds = 0;
    });
    let fleet = fleet.serves("serve", "gpu-0", 1, true).begin();
    let evicts = |request: &Request| request.is("create", "pods/eviction");
    let busy = Fault::new(evicts, 0, usize::MAX, Effect::Status(503));
    fleet.world.server.state().faults.push(busy);
    let first = fleet.start("pod-a");
    fleet.world.pass(600).await;
    assert!(fleet.world.recorded_nodes()["gpu-0"].evicted.is_empty());
    fleet.world.server.state().faults.clear();
    let is_accepted = || {
        let state = fleet.world.server.state();
        state.log.iter().any(|entry| entry.applied && evicts(&entry.request))
    };
    while !is_accepted() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.stop.send_replace(true);
    let ended = fleet.ends(first).await;
    assert_eq!(ended.code, ExitCode::Interrupted, "{}", ended.message);
    let evicted = fleet.world.recorded_nodes()["gpu-0"].evicted.clone();
    assert_eq!(evicted.len(), 1, "{evicted:?}");
    assert_eq!(fleet.run("pod-b").await.code, ExitCode::Success);
}
