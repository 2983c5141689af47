//! Watches that end, lie late, say everything twice or in another order, and lists that show the past.

use std::time::Duration;

use super::JOB;
use super::kills::Undisturbed;
use super::stories::{STORIES, Story};
use crate::fake::fault::Break;

/// How the hook's view is disturbed.
#[derive(Clone, Debug)]
enum View {
    /// Watches end so every few seconds, and what happened meanwhile is not told.
    Breaks(Break, u64),
    /// Everything is told twice.
    Twice,
    /// These resources (all, if none is named) are told so many seconds late; between kinds the order changes.
    Late(&'static [&'static str], u64),
    /// After this second, for twenty more, lists and watches of these resources show what was some changes ago.
    Past(&'static [&'static str], u64),
}

async fn seen(story: &Story, undisturbed: &Undisturbed, view: &View) {
    let fleet = story.begin();
    let server = &fleet.world.server;
    if let View::Late(resources, seconds) = view {
        server.state().late = Some((resources.to_vec(), Duration::from_secs(*seconds)));
    }
    server.state().duplicate = matches!(view, View::Twice);
    let pod = fleet.world.start("pod-a", JOB);
    match view {
        View::Breaks(how, period) => {
            for _ in 0..90 / period {
                fleet.world.pass(*period).await;
                server.change(|state| state.breaks.push(*how));
            }
        }
        View::Past(resources, from) => {
            fleet.world.pass(*from).await;
            server.change(|state| {
                let past = state.store.history.len().saturating_sub(12) as u64;
                state.frozen = Some((resources.to_vec(), past));
                state.breaks.push(Break::Gone);
            });
            fleet.world.pass(20).await;
            server.change(|state| state.frozen = None);
        }
        View::Twice | View::Late(..) => {}
    }
    let ended = fleet.world.ends(pod).await;
    let place = format!("{}: {view:?}", story.name);
    assert_eq!(ended.code, story.code, "{place}: {}", ended.message);
    assert!(ended.message.contains(story.says), "{place}: {}", ended.message);
    undisturbed.assert_same(&fleet, 1, &place).await;
}

const VIEWS: &[View] = &[
    View::Breaks(Break::EndOfFile, 3),
    View::Breaks(Break::Gone, 7),
    View::Breaks(Break::Error, 5),
    View::Breaks(Break::Cut, 4),
    View::Twice,
    View::Late(&["pods"], 4),
    View::Late(&["nodes"], 4),
    View::Late(&["resourceslices", "poddisruptionbudgets"], 6),
    View::Late(&[], 3),
];

const PASTS: &[&[&str]] = &[&[], &["pods"], &["nodes"]];

#[tokio::test(flavor = "local", start_paused = true)]
async fn no_view_of_the_fleet_has_anything_done_early_or_twice() {
    for (at, story) in STORIES.iter().enumerate() {
        let undisturbed = Undisturbed::of(story).await;
        for view in VIEWS {
            seen(story, &undisturbed, view).await;
        }
        for (index, resources) in PASTS.iter().enumerate() {
            seen(story, &undisturbed, &View::Past(resources, (at + index * 17) as u64 % 45)).await;
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: the past at any moment"]
async fn a_past_at_any_moment_has_nothing_done_early_or_twice() {
    for story in STORIES {
        let undisturbed = Undisturbed::of(story).await;
        for resources in PASTS {
            for from in 0..90 {
                seen(story, &undisturbed, &View::Past(resources, from)).await;
            }
        }
    }
}
