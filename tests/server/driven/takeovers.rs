//! The run goes from one process to another: a signal, a Lease that another hook takes meanwhile, another version of the program.

use std::sync::Arc;
use std::time::Duration;

use gpu_rollout::cluster::lease::Leases;
use gpu_rollout::contract::budget::TERMINATION_GRACE_SECONDS;
use gpu_rollout::contract::count::Count;
use gpu_rollout::contract::driver::Driver;
use gpu_rollout::contract::exit::ExitCode;
use serde_json::{Value, json};

use super::kills::Undisturbed;
use super::stories::{STORIES, Story};
use super::{Driven, JOB, NODES};
use crate::fake::fault::{Break, Effect, Fault};
use crate::settings::OPERATOR;

fn story(name: &str) -> &'static Story {
    STORIES.iter().find(|story| story.name == name).unwrap()
}

/// SIGTERM at a moment; the next pod of the Job goes on.
async fn interrupted(story: &Story, undisturbed: &Undisturbed, after: Duration) {
    let fleet = story.begin();
    let first = fleet.world.start("pod-a", JOB);
    tokio::time::sleep(after).await;
    let place = format!("{}: a signal after {after:?}", story.name);
    let before = fleet.world.second();
    first.stop.send_replace(true);
    let ended = fleet.world.ends(first).await;
    let took = fleet.world.second() - before;
    assert!(took < i64::try_from(TERMINATION_GRACE_SECONDS).unwrap(), "{place}: killed after {took} s");
    assert_ne!(fleet.world.holder().as_deref(), Some("pod-a"), "{place}: the Lease was kept");
    assert!(ended.code == ExitCode::Interrupted || ended.code == story.code, "{place}: {}", ended.message);
    let ended = fleet.world.run("pod-b", JOB).await;
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    undisturbed.assert_same(&fleet, 0, &place).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_signal_at_any_time_leaves_the_rest_to_the_next_pod() {
    for (at, story) in STORIES.iter().enumerate() {
        let undisturbed = Undisturbed::of(story).await;
        for step in 0..6 {
            interrupted(story, &undisturbed, Duration::from_millis(150 + 211 * at as u64 + 8_317 * step)).await;
        }
    }
}

/// The hook is cut off, another hook takes the Lease when it has run out, has it for a while and gives it back.
async fn taken(story: &Story, undisturbed: &Undisturbed, after: u64, cut_off: u64) {
    let fleet = story.begin();
    let server = fleet.world.server.clone();
    let first = fleet.world.start("pod-a", JOB);
    fleet.world.pass(after).await;
    server.change(|state| {
        state.faults.push(Fault::new(|request| request.who == "pod-a", 0, usize::MAX, Effect::Hang));
        state.breaks.push(Break::Cut);
    });
    let clock = fleet.world.clock.clone();
    let leases = Leases::new(&server.client("pod-x"), "pod-x", Arc::new(move || clock.now()));
    let theirs = async {
        let held = leases.acquire(|_| ()).await.unwrap();
        assert!(held.is_valid());
        fleet.world.pass(30).await;
        held.release().await;
    };
    let reconnected = async {
        fleet.world.pass(cut_off).await;
        server.change(|state| state.faults.clear());
    };
    tokio::join!(theirs, reconnected);
    let ended = fleet.world.ends(first).await;
    let place = format!("{}: cut off after {after} s for {cut_off} s", story.name);
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    assert!(fleet.world.log().iter().any(|entry| entry.applied && entry.request.who == "pod-x"), "{place}: it was taken");
    undisturbed.assert_same(&fleet, 1, &place).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_lease_that_another_hook_has_meanwhile_is_waited_for_and_the_run_goes_on() {
    for (at, story) in STORIES.iter().enumerate() {
        let undisturbed = Undisturbed::of(story).await;
        for step in 0..2 {
            taken(story, &undisturbed, 4 + (at as u64 * 5 + step * 13) % 40, 25 + 20 * step).await;
        }
    }
}

/// A fleet in which a newer program is at work on `gpu-1`.
fn with_a_newer_record(parallel: u32) -> Driven {
    let fleet = Driven::new(Driver::Gpu, |settings| {
        settings.upgrade.policy.max_parallel_upgrades = parallel;
        settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
    });
    fleet.node("gpu-1", |node| {
        let traits = Driver::Gpu.traits();
        node["metadata"]["labels"][traits.own_state_label] = json!("rebooting");
        node["metadata"]["annotations"][traits.own_record] = json!(r#"{"version": 2, "shape": ["unknown"]}"#);
        node["spec"]["unschedulable"] = json!(true);
    })
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_node_with_a_newer_record_is_left_alone_and_named_and_the_others_are_done() {
    let fleet = with_a_newer_record(2).begin();
    let before = fleet.world.get("nodes", "", "gpu-1");
    let ended = fleet.world.run("pod-a", JOB).await;
    assert_eq!(ended.code, ExitCode::NewerFormat, "{}", ended.message);
    assert!(ended.message.starts_with("gpu-1: "), "{}", ended.message);
    assert_eq!(fleet.world.get("nodes", "", "gpu-1"), before);
    for node in ["gpu-0", "gpu-2"] {
        assert_eq!(fleet.left(node), "", "{node}");
        assert_eq!(fleet.writes()[&format!("Driver of {node}")], 1);
    }
    assert!(fleet.world.second() < 300, "{} s", fleet.world.second());
}

/// What a program of the same format that knows more would have written, into a JSON text.
fn knows_more(text: &Value) -> Value {
    let mut record: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
    record["soakedFor"] = json!({"seconds": 7, "why": ["unknown"]});
    json!(record.to_string())
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_a_program_that_knows_more_has_added_is_passed_over() {
    for story in [story("pods with GPUs"), story("a driver that fails"), story("OFED with drain")] {
        let undisturbed = Undisturbed::of(story).await;
        for after in [3, 11, 19, 27, 35] {
            let fleet = story.begin();
            let first = fleet.world.start("pod-a", JOB);
            fleet.world.pass(after).await;
            first.handle.abort();
            let mut found = 0;
            for index in 0..NODES {
                fleet.world.edit("nodes", "", &format!("gpu-{index}"), |node| {
                    let key = fleet.driver.traits().own_record;
                    if node["metadata"]["annotations"][key].is_string() {
                        node["metadata"]["annotations"][key] = knows_more(&node["metadata"]["annotations"][key]);
                        found += 1;
                    }
                });
            }
            let record = fleet.world.settings.record.clone();
            fleet.world.edit("configmaps", OPERATOR, &record, |record| {
                for text in record["data"].as_object_mut().into_iter().flatten().map(|(_, text)| text) {
                    *text = knows_more(text);
                }
            });
            let ended = fleet.world.run("pod-b", JOB).await;
            let place = format!("{} after {after} s, {found} nodes", story.name);
            assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
            assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
            undisturbed.assert_same(&fleet, 0, &place).await;
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn another_image_of_the_hook_goes_on_where_the_one_before_stopped() {
    for story in [story("plain"), story("drain"), story("a driver that fails"), story("safe load")] {
        let undisturbed = Undisturbed::of(story).await;
        for after in [3, 12, 21, 30, 39] {
            let mut fleet = story.begin();
            let first = fleet.world.start("pod-a", JOB);
            fleet.world.pass(after).await;
            // The deployer replaces the Job: its pod is told to end, and a new one comes under another digest.
            first.stop.send_replace(true);
            fleet.world.ends(first).await;
            fleet.world.settings.digest = "e".repeat(64);
            fleet.world.install(&fleet.world.settings, "job-2");
            let ended = fleet.world.run("pod-b", "job-2").await;
            let place = format!("{} after {after} s", story.name);
            assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
            fleet.world.pass(30).await;
            fleet.assert_safe(&place);
            let mut end = fleet.end();
            if story.code == ExitCode::Success {
                assert_eq!(end, undisturbed.end, "{place}");
                assert_eq!(undisturbed.excess(&fleet.writes()), Vec::<String>::new(), "{place}");
            } else {
                // A new digest is a new attempt for what failed: only that node may differ.
                end.nodes.remove("gpu-1");
                let mut expected = undisturbed.end.clone();
                expected.nodes.remove("gpu-1");
                assert_eq!(end.nodes, expected.nodes, "{place}");
            }
        }
    }
}
