//! The changes of a run record that turn its stored ConfigMaps into the wanted ones.

use std::borrow::Cow;
use std::collections::BTreeMap;

use contract::record::{HASHED_KEY_PREFIX, OBJECTS_KEY};

use super::layout::{
    ConfigMapData, LARGEST_BYTES, RecordContents, entry, is_hashed, is_node_key, key_of,
};

/// The changes of one ConfigMap by key. `None`: the key is removed.
pub(super) type ConfigMapChanges = BTreeMap<String, Option<String>>;

/// Returns the changes if every entry can stay in its object. They are those of
/// [`lay_out`](super::layout::lay_out), but of unchanged entries, only the lengths are added up: in a
/// large fleet, few nodes change at a time. `stored`: the objects as the last layout left them.
/// Returns `None` if an entry must move, or there is no room.
pub(super) fn in_place(
    contents: &RecordContents<'_>,
    stored: &[ConfigMapData],
) -> Option<Vec<ConfigMapChanges>> {
    let mut changes = vec![ConfigMapChanges::new(); stored.len()];
    let mut sizes: Vec<usize> = stored.iter().map(size_of_nodes).collect();
    for (index, key, text) in &contents.fixed {
        *sizes.get_mut(*index)? += key.len() + text.len();
        if stored[*index].get(key) != Some(text) {
            changes[*index].insert(key.clone(), Some(text.clone()));
        }
    }
    for (index, data) in stored.iter().enumerate() {
        let is_wanted = |key: &str| {
            key == OBJECTS_KEY
                || contents.fixed.iter().any(|(at, one, _)| *at == index && one == key)
        };
        let removed = data.keys().filter(|key| !is_node_key(key) && !is_wanted(key));
        changes[index].extend(removed.map(|key| (key.clone(), None)));
    }
    let mut new = Vec::new();
    for name in contents.changed {
        let key = key_of(name);
        let text = contents.nodes.get(name).and_then(|record| entry(name, record, contents.detail));
        let Some(place) = stored.iter().rposition(|data| data.contains_key(&key)) else {
            new.extend(text.map(|text| (key, text)));
            continue;
        };
        let before = &stored[place][&key];
        sizes[place] -= key.len() + before.len();
        sizes[place] += text.as_ref().map_or(0, |text| key.len() + text.len());
        if text.as_ref() != Some(before) {
            changes[place].insert(key, text);
        }
    }
    if sizes.iter().any(|size| *size > LARGEST_BYTES) {
        return None;
    }
    for (key, text) in new {
        let size = key.len() + text.len();
        let place = sizes.iter().position(|used| used + size <= LARGEST_BYTES)?;
        sizes[place] += size;
        changes[place].insert(key, Some(text));
    }
    let used = sizes.iter().rposition(|size| *size > 0).map_or(1, |last| last + 1);
    let used = (used > 1).then(|| used.to_string());
    if stored[0].get(OBJECTS_KEY) != used.as_ref() {
        changes[0].insert(OBJECTS_KEY.to_owned(), used);
    }
    Some(changes)
}

fn size_of_nodes(data: &ConfigMapData) -> usize {
    data.iter().filter(|(key, _)| is_node_key(key)).map(|(key, text)| key.len() + text.len()).sum()
}

/// Returns the changes that turn the stored data into the wanted.
pub(super) fn differences(
    wanted: &BTreeMap<String, Cow<'_, str>>,
    stored: &ConfigMapData,
) -> ConfigMapChanges {
    let is_new = |(key, text): &(&String, &Cow<'_, str>)| {
        stored.get(*key).map(String::as_str) != Some(text.as_ref())
    };
    let new = wanted
        .iter()
        .filter(is_new)
        .map(|(key, text)| (key.clone(), Some(text.as_ref().to_owned())));
    new.chain(stored.keys().filter(|key| !wanted.contains_key(*key)).map(|key| (key.clone(), None)))
        .collect()
}

/// Returns whether the changed record needs the newer format: version 1 has one object, and names of
/// nodes as keys.
pub(super) fn needs_newer_format(changes: &[ConfigMapChanges], stored: &[ConfigMapData]) -> bool {
    let is_used = |changes: &ConfigMapChanges, data: &ConfigMapData| {
        changes.values().any(Option::is_some)
            || data.keys().any(|key| changes.get(key) != Some(&None))
    };
    let has_hashed = |changes: &ConfigMapChanges, data: &ConfigMapData| {
        changes.iter().any(|(key, text)| is_hashed(key) && text.is_some())
            || data
                .range(HASHED_KEY_PREFIX.to_owned()..)
                .map(|(key, _)| key)
                .take_while(|key| is_hashed(key))
                .any(|key| changes.get(key) != Some(&None))
    };
    let further = changes.iter().zip(stored).skip(1).any(|(changes, data)| is_used(changes, data));
    further || has_hashed(&changes[0], &stored[0])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use contract::record::NodeRecord;
    use observed::named::Named;
    use proptest::prelude::*;

    use super::super::layout::{EntryDetail, lay_out};
    use super::*;

    /// Nodes, each with the length of its reason.
    fn nodes(lengths: &[usize]) -> Named<NodeRecord> {
        let mut nodes = Named::new();
        for (index, length) in lengths.iter().enumerate() {
            let is_hashed = index % 5 == 4;
            let name = if is_hashed { format!("{index:0>252}") } else { format!("gpu-{index}") };
            let reason = Some("r".repeat(*length).into());
            nodes.insert(name.as_str(), NodeRecord { reason, ..NodeRecord::default() });
        }
        nodes
    }

    fn apply(changes: &[ConfigMapChanges], stored: &mut [ConfigMapData]) {
        for (changes, data) in changes.iter().zip(stored) {
            for (key, text) in changes {
                match text {
                    Some(text) => drop(data.insert(key.clone(), text.clone())),
                    None => drop(data.remove(key)),
                }
            }
        }
    }

    #[test]
    fn entry_that_stays_changes_alone() {
        let (before, after) = (nodes(&[5, 5, 5]), nodes(&[5, 6]));
        let change = |nodes: &Named<NodeRecord>, changed: &[&str], stored: &[ConfigMapData]| {
            let changed: BTreeSet<&str> = changed.iter().copied().collect();
            let fixed = vec![(0, "run".to_owned(), "{}".to_owned())];
            let detail = EntryDetail::Full;
            in_place(&RecordContents { fixed, nodes, changed: &changed, detail }, stored)
        };
        let mut stored = vec![ConfigMapData::new(); 3];
        let changes = change(&before, &["gpu-0", "gpu-1", "gpu-2"], &stored).expect("room");
        apply(&changes, &mut stored);
        let changes = change(&after, &["gpu-1", "gpu-2"], &stored).expect("room");
        let keys: Vec<(&str, bool)> =
            changes[0].iter().map(|(key, text)| (key.as_str(), text.is_some())).collect();
        assert_eq!(keys, [("node.gpu-1", true), ("node.gpu-2", false)]);
        assert!(changes[1..].iter().all(BTreeMap::is_empty));
    }

    /// One version of a record: the length of the reason of each of some nodes, and the number of
    /// parts of the cohort.
    fn version() -> impl Strategy<Value = (Vec<usize>, usize)> {
        (proptest::collection::vec(0_usize..60_000, 0..60), 0_usize..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// If no entry must move, the changes are those of a new layout.
        #[test]
        fn changes_in_place_are_those_of_a_layout(
            versions in proptest::collection::vec(version(), 2..6),
        ) {
            let mut stored = vec![ConfigMapData::new(); 4];
            let mut before = Named::new();
            for (lengths, parts) in &versions {
                let nodes = nodes(lengths);
                let changed = before.differing(&nodes).into_iter().map(|name| &**name).collect();
                let run = (0, "run".to_owned(), "{}".to_owned());
                let part = |index: usize| (index, format!("cohort.{index}"), "c".repeat(16_000));
                let contents = RecordContents {
                    fixed: (0..*parts).map(part).chain([run]).collect(),
                    nodes: &nodes,
                    changed: &changed,
                    detail: EntryDetail::Full,
                };
                let (wanted, _) = lay_out(&contents, &stored).expect("room");
                let whole: Vec<ConfigMapChanges> = wanted
                    .iter()
                    .zip(&stored)
                    .map(|(wanted, stored)| differences(wanted, stored))
                    .collect();
                drop(wanted);
                if let Some(changes) = in_place(&contents, &stored) {
                    prop_assert_eq!(&changes, &whole);
                }
                apply(&whole, &mut stored);
                before = nodes;
            }
        }
    }
}
