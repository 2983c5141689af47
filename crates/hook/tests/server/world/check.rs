//! Checks after every story, and queries for the stories.

use std::collections::BTreeMap;

use contract::names;
use contract::record::{NodeRecord, OBJECTS, RunRecord, object_name};
use jiff::{SignedDuration, Timestamp};
use kube_io::lease::LEASE_SECONDS;
use serde_json::Value;

use crate::fake::request::Entry;
use crate::person::PERSON;

use super::objects::Operand;
use super::{NEW, World};
use crate::settings::{DRA, OPERATOR, RELEASE};

/// An event that the API server accepted.
#[derive(Clone, Debug)]
pub(crate) struct RecordedEvent {
    /// The node that it is about; `None`: the Job.
    pub(crate) node: Option<String>,
    pub(crate) reason: String,
    pub(crate) note: String,
}

impl World {
    /// Returns the request log.
    pub(crate) fn log(&self) -> Vec<Entry> {
        self.server.state().log.clone()
    }

    /// Returns all writes that a pod requested.
    pub(crate) fn writes(&self, who: &str) -> Vec<Entry> {
        self.log()
            .into_iter()
            .filter(|entry| entry.request.who == who && entry.request.is_write())
            .collect()
    }

    /// Returns the run in the record.
    pub(crate) fn recorded(&self) -> Option<RunRecord> {
        let record = self.get("configmaps", OPERATOR, &format!("{RELEASE}-record"));
        record["data"]["run"].as_str().map(|text| serde_json::from_str(text).expect("a run"))
    }

    /// Returns the nodes in the record.
    pub(crate) fn recorded_nodes(&self) -> BTreeMap<String, NodeRecord> {
        let record = |index| {
            self.get("configmaps", OPERATOR, &object_name(&format!("{RELEASE}-record"), index))
        };
        let records: Vec<Value> = (0..OBJECTS).map(record).collect();
        let entries = records.iter().filter_map(|record| record["data"].as_object()).flatten();
        let nodes = entries.filter_map(|(key, text)| {
            Some((key.strip_prefix("node.")?, serde_json::from_str(text.as_str()?).ok()?))
        });
        nodes.map(|(name, record)| (name.to_owned(), record)).collect()
    }

    /// Returns reasons and notes of all events, oldest first.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        self.recorded_events().into_iter().map(|event| (event.reason, event.note)).collect()
    }

    /// Returns all events, oldest first.
    pub(crate) fn recorded_events(&self) -> Vec<RecordedEvent> {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let state = self.server.state();
        let created =
            state.log.iter().filter(|entry| entry.applied && entry.request.is("create", "events"));
        created
            .map(|entry| {
                let event = &entry.request.body;
                let about = &event["regarding"];
                RecordedEvent {
                    node: (about["kind"] == "Node").then(|| word(&about["name"])),
                    reason: word(&event["reason"]),
                    note: word(&event["note"]),
                }
            })
            .collect()
    }

    /// Returns the holder of the Lease.
    pub(crate) fn holder(&self) -> Option<String> {
        self.get("leases", "default", names::LEASE_NAME)["spec"]["holderIdentity"]
            .as_str()
            .map(str::to_owned)
    }

    /// Returns the plugin pods that a hook deleted: node, UID, time. Repeated requests count once,
    /// because the stored changes are used.
    pub(crate) fn deletions(&self) -> Vec<(String, String, Timestamp)> {
        let state = self.server.state();
        let mut found: Vec<(String, String, Timestamp)> = Vec::new();
        for change in state
            .store
            .history
            .iter()
            .filter(|change| change.key.resource == "pods" && change.key.namespace == DRA)
        {
            let metadata = &change.object["metadata"];
            if let Some(at) = metadata["deletionTimestamp"].as_str() {
                let uid = metadata["uid"].as_str().unwrap().to_owned();
                if !found.iter().any(|(_, known, _)| *known == uid) {
                    found.push((
                        change.object["spec"]["nodeName"].as_str().unwrap().to_owned(),
                        uid,
                        at.parse().unwrap(),
                    ));
                }
            }
        }
        found
    }

    /// Returns when the new driver became ready, for each node that has it.
    pub(crate) fn migrated(&self) -> BTreeMap<String, Timestamp> {
        let state = self.server.state();
        let pods = state.store.objects.iter().filter(|(key, pod)| {
            key.resource == "pods" && pod["metadata"]["labels"]["controller-revision-hash"] == "new"
        });
        let ready = pods.filter_map(|(_, pod)| {
            let at =
                pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"].as_str()?;
            Some((pod["spec"]["nodeName"].as_str()?.to_owned(), at.parse().ok()?))
        });
        ready.collect()
    }

    /// Asserts that on every migrated node, the old plugin was replaced once, after the driver was
    /// ready, and that its replacement serves the new driver. No other pod was deleted.
    pub(crate) fn assert_replaced_once(&self) {
        let migrated = self.migrated();
        let deletions = self.deletions();
        let mut nodes: Vec<&String> = deletions.iter().map(|(node, ..)| node).collect();
        nodes.sort();
        assert_eq!(nodes, migrated.keys().collect::<Vec<_>>(), "each node once");
        for (node, uid, at) in &deletions {
            assert_eq!(
                Some(uid),
                self.originals.get(node),
                "{node}: the pod that was there before"
            );
            assert!(
                *at > migrated[node],
                "{node}: deleted at {at}, its driver was ready at {}",
                migrated[node]
            );
            let slice = self.get("resourceslices", "", &format!("{node}-gpu.nvidia.com-x"));
            assert_eq!(
                slice["spec"]["devices"][0]["attributes"]["driverVersion"]["version"], NEW,
                "{node}"
            );
        }
        let state = self.server.state();
        let plugins = state.store.objects.iter().filter(|(_, pod)| {
            pod["metadata"]["ownerReferences"][0]["uid"] == Operand::Plugin.daemon_set()
                && pod["status"]["phase"] == "Running"
        });
        assert_eq!(plugins.count(), self.originals.len(), "every node has its plugin");
    }

    /// Asserts that only the holder of the Lease writes, and only while it holds the Lease.
    /// Requests sent before may arrive later, because preconditions protect them.
    fn assert_one_writer(&self) {
        let mut held: Option<(String, Timestamp)> = None;
        for entry in self.log().iter().filter(|entry| entry.applied && !is_said(entry)) {
            let who = &entry.request.who;
            let age = |since: &Timestamp| entry.at.duration_since(*since);
            let long = SignedDuration::from_secs(LEASE_SECONDS.into());
            if entry.request.resource == "leases" {
                let next = entry.request.body["spec"]["holderIdentity"].as_str();
                if let Some((holder, since)) = &held {
                    let own = holder == who;
                    assert!(
                        own || age(since) >= long,
                        "{who} took the Lease from {holder} after {}",
                        age(since)
                    );
                }
                held = next.map(|holder| (holder.to_owned(), entry.at));
                assert!(next.is_none_or(|holder| holder == who));
            } else if !entry.late {
                let (holder, since) = held
                    .as_ref()
                    .unwrap_or_else(|| panic!("{who} wrote without the Lease: {entry:?}"));
                assert!(
                    holder == who && age(since) < long,
                    "{who} wrote while {holder} held the Lease: {entry:?}"
                );
            }
        }
    }
}

/// Whether a write is a user's request, which needs no Lease: changes from a workstation, pauses,
/// and the deletion of a Job.
fn is_said(entry: &Entry) -> bool {
    let request = &entry.request;
    let pauses =
        request.name == names::PAUSE_NAME || request.body["metadata"]["name"] == names::PAUSE_NAME;
    request.who == PERSON
        || request.resource == "jobs"
        || (request.resource == "configmaps" && pauses)
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.assert_one_writer();
        assert_eq!(self.server.state().violations, Vec::<String>::new());
    }
}
