use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use contract::record::{EvictedPod, OBJECTS, RecordedStep, ReplacedPodKind};

/// A node with the longest texts that it can have.
fn longest(index: usize, outcome: Option<NodeOutcome>) -> (String, NodeRecord) {
    let name = format!("{index:0>253}");
    let uid = |kind: &str| format!("{kind:0>8}-0000-4000-8000-{index:0>12}");
    let replacement = PluginReplacement {
        plugin: ReplacedPodKind::Dra,
        pod: format!("plugin-{index:0>240}"),
        daemon_set: uid("set"),
        under: format!("{}/0+{}/0", uid("driver"), uid("toolkit")),
        cause: "x".repeat(2000),
        at: Timestamp::UNIX_EPOCH,
        back_at: None,
    };
    let step = RecordedStep {
        state: "pod-restart-required".into(),
        at: Timestamp::UNIX_EPOCH,
        or_earlier: true,
    };
    let record = NodeRecord {
        uid: uid("node"),
        outcome,
        reason: Some(format!("DriverNotReady: {}", "y".repeat(4000)).into()),
        since: Some(Timestamp::UNIX_EPOCH),
        steps: vec![step; 4],
        acceptance: Vec::new(),
        evicted: vec![EvictedPod { pod: "z".repeat(300), at: Timestamp::UNIX_EPOCH }; 4],
        replaced: BTreeMap::from([(uid("pod"), replacement)]),
        refused: None,
    };
    (name, record)
}

fn owned(objects: Vec<BTreeMap<String, Cow<'_, str>>>) -> Vec<ConfigMapData> {
    objects
        .into_iter()
        .map(|object| object.into_iter().map(|(key, text)| (key, text.into_owned())).collect())
        .collect()
}

fn store(
    nodes: &Named<NodeRecord>,
    stored: &[ConfigMapData],
    detail: EntryDetail,
    changed: &BTreeSet<&str>,
) -> Option<(Vec<ConfigMapData>, EntryDetail)> {
    let contents =
        RecordContents { fixed: vec![(0, "run".into(), "{}".into())], nodes, changed, detail };
    lay_out(&contents, stored).map(|(objects, detail)| (owned(objects), detail))
}

/// Combines the objects as a reader does.
fn read(objects: &[ConfigMapData]) -> BTreeMap<String, NodeRecord> {
    objects.iter().flatten().filter_map(|(key, text)| parse(key, text)).collect()
}

fn names(nodes: &Named<NodeRecord>) -> BTreeSet<&str> {
    nodes.keys().map(|name| &**name).collect()
}

fn assert_within_limits(objects: &[ConfigMapData]) {
    for data in objects {
        let size: usize = data.iter().map(|(key, text)| key.len() + text.len()).sum();
        assert!(size <= LARGEST_BYTES + 64, "{size}");
        assert!(data.keys().all(|key| key.len() <= LONGEST_KEY));
    }
}

#[test]
fn ten_thousand_unfinished_nodes_fit() {
    let mut nodes = Named::new();
    for index in 0..10_000 {
        let (name, record) = longest(index, None);
        nodes.insert(name.as_str(), record);
    }
    let (objects, detail) =
        store(&nodes, &vec![ConfigMapData::new(); OBJECTS], EntryDetail::Full, &names(&nodes))
            .expect("room");
    assert_within_limits(&objects);
    assert!(detail > EntryDetail::Full);
    let found = read(&objects);
    assert_eq!(found.len(), 10_000);
    for (name, record) in &nodes {
        let needed = |record: &NodeRecord| {
            let replaced = |(uid, one): (&String, &PluginReplacement)| {
                (uid.clone(), one.daemon_set.clone(), one.under.clone(), one.at, one.back_at)
            };
            (
                record.uid.clone(),
                record.outcome,
                record.replaced.iter().map(replaced).collect::<Vec<_>>(),
            )
        };
        assert_eq!(needed(&found[&**name]), needed(record));
    }
}

#[test]
fn waiting_nodes_without_replacement_never_fill_the_record() {
    let mut nodes = Named::new();
    for index in 0..30_000 {
        let (name, record) = longest(index, None);
        nodes.insert(name.as_str(), NodeRecord { replaced: BTreeMap::new(), ..record });
    }
    let (objects, _) =
        store(&nodes, &vec![ConfigMapData::new(); OBJECTS], EntryDetail::Full, &names(&nodes))
            .expect("room");
    assert_within_limits(&objects);
}

#[test]
fn record_without_room_for_vital_data_is_refused() {
    let mut nodes = Named::new();
    for index in 0..10_000 {
        let (name, record) = longest(index, None);
        nodes.insert(name.as_str(), record);
    }
    assert!(store(&nodes, &[ConfigMapData::new()], EntryDetail::Full, &names(&nodes)).is_none());
}

#[test]
fn reports_of_done_nodes_are_shortened_first() {
    let mut nodes = Named::new();
    let mut done = longest(1, Some(NodeOutcome::Done)).1;
    done.replaced.values_mut().for_each(|one| one.back_at = Some(Timestamp::UNIX_EPOCH));
    for index in 0..95 {
        nodes.insert(format!("done-{index}").as_str(), done.clone());
    }
    nodes.insert("open", longest(2, None).1);
    let (objects, detail) =
        store(&nodes, &[ConfigMapData::new()], EntryDetail::Full, &names(&nodes)).expect("room");
    assert_eq!(detail, EntryDetail::ShortDone);
    let found = read(&objects);
    assert_eq!(found["open"], nodes["open"]);
    assert!(found["done-0"].evicted.is_empty());
}

/// A process that ended between the two objects of a move leaves the entry in both.
#[test]
fn entry_that_grows_moves_to_a_later_object() {
    let mut nodes = Named::new();
    for index in 0..50 {
        nodes.insert(format!("node-{index}").as_str(), longest(index, None).1);
    }
    let (before, _) =
        store(&nodes, &vec![ConfigMapData::new(); 3], EntryDetail::Full, &names(&nodes))
            .expect("room");
    for index in 0..50 {
        let mut grown = longest(index, None).1;
        grown.reason = Some("x".repeat(20_000).into());
        nodes.insert(format!("node-{index}").as_str(), grown);
    }
    let (after, _) = store(&nodes, &before, EntryDetail::Full, &names(&nodes)).expect("room");
    assert!(after[1].len() > before[1].len());
    assert_eq!(read(&after).len(), 50);
    // The later objects are written first: after any number of writes, each entry exists, and the
    // newest applies.
    for written in 0..=after.len() {
        let half: Vec<ConfigMapData> = after
            .iter()
            .zip(&before)
            .enumerate()
            .map(|(index, (new, old))| {
                if index + written >= after.len() { new } else { old }.clone()
            })
            .collect();
        let found = read(&half);
        assert_eq!(found.len(), 50, "{written} written");
        for (key, text) in &after[1] {
            if let Some((name, record)) = parse(key, text).filter(|_| written >= 2) {
                assert_eq!(found[&name], record);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Stored and changed records read back, and what has not changed is not written again.
    #[test]
    fn stored_record_reads_back(
        first in proptest::collection::btree_map("[a-z0-9.-]{1,253}", 0_usize..40_000, 1..40),
        second in proptest::collection::btree_map("[a-z0-9.-]{1,253}", 0_usize..40_000, 1..40),
    ) {
        let mut stored = vec![ConfigMapData::new(); 6];
        let mut before: Named<NodeRecord> = Named::new();
        for lengths in [&first, &second, &second] {
            let mut nodes = Named::new();
            for (name, length) in first.iter().filter(|(name, _)| name.len() % 2 == 0).chain(lengths) {
                nodes.insert(name.as_str(), NodeRecord { uid: "u".into(), reason: Some("r".repeat(*length).into()), ..NodeRecord::default() });
            }
            let changed = before.differing(&nodes).into_iter().map(|name| &**name).collect();
            let (objects, detail) = store(&nodes, &stored, EntryDetail::Full, &changed).expect("room");
            prop_assert_eq!(detail, EntryDetail::Full);
            assert_within_limits(&objects);
            let found = read(&objects);
            prop_assert_eq!(found.len(), nodes.len());
            for (name, record) in &nodes {
                prop_assert_eq!(&found[&**name], record);
            }
            // Entries keep their object unless they must move.
            for (index, data) in stored.iter().enumerate() {
                for key in data.keys().filter(|key| is_node_key(key)) {
                    let place = objects.iter().rposition(|object| object.contains_key(key));
                    prop_assert!(place.is_none_or(|place| place >= index));
                }
            }
            stored = objects;
            before = nodes;
        }
    }
}
