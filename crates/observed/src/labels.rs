//! Labels, annotations and selectors: a small map that saves memory if many objects have nearly the
//! same entries. Clones share it, and maps can share entries: 10,000 nodes have some 80 labels
//! each, of which few differ.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Index;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};

use contract::selector::Labeled;

use super::hash::hash;
use super::text::is_same_text;

/// What the value of a label or an annotation can mean.
pub trait ParsedValue: Any + Clone + Send + Sync {
    /// Parses a value.
    fn parse(text: &str) -> Self;
}

/// One entry of [`Labels`].
pub struct Label {
    key: String,
    value: String,
    /// What the value means: see [`Label::parsed`].
    parsed: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Label {
    fn new(key: String, value: String) -> Self {
        Self { key, value, parsed: OnceLock::new() }
    }

    /// Returns what the value means. Parses it once for all who share the entry, because every
    /// decision reads the same few again.
    pub fn parsed<T: ParsedValue>(&self) -> T {
        let kept = self.parsed.get_or_init(|| Box::new(T::parse(&self.value)));
        // Another reader may have kept another type.
        kept.downcast_ref().cloned().unwrap_or_else(|| T::parse(&self.value))
    }

    /// Returns its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns its value.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Label").field(&self.key).field(&self.value).finish()
    }
}

impl PartialEq for Label {
    fn eq(&self, other: &Self) -> bool {
        (&self.key, &self.value) == (&other.key, &other.value)
    }
}

impl Eq for Label {}

impl Hash for Label {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.key, &self.value).hash(state);
    }
}

/// A map from keys to values, in the order of its keys.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    entries: Arc<[LabelSlot]>,
}

/// An entry with the hash of its key. Public, because it is in the type of the iterator.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LabelSlot {
    /// A lookup compares these, because a binary search would follow the pointers to half a dozen
    /// entries and their keys.
    hash: u64,
    label: Arc<Label>,
}

impl LabelSlot {
    fn new(key: String, value: String) -> Self {
        Self { hash: hash(&key), label: Arc::new(Label::new(key, value)) }
    }
}

/// The entries of [`Labels`], by key.
type LabelsIter<'a> =
    std::iter::Map<std::slice::Iter<'a, LabelSlot>, fn(&'a LabelSlot) -> (&'a String, &'a String)>;

impl Labels {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    fn place(&self, key: &str) -> Option<usize> {
        let hash = hash(key);
        self.entries.iter().position(|slot| slot.hash == hash && is_same_text(&slot.label.key, key))
    }

    /// Returns the value of a key.
    pub fn get<Key: AsRef<str> + ?Sized>(&self, key: &Key) -> Option<&String> {
        self.entry(key.as_ref()).map(|label| &label.value)
    }

    /// Returns the entry of a key.
    pub fn entry(&self, key: &str) -> Option<&Label> {
        self.place(key).map(|place| &*self.entries[place].label)
    }

    /// Returns the value of a key as text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }

    /// Iterates over the entries whose keys start with `prefix`, in the order of the keys.
    pub fn starting_with<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let start = self.entries.partition_point(|slot| slot.label.key.as_str() < prefix);
        self.entries[start..]
            .iter()
            .map(|LabelSlot { label, .. }| (label.key.as_str(), label.value.as_str()))
            .take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Returns whether the key has this value.
    pub fn has(&self, key: &str, value: &str) -> bool {
        self.text(key) == Some(value)
    }

    /// Returns whether the map has this key.
    pub fn contains_key<Key: AsRef<str> + ?Sized>(&self, key: &Key) -> bool {
        self.place(key.as_ref()).is_some()
    }

    /// Iterates over keys and values, in the order of the keys.
    pub fn iter(&self) -> LabelsIter<'_> {
        self.entries.iter().map(|LabelSlot { label, .. }| (&label.key, &label.value))
    }

    /// Iterates over the keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets a value and returns the previous one.
    pub fn insert(&mut self, key: String, value: String) -> Option<String> {
        let mut entries = self.entries.to_vec();
        let (place, slot) = (self.place(&key), LabelSlot::new(key, value));
        let before = if let Some(place) = place {
            Some(std::mem::replace(&mut entries[place], slot).label.value.clone())
        } else {
            let place = entries.partition_point(|other| other.label.key < slot.label.key);
            entries.insert(place, slot);
            None
        };
        self.entries = entries.into();
        before
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        let place = self.place(key)?;
        let mut entries = self.entries.to_vec();
        let before = entries.remove(place);
        self.entries = entries.into();
        Some(before.label.value.clone())
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the same map with each entry replaced by the result of `shared`: an equal entry that
    /// other maps share.
    #[must_use]
    pub fn shared(&self, mut shared: impl FnMut(&Arc<Label>) -> Arc<Label>) -> Self {
        let shared =
            |LabelSlot { hash, label }: &LabelSlot| LabelSlot { hash: *hash, label: shared(label) };
        Self { entries: self.entries.iter().map(shared).collect() }
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        // Through a map, so that the last of several values of one key is kept.
        pairs.into_iter().collect::<BTreeMap<String, String>>().into()
    }
}

impl From<BTreeMap<String, String>> for Labels {
    fn from(pairs: BTreeMap<String, String>) -> Self {
        Self { entries: pairs.into_iter().map(|(key, value)| LabelSlot::new(key, value)).collect() }
    }
}

impl<const N: usize> From<[(String, String); N]> for Labels {
    fn from(pairs: [(String, String); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl Labeled for Labels {
    fn label(&self, key: &str) -> Option<&str> {
        self.text(key)
    }
}

impl Extend<(String, String)> for Labels {
    fn extend<I: IntoIterator<Item = (String, String)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            self.insert(key, value);
        }
    }
}

impl<'a> IntoIterator for &'a Labels {
    type IntoIter = LabelsIter<'a>;
    type Item = (&'a String, &'a String);

    fn into_iter(self) -> LabelsIter<'a> {
        self.iter()
    }
}

impl Index<&str> for Labels {
    type Output = String;

    /// Returns the value of a key that exists.
    ///
    /// # Panics
    /// The key does not exist.
    fn index(&self, key: &str) -> &String {
        self.get(key).expect("an existing key; `get` accepts others")
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self).finish()
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

/// Returns whether the labels have every entry of a selector such as the `nodeSelector` of a
/// DaemonSet.
pub fn selects(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_a_map_ordered_by_key() {
        let pairs = [("b", "2"), ("a", "1"), ("c", "3"), ("b", "4")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut labels = Labels::from(pairs);
        assert_eq!(format!("{labels:?}"), r#"{"a": "1", "b": "4", "c": "3"}"#);
        assert_eq!(
            (labels.len(), labels.get("b").map(String::as_str), labels.get("x")),
            (3, Some("4"), None)
        );
        let found: Vec<_> = labels.starting_with("b").collect();
        assert_eq!((found, labels.starting_with("x").count()), (vec![("b", "4")], 0));
        let before = labels.clone();
        assert_eq!(labels.insert("aa".into(), "5".into()), None);
        assert_eq!(labels.insert("c".into(), "6".into()).as_deref(), Some("3"));
        assert_eq!(labels.remove("a").as_deref(), Some("1"));
        assert_eq!(labels.remove("a"), None);
        assert_eq!(labels.keys().map(String::as_str).collect::<Vec<_>>(), ["aa", "b", "c"]);
        assert_eq!(before.len(), 3, "a clone keeps what it had");
        assert_eq!(serde_json::to_string(&labels).expect("a map"), r#"{"aa":"5","b":"4","c":"6"}"#);
        labels.clear();
        assert!(labels.is_empty() && !labels.contains_key("b"));
    }

    /// The length of a value, which counts how often it is parsed.
    #[derive(Clone)]
    struct CountedLength(usize);

    thread_local! {
        static PARSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    impl ParsedValue for CountedLength {
        fn parse(text: &str) -> Self {
            PARSED.set(PARSED.get() + 1);
            Self(text.len())
        }
    }

    impl ParsedValue for String {
        fn parse(text: &str) -> Self {
            text.to_owned()
        }
    }

    #[test]
    fn value_is_parsed_once_for_all_who_share_it() {
        let parsed = |labels: &Labels| labels.entry("a").map(|one| one.parsed::<CountedLength>().0);
        let mut labels = Labels::from([("a".to_owned(), "xyz".to_owned())]);
        let clone = labels.clone();
        assert_eq!((parsed(&labels), parsed(&clone), PARSED.get()), (Some(3), Some(3), 1));
        labels.insert("b".into(), "1".into());
        assert_eq!((parsed(&labels), PARSED.get()), (Some(3), 1));
        labels.insert("a".into(), "wxyz".into());
        assert_eq!((parsed(&labels), parsed(&clone), PARSED.get()), (Some(4), Some(3), 2));
        let other = clone.entry("a").map(Label::parsed::<String>);
        assert_eq!(other.as_deref(), Some("xyz"), "another type is not kept");
    }
}
