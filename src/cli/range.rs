//! A range of durations such as `90s..3m`.

use std::str::FromStr;

use contract::duration::Duration;
use simulator::random::TimeSpread;

/// The shortest and the longest duration of something.
#[derive(Clone, Copy, Debug)]
pub(super) struct DurationRange {
    least: Duration,
    most: Duration,
}

impl DurationRange {
    /// Returns a uniform spread in milliseconds.
    pub(super) fn spread(self) -> TimeSpread {
        let milliseconds = |duration: Duration| duration.as_secs().saturating_mul(1000);
        TimeSpread::Uniform(milliseconds(self.least), milliseconds(self.most))
    }
}

impl FromStr for DurationRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let parse = |text: &str| text.parse::<Duration>().map_err(|error| error.to_string());
        let range = Self { least: parse(least)?, most: parse(most)? };
        if range.least > range.most {
            Err(format!("expected `MIN..MAX` with MIN not longer than MAX, found `{text}`"))
        } else {
            Ok(range)
        }
    }
}
