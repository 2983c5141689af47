//! The targets of a watch: one table, or several. Each table keeps the objects for which its
//! projection returns a view.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use super::cache::{CacheTable, WatchHealth};

/// Receives the objects of one resource.
pub(crate) trait Sink<T> {
    /// The views of an incomplete list.
    type Listed: Default;

    /// Adds an object to a list.
    fn collect(&self, listed: &mut Self::Listed, key: String, object: &T);

    /// Replaces the content by a complete list.
    fn replace(&self, listed: Self::Listed);

    /// Sets one object. `None`: the object was deleted.
    fn set(&self, key: String, object: Option<&T>);

    /// Sets the health of the watch.
    fn mark(&self, health: WatchHealth);
}

/// A table with the projection that creates its views; the projection returns `None` for objects
/// that are not kept.
pub(crate) struct ProjectedTable<T, V, P> {
    table: CacheTable<V>,
    project: P,
    object: PhantomData<fn(T)>,
}

impl<T, V, P: Fn(&T) -> Option<V>> ProjectedTable<T, V, P> {
    /// Creates a sink that fills `table` with the views that `project` returns.
    pub(crate) fn new(table: CacheTable<V>, project: P) -> Self {
        Self { table, project, object: PhantomData }
    }
}

impl<T, V: Clone + PartialEq, P: Fn(&T) -> Option<V>> Sink<T> for ProjectedTable<T, V, P> {
    type Listed = BTreeMap<String, Arc<V>>;

    fn collect(&self, listed: &mut Self::Listed, key: String, object: &T) {
        if let Some(view) = (self.project)(object) {
            let view = self.table.adopt(&key, view);
            listed.insert(key, view);
        }
    }

    fn replace(&self, listed: Self::Listed) {
        self.table.replace(listed);
    }

    fn set(&self, key: String, object: Option<&T>) {
        self.table.set(key, object.and_then(&self.project));
    }

    fn mark(&self, health: WatchHealth) {
        self.table.mark(health);
    }
}

/// Passes the objects of one watch to two sinks.
impl<T, A: Sink<T>, B: Sink<T>> Sink<T> for (A, B) {
    type Listed = (A::Listed, B::Listed);

    fn collect(&self, listed: &mut Self::Listed, key: String, object: &T) {
        self.0.collect(&mut listed.0, key.clone(), object);
        self.1.collect(&mut listed.1, key, object);
    }

    fn replace(&self, listed: Self::Listed) {
        self.0.replace(listed.0);
        self.1.replace(listed.1);
    }

    fn set(&self, key: String, object: Option<&T>) {
        self.0.set(key.clone(), object);
        self.1.set(key, object);
    }

    fn mark(&self, health: WatchHealth) {
        self.0.mark(health.clone());
        self.1.mark(health);
    }
}
