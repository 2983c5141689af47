//! When evictions are asked for.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::pods::eviction_retry::{AT_ONCE, BusyServer, EvictionHistory, EvictionReply, turn};
use crate::pods::fixture::at;

const BLOCKED: EvictionReply = EvictionReply::Blocked { retry_after: None };

fn history(attempts: u32, answer: EvictionReply) -> EvictionHistory {
    EvictionHistory { attempts, since: at(0), last: at(100), answer }
}

fn pause(uid: &str, attempts: u32, answer: EvictionReply) -> SignedDuration {
    history(attempts, answer).due(uid).duration_since(at(100))
}

#[test]
fn pauses_grow_from_five_seconds_to_a_minute() {
    for uid in ["a", "b", "8f3c1d52-9a0e-4a57-bb0f-6f6d3a5c1e11"] {
        for answer in [BLOCKED, EvictionReply::Lost] {
            for (attempts, least, most) in [
                (1, 5, 7),
                (2, 10, 13),
                (3, 20, 25),
                (4, 40, 50),
                (5, 48, 60),
                (100, 48, 60),
                (u32::MAX, 48, 60),
            ] {
                let pause = pause(uid, attempts, answer);
                assert!(pause >= SignedDuration::from_secs(least), "{uid} {attempts}: {pause}");
                assert!(pause <= SignedDuration::from_secs(most), "{uid} {attempts}: {pause}");
            }
        }
    }
}

#[test]
fn retry_after_of_the_server_is_honored() {
    let after = |seconds| pause("a", 1, EvictionReply::Blocked { retry_after: Some(seconds) });
    assert_eq!(after(120), SignedDuration::from_mins(2), "also beyond the longest pause of ours");
    assert_eq!(after(0), pause("a", 1, BLOCKED), "but never sooner than ours");
}

#[test]
fn pauses_are_stable_per_pod_and_differ_between() {
    assert_eq!(pause("a", 3, BLOCKED), pause("a", 3, BLOCKED));
    let pods: Vec<SignedDuration> =
        (0..50).map(|index| pause(&format!("uid-{index}"), 5, BLOCKED)).collect();
    let mut different = pods.clone();
    different.sort();
    different.dedup();
    assert!(different.len() > 45, "{different:?}");
}

/// NVIDIA's controller was measured to send 29,886 requests in three minutes against one budget
/// (state-machine D-06).
#[test]
fn blocked_pod_is_evicted_few_times_per_minute() {
    let (mut memory, mut requests) = (None::<EvictionHistory>, 0);
    for second in 0..300 {
        if turn([("a", memory.as_ref())], None, at(second)).now == ["a"] {
            requests += 1;
            memory = Some(EvictionHistory::after(memory.as_ref(), at(second), BLOCKED));
        }
    }
    assert!((7..=9).contains(&requests), "{requests}");
    assert_eq!(memory.map(|history| (history.attempts, history.since)), Some((requests, at(0))));
}

#[test]
fn what_was_accepted_is_repeated_after_a_minute() {
    assert_eq!(pause("a", 1, EvictionReply::Accepted), SignedDuration::from_mins(1));
}

/// One error of a server whose etcd had another leader cost the node its attempt.
#[test]
fn server_error_may_be_temporary() {
    for answer in [EvictionReply::Refused, EvictionReply::Denied, EvictionReply::Lost] {
        assert!(pause("a", 1, answer) < SignedDuration::from_secs(8), "{answer:?}");
        assert!(
            pause("a", 8, answer) > SignedDuration::from_secs(40),
            "{answer:?}: and it may last"
        );
    }
}

#[test]
fn turn_is_limited_and_longest_due_come_first() {
    let uids: Vec<String> = (0..AT_ONCE + 5).map(|index| format!("uid-{index:02}")).collect();
    let old = history(1, BLOCKED);
    let asked: BTreeMap<&str, Option<&EvictionHistory>> = uids
        .iter()
        .enumerate()
        .map(|(index, uid)| (uid.as_str(), (index < 10).then_some(&old)))
        .collect();
    let first = turn(asked.clone(), None, at(1000));
    assert_eq!(first.now.len(), AT_ONCE);
    assert_eq!(
        &first.now[..15],
        uids[10..].iter().map(String::as_str).collect::<Vec<_>>(),
        "new ones have waited longest"
    );
    let soon = at(1000) + SignedDuration::from_millis(100);
    assert_eq!(first.next, Some(soon), "more are due, but not without a pause");
    let waiting = turn(
        asked.iter().filter_map(|(uid, history)| Some((*uid, Some((*history)?)))),
        None,
        at(100),
    );
    assert_eq!(waiting.now, Vec::<&str>::new());
    let soonest = uids[..10].iter().map(|uid| old.due(uid)).min();
    assert_eq!(waiting.next, soonest);
    assert_eq!(turn([], None, at(0)).next, None::<Timestamp>);
}

#[test]
fn kured_78_what_was_asked_and_answered_is_told() {
    assert_eq!(
        history(3, EvictionReply::Blocked { retry_after: Some(30) }).text("a", at(110)),
        "eviction requested 3 times in 110 s: a PodDisruptionBudget forbids it for now; next request in 20 s"
    );
    assert_eq!(
        history(1, EvictionReply::Refused).text("a", at(500)),
        "eviction requested once: refused by the API server"
    );
    assert_eq!(history(1, EvictionReply::Lost).answer.to_string(), "no answer");
    assert_eq!(EvictionReply::Accepted.to_string(), "accepted, but the deletion has not started");
}

/// A server that shed load was asked again every five seconds for each pod, as if a
/// PodDisruptionBudget had let it go.
#[test]
fn busy_server_gets_one_request_after_its_pause() {
    let before = history(3, EvictionReply::Busy);
    assert_eq!(before.let_go(), before, "no budget has a say in it");
    let busy = BusyServer::after(None, at(100), Some(30));
    assert_eq!(busy, BusyServer { times: 1, until: at(130) }, "the server's own word");
    let asked = [("a", Some(&before)), ("b", None), ("c", Some(&before))];
    let waiting = turn(asked, Some(&busy), at(129));
    assert_eq!((waiting.now, waiting.next), (Vec::new(), Some(at(130))));
    let first = turn(asked, Some(&busy), at(130));
    assert_eq!(
        (first.now, first.next),
        (vec!["b"], Some(at(130))),
        "one, and it is seen what is answered"
    );
    assert_eq!(turn(asked, None, at(130)).now, ["b", "a", "c"]);
}

#[test]
fn pauses_of_busy_server_grow_to_a_minute() {
    let (mut busy, mut pauses) = (None::<BusyServer>, Vec::new());
    for _ in 0..7 {
        let next = BusyServer::after(busy.as_ref(), at(0), Some(1));
        pauses.push(next.until.duration_since(at(0)).as_secs());
        busy = Some(next);
    }
    assert!(
        pauses
            .iter()
            .zip([5, 10, 20, 40, 48, 48, 48])
            .all(|(pause, least)| (least..=60).contains(pause)),
        "{pauses:?}"
    );
    assert!(pauses.is_sorted_by_key(|pause| (*pause).min(48)), "{pauses:?}");
    assert_eq!(BusyServer::after(None, at(0), Some(3600)).until, at(60), "whatever it says");
}
