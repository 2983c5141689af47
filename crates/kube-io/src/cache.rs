//! Caches that watches fill: small views by key, and whether they are in step with the API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use observed::named::Named;
use observed::{OnNode, Views};

/// The health of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum WatchHealth {
    /// The first list is not complete.
    #[default]
    Starting,
    /// The content is the server's recent state.
    InStep,
    /// The server does not serve the resource.
    Absent,
    /// The server refuses the list or watch.
    Forbidden(String),
    /// The watch failed and is being restarted; the content may be outdated.
    Failing(String),
    /// For a long time, the server has only shown a state that is older than the content: the newer
    /// state will not come back.
    Past(String),
}

#[derive(Debug)]
struct TableContent<V> {
    items: BTreeMap<String, Arc<V>>,
    health: WatchHealth,
    /// All views by name, if a caller requested that, with the function that returns the name.
    named: Option<(Named<V>, NameOf<V>)>,
    /// All views by node, if a caller requested that, with the function that returns the node.
    by_node: Option<(Views<V>, NodeOf<V>)>,
}

/// A function that returns the name of a view.
type NameOf<V> = fn(&V) -> &str;
/// A function that returns the node of a view, once it is known.
type NodeOf<V> = fn(&V) -> Option<&str>;

impl<V> TableContent<V> {
    fn new(health: WatchHealth) -> Mutex<Self> {
        Mutex::new(Self { items: BTreeMap::new(), health, named: None, by_node: None })
    }

    /// Applies a change of one view to the views by name and by node. All other views stay shared
    /// with the snapshots that decisions hold.
    fn update(&mut self, key: &str, before: Option<&V>, value: Option<&Arc<V>>) {
        if let Some((named, name)) = &mut self.named {
            if let Some(before) = before.filter(|_| value.is_none()) {
                named.remove(name(before));
            }
            if let Some(value) = value {
                named.insert_shared(name(value), Arc::clone(value));
            }
        }
        if let Some((views, node)) = &mut self.by_node {
            let of = |view: &V| node(view).unwrap_or_default().to_owned();
            if let Some(before) =
                before.filter(|before| value.is_none_or(|value| of(value) != of(before)))
            {
                views.remove(&of(before), key);
            }
            if let Some(value) = value {
                views.insert(&of(value), key, Arc::clone(value));
            }
        }
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
    /// Creates an empty cache. It notifies `changed` after every change; several changes before the
    /// next wait count as one.
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        Self { content: Arc::new(TableContent::new(WatchHealth::Starting)), changed }
    }

    /// Creates a cache that no watch fills.
    pub(crate) fn absent(changed: Arc<Notify>) -> Self {
        Self { content: Arc::new(TableContent::new(WatchHealth::Absent)), changed }
    }

    fn lock(&self) -> MutexGuard<'_, TableContent<V>> {
        // A panic while the lock is held ends the process (panic = abort). In tests, the content is
        // still consistent.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the health of the watch.
    pub(crate) fn health(&self) -> WatchHealth {
        self.lock().health.clone()
    }

    /// Returns copies of all views; for tables with few objects.
    pub(crate) fn values(&self) -> Vec<V> {
        self.lock().items.values().map(|value| V::clone(value)).collect()
    }

    /// Returns all views by node.
    pub(crate) fn by_node(&self) -> Views<V>
    where
        V: OnNode,
    {
        let mut content = self.lock();
        let TableContent { items, by_node, .. } = &mut *content;
        let all = || {
            let mut views = Views::new();
            for (key, value) in items.iter() {
                views.insert(value.on_node().unwrap_or_default(), key.as_str(), Arc::clone(value));
            }
            (views, V::on_node as NodeOf<V>)
        };
        by_node.get_or_insert_with(all).0.clone()
    }

    /// Returns all views by name.
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

    /// Returns the cached value under this key if it equals the given one, so that equal values are
    /// not in memory twice while a list is read.
    pub(crate) fn adopt(&self, key: &str, value: V) -> Arc<V> {
        let known = self.lock().items.get(key).filter(|known| ***known == value).cloned();
        known.unwrap_or_else(|| Arc::new(value))
    }

    /// Replaces the content by a complete list.
    pub(crate) fn replace(&self, items: BTreeMap<String, Arc<V>>) {
        let mut content = self.lock();
        if content.items != items || content.health != WatchHealth::InStep {
            content.items = items;
            (content.named, content.by_node) = (None, None);
            content.health = WatchHealth::InStep;
            self.changed.notify_one();
        }
    }

    /// Sets one view. `None`: the object was deleted, or is no longer of interest.
    pub(crate) fn set(&self, key: String, value: Option<V>) {
        let mut content = self.lock();
        if content.items.get(&key).map(AsRef::as_ref) == value.as_ref() {
            return;
        }
        let value = value.map(Arc::new);
        let before = content.items.remove(&key);
        content.update(&key, before.as_deref(), value.as_ref());
        if let Some(value) = value {
            content.items.insert(key, value);
        }
        self.changed.notify_one();
    }

    /// Sets the health of the watch.
    pub(crate) fn mark(&self, health: WatchHealth) {
        let mut content = self.lock();
        if content.health != health {
            if health == WatchHealth::Absent {
                content.items.clear();
                (content.named, content.by_node) = (None, None);
            }
            content.health = health;
            self.changed.notify_one();
        }
    }
}
