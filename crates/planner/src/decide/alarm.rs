//! When to decide again if no observed object changes.

use jiff::Timestamp;

use crate::time::after;

/// The earliest deadline of all that a decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alarm {
    pub(super) now: Timestamp,
    pub(super) at: Timestamp,
}

impl Alarm {
    /// `latest`: the time of the next decision if no earlier one is set.
    pub(super) fn new(now: Timestamp, latest: Timestamp) -> Self {
        Self { now, at: latest }
    }

    /// Sets the latest time of the next decision.
    pub(super) fn set(&mut self, at: Timestamp) {
        self.at = self.at.min(at);
    }

    /// Returns whether `seconds` have passed since then; if not, the next decision is made when
    /// they have.
    pub(super) fn passed(&mut self, since: Timestamp, seconds: u64) -> bool {
        let at = after(since, seconds);
        if at > self.now {
            self.set(at);
        }
        at <= self.now
    }
}
