//! Time arithmetic.

use jiff::{SignedDuration, Timestamp};

/// Returns the time that is `seconds` later.
pub(crate) fn after(since: Timestamp, seconds: u64) -> Timestamp {
    since
        .saturating_add(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
        .unwrap_or(Timestamp::MAX)
}

/// Returns the time that is `seconds` earlier.
pub(crate) fn before(until: Timestamp, seconds: u64) -> Timestamp {
    until
        .saturating_sub(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
        .unwrap_or(Timestamp::MIN)
}
