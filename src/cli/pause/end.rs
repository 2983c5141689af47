//! The end of a new pause, as the options of `gpu-rollout pause` say.

use clap::Args;
use jiff::{SignedDuration, Timestamp};

use crate::printer::Printer;
use contract::duration::Duration;
use contract::exit::ExitCode;
use contract::pause::read_time;

/// The options for the end of a pause.
#[derive(Debug, Args)]
pub(super) struct EndOptions {
    /// End the pause at this time without `resume`: a time with its offset, such as
    /// `2027-01-04T06:00:00Z`, or with its time zone, such as `2027-01-04T06:00[Europe/Berlin]`
    #[arg(long, value_name = "TIME", conflicts_with = "lasts")]
    until: Option<String>,
    /// End the pause after this time without `resume`, such as `90m` or `12h`
    #[arg(long = "for", value_name = "DURATION")]
    lasts: Option<Duration>,
}

/// When a new pause ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenEnd {
    /// Never.
    Never,
    /// At this time.
    At(Timestamp),
    /// So long after its start.
    After(Duration),
}

/// Why the end of a new pause is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EndRefusal {
    /// The text is not a time.
    NoTime(String),
    /// The pause would be over at once.
    Over {
        /// The end.
        end: Timestamp,
        /// The current time.
        now: Timestamp,
    },
    /// The end is beyond all times.
    Beyond(Duration),
}

impl EndOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// A time cannot be read.
    pub(super) fn given(self) -> Result<GivenEnd, EndRefusal> {
        match (self.until, self.lasts) {
            (Some(text), _) => match read_time(&text) {
                Some(end) => Ok(GivenEnd::At(end)),
                None => Err(EndRefusal::NoTime(text)),
            },
            (None, Some(lasts)) => Ok(GivenEnd::After(lasts)),
            (None, None) => Ok(GivenEnd::Never),
        }
    }
}

impl GivenEnd {
    /// Returns when a pause ends that starts now. `None`: never.
    ///
    /// # Errors
    /// The end is not in the future, or beyond all times.
    pub(super) fn of_pause(self, now: Timestamp) -> Result<Option<Timestamp>, EndRefusal> {
        let end = match self {
            Self::Never => return Ok(None),
            Self::At(end) => end,
            Self::After(lasts) => {
                let seconds = i64::try_from(lasts.as_secs()).unwrap_or(i64::MAX);
                now.checked_add(SignedDuration::from_secs(seconds))
                    .map_err(|_| EndRefusal::Beyond(lasts))?
            }
        };
        if end > now { Ok(Some(end)) } else { Err(EndRefusal::Over { end, now }) }
    }
}

impl EndRefusal {
    /// Prints the refusal with a hint.
    pub(super) fn print(&self, printer: &mut Printer) -> ExitCode {
        let (text, hint) = match self {
            Self::NoTime(text) => (
                format!("--until: `{text}` is not a time with an offset or a time zone"),
                "write it as `2027-01-04T06:00:00Z` or `2027-01-04T06:00[Europe/Berlin]`, or write how long the pause lasts, as in `--for 12h`",
            ),
            Self::Over { end, now } => (
                format!("the pause would end at {end:.0}, and it is {now:.0} now"),
                "write a later time, or how long the pause lasts, as in `--for 12h`; without an end, it lasts until `gpu-rollout resume`",
            ),
            Self::Beyond(lasts) => (
                format!("--for: {lasts} is too long"),
                "for a pause without an end, leave the option out: the pause lasts until `gpu-rollout resume`",
            ),
        };
        printer.error(&text, Some(hint));
        ExitCode::Usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a valid time")
    }

    #[test]
    fn end_is_a_time_or_a_duration_from_now() {
        let now = at("2027-01-03T18:00:00Z");
        let end = |until: Option<&str>, lasts: Option<&str>| {
            let lasts = lasts.map(|text| text.parse().expect("a valid duration"));
            let given = EndOptions { until: until.map(str::to_owned), lasts }.given()?;
            given.of_pause(now)
        };
        let morning = || Ok(Some(at("2027-01-04T06:00:00Z")));
        let over = |end: &str| Err(EndRefusal::Over { end: at(end), now });
        let long = "9999999999999h";
        let beyond = Err(EndRefusal::Beyond(long.parse().expect("a valid duration")));
        for (until, lasts, expected) in [
            (None, None, Ok(None)),
            (Some("2027-01-04T06:00:00Z"), None, morning()),
            (Some("2027-01-04T07:00[Europe/Berlin]"), None, morning()),
            (None, Some("12h"), morning()),
            (Some("tomorrow"), None, Err(EndRefusal::NoTime("tomorrow".to_owned()))),
            (Some("2027-01-03T18:00:00Z"), None, over("2027-01-03T18:00:00Z")),
            (Some("2027-01-03T17:00:00Z"), None, over("2027-01-03T17:00:00Z")),
            (None, Some("0s"), over("2027-01-03T18:00:00Z")),
            (None, Some(long), beyond),
        ] {
            assert_eq!(end(until, lasts), expected, "{until:?}, {lasts:?}");
        }
    }
}
