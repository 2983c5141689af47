//! Formats durations, ages and remaining times for people.

use jiff::{SignedDuration, Timestamp};

/// Formats a duration: `12 s`, `4 min`, `2 h 3 min`, `3 d 4 h`.
pub fn format_duration(duration: SignedDuration) -> String {
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

/// Formats the age of a time; `?` if the time is unknown.
pub fn format_age(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "?".to_owned(), |at| format_duration(now.duration_since(at)))
}

/// Formats the remaining time.
pub fn format_remaining(at: Timestamp, now: Timestamp) -> String {
    if at <= now { "any moment".to_owned() } else { format_duration(at.duration_since(now)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
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
            assert_eq!(format_duration(SignedDuration::from_secs(seconds)), expected);
        }
    }
}
