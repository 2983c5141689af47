//! Reads and writes the run record. The chart brings the ConfigMap, empty; the hook only patches its data.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::contract::record::{NODE_KEY_PREFIX, NodeRecord, Outcome, RUN_KEY, Run};
use crate::contract::settings::FORMAT_VERSION;
use crate::rollout::named::Named;

use super::call::{CallError, call};
use super::change::merge;

/// Above this, records of nodes that are done are let go: a ConfigMap holds 1 MiB, and of a done node nothing is needed any more.
const LARGEST_BYTES: usize = 900 * 1024;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The last run.
    pub run: Option<Run>,
    /// Its nodes.
    pub nodes: Named<NodeRecord>,
}

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The call failed.
    #[error("unable to {1} the run record")]
    Call(#[source] CallError, &'static str),
    /// A newer version of the program wrote it.
    #[error("the run record has format {found}, this version knows {FORMAT_VERSION}: use a newer hook image")]
    Newer {
        /// What it says.
        found: u64,
    },
}

/// The record of one hook release.
pub struct RecordStore {
    api: Api<ConfigMap>,
    name: String,
    written: BTreeMap<String, String>,
    /// The nodes that their texts were made from, as far as this process has made them.
    nodes: Named<NodeRecord>,
}

impl RecordStore {
    /// The ConfigMap of this name.
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        Self { api: Api::namespaced(client.clone(), namespace), name: name.to_owned(), written: BTreeMap::new(), nodes: Named::new() }
    }

    /// Reads it. RBAC: `get` on `configmaps`, named. What cannot be parsed counts as absent: it is a report, and the live state decides.
    ///
    /// # Errors
    /// The call failed, or a newer version wrote it.
    pub async fn read(&mut self) -> Result<Record, RecordError> {
        let object = call(self.api.get(&self.name)).await.map_err(|error| RecordError::Call(error, "read"))?;
        self.written = object.data.unwrap_or_default();
        self.nodes.clear();
        let mut record = Record::default();
        for (key, text) in &self.written {
            let value: Value = serde_json::from_str(text).unwrap_or(Value::Null);
            if key == RUN_KEY {
                if let Some(found) = value["formatVersion"].as_u64().filter(|found| *found > u64::from(FORMAT_VERSION)) {
                    return Err(RecordError::Newer { found });
                }
                record.run = serde_json::from_value(value).ok();
            } else if let Some(node) = key.strip_prefix(NODE_KEY_PREFIX)
                && let Ok(entry) = serde_json::from_value(value)
            {
                record.nodes.insert(node, entry);
            }
        }
        Ok(record)
    }

    /// Writes what differs from what is there, as one patch. RBAC: `patch` on `configmaps`, named. Nothing is sent if nothing differs.
    ///
    /// # Errors
    /// The call failed; what was to be written is tried again with the next write.
    pub async fn write(&mut self, run: &Run, nodes: &Named<NodeRecord>) -> Result<(), RecordError> {
        let wanted = self.texts(run, nodes);
        let mut changes: BTreeMap<String, Option<String>> = BTreeMap::new();
        for (key, text) in &wanted {
            if self.written.get(key).map(String::as_str) != Some(text) {
                changes.insert(key.clone(), Some(text.as_ref().to_owned()));
            }
        }
        for key in self.written.keys().filter(|key| !wanted.contains_key(*key)) {
            changes.insert(key.clone(), None);
        }
        if changes.is_empty() {
            return Ok(());
        }
        merge(self.api.clone(), &self.name, json!({ "data": changes })).await.map_err(|error| RecordError::Call(error, "write"))?;
        for (key, text) in changes {
            match text {
                Some(text) => drop(self.written.insert(key, text)),
                None => drop(self.written.remove(&key)),
            }
        }
        self.nodes = nodes.clone();
        Ok(())
    }

    /// What is to be there. Texts of nodes that are as they were written are not made anew: in a large fleet nearly all are.
    fn texts(&self, run: &Run, nodes: &Named<NodeRecord>) -> BTreeMap<String, Cow<'_, str>> {
        // These types have no map keys that are not strings and no failing Serialize: the only ways in which to_string can fail.
        let text = |value: Result<String, serde_json::Error>| Cow::Owned(value.unwrap_or_default());
        let mut texts: BTreeMap<String, Cow<'_, str>> = BTreeMap::new();
        texts.insert(RUN_KEY.to_owned(), text(serde_json::to_string(run)));
        let changed: BTreeSet<&str> = self.nodes.differing(nodes).into_iter().map(|name| &**name).collect();
        for (name, node) in nodes {
            let key = format!("{NODE_KEY_PREFIX}{name}");
            let same = self.written.get(&key).filter(|_| !changed.contains(&**name));
            let text = same.map_or_else(|| text(serde_json::to_string(node)), |written| Cow::Borrowed(written.as_str()));
            texts.insert(key, text);
        }
        if texts.iter().map(|(key, text)| key.len() + text.len()).sum::<usize>() > LARGEST_BYTES {
            let dispensable = |node: &&NodeRecord| {
                matches!(node.outcome, Some(Outcome::Done | Outcome::Gone)) && node.replaced.values().all(|one| one.back_at.is_some())
            };
            for name in nodes.iter().filter(|(_, node)| dispensable(node)).map(|(name, _)| name) {
                texts.remove(&format!("{NODE_KEY_PREFIX}{name}"));
            }
        }
        texts
    }
}
