//! Another process takes over the run: after a signal, after another hook took the Lease, or with
//! another version of the program.

use std::sync::Arc;
use std::time::Duration;

use contract::budget::TERMINATION_GRACE_SECONDS;
use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;
use kube_io::lease::{HeldLease, LeaseCandidate};
use serde_json::{Value, json};

use super::moments::{COME_UP_SECONDS, Undisturbed, reached};
use super::stories::{STORIES, Story, TRIED_TWICE, numbered};
use super::{Driven, NODES};
use crate::fake::fault::{Break, Effect, Fault};
use crate::fake::request::Request;
use crate::fake::store::text;
use crate::world::{Pod, named};

fn story(name: &str) -> &'static Story {
    STORIES.iter().find(|story| story.name == name).unwrap()
}

/// Sends SIGTERM at a call. The next pod of the Job continues.
async fn interrupted(story: &Story, undisturbed: &Undisturbed, nth: usize) {
    let fleet = story.begin();
    let Some(first) = reached(&fleet, nth, Effect::Tell).await else { return };
    let place = undisturbed.place(story, "a signal", nth);
    let before = fleet.world.second();
    first.stop.send_replace(true);
    let ended = fleet.ends(first).await;
    let took = fleet.world.second() - before;
    assert!(
        took < i64::try_from(TERMINATION_GRACE_SECONDS).unwrap(),
        "{place}: killed after {took} s"
    );
    assert_ne!(fleet.world.holder().as_deref(), Some("pod-a"), "{place}: the Lease was kept");
    assert!(
        ended.code == ExitCode::Interrupted || ended.code == story.code,
        "{place}: {}",
        ended.message
    );
    let ended = fleet.run("pod-b").await;
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    undisturbed.assert_same(&fleet, 0, &place).await;
}

async fn interrupt(step: usize) {
    for (at, story) in numbered() {
        let undisturbed = Undisturbed::of(story).await;
        for nth in undisturbed.moments(at, step) {
            interrupted(story, &undisturbed, nth).await;
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn signal_at_any_call_is_survived() {
    interrupt(47).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: a signal at every call of every story"]
async fn soak_signal_at_any_call_is_survived() {
    interrupt(1).await;
}

/// Cuts the hook off from a call on. Another pod of its Job takes the Lease when it has expired.
/// The first pod returns while the other one runs. The check of every story's log asserts that only
/// one of them acts at a time (`world/check.rs`). `effect`: whether the current call arrives at
/// once, or when the other pod has the Lease.
async fn handed_over(
    story: &Story,
    undisturbed: &Undisturbed,
    nth: usize,
    effect: Effect,
    cut_off: u64,
) {
    let fleet = story.begin();
    let Some(first) = reached(&fleet, nth, effect).await else { return };
    let server = fleet.world.server.clone();
    server.change(|state| {
        state.faults.push(Fault::new(
            |request| request.who == "pod-a",
            0,
            usize::MAX,
            Effect::Hang,
        ));
        state.breaks.push(Break::Cut);
    });
    let second = fleet.start("pod-b");
    let reconnected = async {
        fleet.world.pass(cut_off).await;
        server.change(|state| state.faults.clear());
    };
    let (first, second, ()) = tokio::join!(fleet.ends(first), fleet.ends(second), reconnected);
    let place = undisturbed.place(story, &format!("{effect:?}, cut off for {cut_off} s"), nth);
    for ended in [first, second] {
        assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
        assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    }
    undisturbed.assert_same(&fleet, 1, &place).await;
}

async fn hand_over(step: usize) {
    for (at, story) in numbered() {
        let undisturbed = Undisturbed::of(story).await;
        for (turn, nth) in undisturbed.moments(at, step).into_iter().enumerate() {
            let effect =
                if (turn + at).is_multiple_of(2) { Effect::Late(27) } else { Effect::Tell };
            let cut_off = [25, 33, 47][(turn + at) % 3];
            handed_over(story, &undisturbed, nth, effect, cut_off).await;
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn disconnected_hook_does_nothing_next_to_successor() {
    hand_over(47).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: cut off at every call of every story"]
async fn soak_disconnected_hook_does_nothing_next_to_successor() {
    hand_over(1).await;
}

/// Cuts the hook off. Another hook takes the Lease when it has expired, holds it for a while and
/// releases it.
async fn taken(story: &Story, undisturbed: &Undisturbed, nth: usize) {
    let fleet = story.begin();
    let server = fleet.world.server.clone();
    let Some(first) = reached(&fleet, nth, Effect::Tell).await else { return };
    server.change(|state| {
        state.faults.push(Fault::new(
            |request| request.who == "pod-a",
            0,
            usize::MAX,
            Effect::Hang,
        ));
        state.breaks.push(Break::Cut);
    });
    let clock = fleet.world.clock.clone();
    let leases =
        LeaseCandidate::new(&server.client("pod-x"), "pod-x", Arc::new(move || clock.now()));
    let theirs = async {
        let held = leases.acquire(|_| ()).await.unwrap();
        assert!(held.is_valid());
        fleet.world.pass(COME_UP_SECONDS).await;
        held.release().await;
    };
    let reconnected = async {
        fleet.world.pass(35).await;
        server.change(|state| state.faults.clear());
    };
    tokio::join!(theirs, reconnected);
    let ended = fleet.ends(first).await;
    let place = undisturbed.place(story, "another hook has the Lease", nth);
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    undisturbed.assert_same(&fleet, 0, &place).await;
}

async fn take(step: usize) {
    for (at, story) in numbered() {
        let undisturbed = Undisturbed::of(story).await;
        for nth in undisturbed.moments(at, step) {
            taken(story, &undisturbed, nth).await;
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn lease_taken_meanwhile_is_awaited_and_run_continues() {
    take(89).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: another hook takes the Lease at every call of every story"]
async fn soak_lease_taken_meanwhile_is_awaited() {
    take(1).await;
}

/// Returns a fleet in which `gpu-1` has the record of a newer program.
fn with_a_newer_record(parallel: u32) -> Driven {
    let fleet = Driven::new(Driver::Gpu, |settings| {
        settings.upgrade.policy.max_parallel_upgrades = parallel;
        settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
    });
    fleet.node("gpu-1", |node| {
        let traits = Driver::Gpu.traits();
        node["metadata"]["labels"][traits.own_state_label] = json!("rebooting");
        node["metadata"]["annotations"][traits.own_record] =
            json!(r#"{"version": 2, "shape": ["unknown"]}"#);
        node["spec"]["unschedulable"] = json!(true);
    })
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn node_with_newer_record_is_named_and_skipped() {
    let fleet = with_a_newer_record(2).begin();
    let before = fleet.world.get("nodes", "", "gpu-1");
    let ended = fleet.run("pod-a").await;
    assert_eq!(ended.code, ExitCode::NewerFormat, "{}", ended.message);
    assert_eq!(named(&ended), ["gpu-1:NewerRecord"]);
    assert_eq!(fleet.world.get("nodes", "", "gpu-1"), before);
    for node in ["gpu-0", "gpu-2"] {
        assert_eq!(fleet.left(node), "", "{node}");
        assert_eq!(fleet.writes()[&format!("Driver of {node}")], 1);
    }
    assert!(fleet.world.second() < 300, "{} s", fleet.world.second());
}

/// With one slot: every other node is upgraded, one after the other.
#[tokio::test(flavor = "local", start_paused = true)]
async fn newer_record_occupies_no_slot() {
    let fleet = with_a_newer_record(1).begin();
    let ended = fleet.run("pod-a").await;
    assert_eq!(named(&ended), ["gpu-1:NewerRecord"], "{}", ended.message);
    for node in ["gpu-0", "gpu-2"] {
        assert_eq!(fleet.left(node), "", "{node}");
        assert_eq!(fleet.writes()[&format!("Driver of {node}")], 1);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn older_program_refuses_run_of_newer_one() {
    for story in [story("plain"), story("OFED with drain")] {
        let undisturbed = Undisturbed::of(story).await;
        for nth in undisturbed.moments(3, 29) {
            let fleet = story.begin();
            let Some(first) = reached(&fleet, nth, Effect::CrashAfter).await else { continue };
            first.handle.abort();
            let settings = &fleet.stages[0].0;
            let run = json!(r#"{"formatVersion": 9, "shape": ["unknown"]}"#);
            fleet.world.edit("configmaps", &settings.namespace, &settings.record, |record| {
                record["data"]["run"] = run;
            });
            let before = fleet.end();
            let ended = fleet.run("pod-b").await;
            let place = undisturbed.place(story, "a newer run record", nth);
            assert_eq!(ended.code, ExitCode::NewerFormat, "{place}: {}", ended.message);
            let wrote = fleet
                .world
                .writes("pod-b")
                .into_iter()
                .find(|entry| !matches!(entry.request.resource.as_str(), "leases" | "events"));
            assert!(wrote.is_none(), "{place}: {wrote:?}");
            assert_eq!(fleet.end().nodes, before.nodes, "{place}");
        }
    }
}

/// Adds keys to a JSON text, as a newer program with the same format version would write it.
fn knows_more(text: &Value) -> Value {
    let mut record: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
    record["soakedFor"] = json!({"seconds": 7, "why": ["unknown"]});
    json!(record.to_string())
}

/// Kills a newer program at a call. This program continues.
async fn followed(story: &Story, undisturbed: &Undisturbed, nth: usize) {
    let fleet = story.begin();
    let Some(first) = reached(&fleet, nth, Effect::CrashAfter).await else { return };
    first.handle.abort();
    for index in 0..NODES {
        fleet.world.edit("nodes", "", &format!("gpu-{index}"), |node| {
            for driver in &fleet.drivers {
                let key = driver.traits().own_record;
                if node["metadata"]["annotations"][key].is_string() {
                    node["metadata"]["annotations"][key] =
                        knows_more(&node["metadata"]["annotations"][key]);
                }
            }
        });
    }
    for (settings, _) in &fleet.stages {
        fleet.world.edit("configmaps", &settings.namespace, &settings.record, |record| {
            for text in record["data"].as_object_mut().into_iter().flatten().map(|(_, text)| text) {
                // The cohort is not JSON, so no keys can be added.
                if text.as_str().is_some_and(|text| text.starts_with('{')) {
                    *text = knows_more(text);
                }
            }
        });
    }
    let ended = fleet.run("pod-b").await;
    let place = undisturbed.place(story, "a program that knows more", nth);
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    undisturbed.assert_same(&fleet, 0, &place).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn additions_of_newer_program_are_ignored() {
    for (at, story) in
        [story("pods with GPUs"), story("a driver that fails"), story("OFED with drain")]
            .into_iter()
            .enumerate()
    {
        let undisturbed = Undisturbed::of(story).await;
        for nth in undisturbed.moments(at, 29) {
            followed(story, &undisturbed, nth).await;
        }
    }
}

/// Replaces the Job at a call, as a deployer does. Its pod gets a signal, and a pod with another
/// image and another digest starts.
async fn replaced(story: &Story, undisturbed: &Undisturbed, nth: usize) {
    let mut fleet = story.begin();
    let Some(first) = reached(&fleet, nth, Effect::Tell).await else { return };
    first.stop.send_replace(true);
    fleet.ends(first).await;
    fleet.deployed_anew();
    let ended = fleet.run("pod-b").await;
    let place = undisturbed.place(story, "another image", nth);
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    fleet.world.pass(COME_UP_SECONDS).await;
    fleet.assert_safe(&place);
    let mut end = fleet.end();
    if story.code == ExitCode::Success {
        assert_eq!(end, undisturbed.end, "{place}");
        // Failed nodes are tried again, with the same number of attempts.
        let tried_anew =
            |more: &String| story.patches[1] == TRIED_TWICE && more.ends_with("node gpu-1");
        let mut excess = undisturbed.excess(&fleet.writes());
        excess.retain(|more| !tried_anew(more));
        // The pod of a test and its result belong to the deployment that created it: the next one,
        // whose test may be another one, begins the test that runs on a node again.
        let tested =
            excess.iter().find_map(|more| more.strip_prefix("1 × test ")?.rsplit(' ').next());
        if let Some(node) = tested.map(str::to_owned) {
            let begins = ["1 × test ", "1 × end of test ", "1 × node "];
            excess.retain(|more| {
                !more.ends_with(&node) || begins.iter().all(|begin| !more.starts_with(begin))
            });
        }
        assert_eq!(excess, Vec::<String>::new(), "{place}");
    } else {
        // A new digest allows new attempts for the failed node, so only that node may differ.
        end.nodes.remove("gpu-1");
        let mut expected = undisturbed.end.clone();
        expected.nodes.remove("gpu-1");
        assert_eq!(end.nodes, expected.nodes, "{place}");
    }
}

async fn replace(step: usize) {
    for (at, story) in numbered() {
        let undisturbed = Undisturbed::of(story).await;
        for nth in undisturbed.moments(at, step) {
            replaced(story, &undisturbed, nth).await;
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn other_hook_image_continues_where_predecessor_stopped() {
    replace(97).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: another image at every call of every story"]
async fn soak_other_hook_image_continues_where_predecessor_stopped() {
    replace(1).await;
}

/// Makes another hook start a node and release the Lease, which it holds until then (`held`). The
/// watches of the tested hook lag by one minute.
async fn begins_a_node_and_lets_go(fleet: &Driven, held: HeldLease) {
    let traits = Driver::Gpu.traits();
    let (now, digest) = (text(fleet.world.clock.now()), &fleet.stages[0].0.digest);
    let state = "pod-deletion-required";
    let record = json!({"version": 1, "state": state, "since": now, "started": now, "digest": digest, "cordoned": true}).to_string();
    fleet.world.edit("nodes", "", "gpu-0", |node| {
        node["metadata"]["labels"].as_object_mut().unwrap().remove(traits.skip_label);
        node["metadata"]["labels"][traits.own_state_label] = json!(state);
        node["metadata"]["annotations"][traits.own_record] = json!(record);
        node["spec"]["unschedulable"] = json!(true);
    });
    fleet.world.pass(3).await;
    held.release().await;
}

/// Returns a fleet whose first node is left alone, on a server whose node watches lag by one
/// minute, and a candidate for the Lease.
fn late_watches() -> (Driven, LeaseCandidate) {
    let skip = Driver::Gpu.traits().skip_label;
    let fleet = Driven::new(Driver::Gpu, |_| {})
        .node("gpu-0", |node| node["metadata"]["labels"][skip] = json!("true"))
        .begin();
    let server = &fleet.world.server;
    server.state().late = Some((vec!["nodes"], Duration::from_mins(1)));
    let clock = fleet.world.clock.clone();
    let leases =
        LeaseCandidate::new(&server.client("pod-x"), "pod-x", Arc::new(move || clock.now()));
    (fleet, leases)
}

/// Asserts that the hook starts no second node with a limit of one, although its watches lag.
async fn no_second_one_is_begun(fleet: &Driven, hook: Pod) {
    fleet.world.pass(20).await;
    assert!(
        fleet.world.get("nodes", "", "gpu-1")["spec"]["unschedulable"].is_null(),
        "a second node was started"
    );
    fleet.world.server.change(|state| state.late = None);
    let ended = fleet.ends(hook).await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    fleet.assert_safe("the Lease changed hands");
}

/// The watches of a hook lag while it waits for the Lease, and another hook releases the Lease in
/// the middle of a node's upgrade.
#[tokio::test(flavor = "local", start_paused = true)]
async fn foreign_start_counts_from_the_first_decision() {
    let (fleet, leases) = late_watches();
    let held = leases.acquire(|_| ()).await.unwrap();
    let hook = fleet.start("pod-b");
    fleet.world.pass(5).await;
    begins_a_node_and_lets_go(&fleet, held).await;
    no_second_one_is_begun(&fleet, hook).await;
}

/// The same if the Lease was free when the hook first read it, and is free again when the hook
/// takes it.
#[tokio::test(flavor = "local", start_paused = true)]
async fn foreign_start_after_first_load_counts_too() {
    let (fleet, leases) = late_watches();
    leases.acquire(|_| ()).await.unwrap().release().await;
    // The self-check, which the hook repeats, keeps it from the Lease.
    let review = |request: &Request| request.is("create", "selfsubjectaccessreviews");
    fleet.world.server.state().faults.push(Fault::new(review, 0, usize::MAX, Effect::Status(500)));
    let hook = fleet.start("pod-b");
    fleet.world.pass(5).await;
    let held = leases.acquire(|_| ()).await.unwrap();
    begins_a_node_and_lets_go(&fleet, held).await;
    fleet.world.server.state().faults.clear();
    no_second_one_is_begun(&fleet, hook).await;
}

/// No other hook can have written anything that the caches do not show.
#[tokio::test(flavor = "local", start_paused = true)]
async fn caches_restart_only_if_lease_may_have_moved() {
    for (was_free, lists) in [(true, 1), (false, 2)] {
        let fleet = Driven::new(Driver::Gpu, |_| {}).begin();
        let clock = fleet.world.clock.clone();
        let leases = LeaseCandidate::new(
            &fleet.world.server.client("pod-x"),
            "pod-x",
            Arc::new(move || clock.now()),
        );
        let held = leases.acquire(|_| ()).await.unwrap();
        if was_free {
            held.release().await;
        } else {
            // The process dies.
            drop(held);
        }
        let ended = fleet.run("pod-b").await;
        assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
        let listed =
            fleet.world.log().into_iter().filter(|entry| entry.request.is("list", "nodes")).count();
        assert_eq!(listed, lists, "free: {was_free}");
    }
}
