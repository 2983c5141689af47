//! Rights that are missing from the start, or that are removed during a run.

use std::collections::BTreeSet;

use contract::exit::ExitCode;
use contract::settings::{Mode, Reroll};
use contract::task::{RIGHTS, Task, rights};
use kube_io::access::missing_rights;

use crate::fake::fault::Break;
use crate::fake::rights::grants;
use crate::world::World;

fn deny(world: &World, rights: &[&str]) {
    let rights = rights.iter().map(|right| (*right).to_owned());
    world.server.change(|state| state.denied.extend(rights));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn any_missing_right_is_named_before_any_write() {
    let world = World::at_rest(1);
    let all: BTreeSet<String> =
        grants(&world.settings).iter().map(crate::fake::rights::Grant::short).collect();
    drop(world);
    for right in all {
        let mut world = World::at_rest(1);
        world.upgrade(&[0]);
        deny(&world, &[&right]);
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(ended.code, ExitCode::Rights, "{right}: {}", ended.message);
        let (verb, resource) = right.split_once(' ').unwrap();
        assert!(
            ended.message.contains(&format!("{verb} {resource}")),
            "{right}: {}",
            ended.message
        );
        assert!(world.writes("pod-a").is_empty(), "{right}");
        assert!(world.second() < 60, "{right}: {} s", world.second());
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn all_missing_rights_are_named_in_one_message() {
    for first in [
        "get jobs",
        "get configmaps",
        "get namespaces",
        "list nodes",
        "watch nodes",
        "update leases",
    ] {
        let world = World::at_rest(1);
        deny(&world, &[first, "delete pods", "list resourceslices", "create events"]);
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(ended.code, ExitCode::Rights);
        let (verb, resource) = first.split_once(' ').unwrap();
        let mut expected = vec![format!("{verb} {resource}")];
        expected.push("list resourceslices.resource.k8s.io".into());
        expected.push("create events.events.k8s.io in namespace `gpu-operator`".into());
        expected.push("create events.events.k8s.io in namespace `default`".into());
        if first != "get namespaces" {
            expected.push("delete pods in namespace `nvidia-dra-driver-gpu`".into());
        }
        for part in expected {
            assert!(ended.message.contains(&part), "{first}: {part} in {}", ended.message);
        }
        assert!(
            !ended.message.contains("in namespace `nvidia-dra-driver`"),
            "an absent namespace needs no rights"
        );
        assert!(world.writes("pod-a").is_empty());
    }
}

/// The same authorizer has just allowed the lists and watches, so the hook does not check these
/// rights.
#[tokio::test(flavor = "local", start_paused = true)]
async fn what_was_just_allowed_is_not_asked_for() {
    let world = World::at_rest(1);
    world.run("pod-a", "job-1").await;
    let reviews = world
        .log()
        .into_iter()
        .filter(|entry| entry.request.is("create", "selfsubjectaccessreviews"));
    let attributes = reviews.map(|entry| entry.request.body["spec"]["resourceAttributes"].clone());
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut asked: Vec<String> = attributes
        .map(|right| format!("{} {}", text(&right["verb"]), text(&right["resource"])))
        .collect();
    asked.sort();
    let expected = [
        "create events",
        "create events",
        "create leases",
        "delete pods",
        "get configmaps",
        "get jobs",
        "get leases",
        "get namespaces",
        "get namespaces",
        "list leases",
        "patch configmaps",
        "update leases",
        "watch leases",
    ];
    assert_eq!(asked, expected);
}

/// The API server expects a subresource in a field of its own.
#[tokio::test(flavor = "local", start_paused = true)]
async fn right_on_sub_resource_is_requested_as_one() {
    for denied in [None, Some("create pods/eviction")] {
        let mut world = World::at_rest(1);
        world.settings.mode = Mode::Drive;
        world.settings.tasks = vec![Task::Settle, Task::Drive];
        world.server.change(|state| state.grants = grants(&world.settings));
        deny(&world, denied.as_slice());
        let missing =
            missing_rights(&world.server.client("pod-a"), &world.settings, &[], &[]).await.unwrap();
        assert_eq!(missing, denied.as_slice());
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn self_check_skips_rights_that_settings_exclude() {
    for (reroll, expected) in [
        (Reroll::Auto, &["delete pods in namespace `nvidia-dra-driver-gpu`"][..]),
        (Reroll::Off, &[]),
    ] {
        let mut world = World::at_rest(1);
        world.settings.dra.reroll = reroll;
        deny(&world, &["delete pods"]);
        let namespaces = ["nvidia-dra-driver-gpu".to_owned()];
        let client = world.server.client("pod-a");
        let missing = missing_rights(&client, &world.settings, &namespaces, &[]).await.unwrap();
        assert_eq!(missing, expected, "{reroll:?}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn rights_lost_during_run_end_it_after_minute() {
    for right in ["patch configmaps", "delete pods", "list pods", "watch nodes", "update leases"] {
        let mut world = World::at_rest(2);
        world.upgrade(&[0, 1]);
        let pod = world.start("pod-a", "job-1");
        world.pass(20).await;
        deny(&world, &[right]);
        world.server.change(|state| state.breaks.push(Break::Gone));
        let ended = world.ends(pod).await;
        assert_eq!(ended.code, ExitCode::Rights, "{right}: {}", ended.message);
        assert!((60..160).contains(&world.second()), "{right}: after {} s", world.second());
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn rights_restored_within_the_minute_are_forgiven() {
    for right in [
        "patch configmaps",
        "delete pods",
        "list pods",
        "watch nodes",
        "update leases",
        "create events",
    ] {
        let mut world = World::at_rest(2);
        world.upgrade(&[0, 1]);
        let pod = world.start("pod-a", "job-1");
        world.pass(20).await;
        deny(&world, &[right]);
        world.server.change(|state| state.breaks.push(Break::EndOfFile));
        world.pass(50).await;
        world.server.change(|state| state.denied.clear());
        let ended = world.ends(pod).await;
        assert_eq!(ended.code, ExitCode::Success, "{right}: {}", ended.message);
        world.assert_replaced_once();
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn every_right_of_the_table_is_used() {
    let mut world = World::at_rest(2);
    world.upgrade(&[0, 1]);
    let first = world.start("pod-a", "job-1");
    let mut other = world.settings.clone();
    other.release = "nvidia-dra-driver-gpu-post".into();
    other.record = "nvidia-dra-driver-gpu-post-record".into();
    world.install(&other, "job-x");
    world.pass(10).await;
    let second = world.start_with(&other, "pod-x", "job-x");
    assert_eq!(world.ends(first).await.code, ExitCode::Success);
    assert_eq!(world.ends(second).await.code, ExitCode::Success);
    let used = world.server.state().used.clone();
    let granted: Vec<_> = rights(&world.settings).collect();
    for (row, right) in RIGHTS.iter().enumerate().filter(|(_, right)| granted.contains(right)) {
        for verb in right.verbs {
            assert!(used.contains(&(row, verb)), "{verb} {}: {}", right.resource, right.why);
        }
    }
}
