//! Merges the content of several caches into one collection. Only nodes whose views have changed
//! are merged again.

use std::sync::{Mutex, PoisonError};

use observed::{OnNode, Views};

use super::cache::CacheTable;

/// The last result, and the collections from which it was merged.
#[derive(Debug)]
pub(super) struct MergedViews<V> {
    last: Mutex<(Vec<Views<V>>, Views<V>)>,
}

impl<V> Default for MergedViews<V> {
    fn default() -> Self {
        Self { last: Mutex::default() }
    }
}

impl<V: Clone + PartialEq + OnNode> MergedViews<V> {
    /// Returns the views of all tables. The tables must always be the same.
    pub(super) fn merge<'a>(&self, tables: impl IntoIterator<Item = &'a CacheTable<V>>) -> Views<V>
    where
        V: 'a,
    {
        let parts: Vec<Views<V>> = tables.into_iter().map(CacheTable::by_node).collect();
        // No code panics while it holds this lock.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, merged) = &mut *last;
        before.resize_with(parts.len(), Views::new);
        merged.follow(before, &parts);
        *before = parts;
        merged.clone()
    }
}
