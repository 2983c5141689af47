//! Two hook Jobs at the same time: only one acts at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::exit::ExitCode;
use contract::names;
use contract::settings::Settings;
use contract::task::Task;
use kube_io::lease::{LEASE_SECONDS, LeaseCandidate};
use serde_json::json;
use tokio::time::Instant;

use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Request;
use crate::fake::store::text;
use crate::settings::DRA;
use crate::world::{World, named};

fn other_release(world: &World) -> Settings {
    let mut settings = world.settings.clone();
    settings.release = "nvidia-dra-driver-gpu-post".into();
    settings.record = "nvidia-dra-driver-gpu-post-record".into();
    settings
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn two_releases_take_turns_without_repeating_work() {
    for after in [0, 1, 10, 45, 80] {
        let mut world = World::at_rest(2);
        let other = other_release(&world);
        world.install(&other, "job-x");
        world.upgrade(&[1, 0]);
        let first = world.start("pod-a", "job-1");
        world.pass(after).await;
        let second = world.start_with(&other, "pod-x", "job-x");
        let (first, second) = (world.ends(first).await, world.ends(second).await);
        assert_eq!(
            (first.code, second.code),
            (ExitCode::Success, ExitCode::Success),
            "{after}: {} {}",
            first.message,
            second.message
        );
        world.assert_replaced_once();
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn two_jobs_of_one_release_take_turns() {
    for after in [0, 10, 45, 80] {
        let mut world = World::at_rest(2);
        world.upgrade(&[1, 0]);
        let first = world.start("pod-a", "job-1");
        world.pass(after).await;
        let settings = world.settings.clone();
        world.install(&settings, "job-2");
        let second = world.start("pod-b", "job-2");
        let (first, second) = (world.ends(first).await, world.ends(second).await);
        assert_eq!(
            (first.code, second.code),
            (ExitCode::Success, ExitCode::Success),
            "{after}: {} {}",
            first.message,
            second.message
        );
        world.assert_replaced_once();
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn waiting_hook_starts_when_lease_is_released() {
    let mut world = World::at_rest(2);
    let other = other_release(&world);
    world.install(&other, "job-x");
    world.upgrade(&[1, 0]);
    let first = world.start("pod-a", "job-1");
    world.pass(10).await;
    let second = world.start_with(&other, "pod-x", "job-x");
    world.ends(first).await;
    let before = world.second();
    world.ends(second).await;
    assert!(
        world.second() - before <= 23,
        "the quiet period and little more: {} s",
        world.second() - before
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn dead_holder_is_followed_after_lease_expiry() {
    for dies in [5, 20, 44, 50] {
        let mut world = World::at_rest(2);
        let other = other_release(&world);
        world.install(&other, "job-x");
        world.upgrade(&[1, 0]);
        let first = world.start("pod-a", "job-1");
        world.pass(3).await;
        let second = world.start_with(&other, "pod-x", "job-x");
        world.pass(dies).await;
        first.handle.abort();
        let ended = world.ends(second).await;
        assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
        world.assert_replaced_once();
    }
}

/// Regression (P17): nothing limited how long a killed hook was missing.
#[tokio::test(flavor = "local", start_paused = true)]
async fn next_pod_takes_over_as_soon_as_lease_expires() {
    let mut world = World::at_rest(2);
    world.upgrade(&[1, 0]);
    let first = world.start("pod-a", "job-1");
    world.pass(5).await;
    assert_eq!(world.holder().as_deref(), Some("pod-a"));
    first.handle.abort();
    let killed = world.second();
    let second = world.start("pod-b", "job-1");
    while world.holder().as_deref() != Some("pod-b") {
        world.pass(1).await;
        assert!(world.second() - killed <= i64::from(LEASE_SECONDS) + 1, "{}", world.second());
    }
    assert_eq!(world.ends(second).await.code, ExitCode::Success);
}

fn held(world: &World, holder: &str, seconds: u32) {
    let now = world.clock.now();
    let time = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": time, "renewTime": time, "leaseTransitions": 1});
    world.put(
        "leases",
        "default",
        names::LEASE_NAME,
        json!({
            "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"creationTimestamp": text(now)}, "spec": spec,
        }),
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn lease_held_to_the_end_is_named() {
    let world = World::at_rest(1);
    held(&world, "another-pod", 20);
    let pod = world.start("pod-a", "job-1");
    while world.second() < 3600 && !pod.handle.is_finished() {
        world.pass(5).await;
        let now = world.clock.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        world.edit("leases", "default", names::LEASE_NAME, |lease| {
            lease["spec"]["renewTime"] = json!(now);
        });
    }
    let ended = world.ends(pod).await;
    assert_eq!(ended.code, ExitCode::LeaseHeld);
    assert_eq!(named(&ended), ["*:LeaseHeldByOther"]);
    assert!(
        ended.message.contains("`another-pod`"),
        "the message names the holder: {}",
        ended.message
    );
    assert!(world.second() <= 3570);
    assert!(world.writes("pod-a").is_empty());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn holder_with_longer_lease_gets_its_time() {
    let world = World::at_rest(1);
    held(&world, "a newer version", 60);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success);
    let taken =
        world.writes("pod-a").into_iter().find(|entry| entry.request.resource == "leases").unwrap();
    let second = taken.at.duration_since(crate::world::at(0)).as_secs();
    assert!((60..70).contains(&second), "taken after {second} s");
}

/// Regression: such a Lease blocked every hook for 68 years.
#[tokio::test(flavor = "local", start_paused = true)]
async fn lease_of_unlimited_duration_is_taken_over() {
    let world = World::at_rest(1);
    held(&world, "another-pod", 2_147_483_647);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    let taken =
        world.writes("pod-a").into_iter().find(|entry| entry.request.resource == "leases").unwrap();
    let second = taken.at.duration_since(crate::world::at(0)).as_secs();
    assert!((120..130).contains(&second), "taken after {second} s");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn lease_without_holder_is_taken_at_once() {
    let world = World::at_rest(1);
    held(&world, "", 20);
    world.run("pod-a", "job-1").await;
    let taken =
        world.writes("pod-a").into_iter().find(|entry| entry.request.resource == "leases").unwrap();
    let second = taken.at.duration_since(crate::world::at(0)).as_secs();
    assert!(second < 5, "taken after {second} s");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn conflict_while_releasing_lease_is_retried() {
    for effect in [Effect::Status(409), Effect::Status(500)] {
        let world = World::at_rest(1);
        let release = |request: &Request| {
            request.is("update", "leases") && request.body["spec"]["holderIdentity"].is_null()
        };
        world.server.state().faults.push(Fault::new(release, 0, 1, effect));
        assert_eq!(world.run("pod-a", "job-1").await.code, ExitCode::Success);
        assert_eq!(world.holder(), None, "{effect:?}");
    }
}

/// Regression: a call can take 10 s, but only 4 s were left before others could take the Lease. A
/// write that started late was still running when they wrote.
#[tokio::test(flavor = "local", start_paused = true)]
async fn pending_write_is_abandoned_before_lease_expires() {
    let world = World::at_rest(1);
    let clock = world.clock.clone();
    let leases =
        LeaseCandidate::new(&world.server.client("pod-a"), "pod-a", Arc::new(move || clock.now()));
    let held = leases.acquire(|_| {}).await.unwrap();
    let taken = Instant::now();
    world.server.state().faults.push(Fault::new(
        |request| request.is("update", "leases"),
        0,
        usize::MAX,
        Effect::Hang,
    ));
    tokio::time::sleep(Duration::from_millis(15_900)).await;
    assert!(held.is_valid(), "a write may still start");
    assert_eq!(held.within(std::future::pending::<()>()).await, None);
    assert!(taken.elapsed() < Duration::from_secs(LEASE_SECONDS.into()), "{:?}", taken.elapsed());
    assert_eq!(held.within(async {}).await, None, "no write starts any more");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn renewed_lease_leaves_a_write_its_time() {
    let world = World::at_rest(1);
    let clock = world.clock.clone();
    let leases =
        LeaseCandidate::new(&world.server.client("pod-a"), "pod-a", Arc::new(move || clock.now()));
    let held = leases.acquire(|_| {}).await.unwrap();
    let write = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        7
    };
    assert_eq!(held.within(write).await, Some(7));
}

/// More plugins are stale than the hook replaces at the same time, and from the first deletion on
/// the server is silent. The remaining requests would start when the pending ones are abandoned,
/// and by then the Lease has expired.
#[tokio::test(flavor = "local", start_paused = true)]
async fn nothing_is_requested_beyond_the_lease() {
    let world = World::at_rest(40);
    let plugins: Vec<_> = world
        .server
        .state()
        .store
        .objects
        .keys()
        .filter(|key| key.resource == "pods" && key.namespace == DRA)
        .cloned()
        .collect();
    for plugin in plugins {
        world.edit("pods", DRA, &plugin.name, |pod| {
            pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] =
                json!("2020-01-01T00:00:00Z");
        });
    }
    let silent = AtomicBool::new(false);
    let from_the_first_deletion = move |request: &Request| {
        silent.fetch_or(request.is("delete", "pods"), Ordering::Relaxed);
        silent.load(Ordering::Relaxed)
    };
    world.server.change(|state| {
        state.faults.push(Fault::new(from_the_first_deletion, 0, usize::MAX, Effect::Hang));
    });
    let hook = world.start("pod-a", "job-1");
    world.pass(120).await;
    let renewed = world
        .writes("pod-a")
        .into_iter()
        .filter(|entry| entry.applied && entry.request.resource == "leases")
        .map(|entry| entry.at)
        .max()
        .unwrap();
    let deletions: Vec<_> = world
        .writes("pod-a")
        .into_iter()
        .filter(|entry| entry.request.is("delete", "pods"))
        .map(|entry| entry.at)
        .collect();
    let over = renewed + Duration::from_secs(LEASE_SECONDS.into());
    let late: Vec<_> = deletions.iter().filter(|at| **at >= over).collect();
    assert!(
        deletions.len() >= 16 && late.is_empty(),
        "{} deletions, the Lease was over at {over}; after that: {late:?}",
        deletions.len()
    );
    drop(hook);
}

/// Sets the chart label of the operator's Deployment. The hook is for v26.3.1.
fn chart(world: &World, chart: &str) {
    world.edit("deployments", "gpu-operator", "gpu-operator", |deployment| {
        deployment["metadata"]["labels"]["helm.sh/chart"] = json!(chart);
    });
}

fn made_for_a_chart(world: &World) -> Settings {
    Settings { component_version: Some("v26.3.1".into()), ..world.settings.clone() }
}

/// Regression, with a deployer that keeps no order: the hook after the operator held the Lease, the
/// hook before the operator waited for the Lease, and the operator waited for the hook before it.
#[tokio::test(flavor = "local", start_paused = true)]
async fn hook_waiting_for_operator_blocked_its_predecessor() {
    let world = World::at_rest(2);
    let settings = made_for_a_chart(&world);
    world.install(&settings, "job-1");
    chart(&world, "gpu-operator-v25.10.1");
    let waits = world.start_with(&settings, "pod-a", "job-1");
    world.pass(30).await;
    assert_eq!(world.holder(), Some("pod-a".into()));

    let clock = world.clock.clone();
    let leases =
        LeaseCandidate::new(&world.server.client("pod-x"), "pod-x", Arc::new(move || clock.now()));
    let before = world.second();
    let held = leases.acquire(|_| ()).await.unwrap();
    assert!(world.second() - before <= 8, "after {} s", world.second() - before);
    // Longer than its grace time, because the first hook may wait for this one.
    world.pass(400).await;
    assert!(!waits.handle.is_finished());
    held.release().await;
    world.pass(60).await;
    assert!(!waits.handle.is_finished(), "the time of other hooks does not count");
    chart(&world, "gpu-operator-v26.3.1");
    let ended = world.ends(waits).await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
}

/// Regression, with Argo CD, a bundle from a branch, and the previous bundle deployed again: the
/// hook after the operator started first. It took the replacements of the previous run for its own
/// pending ones, and kept the Lease until its grace time was over.
#[tokio::test(flavor = "local", start_paused = true)]
async fn hook_waiting_for_operator_yields_after_replacing_plugins() {
    let mut world = World::at_rest(2);
    world.upgrade(&[0, 1]);
    assert_eq!(world.run("pod-a", "job-1").await.code, ExitCode::Success);
    world.assert_replaced_once();
    let mut settings = made_for_a_chart(&world);
    settings.digest = "e".repeat(64);
    world.install(&settings, "job-2");
    chart(&world, "gpu-operator-v25.10.1");
    let waits = world.start_with(&settings, "pod-b", "job-2");
    world.pass(30).await;
    let clock = world.clock.clone();
    let leases =
        LeaseCandidate::new(&world.server.client("pod-x"), "pod-x", Arc::new(move || clock.now()));
    let before = world.second();
    let held = leases.acquire(|_| ()).await.unwrap();
    assert!(world.second() - before <= 8, "after {} s", world.second() - before);
    held.release().await;
    waits.handle.abort();
}

/// Yielding the Lease costs little time, and the grace time still ends.
#[tokio::test(flavor = "local", start_paused = true)]
async fn hook_waiting_alone_ends_after_grace_time() {
    let world = World::at_rest(2);
    let settings = made_for_a_chart(&world);
    world.install(&settings, "job-1");
    chart(&world, "gpu-operator-v25.10.1");
    let pod = world.start_with(&settings, "pod-a", "job-1");
    let ended = world.ends(pod).await;
    assert_eq!(ended.code, ExitCode::Precondition, "{}", ended.message);
    let grace = i64::try_from(settings.grace_seconds).unwrap();
    assert!((grace..grace + 10).contains(&world.second()), "after {} s", world.second());
}

/// Two hooks that wait for objects that never come both end.
#[tokio::test(flavor = "local", start_paused = true)]
async fn two_hooks_that_wait_take_turns_and_end() {
    let world = World::at_rest(2);
    let settings = made_for_a_chart(&world);
    world.install(&settings, "job-1");
    let mut other = other_release(&world);
    other.component_version = settings.component_version.clone();
    world.install(&other, "job-x");
    chart(&world, "gpu-operator-v25.10.1");
    let (first, second) =
        (world.start_with(&settings, "pod-a", "job-1"), world.start_with(&other, "pod-x", "job-x"));
    let (first, second) = (world.ends(first).await, world.ends(second).await);
    assert_eq!(
        (first.code, second.code),
        (ExitCode::Precondition, ExitCode::Precondition),
        "{} {}",
        first.message,
        second.message
    );
    assert!(
        world.second() < 3 * i64::try_from(settings.grace_seconds).unwrap(),
        "after {} s",
        world.second()
    );
}

/// The single-step tasks before the loop do not run again each time the Lease returns. A preflight
/// lists the pods of all nodes.
#[tokio::test(flavor = "local", start_paused = true)]
async fn yielding_hook_does_its_single_steps_once() {
    let world = World::at_rest(2);
    let mut settings = made_for_a_chart(&world);
    settings.tasks.insert(0, Task::Preflight);
    world.install(&settings, "job-1");
    chart(&world, "gpu-operator-v25.10.1");
    let pod = world.start_with(&settings, "pod-a", "job-1");
    world.pass(60).await;
    let taken =
        world.writes("pod-a").iter().filter(|entry| entry.request.resource == "leases").count();
    assert!(taken > 4, "it yielded the Lease: {taken}");
    let of_all_nodes = |request: &Request| {
        request.resource == "pods" && request.namespace.is_empty() && request.name.is_empty()
    };
    let listed = world
        .log()
        .iter()
        .filter(|entry| entry.request.who == "pod-a" && of_all_nodes(&entry.request))
        .count();
    assert_eq!(listed, 1, "pods of all namespaces are listed once");
    pod.handle.abort();
}
