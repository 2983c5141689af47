//! What comes before what.

use std::collections::{BTreeMap, BTreeSet};

use super::model::After;

/// For each release everything that must have succeeded before it, from what it names itself. A circle is each of it before itself.
#[expect(dead_code, reason = "the readers of deployers with needs use it")]
pub(super) fn exact(needs: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, After> {
    let all = |name: &String| {
        let mut found = BTreeSet::new();
        let mut waiting: Vec<&String> = needs.get(name).into_iter().flatten().collect();
        while let Some(need) = waiting.pop() {
            if found.insert(need.clone()) {
                waiting.extend(needs.get(need).into_iter().flatten());
            }
        }
        found
    };
    needs.keys().map(|name| (name.clone(), After { releases: all(name), exact: true })).collect()
}

/// For releases that come in steps, those of one step at once: everything in earlier steps.
#[expect(dead_code, reason = "the readers of deployers with steps use it")]
pub(super) fn in_steps(steps: &BTreeMap<String, i64>) -> BTreeMap<String, After> {
    let before = |step: i64| steps.iter().filter(|(_, other)| **other < step).map(|(name, _)| name.clone()).collect();
    steps.iter().map(|(name, step)| (name.clone(), After { releases: before(*step), exact: false })).collect()
}

/// Whether two deployers order a release alike: what one needs exactly the other holds to, and two sequences do not contradict each other.
/// `first_of` and `second_of` tell what comes before any release with either.
pub(super) fn agree(
    name: &str,
    (first, first_of): (&After, &BTreeMap<&str, &After>),
    (second, second_of): (&After, &BTreeMap<&str, &After>),
) -> bool {
    // The release stands before `other` in this order.
    let before = |of: &BTreeMap<&str, &After>, other: &String| of.get(other.as_str()).is_some_and(|after| after.releases.contains(name));
    match (first.exact, second.exact) {
        (true, true) => first.releases == second.releases,
        (true, false) => first.releases.is_subset(&second.releases),
        (false, true) => second.releases.is_subset(&first.releases),
        (false, false) => {
            !first.releases.iter().any(|other| before(second_of, other)) && !second.releases.iter().any(|other| before(first_of, other))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn by_name(all: &BTreeMap<String, After>) -> BTreeMap<&str, &After> {
        all.iter().map(|(name, after)| (name.as_str(), after)).collect()
    }

    #[test]
    fn needs_of_needs_count_and_circles_end() {
        let needs = [("a", set(&[])), ("b", set(&["a"])), ("c", set(&["b"])), ("x", set(&["y"])), ("y", set(&["x"]))];
        let found = exact(&needs.map(|(name, needs)| (name.to_owned(), needs)).into_iter().collect());
        assert_eq!(found["c"].releases, set(&["a", "b"]));
        assert_eq!(found["x"].releases, set(&["x", "y"]));
    }

    #[test]
    fn a_sequence_may_hold_back_more_than_must_be_but_not_less() {
        let steps = |steps: &[(&str, i64)]| in_steps(&steps.iter().map(|(name, step)| ((*name).to_owned(), *step)).collect());
        let sequence = steps(&[("a", 1), ("b", 2), ("c", 3)]);
        let needs = exact(&[("a", set(&[])), ("b", set(&[])), ("c", set(&["a"]))].map(|(name, needs)| (name.to_owned(), needs)).into());
        let agree_on = |name: &str, first: &BTreeMap<String, After>, second: &BTreeMap<String, After>| {
            agree(name, (&first[name], &by_name(first)), (&second[name], &by_name(second)))
        };
        for name in ["a", "b", "c"] {
            assert!(agree_on(name, &sequence, &needs) && agree_on(name, &needs, &sequence), "{name}");
        }
        let swapped = steps(&[("c", 1), ("b", 2), ("a", 3)]);
        assert!(!agree_on("c", &swapped, &needs), "what it needs comes later");
        assert!(agree_on("b", &swapped, &needs));
        assert!(!agree_on("a", &swapped, &sequence), "two sequences contradict each other");
        let together = steps(&[("a", 1), ("b", 1), ("c", 1)]);
        assert!(agree_on("c", &together, &sequence));
        assert!(!agree_on("c", &together, &needs));
    }
}
