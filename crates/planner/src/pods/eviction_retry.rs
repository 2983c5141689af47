//! When an eviction is asked for, and when again. The vendor's controller asks without any pause while a PodDisruptionBudget refuses (29,886
//! refusals in three minutes were measured); here each pod has its own pauses, which no two pods share, and a server that is too busy has one pause
//! for all of them.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use strum::IntoStaticStr;

/// How many evictions are asked for in one turn, over all nodes: a node's pods leave in one or two turns, and the API server is never flooded.
pub const AT_ONCE: usize = 20;
/// The first pause after an eviction that did not work (kubectl's own, up to v0.33).
pub const FIRST_SECONDS: u64 = 5;
const FIRST_MS: u64 = FIRST_SECONDS * 1000;
/// The longest pause in milliseconds, jitter included.
const LONGEST_MS: u64 = 60_000;

/// What became of the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum EvictionReply {
    /// The pod is being deleted.
    Accepted,
    /// A PodDisruptionBudget forbids it now (429).
    Blocked {
        /// Seconds that the server asks to wait.
        retry_after: Option<u64>,
    },
    /// It is forbidden for now, and by no PodDisruptionBudget (429 of a webhook, 504): what those say changes nothing about it.
    Denied,
    /// The server was too busy for anybody's request, and did nothing: when it is asked again is told by [`BusyServer`].
    Busy,
    /// The server will not have it (403, 500 …).
    Refused,
    /// No answer came: it may have been done.
    Lost,
}

impl EvictionReply {
    /// The value of the label `answer` of the metric of evictions.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What is remembered of one pod's eviction. It need not survive the process: whoever starts again asks once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionHistory {
    /// How often it was asked for.
    pub attempts: u32,
    /// When first.
    pub since: Timestamp,
    /// When last.
    pub last: Timestamp,
    /// What was answered then.
    pub answer: EvictionReply,
}

impl EvictionHistory {
    /// The history after one more request.
    #[must_use]
    pub fn after(before: Option<&Self>, now: Timestamp, answer: EvictionReply) -> Self {
        Self {
            attempts: before.map_or(1, |before| before.attempts.saturating_add(1)),
            since: before.map_or(now, |before| before.since),
            last: now,
            answer,
        }
    }

    /// The same when the PodDisruptionBudgets that forbade it do so no more: it need not wait as long as the last refusals made it.
    #[must_use]
    pub fn let_go(&self) -> Self {
        let attempts =
            if matches!(self.answer, EvictionReply::Blocked { .. }) { 1 } else { self.attempts };
        Self { attempts, ..self.clone() }
    }

    /// When it is asked for again. The pod with this UID has not gone until then.
    pub fn due(&self, uid: &str) -> Timestamp {
        let pause = match self.answer {
            // The watch shows a deletion within a moment.
            EvictionReply::Accepted => LONGEST_MS,
            // An error of the server may be one of a moment (etcd has another leader), or last (several budgets): nobody can tell.
            EvictionReply::Refused | EvictionReply::Lost | EvictionReply::Denied => {
                pause_ms(uid, self.attempts)
            }
            // It is the server's pause that counts, and the pod is as due as it was.
            EvictionReply::Busy => 0,
            EvictionReply::Blocked { retry_after } => {
                pause_ms(uid, self.attempts).max(retry_after.unwrap_or(0).saturating_mul(1000))
            }
        };
        later(self.last, pause)
    }

    /// What there is to say about it at this moment.
    pub fn text(&self, uid: &str, now: Timestamp) -> String {
        let next = self.due(uid).duration_since(now).as_secs();
        let (attempts, since) = (self.attempts, now.duration_since(self.since).as_secs());
        let times = if attempts == 1 {
            "once".to_owned()
        } else {
            format!("{attempts} times in {since} s")
        };
        let again = if next > 0 { format!("; next request in {next} s") } else { String::new() };
        format!("eviction requested {times}: {}{again}", self.answer)
    }
}

impl fmt::Display for EvictionReply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Accepted => "accepted, but the deletion has not started",
            Self::Blocked { .. } => "a PodDisruptionBudget forbids it for now",
            Self::Denied => "forbidden for now, but not by a PodDisruptionBudget",
            Self::Busy => "the API server was too busy",
            Self::Refused => "refused by the API server",
            Self::Lost => "no answer",
        })
    }
}

/// A server that is too busy to evict: nobody is asked for meanwhile, whichever pod it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyServer {
    /// In how many turns one after another it was.
    pub times: u32,
    /// When it is asked again.
    pub until: Timestamp,
}

impl BusyServer {
    /// After a turn in which it was too busy for at least one pod. `retry_after`: seconds that it asks to wait.
    #[must_use]
    pub fn after(before: Option<&Self>, now: Timestamp, retry_after: Option<u64>) -> Self {
        let times = before.map_or(1, |before| before.times.saturating_add(1));
        let asked = retry_after.unwrap_or(0).saturating_mul(1000);
        Self { times, until: later(now, pause_ms("", times).max(asked).min(LONGEST_MS)) }
    }
}

/// The pods to ask for now, the longest due first, and when to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueEvictions<'a> {
    /// UIDs of the pods.
    pub now: Vec<&'a str>,
    /// When the next one is due; `None`: none is left.
    pub next: Option<Timestamp>,
}

/// Chooses from the pods that have to go, by UID and with what is remembered of each. A server that was busy is asked for one pod first.
pub fn turn<'a>(
    pods: impl IntoIterator<Item = (&'a str, Option<&'a EvictionHistory>)>,
    busy: Option<&BusyServer>,
    now: Timestamp,
) -> DueEvictions<'a> {
    let due = |(uid, history): (&'a str, Option<&EvictionHistory>)| {
        (history.map_or(Timestamp::MIN, |history| history.due(uid)), uid)
    };
    let mut order: Vec<(Timestamp, &str)> = pods.into_iter().map(due).collect();
    order.sort_unstable();
    let (from, most) = busy.map_or((now, AT_ONCE), |busy| (busy.until.max(now), 1));
    let ready = if from > now {
        0
    } else {
        order.iter().take_while(|(at, _)| *at <= now).count().min(most)
    };
    let next = order.get(ready).map(|(at, _)| (*at).max(from));
    DueEvictions { now: order.iter().take(ready).map(|(_, uid)| *uid).collect(), next }
}

/// The pause after so many requests: five seconds, doubled each time, with up to a quarter more that differs from pod to pod, so that pods
/// of one budget do not ask in step.
fn pause_ms(uid: &str, attempts: u32) -> u64 {
    // With the jitter it comes to the longest pause.
    let base = FIRST_MS
        .checked_shl(attempts.saturating_sub(1).min(16))
        .unwrap_or(u64::MAX)
        .min(LONGEST_MS / 5 * 4);
    base + hash(uid, attempts) % (base / 4 + 1)
}

/// FNV-1a with 64 bits (Fowler, Noll, Vo): the same on every machine and in every version of the program.
fn hash(uid: &str, attempts: u32) -> u64 {
    let bytes = uid.bytes().chain(attempts.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn later(at: Timestamp, milliseconds: u64) -> Timestamp {
    let pause = SignedDuration::from_millis(i64::try_from(milliseconds).unwrap_or(i64::MAX));
    at.saturating_add(pause).unwrap_or(Timestamp::MAX)
}
