//! The times at which evictions are requested and retried. NVIDIA's controller retries without any
//! pause while a PodDisruptionBudget refuses (29,886 refusals in three minutes were measured).
//! Here, each pod has its own pauses, which no two pods share, and a server that is too busy causes
//! one pause for all pods.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use strum::IntoStaticStr;

/// Maximum number of evictions per turn, over all nodes: a node's pods leave in one or two turns,
/// and the API server is never flooded.
pub const AT_ONCE: usize = 20;
/// The pause until the next evictions if more are due than are allowed in one turn.
const NEXT_TURN_MS: u64 = 100;
/// The first pause after an eviction that did not work (kubectl's own, up to v0.33).
pub const FIRST_SECONDS: u64 = 5;
const FIRST_MS: u64 = FIRST_SECONDS * 1000;
/// The longest pause in milliseconds, jitter included.
const LONGEST_MS: u64 = 60_000;

/// The answer to the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum EvictionReply {
    /// The pod is being deleted.
    Accepted,
    /// A PodDisruptionBudget forbids it now (429).
    Blocked {
        /// Seconds that the server asks the client to wait.
        retry_after: Option<u64>,
    },
    /// Forbidden for now, but not by a PodDisruptionBudget (429 of a webhook, 504): the state of
    /// budgets does not change it.
    Denied,
    /// The server was too busy for any request, and did nothing: [`BusyServer`] decides when to
    /// retry.
    Busy,
    /// The server refuses the eviction (403, 500 …).
    Refused,
    /// No answer arrived: the eviction may have been accepted.
    Lost,
}

impl EvictionReply {
    /// Returns the value of the label `answer` of the metric of evictions.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The history of one pod's eviction. It need not survive the process: a new process requests the
/// eviction again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionHistory {
    /// Number of requests.
    pub attempts: u32,
    /// Time of the first request.
    pub since: Timestamp,
    /// Time of the last request.
    pub last: Timestamp,
    /// The answer to it.
    pub answer: EvictionReply,
}

impl EvictionHistory {
    /// Returns the history after one more request.
    #[must_use]
    pub fn after(before: Option<&Self>, now: Timestamp, answer: EvictionReply) -> Self {
        Self {
            attempts: before.map_or(1, |before| before.attempts.saturating_add(1)),
            since: before.map_or(now, |before| before.since),
            last: now,
            answer,
        }
    }

    /// Returns the history after the PodDisruptionBudgets have stopped forbidding the eviction: the
    /// long pause after many refusals is shortened.
    #[must_use]
    pub fn let_go(&self) -> Self {
        let attempts =
            if matches!(self.answer, EvictionReply::Blocked { .. }) { 1 } else { self.attempts };
        Self { attempts, ..self.clone() }
    }

    /// Returns when to retry, if the pod with this UID has not left until then.
    pub fn due(&self, uid: &str) -> Timestamp {
        let pause = match self.answer {
            // The watch shows a deletion shortly after.
            EvictionReply::Accepted => LONGEST_MS,
            // An error of the server may be temporary (etcd has another leader) or permanent
            // (several budgets); the client cannot distinguish them.
            EvictionReply::Refused | EvictionReply::Lost | EvictionReply::Denied => {
                pause_ms(uid, self.attempts)
            }
            // The server's pause applies, and the pod's own due time does not change.
            EvictionReply::Busy => 0,
            EvictionReply::Blocked { retry_after } => {
                pause_ms(uid, self.attempts).max(retry_after.unwrap_or(0).saturating_mul(1000))
            }
        };
        later(self.last, pause)
    }

    /// Returns the current status as a message.
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

/// A server that is too busy to evict: no eviction of any pod is requested until its pause ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyServer {
    /// Number of consecutive turns in which it was too busy.
    pub times: u32,
    /// When to retry.
    pub until: Timestamp,
}

impl BusyServer {
    /// Returns the state after a turn in which it was too busy for at least one pod. `retry_after`:
    /// seconds that it asks the client to wait.
    #[must_use]
    pub fn after(before: Option<&Self>, now: Timestamp, retry_after: Option<u64>) -> Self {
        let times = before.map_or(1, |before| before.times.saturating_add(1));
        let asked = retry_after.unwrap_or(0).saturating_mul(1000);
        Self { times, until: later(now, pause_ms("", times).max(asked).min(LONGEST_MS)) }
    }
}

/// The pods to evict now, longest due first, and when the next one is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueEvictions<'a> {
    /// UIDs of the pods.
    pub now: Vec<&'a str>,
    /// When the next one is due; `None` if none is left.
    pub next: Option<Timestamp>,
}

/// Chooses from the pods that must leave, by UID and history. A server that was busy gets a request
/// for one pod first.
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
    let earliest = if ready == AT_ONCE { later(now, NEXT_TURN_MS) } else { from };
    let next = order.get(ready).map(|(at, _)| (*at).max(earliest));
    DueEvictions { now: order.iter().take(ready).map(|(_, uid)| *uid).collect(), next }
}

/// Returns the pause after a number of requests: five seconds, doubled each time, with up to a
/// quarter more that differs between pods, so that the pods of one budget do not retry at the same
/// time.
fn pause_ms(uid: &str, attempts: u32) -> u64 {
    // With the jitter, it reaches the longest pause.
    let base = FIRST_MS
        .checked_shl(attempts.saturating_sub(1).min(16))
        .unwrap_or(u64::MAX)
        .min(LONGEST_MS / 5 * 4);
    base + hash(uid, attempts) % (base / 4 + 1)
}

/// FNV-1a with 64 bits (Fowler, Noll, Vo): the same on every machine and in every version of the
/// program.
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
