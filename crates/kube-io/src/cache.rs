//! Caches that watches fill: thin views by key, and whether they are in step with the API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use observed::Views;
use observed::named::Named;

/// The health of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum WatchHealth {
    /// Its first list is not complete.
    #[default]
    Starting,
    /// What it holds is what the server had a moment ago.
    InStep,
    /// The server does not serve the resource.
    Absent,
    /// The server refuses.
    Forbidden(String),
    /// It failed and is being started again; what it holds may be old.
    Failing(String),
    /// The server has long shown an older state than it did before, and nothing else: what it holds will not come back.
    Past(String),
}

#[derive(Debug)]
struct TableContent<V> {
    items: BTreeMap<String, Arc<V>>,
    health: WatchHealth,
    /// All of them, as they were last asked for, …
    snapshot: Views<V>,
    /// … and whether they are still the same.
    same: bool,
    /// All of them by name, where that is asked for, and what the name is.
    named: Option<(Named<V>, NameOf<V>)>,
}

/// The name of a view.
type NameOf<V> = fn(&V) -> &str;

impl<V> TableContent<V> {
    fn new(health: WatchHealth) -> Mutex<Self> {
        Mutex::new(Self {
            items: BTreeMap::new(),
            health,
            snapshot: Views::new(),
            same: true,
            named: None,
        })
    }
}

/// The cache of one watch. Clones share the content.
#[derive(Debug)]
pub(crate) struct CacheTable<V> {
    content: Arc<Mutex<TableContent<V>>>,
    changed: Arc<Notify>,
}

impl<V> Clone for CacheTable<V> {
    fn clone(&self) -> Self {
        Self { content: Arc::clone(&self.content), changed: Arc::clone(&self.changed) }
    }
}

impl<V: Clone + PartialEq> CacheTable<V> {
    /// Returns an empty cache. `changed` is notified after every change; many changes before it is awaited are one.
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        Self { content: Arc::new(TableContent::new(WatchHealth::Starting)), changed }
    }

    /// Returns a cache that no watch fills.
    pub(crate) fn absent(changed: Arc<Notify>) -> Self {
        Self { content: Arc::new(TableContent::new(WatchHealth::Absent)), changed }
    }

    fn lock(&self) -> MutexGuard<'_, TableContent<V>> {
        // A panic while the lock is held ends the process (panic = abort); in tests the content is still whole.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the health of its watch.
    pub(crate) fn health(&self) -> WatchHealth {
        self.lock().health.clone()
    }

    /// Returns copies of all its views; for tables with few objects.
    pub(crate) fn values(&self) -> Vec<V> {
        self.lock().items.values().map(|value| V::clone(value)).collect()
    }

    /// Returns all its views; the same list as before if nothing has changed.
    pub(crate) fn snapshot(&self) -> Views<V> {
        let mut content = self.lock();
        if !content.same {
            content.snapshot = content.snapshot.succeeded_by(content.items.values().cloned());
            content.same = true;
        }
        content.snapshot.clone()
    }

    /// Returns all its views by name.
    pub(crate) fn named(&self, name: NameOf<V>) -> Named<V> {
        let mut content = self.lock();
        let TableContent { items, named, .. } = &mut *content;
        let all = || {
            let mut named = Named::default();
            for value in items.values() {
                named.insert_shared(name(value), Arc::clone(value));
            }
            (named, name)
        };
        named.get_or_insert_with(all).0.clone()
    }

    /// Returns the value under this key if it equals the given one: while a list is read, equal values are not held twice.
    pub(crate) fn adopt(&self, key: &str, value: V) -> Arc<V> {
        let known = self.lock().items.get(key).filter(|known| ***known == value).cloned();
        known.unwrap_or_else(|| Arc::new(value))
    }

    /// Replaces everything: a list is complete.
    pub(crate) fn replace(&self, items: BTreeMap<String, Arc<V>>) {
        let mut content = self.lock();
        if content.items != items || content.health != WatchHealth::InStep {
            content.items = items;
            (content.same, content.named) = (false, None);
            content.health = WatchHealth::InStep;
            self.changed.notify_one();
        }
    }

    /// Takes over one object; `None`: it is gone, or not of interest any more.
    pub(crate) fn set(&self, key: String, value: Option<V>) {
        let mut content = self.lock();
        if content.items.get(&key).map(AsRef::as_ref) == value.as_ref() {
            return;
        }
        let value = value.map(Arc::new);
        let before = match value.clone() {
            Some(value) => content.items.insert(key, value),
            None => content.items.remove(&key),
        };
        if let Some((named, name)) = &mut content.named {
            // Of all the others the copy that decisions hold is shared.
            if let Some(before) = before.filter(|_| value.is_none()) {
                named.remove(name(&before));
            }
            if let Some(value) = value {
                named.insert_shared(name(&value), Arc::clone(&value));
            }
        }
        content.same = false;
        self.changed.notify_one();
    }

    /// Notes the health of its watch.
    pub(crate) fn mark(&self, health: WatchHealth) {
        let mut content = self.lock();
        if content.health != health {
            if health == WatchHealth::Absent {
                content.items.clear();
                (content.same, content.named) = (false, None);
            }
            content.health = health;
            self.changed.notify_one();
        }
    }
}
