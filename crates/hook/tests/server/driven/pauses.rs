//! A user pauses the fleet at any call. From one second later on, the hook does not disturb a
//! working node. After `resume`, or when the pause has ended by itself, the run reaches the same
//! end.

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::names;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::Driven;
use super::moments::{COME_UP_SECONDS, Undisturbed, reached};
use super::stories::{Story, numbered};
use crate::fake::fault::Effect;
use crate::fake::request::Entry;
use crate::settings::DRA;

/// The duration of the pause in seconds. It is longer than every limit of the stories.
const PAUSE_SECONDS: u64 = 1200;
/// The same for a pause that ends by itself: it must not end while its effect is checked.
const FREEZE: SignedDuration = SignedDuration::from_secs(1202);

/// What ends a pause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PauseEnding {
    /// A user resumes the fleet.
    Resume,
    /// Its own time.
    Time,
}

fn pause(fleet: &Driven, ending: PauseEnding) {
    let now = fleet.world.clock.now();
    let mut pause = json!({"by": "ada", "at": now});
    if ending == PauseEnding::Time {
        pause["until"] = json!(now + FREEZE);
    }
    let data = json!({"fleet": pause.to_string()});
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": data});
    fleet.world.put("configmaps", names::LEASE_NAMESPACE, names::PAUSE_NAME, object);
}

/// Whether the call disturbs a node: a cordon, an eviction, the deletion of a driver pod.
fn takes(entry: &Entry) -> bool {
    let request = &entry.request;
    let cordons =
        request.is("patch", "nodes") && request.body["spec"]["unschedulable"] == Value::Bool(true);
    let evicts = request.is("create", "pods/eviction");
    let ends_driver = request.is("delete", "pods")
        && ![DRA, ACCEPTANCE_NAMESPACE].contains(&request.namespace.as_str());
    request.who == "pod-a" && entry.applied && (cordons || evicts || ends_driver)
}

/// Pauses at the given call. Returns `false` if there was no such call.
async fn paused(story: &Story, undisturbed: &Undisturbed, nth: usize, ending: PauseEnding) -> bool {
    let fleet = story.begin();
    let Some(pod) = reached(&fleet, nth, Effect::Tell).await else { return false };
    let place = undisturbed.place(story, "paused", nth);
    pause(&fleet, ending);
    fleet.world.pass(1).await;
    let before = fleet.world.log().len();
    fleet.world.pass(PAUSE_SECONDS).await;
    let taken: Vec<Entry> = fleet.world.log().split_off(before).into_iter().filter(takes).collect();
    assert!(taken.is_empty(), "{place}: {taken:#?}");
    let remove = || fleet.world.remove("configmaps", names::LEASE_NAMESPACE, names::PAUSE_NAME);
    if ending == PauseEnding::Resume {
        remove();
    }
    let ended = fleet.ends(pod).await;
    if ending == PauseEnding::Time {
        remove();
    }
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    fleet.world.pass(COME_UP_SECONDS).await;
    fleet.assert_safe(&place);
    assert_eq!(fleet.end(), undisturbed.end, "{place}");
    true
}

/// Pauses at many calls of all stories. `step`: number of calls between two pauses, by number of
/// the story.
async fn pause_at(step: impl Fn(usize) -> usize, ending: PauseEnding) {
    let mut pauses = 0;
    for (at, story) in numbered() {
        let undisturbed = Undisturbed::of(story).await;
        for nth in undisturbed.moments(at, step(at)) {
            pauses += usize::from(paused(story, &undisturbed, nth, ending).await);
        }
    }
    assert!(pauses >= numbered().count(), "{pauses} pauses");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn pause_at_any_call_keeps_the_end() {
    // Each pause lasts twenty minutes of virtual time, in which all other actors continue. `make
    // soak` tests every call of every story.
    pause_at(|at| if at == 0 { 7 } else { 67 }, PauseEnding::Resume).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn pause_that_ends_by_itself_keeps_the_end() {
    pause_at(|at| if at == 0 { 17 } else { 67 }, PauseEnding::Time).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: every call of every story"]
async fn soak_pause_at_any_call_keeps_the_end() {
    pause_at(|_| 1, PauseEnding::Resume).await;
    pause_at(|_| 1, PauseEnding::Time).await;
}
