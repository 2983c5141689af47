//! Maintenance windows: the times at which the hook may start nodes, such as
//! `Mon-Fri 22:00-05:00 Europe/Berlin`. The time zones are those of the IANA database that is built
//! into the program, so that the CLI and the hook agree on every machine.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const DAYS: [(&str, Weekday); 7] = [
    ("Mon", Weekday::Monday),
    ("Tue", Weekday::Tuesday),
    ("Wed", Weekday::Wednesday),
    ("Thu", Weekday::Thursday),
    ("Fri", Weekday::Friday),
    ("Sat", Weekday::Saturday),
    ("Sun", Weekday::Sunday),
];
/// The word for every day.
const DAILY: &str = "daily";
const MINUTES_PER_DAY: i16 = 24 * 60;
/// The days in which the next opening is searched: two weeks, because a change of the clock may
/// leave out the only opening of a week.
const DAYS_AHEAD: i32 = 15;
/// The weeks for which waits are computed: the first of 2026, without a change of the clock.
const REFERENCE: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// One maintenance window, on some days of every week.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^[A-Za-z,-]+ [0-9]{2}:[0-9]{2}-[0-9]{2}:[0-9]{2} [A-Za-z0-9_+/-]+$"))]
pub struct MaintenanceWindow {
    /// Whether it opens on each day, from Monday.
    days: [bool; 7],
    /// Minutes after midnight.
    from: i16,
    /// The same; more than a day: on the next day.
    to: i16,
    zone: TimeZone,
    text: String,
}

/// Why a text is not a [`MaintenanceWindow`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// It does not have three parts.
    #[error("`{0}` is not a maintenance window")]
    Form(String),
    /// One of the days does not exist.
    #[error("`{0}` is not a day")]
    Day(String),
    /// One of the times does not exist.
    #[error("`{0}` is not a range of times")]
    Times(String),
    /// It ends when it begins.
    #[error("`{0}` never opens: it ends when it begins")]
    Empty(String),
    /// The time zone database does not have the time zone.
    #[error("`{0}` is not a time zone")]
    Zone(String),
}

impl WindowError {
    /// Returns how to write a valid window.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Form(_) => {
                "write days, times and a time zone, such as `Mon-Fri 22:00-05:00 Europe/Berlin`"
            }
            Self::Day(_) => "write days as `Mon`, `Mon-Fri`, `Sat,Sun` or `daily`",
            Self::Times(_) => "write times with two digits each, such as `22:00-05:00`",
            Self::Empty(_) => "for a whole day, write `00:00-24:00`",
            Self::Zone(_) => {
                "use a name of the IANA time zone database, such as `UTC` or `Europe/Berlin`"
            }
        }
    }
}

/// Whether nodes may be started at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// They may, at least until then.
    Open(Timestamp),
    /// They may again from then on.
    Closed(Timestamp),
}

/// Returns whether nodes may be started now. `None`: there are no windows, so they always may.
pub fn state(windows: &[MaintenanceWindow], now: Timestamp) -> Option<WindowState> {
    let openings = || windows.iter().flat_map(|window| window.openings(now));
    let open = openings().filter(|(opens, closes)| *opens <= now && now < *closes);
    open.map(|(_, closes)| closes).max().map(WindowState::Open).or_else(|| {
        openings()
            .map(|(opens, _)| opens)
            .filter(|opens| *opens > now)
            .min()
            .map(WindowState::Closed)
    })
}

/// Returns the time from which on nodes may be started: this time, or that of the next opening.
pub fn opening(windows: &[MaintenanceWindow], time: Timestamp) -> Timestamp {
    match state(windows, time) {
        None | Some(WindowState::Open(_)) => time,
        Some(WindowState::Closed(opens)) => opens,
    }
}

/// Returns for how many seconds at most the starts of nodes wait for windows. `steps` has the
/// number of waves of each step. The next wave may start `cycle` seconds after the last one, and
/// the next step `soak` seconds after that. The first wave waits longest if the rollout is deployed
/// when a window closes.
pub fn closed_seconds(windows: &[MaintenanceWindow], steps: &[u64], cycle: u64, soak: u64) -> u64 {
    let waited = |deployed: Timestamp| {
        let (mut now, mut seconds) = (deployed, 0);
        for waves in steps {
            let mut left = *waves;
            while left > 0 {
                let opens = opening(windows, now);
                seconds += seconds_between(now, opens);
                let Some(WindowState::Open(closes)) = state(windows, opens) else {
                    return Some(seconds);
                };
                let started = seconds_between(opens, closes).div_ceil(cycle.max(1)).clamp(1, left);
                left -= started;
                now = later(opens, started.saturating_mul(cycle.max(1)))?;
            }
            now = later(now, soak)?;
        }
        Some(seconds)
    };
    let closings = windows.iter().flat_map(|window| window.openings(REFERENCE));
    closings.map(|(_, closes)| waited(closes).unwrap_or(u64::MAX)).max().unwrap_or(0)
}

/// Returns windows that are open around `there` when these are open around `here`: a simulation has a
/// time of its own. Later changes of the clock are ignored.
pub fn moved(
    windows: &[MaintenanceWindow],
    here: Timestamp,
    there: Timestamp,
) -> Vec<MaintenanceWindow> {
    let week = here.saturating_add(SignedDuration::from_hours(7 * 24)).unwrap_or(Timestamp::MAX);
    let openings = windows.iter().flat_map(|window| {
        let text = &window.text;
        window.openings(here).map(move |(opens, closes)| (opens, closes, text))
    });
    openings
        .filter(|(opens, closes, _)| *closes > here && *opens < week)
        .filter_map(|(opens, closes, text)| {
            let start = opens.checked_add(there.duration_since(here)).ok()?.to_zoned(TimeZone::UTC);
            let from = i16::from(start.hour()) * 60 + i16::from(start.minute());
            let length = i16::try_from(closes.duration_since(opens).as_mins()).ok()?;
            Some(MaintenanceWindow {
                days: DAYS.map(|(_, day)| day == start.weekday()),
                from,
                to: from + length,
                zone: TimeZone::UTC,
                text: text.clone(),
            })
        })
        .collect()
}

/// Returns the time this many seconds later; `None` if it is later than any time.
fn later(time: Timestamp, seconds: u64) -> Option<Timestamp> {
    time.checked_add(SignedDuration::from_secs(i64::try_from(seconds).ok()?)).ok()
}

fn seconds_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_secs()).unwrap_or(0)
}

impl MaintenanceWindow {
    /// Returns the openings around a time, and those of the next two weeks, each with its end.
    fn openings(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let today = now.to_zoned(self.zone.clone()).date();
        (-1..=DAYS_AHEAD).filter_map(move |days| {
            let date = today.checked_add(days.days()).ok()?;
            let place = DAYS.iter().position(|(_, day)| *day == date.weekday())?;
            let opens = self.at(date, self.from).filter(|_| self.days[place])?;
            let closes = self.at(date, self.to)?;
            // When clocks go forward, a short window may not exist.
            (opens < closes).then_some((opens, closes))
        })
    }

    /// Returns the time this number of minutes after midnight. If clocks go forward over it, this is
    /// the time after that; if they go back, it is the first one.
    fn at(&self, date: Date, minutes: i16) -> Option<Timestamp> {
        let (days, minutes) = (minutes / MINUTES_PER_DAY, minutes % MINUTES_PER_DAY);
        let (hour, minute) = (i8::try_from(minutes / 60).ok()?, i8::try_from(minutes % 60).ok()?);
        let local = date.checked_add(days.days()).ok()?.at(hour, minute, 0, 0);
        self.zone.to_timestamp(local).ok()
    }
}

impl fmt::Display for MaintenanceWindow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for MaintenanceWindow {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let parts: Vec<&str> = text.split(' ').collect();
        let [days, times, zone] = parts[..] else {
            return Err(WindowError::Form(text.to_owned()));
        };
        let days = self::days(days)?;
        let (from, to) = self::times(times).ok_or_else(|| WindowError::Times(times.to_owned()))?;
        if from == to {
            return Err(WindowError::Empty(text.to_owned()));
        }
        let to = if to > from { to } else { to + MINUTES_PER_DAY };
        let zone = TimeZone::get(zone).map_err(|_| WindowError::Zone(zone.to_owned()))?;
        Ok(Self { days, from, to, zone, text: text.to_owned() })
    }
}

/// Parses `Mon-Fri`, `Sat,Sun` or `daily`.
fn days(text: &str) -> Result<[bool; 7], WindowError> {
    if text == DAILY {
        return Ok([true; 7]);
    }
    let place = |name: &str| {
        let day = DAYS.iter().position(|(known, _)| *known == name);
        day.ok_or_else(|| WindowError::Day(name.to_owned()))
    };
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut day, last) = (place(first)?, place(last)?);
        days[day] = true;
        while day != last {
            day = (day + 1) % days.len();
            days[day] = true;
        }
    }
    Ok(days)
}

/// Parses `22:00-05:00`. `24:00` is the end of the day.
fn times(text: &str) -> Option<(i16, i16)> {
    let (from, to) = text.split_once('-')?;
    Some((minutes(from).filter(|from| *from < MINUTES_PER_DAY)?, minutes(to)?))
}

fn minutes(text: &str) -> Option<i16> {
    let (hour, minute) = text.split_once(':')?;
    let number = |digits: &str, limit: i16| {
        let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|number: &i16| is_number && *number <= limit)
    };
    let minutes = number(hour, 24)? * 60 + number(minute, 59)?;
    (minutes <= MINUTES_PER_DAY).then_some(minutes)
}

impl Serialize for MaintenanceWindow {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MaintenanceWindow {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(windows: &[&str], now: &str) -> String {
        let windows: Vec<MaintenanceWindow> =
            windows.iter().map(|text| text.parse().expect("a valid window")).collect();
        match state(&windows, now.parse().expect("a valid time")) {
            None => "always".to_owned(),
            Some(WindowState::Open(until)) => format!("until {until}"),
            Some(WindowState::Closed(until)) => format!("from {until}"),
        }
    }

    #[test]
    fn windows_open_and_close_in_their_time_zone() {
        let nights = "Mon-Fri 22:00-05:00 Europe/Berlin";
        for (windows, now, expected) in [
            (&[][..], "2026-11-28T12:00:00Z", "always"),
            // A Friday: 22:00 in Berlin is 21:00 UTC in winter.
            (&[nights], "2026-11-27T20:59:59Z", "from 2026-11-27T21:00:00Z"),
            (&[nights], "2026-11-27T21:00:00Z", "until 2026-11-28T04:00:00Z"),
            (&[nights], "2026-11-28T03:59:59Z", "until 2026-11-28T04:00:00Z"),
            // The weekend has no window: the next one is on Monday.
            (&[nights], "2026-11-28T04:00:00Z", "from 2026-11-30T21:00:00Z"),
            (&["daily 00:00-24:00 UTC"], "2026-11-28T04:00:00Z", "until 2026-11-29T00:00:00Z"),
            (&["Sat,Sun 08:00-12:00 UTC"], "2026-11-28T12:00:00Z", "from 2026-11-29T08:00:00Z"),
            (&["Sat-Mon 08:00-12:00 UTC"], "2026-11-30T12:00:00Z", "from 2026-12-05T08:00:00Z"),
            (
                &[nights, "Sat 02:00-09:00 UTC"],
                "2026-11-28T03:00:00Z",
                "until 2026-11-28T09:00:00Z",
            ),
            (&[nights, "Sun 02:00-09:00 UTC"], "2026-11-28T12:00:00Z", "from 2026-11-29T02:00:00Z"),
        ] {
            assert_eq!(seen(windows, now), expected, "{windows:?} at {now}");
        }
    }

    /// In Berlin, clocks go from 02:00 to 03:00 on 2026-03-29, and from 03:00 to 02:00 on
    /// 2026-10-25.
    #[test]
    fn windows_follow_changes_of_the_clock() {
        for (window, now, expected) in [
            (
                "daily 22:00-05:00 Europe/Berlin",
                "2026-03-28T22:00:00Z",
                "until 2026-03-29T03:00:00Z",
            ),
            ("Sun 02:15-02:45 Europe/Berlin", "2026-03-29T00:00:00Z", "from 2026-03-29T01:15:00Z"),
            ("Sun 02:30-03:30 Europe/Berlin", "2026-03-29T00:00:00Z", "from 2026-04-05T00:30:00Z"),
            ("Sun 02:30-04:00 Europe/Berlin", "2026-10-25T00:29:00Z", "from 2026-10-25T00:30:00Z"),
            ("Sun 02:30-04:00 Europe/Berlin", "2026-10-25T01:29:00Z", "until 2026-10-25T03:00:00Z"),
        ] {
            assert_eq!(seen(&[window], now), expected, "{window} at {now}");
        }
    }

    #[test]
    fn moved_windows_are_open_at_the_same_distance() {
        let windows: Vec<MaintenanceWindow> =
            ["Mon-Fri 22:00-05:00 Europe/Berlin", "Sun 00:00-24:00 UTC"]
                .iter()
                .map(|text| text.parse().expect("a valid window"))
                .collect();
        let there = REFERENCE;
        let here: Timestamp = "2026-11-27T20:15:00Z".parse().expect("a valid time");
        let moved = moved(&windows, here, there);
        for minutes in (0..9 * 24 * 60).step_by(5) {
            let later = SignedDuration::from_mins(minutes);
            let is_open = |windows: &[MaintenanceWindow], now: Timestamp| {
                matches!(state(windows, now + later), Some(WindowState::Open(_)))
            };
            assert_eq!(is_open(&moved, there), is_open(&windows, here), "{minutes} minutes");
        }
    }

    #[test]
    fn wait_for_windows_is_that_of_the_worst_time() {
        let hours = |hours: u64| hours * 3600;
        for (windows, waves, cycle, expected) in [
            (&[][..], 10, 600, 0),
            (&["daily 00:00-24:00 UTC"], 1000, 600, 0),
            // From 05:00 to 22:00.
            (&["daily 22:00-05:00 UTC"], 1, 600, hours(17)),
            // The last wave of the first night starts before 05:00, and ends after it.
            (&["daily 22:00-05:00 UTC"], 42, 600, hours(17)),
            (&["daily 22:00-05:00 UTC"], 43, 600, hours(34)),
            // The eighth would start 2800 s after 05:00.
            (&["daily 22:00-05:00 UTC"], 7, 4000, hours(17)),
            (&["daily 22:00-05:00 UTC"], 8, 4000, hours(34) - 2800),
            // From Saturday, 05:00, to Monday, 22:00.
            (&["Mon-Fri 22:00-05:00 UTC"], 1, 600, hours(65)),
            (&["Mon-Fri 22:00-05:00 UTC", "Sat-Sun 00:00-24:00 UTC"], 1, 600, hours(22)),
        ] {
            let windows: Vec<MaintenanceWindow> =
                windows.iter().map(|text| text.parse().expect("a valid window")).collect();
            let found = closed_seconds(&windows, &[waves], cycle, 0);
            assert_eq!(found, expected, "{windows:?} {waves}");
        }
    }

    #[test]
    fn steps_wait_for_windows_after_their_soak() {
        let hours = |hours: u64| hours * 3600;
        let nights = ["daily 22:00-05:00 UTC".parse().expect("a valid window")];
        for (steps, soak, expected) in [
            (&[1, 1][..], 0, hours(17)),
            // The second step starts at 22:40.
            (&[1, 1], 1800, hours(17)),
            // Its soak ends at 06:10, and the next window opens at 22:00.
            (&[1, 1], hours(8), 2 * hours(17) - 4200),
            // The soak of a step without nodes counts too.
            (&[1, 0, 1], hours(4), 2 * hours(17) - 4200),
            // The soak after the last step does not count.
            (&[2], hours(8), hours(17)),
            (&[1, 1, 1], hours(8), 3 * hours(17) - 2 * 4200),
            (&[1, 1], u64::MAX, u64::MAX),
        ] {
            assert_eq!(closed_seconds(&nights, steps, 600, soak), expected, "{steps:?} {soak}");
        }
        assert_eq!(closed_seconds(&[], &[1, 1], 600, hours(8)), 0);
    }

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        for (text, expected) in [
            ("", "`` is not a maintenance window"),
            ("22:00-05:00", "`22:00-05:00` is not a maintenance window"),
            ("Mon-Fri 22:00-05:00", "`Mon-Fri 22:00-05:00` is not a maintenance window"),
            ("Mon  22:00-05:00 UTC", "`Mon  22:00-05:00 UTC` is not a maintenance window"),
            ("Mo-Fr 22:00-05:00 UTC", "`Mo` is not a day"),
            ("Mon- 22:00-05:00 UTC", "`` is not a day"),
            ("Mon 22-05 UTC", "`22-05` is not a range of times"),
            ("Mon 24:00-05:00 UTC", "`24:00-05:00` is not a range of times"),
            ("Mon 22:00-24:01 UTC", "`22:00-24:01` is not a range of times"),
            ("Mon 22:60-24:00 UTC", "`22:60-24:00` is not a range of times"),
            ("Mon +2:00-05:00 UTC", "`+2:00-05:00` is not a range of times"),
            ("Mon 05:00-05:00 UTC", "`Mon 05:00-05:00 UTC` never opens: it ends when it begins"),
            ("Mon 05:00-06:00 Europe/Berln", "`Europe/Berln` is not a time zone"),
        ] {
            let error = text.parse::<MaintenanceWindow>().expect_err("not a window");
            assert_eq!(error.to_string(), expected);
            assert!(!error.hint().is_empty());
        }
    }
}
