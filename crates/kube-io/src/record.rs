//! Reads and writes the run record. The chart creates its empty ConfigMaps; the hook only patches
//! their data.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::{Value, json};

use contract::record::baseline::{BASELINE_KEY_PREFIX, Baseline};
use contract::record::cohort::{COHORT_KEY_PREFIX, Cohort};
use contract::record::{
    NodeRecord, OBJECTS, OBJECTS_KEY, RECORD_FORMAT_VERSION, RUN_KEY, RunRecord, object_name,
};
use contract::user_request::{self, REQUEST_KEY_PREFIX, UserRequest};
use observed::named::Named;

use super::call::{CallError, call};
use super::object_writes::merge;

mod changes;
mod layout;
mod refusal;
mod run_parts;

pub use refusal::RecordRefusal;

use changes::{ConfigMapChanges, differences, in_place, needs_newer_format};
use layout::{ConfigMapData, EntryDetail, FixedKey, RecordContents, lay_out};
use run_parts::RunParts;

/// The run record as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredRecord {
    /// The last run, with its cohort and its baseline if those were stored completely.
    pub run: Option<RunRecord>,
    /// The records of its nodes.
    pub nodes: Named<NodeRecord>,
    /// What users asked for, oldest first. Commands write it, and a hook leaves it as it is.
    pub requests: Vec<UserRequest>,
}

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The call failed.
    #[error("cannot {1} the run record")]
    Call(#[source] CallError, &'static str),
    /// The write was refused, and another attempt cannot help.
    #[error(transparent)]
    Refused(RecordRefusal),
    /// A newer version of the program wrote it.
    #[error(
        "the run record has format {found}, and this version supports {RECORD_FORMAT_VERSION}: use a newer hook image"
    )]
    Newer {
        /// The format version of the record.
        found: u64,
    },
}

/// The record of one hook release.
pub struct RecordStore {
    api: Api<ConfigMap>,
    name: String,
    /// The data of each ConfigMap, as far as this process knows it.
    written: Vec<ConfigMapData>,
    /// The node records from which this process created the entries. `None`: `written` may be no
    /// whole layout, because it was only read, or because a write has failed.
    nodes: Option<Named<NodeRecord>>,
    parts: RunParts,
    /// How much of the records is stored. It never increases, because entries that change between
    /// forms would be written again each time.
    detail: EntryDetail,
}

impl RecordStore {
    /// Creates the store of the record with this name.
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
            written: vec![ConfigMapData::new(); OBJECTS],
            nodes: None,
            parts: RunParts::default(),
            detail: EntryDetail::default(),
        }
    }

    /// Reads the record. RBAC: `get` on `configmaps`, named. Parts that cannot be parsed count as
    /// absent: the record is a report, and the live state decides.
    ///
    /// # Errors
    /// A call failed, or a newer version wrote the record.
    pub async fn read(&mut self) -> Result<StoredRecord, RecordError> {
        self.nodes = None;
        let (requests, data) = split_requests(self.data_of(0).await?);
        self.written = vec![data];
        let run = self.written[0]
            .get(RUN_KEY)
            .map(|text| serde_json::from_str::<Value>(text).unwrap_or(Value::Null));
        let format = run.as_ref().and_then(|run| run["formatVersion"].as_u64());
        if let Some(found) = format.filter(|found| *found > u64::from(RECORD_FORMAT_VERSION)) {
            return Err(RecordError::Newer { found });
        }
        let used = self.written[0]
            .get(OBJECTS_KEY)
            .and_then(|count| count.parse().ok())
            .map_or(1, |count: usize| count.clamp(1, OBJECTS));
        let further = try_join_all((1..used).map(|index| self.data_of(index))).await?;
        self.written.extend(further);
        self.written.resize(OBJECTS, ConfigMapData::new());
        let mut record = StoredRecord {
            run: run.and_then(|run| serde_json::from_value(run).ok()),
            nodes: Named::new(),
            requests,
        };
        // If a process ended while it moved an entry, the entry is in two objects. The one in the
        // later object is newer.
        for (key, text) in self.written.iter().flatten() {
            if let Some((name, node)) = layout::parse(key, text) {
                record.nodes.insert(name.as_str(), node);
            }
        }
        if let Some(run) = &mut record.run {
            run.cohort = run
                .cohort_nodes
                .and_then(|nodes| Cohort::from_parts(self.stored_parts(COHORT_KEY_PREFIX), nodes))
                .map(Arc::new);
            run.baseline = run
                .baseline_nodes
                .and_then(|nodes| {
                    Baseline::from_parts(self.stored_parts(BASELINE_KEY_PREFIX), nodes)
                })
                .map(Arc::new);
        }
        Ok(record)
    }

    async fn data_of(&self, index: usize) -> Result<ConfigMapData, RecordError> {
        match call(self.api.get(&object_name(&self.name, index))).await {
            Ok(object) => Ok(object.data.unwrap_or_default()),
            // Only the first ConfigMap must exist. A missing other one counts as absent, like any
            // part that cannot be parsed.
            Err(CallError::NotFound(_)) if index > 0 => Ok(ConfigMapData::new()),
            Err(error) => Err(RecordError::Call(error, "read")),
        }
    }

    /// Returns the stored parts of a value that is divided over the objects.
    fn stored_parts<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.written.iter().enumerate().map_while(move |(index, data)| {
            data.get(&format!("{prefix}{index}")).map(String::as_str)
        })
    }

    /// Writes the differences to the stored record, as one patch for each object. The first object,
    /// which contains run and verdict, is written last. RBAC: `patch` on `configmaps`, named. Sends
    /// nothing if there is no difference.
    ///
    /// # Errors
    /// A call failed; the next write also makes good what this one left. [`RecordError::Refused`]:
    /// another attempt would not help.
    pub async fn write(
        &mut self,
        run: &RunRecord,
        nodes: &Named<NodeRecord>,
    ) -> Result<(), RecordError> {
        // If this write fails, the next one compares all entries with what is known to be stored.
        let before = self.nodes.take();
        let unknown = Named::new();
        let unlike = before.as_ref().unwrap_or(&unknown).differing(nodes);
        let unlike = unlike.into_iter().map(|name| &**name).collect();
        let fixed = self.fixed_keys(run);
        let contents = RecordContents { fixed, nodes, changed: &unlike, detail: self.detail };
        let kept = before.as_ref().and_then(|_| in_place(&contents, &self.written));
        let (mut changes, detail) = match kept {
            Some(changes) => (changes, self.detail),
            None => self.laid_out(&contents)?,
        };
        if needs_newer_format(&changes, &self.written) {
            let text = text_of(run, RECORD_FORMAT_VERSION);
            if self.written[0].get(RUN_KEY) == Some(&text) {
                changes[0].remove(RUN_KEY);
            } else {
                changes[0].insert(RUN_KEY.to_owned(), Some(text));
            }
        }
        self.announce(&changes).await?;
        for (index, changes) in changes.into_iter().enumerate().rev() {
            self.patch(index, changes).await?;
        }
        self.nodes = Some(nodes.clone());
        self.detail = detail;
        Ok(())
    }

    /// Returns the keys with a fixed object: the run in the first one, each part of cohort and
    /// baseline in its own.
    fn fixed_keys(&mut self, run: &RunRecord) -> Vec<FixedKey> {
        let mut keys = self.parts.keys(run).to_vec();
        keys.push((0, RUN_KEY.to_owned(), text_of(run, 1)));
        keys
    }

    /// Returns the changes of a new layout of all entries, and how much of them it stores.
    fn laid_out(
        &self,
        contents: &RecordContents<'_>,
    ) -> Result<(Vec<ConfigMapChanges>, EntryDetail), RecordError> {
        let nodes = contents.nodes.len();
        let Some((wanted, detail)) = lay_out(contents, &self.written) else {
            return Err(RecordError::Refused(RecordRefusal::Full { nodes }));
        };
        if detail > self.detail {
            tracing::warn!(
                nodes,
                ?detail,
                "the run record is nearly full: storing entries of nodes in short form"
            );
        }
        let changes = wanted
            .iter()
            .zip(&self.written)
            .map(|(wanted, written)| differences(wanted, written))
            .collect();
        Ok((changes, detail))
    }

    /// Stores the number of objects before one more is used, because readers must know it.
    async fn announce(&mut self, changes: &[ConfigMapChanges]) -> Result<(), RecordError> {
        let known =
            self.written[0].get(OBJECTS_KEY).and_then(|count| count.parse().ok()).unwrap_or(1);
        let used = changes
            .iter()
            .rposition(|changes| changes.values().any(Option::is_some))
            .map_or(1, |last| last + 1);
        if used > known {
            let announced = BTreeMap::from([(OBJECTS_KEY.to_owned(), Some(used.to_string()))]);
            self.patch(0, announced).await?;
        }
        Ok(())
    }

    async fn patch(&mut self, index: usize, changes: ConfigMapChanges) -> Result<(), RecordError> {
        if changes.is_empty() {
            return Ok(());
        }
        // If no answer arrives, it is unknown what is stored: the next write writes these keys again.
        self.written[index].extend(changes.keys().map(|key| (key.clone(), String::new())));
        let name = object_name(&self.name, index);
        merge(self.api.clone(), &name, json!({ "data": changes }))
            .await
            .map_err(|error| refusal::classify(error, &name, index))?;
        for (key, text) in changes {
            match text {
                Some(text) => drop(self.written[index].insert(key, text)),
                None => drop(self.written[index].remove(&key)),
            }
        }
        Ok(())
    }
}

/// Splits off the entries that commands write. What this process does not know, it does not remove.
fn split_requests(data: ConfigMapData) -> (Vec<UserRequest>, ConfigMapData) {
    let (requests, data): (ConfigMapData, ConfigMapData) =
        data.into_iter().partition(|(key, _)| key.starts_with(REQUEST_KEY_PREFIX));
    (user_request::requests(&requests), data)
}

fn text_of(run: &RunRecord, format_version: u32) -> String {
    let (cohort, baseline) = (
        run.cohort.as_ref().map(|cohort| cohort.len()),
        run.baseline.as_ref().map(|baseline| baseline.len()),
    );
    let run =
        RunRecord { format_version, cohort_nodes: cohort, baseline_nodes: baseline, ..run.clone() };
    // This cannot fail: all map keys of the type are strings, and no Serialize implementation
    // fails.
    serde_json::to_string(&run).unwrap_or_default()
}
