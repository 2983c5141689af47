//! `90s..3m`: two lengths of time, between which something takes.

use std::str::FromStr;

use contract::duration::Duration;
use simulator::random::TimeSpread;

/// Two lengths of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct DurationRange {
    least: Duration,
    most: Duration,
}

impl DurationRange {
    /// As a spread of milliseconds.
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
            Err(format!("`{text}` ends before it begins"))
        } else {
            Ok(range)
        }
    }
}
