//! One call fails, or the server is unreachable from this call on, and the process survives. It
//! must reach the same end without help.

use super::moments::{Undisturbed, reached, strike};
use super::stories::{Story, numbered};
use crate::fake::fault::Effect;
use crate::fake::request::Entry;

/// All effects on one call. The last one takes effect long after the process has repeated the
/// request.
const EFFECTS: [Effect; 7] = [
    Effect::Status(409),
    Effect::Status(429),
    Effect::Busy(7),
    Effect::Status(500),
    Effect::Hang,
    Effect::LoseAnswer,
    Effect::Late(13),
];

async fn disturbed(story: &Story, undisturbed: &Undisturbed, nth: usize, effect: Effect) {
    let fleet = story.begin();
    strike(&fleet, nth, effect);
    let ended = fleet.run("pod-a").await;
    let place = undisturbed.place(story, &format!("{effect:?}"), nth);
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    undisturbed.assert_same(&fleet, 1, &place).await;
}

/// Whether a real server can answer such a call in this way.
fn happens(entry: &Entry, effect: Effect) -> bool {
    entry.request.is_write() || !matches!(effect, Effect::Status(409) | Effect::Late(_))
}

async fn disturb(step: usize, chosen: impl Fn(usize, usize) -> bool) {
    let mut count = 0;
    for (at, story) in numbered() {
        let undisturbed = Undisturbed::of(story).await;
        for (turn, nth) in undisturbed.moments(at, step).into_iter().enumerate() {
            for (index, effect) in EFFECTS.into_iter().enumerate() {
                if chosen(turn + at, index) && happens(&undisturbed.calls[nth], effect) {
                    disturbed(story, &undisturbed, nth, effect).await;
                    count += 1;
                }
            }
        }
    }
    assert!(count > numbered().count() * 3, "{count} faults");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn fault_at_any_write_keeps_the_end() {
    // Disturb some calls of each story, each with the next effect. Over all stories, every kind of
    // call meets every effect.
    disturb(21, |turn, index| turn % EFFECTS.len() == index).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: every fault at every call of every story"]
async fn soak_fault_at_any_call_keeps_the_end() {
    disturb(1, |_, _| true).await;
}

/// Makes the server unreachable from a call on, until after the Lease has expired.
async fn away(story: &Story, undisturbed: &Undisturbed, nth: usize, silent: bool) {
    let fleet = story.begin();
    let Some(pod) = reached(&fleet, nth, Effect::Tell).await else { return };
    if silent {
        fleet.world.server.goes_silent(45);
    } else {
        fleet.world.server.goes_away(45);
    }
    let ended = fleet.ends(pod).await;
    let place =
        undisturbed.place(story, if silent { "silence" } else { "the server goes away" }, nth);
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    undisturbed.assert_same(&fleet, 0, &place).await;
}

async fn leave(step: usize) {
    for (at, story) in numbered() {
        let undisturbed = Undisturbed::of(story).await;
        for (turn, nth) in undisturbed.moments(at, step).into_iter().enumerate() {
            away(story, &undisturbed, nth, (turn + at).is_multiple_of(2)).await;
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn server_away_from_any_call_is_awaited() {
    leave(83).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: the server goes away at every call of every story"]
async fn soak_server_away_from_any_call_is_awaited() {
    leave(1).await;
}
