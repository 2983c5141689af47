//! A duration in the Go syntax that Kubernetes uses, in whole seconds: `90s`, `12m`, `1h30m`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A duration in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"))]
pub struct Duration(u64);

/// Why a text is not a [`Duration`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a duration such as `90s`, `12m` or `1h30m`, found `{0}`")]
pub struct DurationError(String);

impl Duration {
    /// Creates a duration from whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Returns the duration in whole seconds.
    pub const fn as_secs(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes, seconds) = (self.0 / 3600, self.0 % 3600 / 60, self.0 % 60);
        if hours > 0 {
            write!(formatter, "{hours}h")?;
        }
        if minutes > 0 {
            write!(formatter, "{minutes}m")?;
        }
        if seconds > 0 || self.0 == 0 {
            write!(formatter, "{seconds}s")?;
        }
        Ok(())
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let error = || DurationError(text.to_owned());
        let mut rest = text;
        let mut total: u64 = 0;
        for (unit, seconds) in [('h', 3600), ('m', 60), ('s', 1)] {
            if let Some((digits, after)) = rest.split_once(unit)
                && !digits.is_empty()
                && digits.bytes().all(|byte| byte.is_ascii_digit())
            {
                let number: u64 = digits.parse().map_err(|_| error())?;
                total = number
                    .checked_mul(seconds)
                    .and_then(|part| total.checked_add(part))
                    .ok_or_else(error)?;
                rest = after;
            }
        }
        if text.is_empty() || !rest.is_empty() { Err(error()) } else { Ok(Self(total)) }
    }
}

impl Serialize for Duration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for (text, seconds) in
            [("90s", 90), ("12m", 720), ("1h30m", 5400), ("1h5s", 3605), ("0s", 0)]
        {
            assert_eq!(text.parse::<Duration>().map(Duration::as_secs), Ok(seconds), "{text}");
        }
        assert_eq!(Duration::from_secs(90).to_string(), "1m30s");
        for bad in ["", "12", "m", "1.5h", "5s1m", "-1s", "1 m", "99999999999999999999h"] {
            assert!(bad.parse::<Duration>().is_err(), "{bad}");
        }
    }
}
