//! The process dies at any call, before its request or its answer arrives. The Job's next pod must
//! reach the same end with at most one additional write: the one that was in flight.

use super::moments::{Undisturbed, reached};
use super::stories::{Story, numbered};
use crate::fake::fault::Effect;
use crate::fake::request::Entry;

/// Kills the process at the given call. The next pod finishes the story. Returns `false` if there
/// was no such call.
async fn killed(story: &Story, undisturbed: &Undisturbed, nth: usize, effect: Effect) -> bool {
    let fleet = story.begin();
    let Some(first) = reached(&fleet, nth, effect).await else { return false };
    first.handle.abort();
    fleet.world.pass(1).await;
    let ended = fleet.run("pod-b").await;
    let place = undisturbed.place(story, &format!("{effect:?}"), nth);
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    undisturbed.assert_same(&fleet, 1, &place).await;
    true
}

/// Kills the process at calls of the undisturbed runs, in the chosen ways. `step`: number of calls
/// between two deaths, by number of the story.
async fn kill(step: impl Fn(usize) -> usize, ways: impl Fn(&Entry) -> &'static [Effect]) {
    let (mut calls, mut kills) = (0, 0);
    for (at, story) in numbered() {
        let undisturbed = Undisturbed::of(story).await;
        for nth in undisturbed.moments(at, step(at)) {
            calls += 1;
            for effect in ways(&undisturbed.calls[nth]) {
                kills += usize::from(killed(story, &undisturbed, nth, *effect).await);
            }
        }
    }
    assert!(kills > numbered().count() * 3, "{kills} kills at {calls} calls");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn kill_at_any_write_keeps_the_end() {
    // The first story is short and has the writes that all stories have, so every second of its
    // calls is tested. `make soak` tests every call of every story. A death before a request leaves
    // the same state as a death after the previous one, so one way is enough here.
    kill(
        |at| if at == 0 { 2 } else { 23 },
        |entry| {
            if entry.request.is_write() { &[Effect::CrashAfter] } else { &[Effect::CrashBefore] }
        },
    )
    .await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: every call of every story"]
async fn soak_kill_at_any_call_keeps_the_end() {
    kill(|_| 1, |_| &[Effect::CrashBefore, Effect::CrashAfter]).await;
}
