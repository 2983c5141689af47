//! Watches that end, lag, or send everything twice or in another order, and lists that show an
//! older state.

use std::time::Duration;

use super::moments::Undisturbed;
use super::stories::{STORIES, Story, numbered};
use crate::fake::fault::Break;

/// A disturbance of the hook's view.
#[derive(Clone, Debug)]
enum View {
    /// Watches end in this way at this interval in seconds, and events in between are lost.
    Breaks(Break, u64),
    /// Every event is sent twice.
    Twice,
    /// Simultaneous events are sent in the wrong order.
    Reversed,
    /// Events of these resources (all, if the list is empty) are delayed by this number of seconds,
    /// so the order between kinds changes.
    Late(&'static [&'static str], u64),
    /// From this second on, for twenty seconds, lists and watches of these resources show an older
    /// state. It starts at second 1 at the earliest: before the first list, the hook cannot detect
    /// an older state, and the API guarantees that the first list is current.
    Past(&'static [&'static str], u64),
}

async fn seen(story: &Story, undisturbed: &Undisturbed, view: &View) {
    let fleet = story.begin();
    let server = &fleet.world.server;
    if let View::Late(resources, seconds) = view {
        server.state().late = Some((resources.to_vec(), Duration::from_secs(*seconds)));
    }
    server.state().duplicate = matches!(view, View::Twice);
    server.state().reversed = matches!(view, View::Reversed);
    let pod = fleet.start("pod-a");
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
        View::Twice | View::Reversed | View::Late(..) => {}
    }
    let ended = fleet.ends(pod).await;
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
    View::Reversed,
    View::Late(&["pods"], 4),
    View::Late(&["nodes"], 4),
    View::Late(&["resourceslices", "poddisruptionbudgets"], 6),
    View::Late(&[], 3),
];

const PASTS: &[&[&str]] = &[&[], &["pods"], &["nodes"]];

/// Plays each story with this number of views, in rotation, and with an older state from different
/// seconds on.
async fn look(views: usize, pasts: impl Fn(usize) -> Vec<u64>) {
    for (at, story) in numbered() {
        let undisturbed = Undisturbed::of(story).await;
        for turn in 0..views {
            seen(story, &undisturbed, &VIEWS[(at * views + turn) % VIEWS.len()]).await;
        }
        for from in pasts(at) {
            let resources = PASTS[(at + usize::try_from(from).unwrap()) % PASTS.len()];
            seen(story, &undisturbed, &View::Past(resources, from)).await;
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn no_stale_view_causes_wrong_actions() {
    look(1, |at| vec![1 + at as u64 * 11 % 45]).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: every view of every story, and the past at any moment"]
async fn soak_no_stale_view_causes_wrong_actions() {
    look(VIEWS.len(), |_| (1..90).collect()).await;
    look(0, |_| (1..90).map(|from| from + 1).collect()).await;
    look(0, |_| (1..90).map(|from| from + 2).collect()).await;
}

/// Regression: the served list of nodes went back to before the start of the first node, so a
/// second one was started above the limit.
#[tokio::test(flavor = "local", start_paused = true)]
async fn old_node_list_starts_no_second_node() {
    let story = STORIES.iter().find(|story| story.name == "safe load").unwrap();
    let undisturbed = Undisturbed::of(story).await;
    seen(story, &undisturbed, &View::Past(&["nodes"], 1)).await;
}
