//! The undisturbed results of stories, and the calls that tests disturb.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;

use super::Driven;
use super::judge::{End, Writes};
use super::stories::Story;
use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Entry;
use crate::world::Pod;

/// The result of an undisturbed story.
pub(crate) struct Undisturbed {
    pub(crate) end: End,
    pub(crate) writes: Writes,
    pub(crate) calls: Vec<Entry>,
    /// The highest number of patches of a node, if the story waits for pods.
    waits_for_pods: Option<usize>,
}

/// Seconds after which all evicted pods are ready elsewhere, in every story.
pub(crate) const COME_UP_SECONDS: u64 = 90;

/// The undisturbed results. Each story runs undisturbed only once.
static TOLD: Mutex<BTreeMap<&'static str, Arc<Undisturbed>>> = Mutex::new(BTreeMap::new());

impl Undisturbed {
    pub(crate) async fn of(story: &Story) -> Arc<Self> {
        if let Some(told) = TOLD.lock().unwrap().get(story.name) {
            return Arc::clone(told);
        }
        let fleet = story.begin();
        let ended = fleet.run("pod-a").await;
        assert_eq!(ended.code, story.code, "{}: {}", story.name, ended.message);
        let calls = fleet.world.log();
        fleet.world.pass(COME_UP_SECONDS).await;
        let waits_for_pods = story.patches.into_iter().max().filter(|_| story.evictions > 0);
        let told =
            Arc::new(Self { end: fleet.end(), writes: fleet.writes(), calls, waits_for_pods });
        TOLD.lock().unwrap().insert(story.name, Arc::clone(&told));
        told
    }

    /// Returns the calls of a story to disturb. From the first write of the Lease on it is each
    /// `step`-th call, and before it, when nothing has been written, one in `step * 4`. `at`, the
    /// number of the story, shifts them, so that all stories together cover every kind of call. A
    /// step of 1 selects every call.
    pub(crate) fn moments(&self, at: usize, step: usize) -> Vec<usize> {
        let begins = self
            .calls
            .iter()
            .position(|entry| entry.applied && entry.request.resource == "leases")
            .unwrap();
        let chosen = |nth: &usize| match step {
            1 => true,
            _ if *nth < begins => (nth + at * 5).is_multiple_of(step * 4),
            _ => (nth + at * 5).is_multiple_of(step),
        };
        (0..self.calls.len()).filter(chosen).collect()
    }

    /// Describes a call for the message of a failed test.
    pub(crate) fn place(&self, story: &Story, what: &str, nth: usize) -> String {
        let call = &self.calls[nth].request;
        format!(
            "{}: {what} at call {nth} of {}: {} {} {}",
            story.name,
            self.calls.len(),
            call.verb,
            call.resource,
            call.name
        )
    }

    /// Returns the writes in excess of those of the undisturbed run. The evicted pods depend on the
    /// scheduler, so each pod may be evicted once. Also, a node may need an additional step or
    /// attempt, because pods did not leave it in time. While the server is unreachable, no pod
    /// leaves.
    pub(crate) fn excess(&self, writes: &Writes) -> Vec<String> {
        let expected = |object: &String| {
            let undisturbed = self.writes.get(object).copied().unwrap_or(0);
            match object.split_once(' ') {
                Some(("eviction", _)) => 1,
                Some(("node", _)) => undisturbed.max(self.waits_for_pods.unwrap_or(0)),
                _ => undisturbed,
            }
        };
        let more = writes
            .iter()
            .filter_map(|(object, count)| Some((object, count.checked_sub(expected(object))?)));
        more.filter(|(_, more)| *more > 0)
            .map(|(object, more)| format!("{more} × {object}"))
            .collect()
    }

    /// Asserts the same end without violations, with at most `more` additional writes, each on a
    /// different object.
    pub(crate) async fn assert_same(&self, fleet: &Driven, more: usize, place: &str) {
        fleet.world.pass(COME_UP_SECONDS).await;
        fleet.assert_safe(place);
        assert_eq!(fleet.end(), self.end, "{place}");
        let excess = self.excess(&fleet.writes());
        assert!(
            excess.len() <= more && excess.iter().all(|one| one.starts_with("1 × ")),
            "{place}: {excess:?}"
        );
    }
}

/// Adds an effect to one call of `pod-a`.
pub(crate) fn strike(fleet: &Driven, nth: usize, effect: Effect) {
    fleet.world.server.state().faults.push(Fault::new(
        |request| request.who == "pod-a",
        nth,
        1,
        effect,
    ));
}

/// Starts `pod-a` and waits for the call with a notifying effect. `None`: the pod ended before.
pub(crate) async fn reached(fleet: &Driven, nth: usize, effect: Effect) -> Option<Pod> {
    strike(fleet, nth, effect);
    let mut pod = fleet.start("pod-a");
    let handle: &mut JoinHandle<_> = &mut pod.handle;
    tokio::select! {
        () = fleet.world.server.told.notified() => Some(pod),
        _ = handle => None,
    }
}
