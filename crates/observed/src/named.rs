//! A sorted map from names to values whose clone costs a pointer. A change of one clone copies only
//! a few neighboring entries, so related clones share nearly everything, and their differences are
//! found quickly: a decision among ten thousand nodes examines only those that have changed.

use std::cmp::Ordering;
use std::fmt;
use std::iter::repeat;
use std::ops::Index;
use std::sync::Arc;

use super::hash::hash;
use super::text::is_same_text;

/// Maximum number of entries that are copied when one of them is changed. A change also copies the
/// list of all blocks, which is longer if they are smaller. A block of 31 entries has 1,008 bytes,
/// and fits well into the allocator's 1,024.
const NEIGHBORS: usize = 31;

/// A sorted map from names to values.
pub struct Named<T> {
    /// Sorted by name. Slices, because a vector would need a second allocation, and a lookup would
    /// follow a second pointer.
    blocks: Arc<[Block<T>]>,
    len: usize,
}

/// Some neighboring entries, at least one.
struct Block<T> {
    /// The start of the first name ([`start_of`]). It finds most names without following the
    /// pointers to entries and names.
    start: u128,
    entries: Arc<[Entry<T>]>,
}

impl<T> Block<T> {
    fn new(entries: impl Into<Arc<[Entry<T>]>>) -> Self {
        let entries = entries.into();
        Self { start: start_of(&entries[0].name), entries }
    }

    /// Returns the entries for a change that keeps their names.
    fn entries_mut(&mut self) -> &mut [Entry<T>] {
        Arc::make_mut(&mut self.entries)
    }

    fn place_of(&self, name: &str) -> Option<usize> {
        let hash = hash(name);
        self.entries.iter().position(|entry| entry.hash == hash && is_same_text(&entry.name, name))
    }

    fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entries, &other.entries)
    }
}

impl<T> Clone for Block<T> {
    fn clone(&self) -> Self {
        Self { start: self.start, entries: Arc::clone(&self.entries) }
    }
}

/// Returns the first 16 bytes of a name as a number that is ordered like the name. Copies nothing,
/// because every lookup calls this, and musl is slow to start a copy whose length the compiler does
/// not know.
fn start_of(name: &str) -> u128 {
    let bytes = name.as_bytes();
    if let Some(start) = bytes.first_chunk() {
        return u128::from_be_bytes(*start);
    }
    let filled = bytes.iter().chain(repeat(&0)).take(16);
    filled.fold(0, |start, &byte| start << 8 | u128::from(byte))
}

/// A name and its value.
struct Entry<T> {
    /// Finds the entry in its block: it is compared without following the pointer to the name.
    hash: u64,
    name: Arc<str>,
    value: Arc<T>,
}

impl<T> Entry<T> {
    fn new(name: Arc<str>, value: Arc<T>) -> Self {
        Self { hash: hash(&name), name, value }
    }

    /// Compares the names. Related maps share them.
    fn cmp_name(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.name, &other.name) {
            return Ordering::Equal;
        }
        self.name.cmp(&other.name)
    }
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self { hash: self.hash, name: Arc::clone(&self.name), value: Arc::clone(&self.value) }
    }
}

/// Iterator over names and values of [`Named`].
pub struct Iter<'a, T> {
    blocks: std::slice::Iter<'a, Block<T>>,
    block: std::slice::Iter<'a, Entry<T>>,
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self { blocks: self.blocks.clone(), block: self.block.clone() }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (&'a Arc<str>, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(Entry { name, value, .. }) = self.block.next() {
                return Some((name, value));
            }
            self.block = self.blocks.next()?.entries.iter();
        }
    }
}

impl<T> Clone for Named<T> {
    fn clone(&self) -> Self {
        Self { blocks: Arc::clone(&self.blocks), len: self.len }
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self { blocks: Arc::default(), len: 0 }
    }
}

impl<T: fmt::Debug> fmt::Debug for Named<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

impl<T: PartialEq> PartialEq for Named<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.differing(other).is_empty()
    }
}

impl<T: Eq> Eq for Named<T> {}

impl<T> Named<T> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of a name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.shared(name).map(AsRef::as_ref)
    }

    /// Returns the shared pointer to the value of a name.
    pub fn shared(&self, name: &str) -> Option<&Arc<T>> {
        self.found(name).map(|entry| &entry.value)
    }

    /// Returns the stored name and the value of a name.
    pub fn entry(&self, name: &str) -> Option<(&Arc<str>, &T)> {
        self.found(name).map(|Entry { name, value, .. }| (name, &**value))
    }

    /// Returns whether the map has this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Iterates over names and values, in the order of the names.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { blocks: self.blocks.iter(), block: [].iter() }
    }

    /// Iterates over the names, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.iter().map(|(name, _)| name)
    }

    /// Iterates over the values, in the order of their names.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether both share all content: neither has changed since one was cloned from the
    /// other, or both are empty. Equal maps may share nothing.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.blocks, &other.blocks)
    }

    /// Inserts a value, or replaces the value of that name.
    pub fn insert(&mut self, name: impl AsRef<str> + Into<Arc<str>>, value: T) {
        self.insert_shared(name, Arc::new(value));
    }

    /// [`Self::insert`] of one that others hold too.
    pub fn insert_shared(&mut self, name: impl AsRef<str> + Into<Arc<str>>, value: Arc<T>) {
        let Some(at) = self.block_of(name.as_ref()) else {
            self.blocks = [Block::new([Entry::new(name.into(), value)])].into();
            self.len = 1;
            return;
        };
        if let Some(place) = self.blocks[at].place_of(name.as_ref()) {
            Arc::make_mut(&mut self.blocks)[at].entries_mut()[place].value = value;
            return;
        }
        let block = &self.blocks[at].entries;
        let place = block.partition_point(|known| *known.name < *name.as_ref());
        let mut entries = Vec::with_capacity(block.len() + 1);
        entries.extend_from_slice(&block[..place]);
        entries.push(Entry::new(name.into(), value));
        entries.extend_from_slice(&block[place..]);
        self.len += 1;
        if entries.len() <= NEIGHBORS {
            Arc::make_mut(&mut self.blocks)[at] = Block::new(entries);
            return;
        }
        // Names mostly come in their order: what is behind them stays full.
        let half = if place + 1 == entries.len() { NEIGHBORS } else { NEIGHBORS / 2 };
        let rest = entries.split_off(half);
        let (before, behind) = (&self.blocks[..at], &self.blocks[at + 1..]);
        self.blocks = [before, &[Block::new(entries), Block::new(rest)], behind].concat().into();
    }

    /// Removes a name; returns whether the map had it.
    pub fn remove(&mut self, name: &str) -> bool {
        let found = self.block_of(name).and_then(|at| Some((at, self.blocks[at].place_of(name)?)));
        let Some((at, place)) = found else { return false };
        let block = &self.blocks[at].entries;
        let rest = [&block[..place], &block[place + 1..]].concat();
        if rest.is_empty() {
            self.blocks = [&self.blocks[..at], &self.blocks[at + 1..]].concat().into();
        } else {
            Arc::make_mut(&mut self.blocks)[at] = Block::new(rest);
        }
        self.len -= 1;
        true
    }

    /// Keeps only the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &T) -> bool) {
        let gone: Vec<Arc<str>> = self
            .iter()
            .filter(|(name, value)| !keep(name, value))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in gone {
            self.remove(&name);
        }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn found(&self, name: &str) -> Option<&Entry<T>> {
        let block = &self.blocks[self.block_of(name)?];
        block.place_of(name).map(|place| &block.entries[place])
    }

    /// Returns the block that contains the name, or would contain it; `None` if the map is empty.
    fn block_of(&self, name: &str) -> Option<usize> {
        let start = start_of(name);
        let mut behind = self.blocks.partition_point(|block| block.start <= start);
        // The first bytes decide, unless blocks start with the same ones.
        if behind > 0 && self.blocks[behind - 1].start == start {
            let before = self.blocks[..behind].partition_point(|block| block.start < start);
            let same = &self.blocks[before..behind];
            behind = before + same.partition_point(|block| *block.entries[0].name <= *name);
        }
        if self.blocks.is_empty() { None } else { Some(behind.saturating_sub(1)) }
    }
}

impl<T: Clone> Named<T> {
    /// Returns the value of a name for a change.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        let at = self.block_of(name)?;
        let place = self.blocks[at].place_of(name)?;
        let block = &mut Arc::make_mut(&mut self.blocks)[at];
        Some(Arc::make_mut(&mut block.entries_mut()[place].value))
    }

    /// Iterates over all values for a change.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        Arc::make_mut(&mut self.blocks)
            .iter_mut()
            .flat_map(Block::entries_mut)
            .map(|entry| Arc::make_mut(&mut entry.value))
    }
}

impl<T: PartialEq> Named<T> {
    /// Returns the names with different values in the two maps, in their order. Shared blocks are
    /// not compared.
    pub fn differing<'a>(&'a self, other: &'a Self) -> Vec<&'a Arc<str>> {
        let mut found = Vec::new();
        if self.is_same(other) {
            return found;
        }
        let (mut left, mut right) = (Cursor::new(&self.blocks), Cursor::new(&other.blocks));
        loop {
            if left.skips(&mut right) {
                continue;
            }
            match (left.entry(), right.entry()) {
                (None, None) => return found,
                (Some(own), None) => {
                    found.push(&own.name);
                    left.advance();
                }
                (None, Some(theirs)) => {
                    found.push(&theirs.name);
                    right.advance();
                }
                (Some(own), Some(theirs)) => match own.cmp_name(theirs) {
                    Ordering::Less => {
                        found.push(&own.name);
                        left.advance();
                    }
                    Ordering::Greater => {
                        found.push(&theirs.name);
                        right.advance();
                    }
                    Ordering::Equal => {
                        if !Arc::ptr_eq(&own.value, &theirs.value) && own.value != theirs.value {
                            found.push(&own.name);
                        }
                        left.advance();
                        right.advance();
                    }
                },
            }
        }
    }
}

/// A place in the blocks.
struct Cursor<'a, T> {
    blocks: &'a [Block<T>],
    place: usize,
}

impl<'a, T> Cursor<'a, T> {
    fn new(blocks: &'a [Block<T>]) -> Self {
        Self { blocks, place: 0 }
    }

    fn entry(&self) -> Option<&'a Entry<T>> {
        self.blocks.first()?.entries.get(self.place)
    }

    fn advance(&mut self) {
        self.place += 1;
        if self.blocks.first().is_some_and(|block| block.entries.len() <= self.place) {
            (self.blocks, self.place) = (&self.blocks[1..], 0);
        }
    }

    /// Skips a block that both maps share, if both cursors are at its start.
    fn skips(&mut self, other: &mut Self) -> bool {
        let (Some(own), Some(theirs)) = (self.blocks.first(), other.blocks.first()) else {
            return false;
        };
        if self.place + other.place > 0 || !own.is_shared_with(theirs) {
            return false;
        }
        (self.blocks, other.blocks) = (&self.blocks[1..], &other.blocks[1..]);
        true
    }
}

impl<N: Into<Arc<str>>, T> FromIterator<(N, T)> for Named<T> {
    /// Collects values; the last one of a name counts.
    fn from_iter<I: IntoIterator<Item = (N, T)>>(values: I) -> Self {
        let entry = |(name, value): (N, T)| Entry::new(name.into(), Arc::new(value));
        let mut entries: Vec<Entry<T>> = values.into_iter().map(entry).collect();
        entries.sort_by(Entry::cmp_name);
        entries.dedup_by(|later, kept| {
            let is_same = later.name == kept.name;
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
        let len = entries.len();
        Self { blocks: entries.chunks(NEIGHBORS).map(Block::new).collect(), len }
    }
}

impl<N: Into<Arc<str>>, const COUNT: usize, T> From<[(N, T); COUNT]> for Named<T> {
    fn from(values: [(N, T); COUNT]) -> Self {
        values.into_iter().collect()
    }
}

impl<'a, T> IntoIterator for &'a Named<T> {
    type IntoIter = Iter<'a, T>;
    type Item = (&'a Arc<str>, &'a T);

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> Index<&str> for Named<T> {
    type Output = T;

    /// Returns the value of a name that exists.
    ///
    /// # Panics
    /// The name does not exist.
    fn index(&self, name: &str) -> &T {
        self.get(name).expect("an existing name; `get` accepts others")
    }
}

#[cfg(test)]
mod tests;
