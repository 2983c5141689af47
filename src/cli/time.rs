//! Lengths of time and moments as people say them.

use jiff::{SignedDuration, Timestamp};

/// `12 s`, `4 min`, `2 h 3 min`, `3 d 4 h`.
pub(super) fn length(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large} {unit}"),
        small => format!("{large} {unit} {small} {small_unit}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86400 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86400, "d", seconds % 86400 / 3600, "h"),
    }
}

/// How long ago, or that it is not known.
pub(super) fn since(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "?".to_owned(), |at| length(now.duration_since(at)))
}

/// How long until then.
pub(super) fn until(at: Timestamp, now: Timestamp) -> String {
    if at <= now { "any moment".to_owned() } else { length(at.duration_since(now)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_at_most_two_units() {
        let said = |seconds| length(SignedDuration::from_secs(seconds));
        let cases = [
            (-3, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (3600, "1 h"),
            (7380, "2 h 3 min"),
            (86400, "1 d"),
            (273_700, "3 d 4 h"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(said(seconds), expected);
        }
    }
}
