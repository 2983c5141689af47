//! Distributes a run record over its ConfigMaps: each node's entry is in one of them, and each
//! ConfigMap stays below its size limit. Entries that do not fit are shortened, first by what only
//! reports need. What must survive the process is never dropped.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use contract::record::{
    HASHED_KEY_PREFIX, NODE_KEY_PREFIX, NodeOutcome, NodeRecord, OBJECTS_KEY, PluginReplacement,
};
use observed::named::Named;

/// The data of one ConfigMap.
pub(super) type ConfigMapData = BTreeMap<String, String>;

/// The maximum size of the keys and values of one ConfigMap, in bytes. The API server allows 1 MiB
/// of values, and etcd 1.5 MiB for the whole object, which contains every key twice
/// (`managedFields`).
pub(super) const LARGEST_BYTES: usize = 700 * 1024;
/// The maximum length of a data key of a ConfigMap.
const LONGEST_KEY: usize = 253;
/// The maximum length of a free text in a shortened entry.
const SHORT_TEXT: usize = 160;

/// How much of the entries is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryDetail {
    /// Everything.
    #[default]
    Full,
    /// For done nodes, everything except what only reports need.
    ShortDone,
    /// For all nodes, everything except what only reports need, with short reasons.
    Short,
    /// Nothing for done nodes; for the others what must survive, and the kind of reason.
    Brief,
    /// Only what must survive.
    Needed,
}

impl EntryDetail {
    const ALL: [Self; 5] = [Self::Full, Self::ShortDone, Self::Short, Self::Brief, Self::Needed];
}

/// One node's entry as it is stored.
#[derive(Serialize)]
struct NodeEntryTexts<'a> {
    /// The node's name, if it does not fit into the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(flatten)]
    record: &'a NodeRecord,
}

#[derive(Deserialize)]
struct StoredEntry {
    #[serde(default)]
    node: Option<String>,
    #[serde(flatten)]
    record: NodeRecord,
}

/// The index of an object, a key that can be in no other object, and its text.
pub(super) type FixedKey = (usize, String, String);

/// The content of a record.
pub(super) struct RecordContents<'a> {
    /// Keys with a fixed object: the run, and the parts of the cohort and the baseline.
    pub(super) fixed: Vec<FixedKey>,
    /// The nodes.
    pub(super) nodes: &'a Named<NodeRecord>,
    /// Nodes that have changed since their entries were written at `detail`. In a large fleet,
    /// nearly all nodes are unchanged.
    pub(super) changed: &'a BTreeSet<&'a str>,
    /// How much of the entries was stored.
    pub(super) detail: EntryDetail,
}

/// The new content of one ConfigMap, by key.
pub(super) type ConfigMapTexts<'a> = BTreeMap<String, Cow<'a, str>>;

/// Distributes the content over at most `stored.len()` objects. Entries keep their object. An entry
/// that must move goes to a later object, which is written first, so that a reader that finds two
/// entries uses the later one. Returns `None` if there is no room for what must survive.
pub(super) fn lay_out<'a>(
    contents: &RecordContents<'_>,
    stored: &'a [ConfigMapData],
) -> Option<(Vec<ConfigMapTexts<'a>>, EntryDetail)> {
    let places = places(stored);
    let mut details = EntryDetail::ALL.into_iter().filter(|detail| *detail >= contents.detail);
    details.find_map(|detail| Some((at_detail(contents, stored, &places, detail)?, detail)))
}

/// Returns the object of each node key; the last one if there are two.
fn places(stored: &[ConfigMapData]) -> BTreeMap<&str, usize> {
    let mut places = BTreeMap::new();
    for (index, data) in stored.iter().enumerate() {
        places.extend(data.keys().filter(|key| is_node_key(key)).map(|key| (key.as_str(), index)));
    }
    places
}

fn at_detail<'a>(
    contents: &RecordContents<'_>,
    stored: &'a [ConfigMapData],
    places: &BTreeMap<&str, usize>,
    detail: EntryDetail,
) -> Option<Vec<ConfigMapTexts<'a>>> {
    let mut objects: Vec<ConfigMapTexts<'a>> = vec![BTreeMap::new(); stored.len()];
    let mut sizes = vec![0_usize; stored.len()];
    for (index, key, text) in &contents.fixed {
        *sizes.get_mut(*index)? += key.len() + text.len();
        objects[*index].insert(key.clone(), Cow::Owned(text.clone()));
    }
    let mut homeless: Vec<(usize, String, Cow<'a, str>)> = Vec::new();
    let mut total: usize = sizes.iter().sum();
    for (name, record) in contents.nodes {
        let key = key_of(name);
        let place = places.get(key.as_str()).copied();
        let same =
            place.filter(|_| detail == contents.detail && !contents.changed.contains(&**name));
        let text = match same.and_then(|place| stored[place].get(&key)) {
            Some(text) => Cow::Borrowed(text.as_str()),
            None => match entry(name, record, detail) {
                Some(text) => Cow::Owned(text),
                None => continue,
            },
        };
        let size = key.len() + text.len();
        total += size;
        if total > LARGEST_BYTES * stored.len() {
            return None;
        }
        match place {
            Some(place) if sizes[place] + size <= LARGEST_BYTES => {
                sizes[place] += size;
                objects[place].insert(key, text);
            }
            place => homeless.push((place.map_or(0, |place| place + 1), key, text)),
        }
    }
    for (from, key, text) in homeless {
        let size = key.len() + text.len();
        let place = (from..objects.len()).find(|place| sizes[*place] + size <= LARGEST_BYTES)?;
        sizes[place] += size;
        objects[place].insert(key, text);
    }
    let used = objects.iter().rposition(|object| !object.is_empty()).map_or(1, |last| last + 1);
    if used > 1 {
        objects[0].insert(OBJECTS_KEY.to_owned(), Cow::Owned(used.to_string()));
    }
    Some(objects)
}

/// Returns whether the key is a node's.
pub(super) fn is_node_key(key: &str) -> bool {
    key.starts_with(NODE_KEY_PREFIX) || key.starts_with(HASHED_KEY_PREFIX)
}

/// Returns whether the key of a node contains a hash instead of its name.
pub(super) fn is_hashed(key: &str) -> bool {
    key.starts_with(HASHED_KEY_PREFIX)
}

/// Returns the data key of a node. A name may be as long as a whole key, so long names are hashed,
/// and the entry contains the name.
pub(super) fn key_of(node: &str) -> String {
    if node.len() + NODE_KEY_PREFIX.len() <= LONGEST_KEY {
        return format!("{NODE_KEY_PREFIX}{node}");
    }
    let digest = Sha256::digest(node.as_bytes());
    digest
        .iter()
        .take(20)
        .fold(HASHED_KEY_PREFIX.to_owned(), |key, byte| format!("{key}{byte:02x}"))
}

/// Returns the text of an entry, or `None` if nothing is stored for the node.
pub(super) fn entry(name: &str, record: &NodeRecord, detail: EntryDetail) -> Option<String> {
    let record = shortened(record, detail)?;
    let node = (name.len() + NODE_KEY_PREFIX.len() > LONGEST_KEY).then_some(name);
    // This cannot fail: all map keys of the type are strings, and no Serialize implementation
    // fails.
    Some(serde_json::to_string(&NodeEntryTexts { node, record: &record }).unwrap_or_default())
}

/// Parses the entry of a node. Returns `None` if the key is not a node's, or the entry cannot be
/// parsed.
pub(super) fn parse(key: &str, text: &str) -> Option<(String, NodeRecord)> {
    if !is_node_key(key) {
        return None;
    }
    let StoredEntry { node, record } = serde_json::from_str(text).ok()?;
    let name = node.or_else(|| key.strip_prefix(NODE_KEY_PREFIX).map(str::to_owned))?;
    Some((name, record))
}

/// Returns the part of a node's record that is stored.
fn shortened(record: &NodeRecord, detail: EntryDetail) -> Option<Cow<'_, NodeRecord>> {
    let is_over = matches!(record.outcome, Some(NodeOutcome::Done | NodeOutcome::Gone))
        && record.replaced.values().all(|one| one.back_at.is_some());
    match detail {
        EntryDetail::Full => Some(Cow::Borrowed(record)),
        EntryDetail::ShortDone if !is_over => Some(Cow::Borrowed(record)),
        EntryDetail::ShortDone => Some(Cow::Owned(NodeRecord {
            steps: Vec::new(),
            evicted: Vec::new(),
            ..record.clone()
        })),
        EntryDetail::Short => Some(Cow::Owned(NodeRecord {
            steps: Vec::new(),
            evicted: Vec::new(),
            reason: record
                .reason
                .as_ref()
                .map(|reason| cut(&reason.to_string(), SHORT_TEXT).into()),
            replaced: replaced(record, |one| PluginReplacement {
                cause: cut(&one.cause, SHORT_TEXT),
                ..one.clone()
            }),
            ..record.clone()
        })),
        EntryDetail::Brief | EntryDetail::Needed
            if is_over
                || detail == EntryDetail::Needed
                    && record.replaced.is_empty()
                    && record.refused.is_none() =>
        {
            None
        }
        EntryDetail::Brief | EntryDetail::Needed => Some(Cow::Owned(NodeRecord {
            uid: record.uid.clone(),
            outcome: record.outcome,
            reason: record.reason.as_ref().map(|reason| cut(&reason.name, SHORT_TEXT).into()),
            since: record.since,
            replaced: replaced(record, |one| PluginReplacement {
                pod: String::new(),
                cause: String::new(),
                ..one.clone()
            }),
            ..NodeRecord::default()
        })),
    }
}

fn replaced(
    record: &NodeRecord,
    change: impl Fn(&PluginReplacement) -> PluginReplacement,
) -> BTreeMap<String, PluginReplacement> {
    record.replaced.iter().map(|(uid, one)| (uid.clone(), change(one))).collect()
}

/// Returns the start of a text, cut between characters.
fn cut(text: &str, bytes: usize) -> String {
    let end = text
        .char_indices()
        .map(|(index, character)| index + character.len_utf8())
        .take_while(|end| *end <= bytes)
        .last();
    text[..end.unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests;
