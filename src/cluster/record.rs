//! Reads and writes the run record. The chart brings the ConfigMap, empty; the hook only patches its data.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde::Serialize;
use serde_json::{Value, json};

use crate::contract::record::{NODE_KEY_PREFIX, NodeRecord, Outcome, RUN_KEY, Run};
use crate::contract::settings::FORMAT_VERSION;
use crate::rollout::named::Named;

use super::call::{CallError, call};
use super::change::merge;

/// Above this, records of nodes that are done are let go, first what only reports need: a ConfigMap holds 1 MiB, and of a done node nothing is needed any more.
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
        let mut texts: BTreeMap<String, Cow<'_, str>> = BTreeMap::new();
        texts.insert(RUN_KEY.to_owned(), text(run));
        let changed: BTreeSet<&str> = self.nodes.differing(nodes).into_iter().map(|name| &**name).collect();
        for (name, node) in nodes {
            let key = format!("{NODE_KEY_PREFIX}{name}");
            let same = self.written.get(&key).filter(|_| !changed.contains(&**name));
            let text = same.map_or_else(|| text(node), |written| Cow::Borrowed(written.as_str()));
            texts.insert(key, text);
        }
        shrink(&mut texts, nodes, LARGEST_BYTES);
        texts
    }
}

/// Lets go of what is not needed any more, as long as there is too much: of nodes that are done, first what only reports need, then all.
fn shrink(texts: &mut BTreeMap<String, Cow<'_, str>>, nodes: &Named<NodeRecord>, most: usize) {
    let is_too_large =
        |texts: &BTreeMap<String, Cow<'_, str>>| texts.iter().map(|(key, text)| key.len() + text.len()).sum::<usize>() > most;
    if !is_too_large(texts) {
        return;
    }
    let dispensable = |node: &&NodeRecord| {
        matches!(node.outcome, Some(Outcome::Done | Outcome::Gone)) && node.replaced.values().all(|one| one.back_at.is_some())
    };
    let done = || nodes.iter().filter(|(_, node)| dispensable(node));
    for (name, node) in done() {
        let short = NodeRecord { steps: Vec::new(), evicted: Vec::new(), ..node.clone() };
        texts.insert(format!("{NODE_KEY_PREFIX}{name}"), text(&short));
    }
    if is_too_large(texts) {
        for (name, _) in done() {
            texts.remove(&format!("{NODE_KEY_PREFIX}{name}"));
        }
    }
}

/// These types have no map keys that are not strings and no failing Serialize: the only ways in which to_string can fail.
fn text<'t>(value: &impl Serialize) -> Cow<'t, str> {
    Cow::Owned(serde_json::to_string(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::record::Evicted;

    fn record(outcome: Option<Outcome>) -> NodeRecord {
        let evicted = Evicted { pod: "ml/train-0".into(), at: jiff::Timestamp::UNIX_EPOCH };
        NodeRecord { uid: "uid".into(), outcome, evicted: vec![evicted; 10], ..NodeRecord::default() }
    }

    fn shrunk(most: usize) -> Vec<(String, bool)> {
        let mut nodes = Named::new();
        nodes.insert("done", record(Some(Outcome::Done)));
        nodes.insert("open", record(None));
        let mut texts: BTreeMap<String, Cow<'_, str>> =
            nodes.iter().map(|(name, node)| (format!("{NODE_KEY_PREFIX}{name}"), text(node))).collect();
        shrink(&mut texts, &nodes, most);
        texts.into_iter().map(|(key, text)| (key, text.contains("ml/train-0"))).collect()
    }

    #[test]
    fn what_only_reports_need_goes_before_the_rest_of_a_node_that_is_done() {
        let kept = |key: &str, evicted: bool| (format!("{NODE_KEY_PREFIX}{key}"), evicted);
        assert_eq!(shrunk(10_000), [kept("done", true), kept("open", true)]);
        assert_eq!(shrunk(1_000), [kept("done", false), kept("open", true)]);
        assert_eq!(shrunk(540), [kept("open", true)]);
    }
}
