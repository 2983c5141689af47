//! One call goes wrong and the process lives: it must come to the same end by itself.

use super::JOB;
use super::kills::{Undisturbed, matters};
use super::stories::{STORIES, Story};
use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Entry;

/// Everything that can become of one call.
const EFFECTS: [Effect; 6] =
    [Effect::Status(409), Effect::Status(429), Effect::Busy(7), Effect::Status(500), Effect::Hang, Effect::LoseAnswer];

async fn disturbed(story: &Story, undisturbed: &Undisturbed, nth: usize, effect: Effect) {
    let fleet = story.begin();
    fleet.world.server.state().faults.push(Fault::new(|request| request.who == "pod-a", nth, 1, effect));
    let ended = fleet.world.run("pod-a", JOB).await;
    let call = fleet.world.log()[nth].request.clone();
    let place = format!("{}: {effect:?} at call {nth}: {} {} {}", story.name, call.verb, call.resource, call.name);
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    undisturbed.assert_same(&fleet, 1, &place).await;
}

/// Whether the server ever answers such a call in this way.
fn happens(entry: &Entry, effect: Effect) -> bool {
    effect != Effect::Status(409) || entry.request.is_write()
}

async fn disturb(chosen: impl Fn(usize, &Entry, usize) -> bool) {
    for story in STORIES {
        let undisturbed = Undisturbed::of(story).await;
        let mut count = 0;
        for (nth, entry) in undisturbed.calls.iter().enumerate() {
            for (index, effect) in EFFECTS.into_iter().enumerate() {
                if chosen(nth, entry, index) && happens(entry, effect) {
                    disturbed(story, &undisturbed, nth, effect).await;
                    count += 1;
                }
            }
        }
        assert!(count > 10, "{}: {count} faults", story.name);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_fault_at_any_write_changes_nothing_about_the_end() {
    disturb(|nth, entry, index| matters(entry) && nth % EFFECTS.len() == index).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: every fault at every call of every story"]
async fn every_fault_at_any_call_changes_nothing_about_the_end() {
    disturb(|_, _, _| true).await;
}
