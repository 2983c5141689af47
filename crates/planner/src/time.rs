//! Time arithmetic.

use jiff::{SignedDuration, Timestamp};

/// Returns the time that is `seconds` later.
pub(crate) fn after(since: Timestamp, seconds: u64) -> Timestamp {
    since.saturating_add(duration(seconds)).unwrap_or(Timestamp::MAX)
}

/// Returns the time that is `seconds` earlier.
pub(crate) fn before(until: Timestamp, seconds: u64) -> Timestamp {
    until.saturating_sub(duration(seconds)).unwrap_or(Timestamp::MIN)
}

fn duration(seconds: u64) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
}
