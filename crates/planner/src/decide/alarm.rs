//! When to decide again though nothing was observed to change.

use jiff::Timestamp;

use crate::time::after;

/// The earliest deadline of all that a decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alarm {
    pub(super) now: Timestamp,
    pub(super) at: Timestamp,
}

impl Alarm {
    /// `latest`: what is not asked for earlier comes then.
    pub(super) fn new(now: Timestamp, latest: Timestamp) -> Self {
        Self { now, at: latest }
    }

    /// Decides again then, at the latest.
    pub(super) fn set(&mut self, at: Timestamp) {
        self.at = self.at.min(at);
    }

    /// Whether `seconds` have passed since then; if not, the decision is made again when they have.
    pub(super) fn passed(&mut self, since: Timestamp, seconds: u64) -> bool {
        let at = after(since, seconds);
        if at > self.now {
            self.set(at);
        }
        at <= self.now
    }
}
