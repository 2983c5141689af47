//! Proof before scale: the steps in which a rollout grows, and when it halts. The canaries are
//! upgraded first, then each share of the ramp, then all other nodes. A driver that fails on the
//! first nodes does not reach the rest of the fleet.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// How many combinations of label values time budgets assume at most: neither a recipe nor a chart
/// knows the labels of the nodes.
pub const MOST_COMBINATIONS: usize = 10;
/// How to write a ramp.
pub const RAMP_HINT: &str = "write shares of the nodes that rise, such as `[10%, 50%, 100%]`";

/// The nodes that are upgraded before all others, and the pause between steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Canary {
    /// How many canaries each combination of label values has; at least 1.
    pub nodes: u32,
    /// The keys of the labels whose values are combined. Empty: the whole fleet is one combination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per: Vec<String>,
    /// Seconds between the end of one step and the start of the next.
    pub soak_seconds: u64,
}

impl Default for Canary {
    fn default() -> Self {
        Self { nodes: 1, per: Vec::new(), soak_seconds: 0 }
    }
}

impl Canary {
    /// Returns how many canaries a fleet of this size has at most, for its time budget. With
    /// labels, this is an assumption ([`MOST_COMBINATIONS`]).
    pub fn most(&self, fleet: usize) -> usize {
        let combinations = if self.per.is_empty() { 1 } else { MOST_COMBINATIONS };
        (self.nodes.max(1) as usize).saturating_mul(combinations).min(fleet)
    }
}

/// A share of the cohort, from `1%` to `100%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^([1-9][0-9]?|100)%$"))]
pub struct RampShare(u8);

/// Why a text is not a [`RampShare`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a percentage from `1%` to `100%`, found `{0}`")]
pub struct RampShareError(String);

/// Why a ramp does not rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ramp must rise, and `{share}` at index {index} is not more than `{before}` before it")]
pub struct RampOrderError {
    /// The index of the share that is too small.
    pub index: usize,
    /// That share.
    pub share: RampShare,
    /// The share before it.
    pub before: RampShare,
}

impl RampShare {
    /// The whole cohort.
    pub const ALL: Self = Self(100);

    /// Returns how many of `total` nodes the share is, rounded up; at least one.
    pub fn resolve(self, total: usize) -> usize {
        total.saturating_mul(usize::from(self.0)).div_ceil(100).max(1)
    }
}

impl fmt::Display for RampShare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}%", self.0)
    }
}

impl FromStr for RampShare {
    type Err = RampShareError;

    fn from_str(text: &str) -> Result<Self, RampShareError> {
        let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<u8>().ok());
        let share = percent.filter(|percent| (1..=100).contains(percent)).map(Self);
        // There is one way to write a share: without a sign, and without zeros in front.
        share
            .filter(|share| share.to_string() == text)
            .ok_or_else(|| RampShareError(text.to_owned()))
    }
}

impl Serialize for RampShare {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RampShare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Checks that each share of a ramp is more than the one before it.
///
/// # Errors
/// A share is not.
pub fn check_ramp(ramp: &[RampShare]) -> Result<(), RampOrderError> {
    let mut pairs = ramp.iter().zip(ramp.iter().skip(1)).enumerate();
    match pairs.find(|(_, (before, share))| share <= before) {
        Some((place, (before, share))) => {
            Err(RampOrderError { index: place + 1, share: *share, before: *before })
        }
        None => Ok(()),
    }
}

/// Reads the ramp of settings, and refuses one that does not rise.
pub(crate) fn read_ramp<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<RampShare>, D::Error> {
    let ramp = Vec::<RampShare>::deserialize(deserializer)?;
    check_ramp(&ramp).map_err(serde::de::Error::custom)?;
    Ok(ramp)
}

/// Returns how many nodes of a fleet each step starts, for its time budget: the canaries, the
/// shares of the ramp, and the other nodes. A step has no node if the steps before it contain its
/// share.
pub fn step_sizes(canary: Option<&Canary>, ramp: &[RampShare], nodes: usize) -> Vec<usize> {
    let canaries = canary.map(|canary| canary.most(nodes));
    let shares = ramp.iter().filter(|share| **share < RampShare::ALL);
    let shares = shares.map(|share| share.resolve(nodes));
    let mut started = 0;
    let ends = canaries.into_iter().chain(shares).chain([nodes]);
    ends.map(|end| {
        let size = end.saturating_sub(started);
        started = started.max(end);
        size
    })
    .collect()
}

/// Returns how many steps a rollout has: the canaries, the shares of the ramp below 100%, and the
/// other nodes.
pub fn step_count(canary: Option<&Canary>, ramp: &[RampShare]) -> usize {
    let shares = ramp.iter().filter(|share| **share < RampShare::ALL).count();
    usize::from(canary.is_some()) + shares + 1
}

/// When a rollout halts: it starts no more nodes until a user resumes it or deploys another driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Halt {
    /// After how many nodes with a failed proof the rollout halts. A proof fails if the new driver
    /// does not start, or if the operator's validation, a plugin or an acceptance test fails with
    /// it. Default: 1.
    pub failed_proofs: u32,
    /// After how many failed nodes the rollout halts, whatever the cause. It replaces
    /// `failureBudget`: set one of them. Without it, the failure budget applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_nodes: Option<u32>,
}

impl Default for Halt {
    fn default() -> Self {
        Self { failed_proofs: 1, failed_nodes: None }
    }
}

impl Halt {
    /// Returns when a rollout halts that does not set it: after the first failed proof if it has
    /// steps, otherwise never.
    pub fn of_steps(has_canary: bool, ramp: &[RampShare]) -> Option<Self> {
        (has_canary || !ramp.is_empty()).then(Self::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(shares: &[u8]) -> Vec<RampShare> {
        shares.iter().copied().map(RampShare).collect()
    }

    fn canary(nodes: u32, per: &[&str]) -> Canary {
        let per = per.iter().map(|label| (*label).to_owned()).collect();
        Canary { nodes, per, soak_seconds: 60 }
    }

    #[test]
    fn shares_are_rounded_up_to_at_least_one_node() {
        for (percent, total, expected) in
            [(10, 0, 1), (1, 1, 1), (10, 5, 1), (10, 10, 1), (10, 11, 2), (50, 5, 3), (100, 7, 7)]
        {
            assert_eq!(RampShare(percent).resolve(total), expected, "{percent}% of {total}");
        }
    }

    #[test]
    fn shares_rise_with_the_percentage_and_never_exceed_the_total() {
        for total in 1..=300 {
            let mut last = 1;
            for percent in 1..=100 {
                let nodes = RampShare(percent).resolve(total);
                assert!((last..=total).contains(&nodes), "{percent}% of {total}: {nodes}");
                assert!(nodes * 100 >= total * usize::from(percent), "{percent}% of {total}");
                last = nodes;
            }
            assert_eq!(last, total, "100% of {total}");
        }
    }

    #[test]
    fn only_whole_percentages_are_shares() {
        for percent in 1..=100 {
            let share = RampShare(percent);
            assert_eq!(share.to_string().parse(), Ok(share));
            let text = serde_json::to_string(&share).expect("a share can be written");
            assert_eq!(text, format!("\"{percent}%\""));
            assert_eq!(serde_json::from_str::<RampShare>(&text).expect("and read"), share);
        }
        for bad in ["", "%", "0%", "101%", "256%", "10", "010%", "+5%", "-5%", "1.5%", "10 %", "x%"]
        {
            let error = bad.parse::<RampShare>().expect_err("not a share");
            let expected = format!("expected a percentage from `1%` to `100%`, found `{bad}`");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn ramp_that_does_not_rise_is_refused_with_both_values() {
        for shares in [&[][..], &[100], &[1, 2, 99], &[10, 50, 100]] {
            assert_eq!(check_ramp(&ramp(shares)), Ok(()), "{shares:?}");
        }
        for (shares, expected) in [
            (
                &[50, 10][..],
                "a ramp must rise, and `10%` at index 1 is not more than `50%` before it",
            ),
            (
                &[5, 10, 10],
                "a ramp must rise, and `10%` at index 2 is not more than `10%` before it",
            ),
        ] {
            let error = check_ramp(&ramp(shares)).expect_err("a ramp that does not rise");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn steps_are_canaries_shares_and_the_rest() {
        let zones = ["topology.kubernetes.io/zone"];
        for (canary, shares, nodes, expected) in [
            (None, &[][..], 16, &[16][..]),
            (None, &[100], 16, &[16]),
            (None, &[10, 50], 16, &[2, 6, 8]),
            (Some(canary(1, &[])), &[], 16, &[1, 15]),
            (Some(canary(1, &[])), &[10, 50, 100], 16, &[1, 1, 6, 8]),
            // Ten combinations are assumed: the share of 10% is then contained in the first step.
            (Some(canary(1, &zones)), &[10, 75], 16, &[10, 0, 2, 4]),
            (Some(canary(2, &zones)), &[50], 16, &[16, 0, 0]),
            (Some(canary(3, &[])), &[50], 2, &[2, 0, 0]),
        ] {
            let sizes = step_sizes(canary.as_ref(), &ramp(shares), nodes);
            assert_eq!(sizes, expected, "{canary:?} {shares:?} of {nodes}");
            assert_eq!(step_count(canary.as_ref(), &ramp(shares)), sizes.len(), "{sizes:?}");
        }
    }

    #[test]
    fn steps_contain_every_node_once() {
        for nodes in 1..=120 {
            for (first, second) in [(1, 2), (10, 50), (33, 34), (99, 100)] {
                for canary in [None, Some(canary(1, &[])), Some(canary(2, &["rack"]))] {
                    let shares = ramp(&[first, second]);
                    let sizes = step_sizes(canary.as_ref(), &shares, nodes);
                    assert_eq!(sizes.iter().sum::<usize>(), nodes, "{canary:?} {shares:?}");
                }
            }
        }
    }

    #[test]
    fn absent_keys_have_defaults() {
        let canary = Canary { nodes: 1, per: Vec::new(), soak_seconds: 0 };
        assert_eq!(serde_json::from_str::<Canary>("{}").expect("defaults"), canary);
        let halt = Halt { failed_proofs: 1, failed_nodes: None };
        assert_eq!(serde_json::from_str::<Halt>("{}").expect("defaults"), halt);
        assert!(serde_json::from_str::<Halt>(r#"{"failedProof": 1}"#).is_err());
        assert!(serde_json::from_str::<Canary>(r#"{"soak": 1}"#).is_err());
        assert_eq!(Halt::of_steps(false, &[]), None);
        assert_eq!(Halt::of_steps(true, &[]), Some(halt));
        assert_eq!(Halt::of_steps(false, &ramp(&[10])), Some(halt));
    }
}
