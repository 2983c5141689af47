use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[test]
fn change_in_one_clone_leaves_the_other() {
    let mut named: Named<String> = [("n", "a".to_owned())].into();
    let before = named.clone();
    assert!(std::ptr::eq(&raw const before["n"], &raw const named["n"]), "one value, held twice");
    let again = ["b", "a", "c"].map(|value| ("n", value.to_owned()));
    assert_eq!(*Named::from(again)["n"], *"c", "the last value of a name counts");
    named.get_mut("n").expect("it is there").push('x');
    assert_eq!((named["n"].as_str(), before["n"].as_str()), ("ax", "a"));
}

#[test]
fn starts_are_ordered_like_their_names() {
    let long = "gpu-node-00000012";
    let names = ["", "\0", "a", "a\0", "ab", "b", &long[..15], &long[..16], "z"];
    let starts = names.map(start_of);
    assert!(names.is_sorted() && starts.is_sorted(), "{starts:x?}");
    assert!(start_of(&long[..15]) < start_of(&long[..16]));
    assert_eq!((start_of(long), starts[0]), (start_of(&long[..16]), 0));
}

/// A change of both the map and the `BTreeMap` that it is compared with.
#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u8),
    Remove(u16),
    Change(u16),
    Keep(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..400_u16;
    prop_oneof![
        8 => (name.clone(), any::<u8>()).prop_map(|(name, value)| Step::Insert(name, value)),
        3 => name.clone().prop_map(Step::Remove),
        2 => name.prop_map(Step::Change),
        1 => any::<u8>().prop_map(Step::Keep),
    ]
}

/// Returns a name; half of them have the same start.
fn name(number: u16) -> String {
    let pool = if number.is_multiple_of(2) { "" } else { "a-pool-with-a-long-name-" };
    format!("{pool}{number:03}")
}

fn done(steps: &[Step], named: &mut Named<u8>, known: &mut BTreeMap<String, u8>) {
    for step in steps {
        match step {
            Step::Insert(name, value) => {
                named.insert(self::name(*name), *value);
                known.insert(self::name(*name), *value);
            }
            Step::Remove(name) => {
                let name = self::name(*name);
                assert_eq!(named.remove(&name), known.remove(&name).is_some());
            }
            Step::Change(name) => {
                let name = self::name(*name);
                assert_eq!(
                    named.get_mut(&name).map(|value| *value = value.wrapping_add(1)).is_some(),
                    known.contains_key(&name)
                );
                known.entry(name).and_modify(|value| *value = value.wrapping_add(1));
            }
            Step::Keep(of) => {
                named.retain(|_, value| value % 8 != of % 8);
                known.retain(|_, value| *value % 8 != of % 8);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn map_behaves_like_std_and_finds_differences(
        first in proptest::collection::vec(step(), 0..500),
        second in proptest::collection::vec(step(), 0..20),
    ) {
        let (mut named, mut known) = (Named::default(), BTreeMap::new());
        done(&first, &mut named, &mut known);
        let (before, known_before) = (named.clone(), known.clone());
        done(&second, &mut named, &mut known);
        for (named, known) in [(&named, &known), (&before, &known_before)] {
            let entries: Vec<(&str, u8)> = named.iter().map(|(name, value)| (&**name, *value)).collect();
            let expected: Vec<(&str, u8)> = known.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            prop_assert_eq!(&entries, &expected);
            prop_assert_eq!(named.len(), known.len());
            prop_assert!(expected.iter().all(|(name, value)| named.get(name) == Some(value)));
            prop_assert!(named.get("200x").is_none());
        }
        let names = known.keys().chain(known_before.keys()).collect::<std::collections::BTreeSet<_>>();
        let expected: Vec<&str> = names.into_iter().filter(|name| known.get(*name) != known_before.get(*name)).map(String::as_str).collect();
        let found: Vec<&str> = named.differing(&before).into_iter().map(|name| &**name).collect();
        prop_assert_eq!(&found, &expected);
        let rebuilt: Named<u8> = known.into_iter().collect();
        prop_assert!(named == rebuilt, "equal content is equal, however it was built");
        let inserted = || first.iter().filter_map(|step| match step {
            Step::Insert(number, value) => Some((name(number % 40), *value)),
            Step::Remove(_) | Step::Change(_) | Step::Keep(_) => None,
        });
        let collected: Named<u8> = inserted().collect();
        let expected: Named<u8> = inserted().collect::<BTreeMap<_, _>>().into_iter().collect();
        prop_assert!(collected == expected, "the last value of a name counts");
    }
}
