//! A number of nodes (`3`) or a share of the fleet (`25%`).

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A count or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("type" = ["integer", "string"], "pattern" = "^[0-9]+%?$"))]
pub enum Count {
    /// A number of nodes.
    Number(u32),
    /// A percentage of the nodes, rounded up (as Kubernetes' `GetScaledValueFromIntOrPercent` with
    /// `roundUp`).
    Percent(u32),
}

/// Why a text is not a [`Count`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number such as `3` or a percentage such as `25%`, found `{0}`")]
pub struct CountError(String);

/// Returns a number with its noun in singular or plural, such as `1 node` or `2 nodes`. The plural
/// is `noun` with an `s`.
pub fn with_noun<N: Copy + fmt::Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let ending = if number == N::from(1_u8) { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

impl Count {
    /// Returns how many of `total` nodes the count is; a percentage is rounded up.
    pub fn resolve(self, total: usize) -> usize {
        match self {
            Self::Number(number) => number as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Percent(percent) => write!(formatter, "{percent}%"),
        }
    }
}

impl FromStr for Count {
    type Err = CountError;

    fn from_str(text: &str) -> Result<Self, CountError> {
        let error = || CountError(text.to_owned());
        let digits = |text: &str| {
            if text.bytes().all(|byte| byte.is_ascii_digit()) {
                text.parse().map_err(|_| error())
            } else {
                Err(error())
            }
        };
        match text.strip_suffix('%') {
            Some(percent) => digits(percent).map(Self::Percent),
            None => digits(text).map(Self::Number),
        }
    }
}

impl Serialize for Count {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u32(*number),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a number such as `3` or a percentage such as `25%`"
        )]
        enum CountForm {
            Number(u32),
            Text(String),
        }
        match CountForm::deserialize(deserializer)? {
            CountForm::Number(number) => Ok(Self::Number(number)),
            CountForm::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noun_is_singular_only_for_one() {
        assert_eq!(
            [0, 1, 2].map(|number| with_noun(number, "node")),
            ["0 nodes", "1 node", "2 nodes"]
        );
    }

    #[test]
    fn a_percentage_is_rounded_up() {
        assert_eq!(Count::Percent(25).resolve(4), 1);
        assert_eq!(Count::Percent(25).resolve(5), 2);
        assert_eq!(Count::Percent(0).resolve(5), 0);
        assert_eq!(Count::Number(7).resolve(5), 7);
    }

    #[test]
    fn only_digits_and_one_percent_sign_are_taken() {
        for bad in ["", "%", "-1", "+1", "1.5", "25 %", "25%%", "99999999999"] {
            assert!(bad.parse::<Count>().is_err(), "{bad}");
        }
        assert_eq!("25%".parse(), Ok(Count::Percent(25)));
        assert_eq!(Count::Percent(25).to_string(), "25%");
    }
}
