//! The process dies at any call, before its request arrives or before its answer does; the Job's next pod must come to the same end with
//! at most one write more: the one that was in flight.

use super::judge::{End, Writes};
use super::stories::{STORIES, Story};
use super::{Driven, JOB};
use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Entry;

/// What a story comes to when nothing disturbs it.
pub(crate) struct Undisturbed {
    pub(crate) end: End,
    pub(crate) writes: Writes,
    pub(crate) calls: Vec<Entry>,
}

impl Undisturbed {
    pub(crate) async fn of(story: &Story) -> Self {
        let fleet = story.begin();
        let ended = fleet.world.run("pod-a", JOB).await;
        assert_eq!(ended.code, story.code, "{}: {}", story.name, ended.message);
        fleet.world.pass(30).await;
        Self { end: fleet.end(), writes: fleet.writes(), calls: fleet.world.log() }
    }

    /// Writes beyond those of the undisturbed run. Which pods there are to evict depends on where the scheduler puts them: each once.
    pub(crate) fn excess(&self, writes: &Writes) -> Vec<String> {
        let expected = |object: &String| if object.starts_with("eviction of ") { 1 } else { self.writes.get(object).copied().unwrap_or(0) };
        let more = writes.iter().filter_map(|(object, count)| Some((object, count.checked_sub(expected(object))?)));
        more.filter(|(_, more)| *more > 0).map(|(object, more)| format!("{more} × {object}")).collect()
    }

    /// The same end, safely, with at most so many writes more.
    pub(crate) async fn assert_same(&self, fleet: &Driven, more: usize, place: &str) {
        fleet.world.pass(30).await;
        fleet.assert_safe(place);
        assert_eq!(fleet.end(), self.end, "{place}");
        let excess = self.excess(&fleet.writes());
        assert!(excess.len() <= more, "{place}: {excess:?}");
    }
}

/// Whether a call changes the fleet or what is remembered of it.
pub(crate) fn matters(entry: &Entry) -> bool {
    entry.request.is_write() && !matches!(entry.request.resource.as_str(), "leases" | "events")
}

/// Dies at the given call; the next pod ends the story.
async fn killed(story: &Story, undisturbed: &Undisturbed, nth: usize, effect: Effect) -> bool {
    let fleet = story.begin();
    let fault = Fault::new(|request| request.who == "pod-a", nth, 1, effect);
    fleet.world.server.state().faults.push(fault);
    let mut first = fleet.world.start("pod-a", JOB);
    let died = tokio::select! {
        () = fleet.world.server.crashed.notified() => true,
        _ = &mut first.handle => false,
    };
    if !died {
        return false;
    }
    first.handle.abort();
    fleet.world.pass(1).await;
    let ended = fleet.world.run("pod-b", JOB).await;
    let call = fleet.world.log().iter().rfind(|entry| entry.request.who == "pod-a").map(|entry| entry.request.clone()).unwrap();
    let place = format!("{}: {effect:?} at call {nth}: {} {} {}", story.name, call.verb, call.resource, call.name);
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    undisturbed.assert_same(&fleet, 1, &place).await;
    true
}

/// Dies at the calls that are chosen from those of the undisturbed run, in the ways that are chosen.
async fn kill_at(chosen: impl Fn(usize, &Entry) -> &'static [Effect]) {
    for story in STORIES {
        let undisturbed = Undisturbed::of(story).await;
        let mut kills = 0;
        for (nth, entry) in undisturbed.calls.iter().enumerate() {
            for effect in chosen(nth, entry) {
                kills += usize::from(killed(story, &undisturbed, nth, *effect).await);
            }
        }
        assert!(kills > 15, "{}: {kills} kills", story.name);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_kill_at_any_write_and_at_some_reads_changes_nothing_about_the_end() {
    // Whoever dies before a request leaves what the one before it left: of writes, one way is enough here.
    kill_at(|nth, entry| {
        if matters(entry) {
            &[Effect::CrashAfter]
        } else if nth % 16 == 0 {
            &[Effect::CrashBefore]
        } else {
            &[]
        }
    })
    .await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: every call of every story"]
async fn a_kill_at_any_call_changes_nothing_about_the_end() {
    kill_at(|_, _| &[Effect::CrashBefore, Effect::CrashAfter]).await;
}
