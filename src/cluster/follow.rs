//! Follows one resource by list and watch into a [`Table`]. After any failure it lists anew: a gap in a watch is never taken for silence.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::Resource;
use kube::ResourceExt;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;

use super::cache::{Health, Table};

/// How long one watch call lasts. kube notices a connection that silently died 5 s after it, so it bounds how old a cache can
/// unknowingly be.
const WATCH_SECONDS: u32 = 60;
/// Objects a page of a list: bounds the memory that whole objects take before they are projected.
const PAGE: u32 = 100;
/// The first pause after a failure; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Which objects of a resource.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    labels: Option<String>,
    fields: Option<String>,
}

impl Selection {
    /// One object: the form that a rule with `resourceNames` admits.
    pub fn named(name: &str) -> Self {
        Self { labels: None, fields: Some(format!("metadata.name={name}")) }
    }

    /// Those with a label.
    pub fn labelled((key, value): (&str, &str)) -> Self {
        Self { labels: Some(format!("{key}={value}")), fields: None }
    }
}

/// Follows until the task is dropped. `project` makes the view that is kept, or `None` for what is not of interest.
pub async fn follow<K, V>(api: Api<K>, selection: Selection, table: Table<V>, project: impl Fn(&K) -> Option<V>)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    V: Clone + PartialEq,
{
    let config = watcher::Config {
        label_selector: selection.labels,
        field_selector: selection.fields,
        ..watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE)
    };
    let mut pause = FIRST_PAUSE;
    loop {
        let mut listed = BTreeMap::new();
        let mut stream = std::pin::pin!(watcher::watcher(api.clone(), config.clone()));
        let error = loop {
            match stream.next().await {
                Some(Ok(Event::Init)) => listed.clear(),
                Some(Ok(Event::InitApply(object))) => {
                    if let Some(view) = project(&object) {
                        listed.insert(key(&object), view);
                    }
                }
                Some(Ok(Event::InitDone)) => {
                    table.replace(std::mem::take(&mut listed));
                    pause = FIRST_PAUSE;
                }
                Some(Ok(Event::Apply(object))) => table.set(key(&object), project(&object)),
                Some(Ok(Event::Delete(object))) => table.set(key(&object), None),
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        let health = error.as_ref().map_or_else(|| Health::Failing("the watch ended".to_owned()), sort);
        tracing::debug!(url = api.resource_url(), ?health, "watch failed; listing anew");
        table.mark(health);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn key<K: Resource>(object: &K) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

/// What a watch's failure says about the resource.
#[expect(clippy::wildcard_enum_match_arm, reason = "kube's enum: all other failures are alike to us")]
fn sort(error: &watcher::Error) -> Health {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status,
        other => return Health::Failing(other.to_string()),
    };
    match status.code {
        401 | 403 => Health::Forbidden(status.message.clone()),
        404 => Health::Absent,
        _ => Health::Failing(status.message.clone()),
    }
}
