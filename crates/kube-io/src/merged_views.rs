//! Merges the content of several caches into one list, which stays the same list while no cache
//! changes.

use std::sync::{Mutex, PoisonError};

use observed::Views;

use super::cache::CacheTable;

/// The last result, and the lists from which it was merged.
#[derive(Debug)]
pub(super) struct MergedViews<V> {
    last: Mutex<(Vec<Views<V>>, Views<V>)>,
}

impl<V> Default for MergedViews<V> {
    fn default() -> Self {
        Self { last: Mutex::default() }
    }
}

impl<V: Clone + PartialEq> MergedViews<V> {
    /// Returns the views of all tables.
    pub(super) fn merge<'a>(&self, tables: impl IntoIterator<Item = &'a CacheTable<V>>) -> Views<V>
    where
        V: 'a,
    {
        let parts: Vec<Views<V>> = tables.into_iter().map(CacheTable::snapshot).collect();
        // No code panics while it holds this lock.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let same = last.0.len() == parts.len()
            && last.0.iter().zip(&parts).all(|(before, part)| before.is_same(part));
        if !same {
            let merged = last.1.joined(&parts);
            *last = (parts, merged);
        }
        last.1.clone()
    }
}
