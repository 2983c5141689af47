//! A local cache of objects, filled by a watch.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

const PAUSE_PER_OBJECT: Duration = Duration::from_micros(20);

/// The cache of one kind.
pub(super) struct Cache<K: Resource + 'static>
where
    K::DynamicType: Hash + Eq,
{
    store: Store<K>,
}

impl<K> Cache<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Debug + Hash + Eq + Unpin,
{
    /// Starts the watch. Every change notifies `changed`.
    pub(super) fn start(
        api: Api<K>,
        kind: K::DynamicType,
        config: watcher::Config,
        changed: &Arc<Notify>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let writer = reflector::store::Writer::new(kind);
        let store = writer.as_reader();
        let changed = Arc::clone(changed);
        tasks.spawn_local(async move {
            let mut events = std::pin::pin!(watcher(api, config).reflect(writer));
            while let Some(event) = events.next().await {
                match event {
                    Ok(_) => changed.notify_one(),
                    // If the kind or the API server is missing, the watch restarts.
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            }
        });
        Self { store }
    }

    /// Returns the number of objects.
    pub(super) fn len(&self) -> usize {
        self.store.len()
    }

    /// Returns all objects.
    pub(super) fn all(&self) -> Vec<Arc<K>> {
        self.store.state()
    }
}

/// Waits after a pass over this number of objects. So the changes of a large fleet come together,
/// and passes leave time for all other tasks of the thread.
pub(super) async fn pause_after(objects: usize) {
    let objects = u32::try_from(objects).unwrap_or(u32::MAX);
    tokio::time::sleep(PAUSE_PER_OBJECT.saturating_mul(objects)).await;
}
