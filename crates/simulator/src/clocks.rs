//! Clocks that disagree. Clocks of nodes are up to an hour off and are set from time to time.
//! Clocks of API servers differ by seconds. Each process of the hook measures the server's time
//! with a small error, and its clock drifts. None of this may change the result of a run.

use jiff::Timestamp;

use super::objects::{second, timestamp};
use super::random::SeededRandom;

/// The interval at which a node's clock is set, in milliseconds.
const SET_EVERY: u64 = 600_000;
/// The largest error of a node's clock, in milliseconds.
const NODE_SKEW: i64 = 3_600_000;
/// The largest error of an API server's clock, in milliseconds.
const SERVER_SKEW: i64 = 5_000;
/// The largest error of a measurement of the server's time, in milliseconds.
const MEASURED: i64 = 2_000;
/// The clock of a process gains or loses at most one part in this number.
const DRIFT: i64 = 1_000;

/// How far clocks are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulatedClocks {
    /// Random seed; `None`: all clocks agree.
    pub seed: Option<u64>,
}

impl SimulatedClocks {
    /// Draws a number between `-most` and `most`.
    fn draw(self, what: &str, number: u64, most: i64) -> i64 {
        let Some(seed) = self.seed else { return 0 };
        let range = most.unsigned_abs().saturating_mul(2).saturating_add(1);
        i64::try_from(SeededRandom::stream(seed, what, number).below(range)).unwrap_or(0) - most
    }

    /// Returns the time that the kubelet of a node writes.
    pub(super) fn of_node(self, node: &str, now: u64) -> Timestamp {
        moved(second(now), self.draw(node, now / SET_EVERY, NODE_SKEW))
    }

    /// Returns the time that one of the API servers writes.
    pub(super) fn of_server(self, now: u64) -> Timestamp {
        let skew = self.draw("server", now, SERVER_SKEW);
        second(now.saturating_add_signed(skew))
    }

    /// Returns how far the clock of a hook process is ahead, in milliseconds.
    pub(super) fn ahead(self, process: u32, now: u64) -> i64 {
        let drift = self.draw("drift", process.into(), DRIFT);
        // Rounding to whole milliseconds does not matter.
        let drifted = i64::try_from(now).unwrap_or(i64::MAX).saturating_mul(drift) / DRIFT / DRIFT;
        self.draw("hook", process.into(), MEASURED).saturating_add(drifted)
    }

    /// Returns the time of a hook process's clock.
    pub(super) fn of_hook(self, process: u32, now: u64) -> Timestamp {
        moved(timestamp(now), self.ahead(process, now))
    }
}

fn moved(moment: Timestamp, milliseconds: i64) -> Timestamp {
    moment.saturating_add(jiff::SignedDuration::from_millis(milliseconds)).unwrap_or(moment)
}
