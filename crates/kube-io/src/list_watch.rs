//! Lists and watches one resource and passes the objects to a [`Sink`]. After any failure it lists
//! again, so that no event in a gap is missed.
//!
//! kube's own watcher waits without a limit for the answer to a list and for the first byte of a
//! watch. Here every step is bounded in time.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::{WatchEvent, WatchParams};
use tokio::time::Instant;

use super::api_collection::ApiCollection;
use super::cache::WatchHealth;
use super::call::{CallError, call};
use super::list::list_pages;
use super::sink::Sink;
use super::version_floor::ResourceVersionFloor;
use observed::object::ApiObject;

/// How long one watch call lasts (client-go's informers request 5 to 10 minutes).
const WATCH_SECONDS: u32 = 290;
/// How long a watch may be silent. It bounds how outdated a cache can be, without notice, after a
/// connection dies silently. The server sends a bookmark about every minute (Kubernetes
/// `defaultBookmarkFrequency`, checked at least every 1.25 s). If it sends none, the watch is
/// restarted each time.
const SILENCE: Duration = Duration::from_secs(65);
/// The first pause after a failure; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause between attempts for a resource that the server does not serve.
const ABSENT_PAUSE: Duration = Duration::from_mins(1);
/// The longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// How long every complete list must be older than the newest version shown before the older state
/// is accepted: a replica that was cut off has caught up by then, a restored etcd has not.
const PAST: Duration = Duration::from_mins(1);
/// After this many watches without any message, not even a bookmark, the resource is listed, to
/// check that the server's versions still continue from where the watches started: a watch from a
/// future version is silent. If few objects change, the server sends few bookmarks, so a single
/// silent watch proves nothing.
const SILENT_WATCHES: u32 = 5;

/// Selects objects of a resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectSelection {
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    /// The object changes at least this often. If a watch has no event for longer, it may be
    /// broken, and the object is listed.
    pub(super) silence: Option<Duration>,
}

impl ObjectSelection {
    /// Selects one object, in the form that a rule with `resourceNames` allows.
    pub(crate) fn named(name: &str) -> Self {
        Self { fields: Some(format!("metadata.name={name}")), ..Self::default() }
    }

    /// Sets how often the selected objects change at least.
    #[must_use]
    pub(crate) fn changing_within(self, silence: Duration) -> Self {
        Self { silence: Some(silence), ..self }
    }

    /// Returns the name, if one object is selected.
    pub(super) fn name(&self) -> Option<&str> {
        self.fields.as_deref()?.strip_prefix("metadata.name=")
    }

    /// Selects the objects with a label; without a value, with any value.
    pub(crate) fn labeled((key, value): (&str, Option<&str>)) -> Self {
        let selector = value.map_or_else(|| key.to_owned(), |value| format!("{key}={value}"));
        Self::matching(&selector)
    }

    /// Selects by a label selector.
    pub(crate) fn matching(selector: &str) -> Self {
        Self { labels: Some(selector.to_owned()), ..Self::default() }
    }

    /// Selects the pods that are bound to a node.
    pub(crate) fn on_node(node: &str) -> Self {
        Self { fields: Some(format!("spec.nodeName={node}")), ..Self::default() }
    }
}

/// Why a list or watch must be restarted.
#[derive(Debug, thiserror::Error)]
enum WatchFailure {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the watch broke: {0}")]
    Watch(String),
    /// The server that answered is behind: another replica of the server, or a restored etcd.
    #[error("the server showed version {shown} after version {seen}")]
    Past { shown: u64, seen: u64 },
}

/// A collection, and the sink that receives its objects.
struct Follower<T, S> {
    collection: ApiCollection,
    selection: ObjectSelection,
    sink: S,
    object: PhantomData<fn(T)>,
    /// The newest version that was shown. Decisions depend on the observed state, so it must never
    /// go back.
    seen: AtomicU64,
    /// The newest version that any follower of the resource has shown. A list must not be older
    /// than this version at the time of its request.
    floor: ResourceVersionFloor,
}

/// Follows a collection until the task is dropped. `sink`: the tables to fill.
pub(crate) async fn follow<T, S>(
    collection: ApiCollection,
    selection: ObjectSelection,
    sink: S,
    floor: ResourceVersionFloor,
) where
    T: ApiObject,
    S: Sink<T>,
{
    let follower = Follower::<T, S> {
        collection,
        selection,
        sink,
        object: PhantomData,
        seen: AtomicU64::new(0),
        floor,
    };
    let mut attempts = FailedAttempts::default();
    loop {
        let Err(broken) = follower.list_and_watch(&mut attempts).await;
        tracing::debug!(path = follower.collection.path(), %broken, "listing again");
        let past = match broken {
            WatchFailure::Past { .. } => {
                attempts.past.get_or_insert_with(Instant::now).elapsed() >= PAST
            }
            WatchFailure::Call(_) | WatchFailure::Watch(_) => {
                attempts.past = None;
                false
            }
        };
        follower.sink.mark(if past {
            WatchHealth::Past(broken.to_string())
        } else {
            health_after(&broken)
        });
        tokio::time::sleep(attempts.pause).await;
        // A resource that the server does not serve will probably not appear within seconds.
        let longest = if matches!(broken, WatchFailure::Call(CallError::NotFound(_))) {
            ABSENT_PAUSE
        } else {
            LONGEST_PAUSE
        };
        attempts.pause = (attempts.pause * 2).min(longest);
    }
}

/// The failed attempts since the last good list.
struct FailedAttempts {
    /// The pause before the next attempt.
    pause: Duration,
    /// Since when every answer has been older than the newest version shown.
    past: Option<Instant>,
}

impl Default for FailedAttempts {
    fn default() -> Self {
        Self { pause: FIRST_PAUSE, past: None }
    }
}

impl<T: ApiObject, S: Sink<T>> Follower<T, S> {
    async fn list_and_watch(
        &self,
        attempts: &mut FailedAttempts,
    ) -> Result<std::convert::Infallible, WatchFailure> {
        let (listed, mut version) = self.list().await?;
        let mut stream = self.watch(&version).await?;
        // Only after the watch has started: a list without a watch would count as current
        // permanently.
        self.sink.replace(listed);
        *attempts = FailedAttempts::default();
        let (mut started, mut silent) = (Instant::now(), 0);
        let (longest, mut heard) = (self.selection.silence.unwrap_or(SILENCE), Instant::now());
        loop {
            if let Ok(Some(event)) = tokio::time::timeout(longest, stream.next()).await {
                silent = 0;
                (started, heard) = (Instant::now(), Instant::now());
                self.apply(event, &mut version)?;
                continue;
            }
            // The server's regular end of a watch, or a silently closed connection. The pause
            // prevents a busy loop if the server, or a proxy before it, ends watches at once.
            tokio::time::sleep(FIRST_PAUSE).await;
            silent += u32::from(started.elapsed() >= SILENCE);
            let deaf = self.selection.silence.is_some_and(|silence| heard.elapsed() >= silence);
            if silent >= SILENT_WATCHES || deaf {
                silent = 0;
                heard = Instant::now();
                let (listed, shown) = self.list().await?;
                self.sink.replace(listed);
                version = shown;
            }
            started = Instant::now();
            stream = self.watch(&version).await?;
        }
    }

    async fn list(&self) -> Result<(S::Listed, String), WatchFailure> {
        let mut listed = S::Listed::default();
        let each = |object: T| self.sink.collect(&mut listed, key(&object), &object);
        let floor = self.floor.current();
        let version = list_pages(&self.collection, &self.selection, each).await?;
        if let Ok(shown) = version.parse::<u64>()
            && shown < floor
        {
            return Err(WatchFailure::Past { shown, seen: floor });
        }
        self.advance(&version)?;
        Ok((listed, version))
    }

    /// Advances to a version. Versions of one resource are increasing numbers (KEP-5504); other
    /// forms are ignored.
    fn advance(&self, version: &str) -> Result<(), WatchFailure> {
        let Ok(shown) = version.parse::<u64>() else { return Ok(()) };
        let seen = self.seen.fetch_max(shown, Ordering::Relaxed);
        if shown < seen {
            return Err(WatchFailure::Past { shown, seen });
        }
        self.floor.raise(shown);
        Ok(())
    }

    async fn watch(
        &self,
        version: &str,
    ) -> Result<impl Stream<Item = kube::Result<WatchEvent<T>>> + Unpin + use<T, S>, WatchFailure>
    {
        let parameters = WatchParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        Ok(Box::pin(call(self.collection.watch(&parameters, version)).await?))
    }

    fn apply(
        &self,
        event: kube::Result<WatchEvent<T>>,
        version: &mut String,
    ) -> Result<(), WatchFailure> {
        match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                object.resource_version().unwrap_or_default().clone_into(version);
                self.advance(version)?;
                self.sink.set(key(&object), Some(&object));
            }
            Ok(WatchEvent::Deleted(object)) => {
                object.resource_version().unwrap_or_default().clone_into(version);
                self.advance(version)?;
                self.sink.set(key(&object), None);
            }
            Ok(WatchEvent::Bookmark(bookmark)) => {
                *version = bookmark.metadata.resource_version;
                self.advance(version)?;
            }
            Ok(WatchEvent::Error(status)) => return Err(WatchFailure::Watch(status.message)),
            Err(error) => return Err(WatchFailure::Watch(error.to_string())),
        }
        Ok(())
    }
}

fn key(object: &impl ApiObject) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name().unwrap_or_default())
}

/// Returns the health of the watch after a failure.
fn health_after(broken: &WatchFailure) -> WatchHealth {
    match broken {
        WatchFailure::Call(CallError::Forbidden(message)) => {
            WatchHealth::Forbidden(message.clone())
        }
        WatchFailure::Call(CallError::NotFound(_)) => WatchHealth::Absent,
        WatchFailure::Call(_) | WatchFailure::Watch(_) | WatchFailure::Past { .. } => {
            WatchHealth::Failing(broken.to_string())
        }
    }
}
