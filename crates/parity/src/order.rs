//! The order of releases.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{DeployerFact, PredecessorFacts, ReleaseFacts};

/// Returns the predecessors of releases in consecutive parts, with needs inside a part: all
/// releases of earlier parts, and inside its own part the releases that it needs, directly or
/// indirectly. In a cycle, each release is its own predecessor.
pub(crate) fn in_parts(
    parts: &[BTreeMap<String, BTreeSet<String>>],
) -> BTreeMap<String, PredecessorFacts> {
    let mut found = BTreeMap::new();
    let mut earlier: BTreeSet<String> = BTreeSet::new();
    for part in parts {
        let exact_among: BTreeSet<String> = part.keys().cloned().collect();
        for name in part.keys() {
            let releases = closure(name, part).into_iter().chain(earlier.iter().cloned()).collect();
            found.insert(
                name.clone(),
                PredecessorFacts { releases, exact_among: exact_among.clone() },
            );
        }
        earlier.extend(exact_among);
    }
    found
}

/// Returns all needs of `name`, direct and indirect, even missing ones.
fn closure(name: &str, needs: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&String> = needs.get(name).into_iter().flatten().collect();
    while let Some(need) = waiting.pop() {
        if found.insert(need.clone()) {
            waiting.extend(needs.get(need).into_iter().flatten());
        }
    }
    found
}

/// Returns the predecessors of releases in steps, with parallel releases in a step: all releases of
/// earlier steps.
pub(crate) fn in_steps(steps: &BTreeMap<String, i64>) -> BTreeMap<String, PredecessorFacts> {
    let before = |step: i64| {
        steps.iter().filter(|(_, other)| **other < step).map(|(name, _)| name.clone()).collect()
    };
    steps
        .iter()
        .map(|(name, step)| {
            (
                name.clone(),
                PredecessorFacts { releases: before(*step), exact_among: BTreeSet::new() },
            )
        })
        .collect()
}

/// Returns the longest time of a chain of releases in seconds, from their longest timeouts.
pub(crate) fn longest_seconds(releases: &BTreeMap<String, ReleaseFacts>) -> u64 {
    // Releases with fewer predecessors come first. In a cycle, no release starts.
    let mut sorted: Vec<_> = releases.iter().collect();
    sorted.sort_by_key(|(_, release)| release.after.releases.len());
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, release) in sorted {
        let before = release
            .after
            .releases
            .iter()
            .filter_map(|need| found.get(need.as_str()))
            .max()
            .copied()
            .unwrap_or_default();
        let own = match &release.timeout_seconds {
            DeployerFact::Is(seconds) => seconds.last().copied().unwrap_or_default(),
            DeployerFact::NotExpressible { .. } => 0,
        };
        found.insert(name, before + own);
    }
    found.into_values().max().unwrap_or_default()
}

/// What comes before any release with one deployer.
pub(crate) type ReleaseOrder<'a> = BTreeMap<&'a str, &'a PredecessorFacts>;

/// Whether two deployers hold back the release `name` alike: what one of them knows to be needed,
/// the other holds to; where both know exactly what is needed, they know the same. Two mere
/// sequences may differ, as long as no need is unmet.
pub(crate) fn agree(name: &str, first: &ReleaseOrder<'_>, second: &ReleaseOrder<'_>) -> bool {
    let (Some(one), Some(other)) = (first.get(name), second.get(name)) else { return true };
    let holds = |one: &PredecessorFacts, other: &PredecessorFacts| {
        one.exact_among.iter().all(|need| {
            match (one.releases.contains(need), other.releases.contains(need)) {
                (true, false) => false,
                (false, true) => !other.exact_among.contains(need),
                (true, true) | (false, false) => true,
            }
        })
    };
    holds(one, other) && holds(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    type ReleaseNeeds<'a> = [(&'a str, &'a [&'a str])];

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn parts(parts: &[&ReleaseNeeds<'_>]) -> BTreeMap<String, PredecessorFacts> {
        let part = |needs: &&ReleaseNeeds<'_>| {
            needs.iter().map(|(name, needs)| ((*name).to_owned(), set(needs))).collect()
        };
        in_parts(&parts.iter().map(part).collect::<Vec<_>>())
    }

    fn steps(steps: &[(&str, i64)]) -> BTreeMap<String, PredecessorFacts> {
        in_steps(&steps.iter().map(|(name, step)| ((*name).to_owned(), *step)).collect())
    }

    fn agree_on(
        name: &str,
        first: &BTreeMap<String, PredecessorFacts>,
        second: &BTreeMap<String, PredecessorFacts>,
    ) -> bool {
        let first: ReleaseOrder<'_> =
            first.iter().map(|(name, after)| (name.as_str(), after)).collect();
        let second: ReleaseOrder<'_> =
            second.iter().map(|(name, after)| (name.as_str(), after)).collect();
        let there = agree(name, &first, &second);
        assert_eq!(there, agree(name, &second, &first), "{name}");
        there
    }

    #[test]
    fn needs_of_needs_count_and_circles_end() {
        let found = parts(&[
            &[("z", &[])],
            &[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("x", &["y"]), ("y", &["x"])],
        ]);
        assert_eq!(found["c"].releases, set(&["a", "b", "z"]));
        assert_eq!(found["x"].releases, set(&["x", "y", "z"]));
        assert!(!found["c"].exact_among.contains("z"));
    }

    #[test]
    fn sequence_may_delay_more_but_not_less() {
        let sequence = steps(&[("a", 1), ("b", 2), ("c", 3)]);
        let needs = parts(&[&[("a", &[]), ("b", &[]), ("c", &["a"])]]);
        for name in ["a", "b", "c"] {
            assert!(agree_on(name, &sequence, &needs), "{name}");
        }
        let swapped = steps(&[("c", 1), ("b", 2), ("a", 3)]);
        assert!(!agree_on("c", &swapped, &needs), "what it needs comes later");
        assert!(agree_on("b", &swapped, &needs));
        assert!(agree_on("a", &swapped, &sequence), "neither says that it must be so");
        let together = steps(&[("a", 1), ("b", 1), ("c", 1)]);
        assert!(agree_on("c", &together, &sequence));
        assert!(!agree_on("c", &together, &needs));
    }

    #[test]
    fn parts_hold_back_more_but_are_exact_inside() {
        let needs = parts(&[&[("a", &[]), ("b", &[]), ("c", &["a"])]]);
        assert!(agree_on("c", &parts(&[&[("a", &[])], &[("b", &[]), ("c", &[])]]), &needs));
        assert!(
            !agree_on("c", &parts(&[&[("a", &[])], &[("b", &[]), ("c", &["b"])]]), &needs),
            "needed by one of them only"
        );
        assert!(!agree_on("c", &parts(&[&[("b", &[])], &[("a", &[]), ("c", &[])]]), &needs));
    }
}
