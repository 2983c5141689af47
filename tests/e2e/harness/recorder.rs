//! Records the changes of objects during a rollout, for [`Trace`]s and for recordings in the format
//! of `tests/data/traces`.

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::stand_in::{Operand, cluster_policy_kind};
use super::trace::Trace;
use super::workloads::NAMESPACE;

/// Fields that no test reads. They would be the largest part of a recording.
const LEFT_OUT: [&str; 26] = [
    "addresses",
    "allocatable",
    "capacity",
    "containerID",
    "daemonEndpoints",
    "data",
    "dnsPolicy",
    "fieldsV1",
    "hostIP",
    "hostIPs",
    "imageID",
    "images",
    "lastHeartbeatTime",
    "managedFields",
    "nodeInfo",
    "podIP",
    "podIPs",
    "qosClass",
    "resources",
    "restartPolicy",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "terminationGracePeriodSeconds",
    "terminationMessagePath",
    "terminationMessagePolicy",
];

/// One line of a recording.
struct Line {
    at: Instant,
    /// `INITIAL`, `ADDED`, `MODIFIED` or `DELETED`. `None`: an action of a user.
    event: Option<&'static str>,
    content: Value,
}

#[derive(Default)]
struct Recording {
    trace: Trace,
    lines: Vec<Line>,
    /// The last state of each object, by kind, namespace and name.
    objects: BTreeMap<String, Value>,
    /// Kinds whose first list is complete.
    listed: usize,
    /// Set if a watch was interrupted, so that changes may be missing.
    gap: Option<String>,
}

/// A recording in progress. Dropping it ends the recording.
pub(crate) struct Recorder {
    recording: Rc<RefCell<Recording>>,
    watches: Vec<JoinHandle<()>>,
}

impl Recorder {
    /// Starts to record Nodes, ClusterPolicies, and of drivers, validators and workloads the
    /// DaemonSets, their revisions and the pods.
    pub(crate) fn start(client: &Client) -> Self {
        let recording = Rc::default();
        let kinds = [
            resource::<Node>(),
            cluster_policy_kind(),
            resource::<DaemonSet>(),
            resource::<ControllerRevision>(),
            resource::<Pod>(),
        ];
        let watches = kinds.into_iter().map(|kind| record(client, kind, &recording)).collect();
        Self { recording, watches }
    }

    /// Returns the current trace.
    pub(crate) fn trace(&self) -> Ref<'_, Trace> {
        Ref::map(self.recording.borrow(), |recording| &recording.trace)
    }

    /// Whether all initial objects have been recorded.
    pub(crate) fn has_begun(&self) -> bool {
        self.recording.borrow().listed == self.watches.len()
    }

    /// Records an action of a user.
    pub(crate) fn act(&self, action: &str) {
        self.recording.borrow_mut().lines.push(Line {
            at: Instant::now(),
            event: None,
            content: action.into(),
        });
    }

    /// Writes the recording, with times since `zero`.
    ///
    /// # Errors
    /// The recording is incomplete, or the file cannot be written.
    pub(crate) fn write(&self, file: &Path, zero: Instant) -> Result<()> {
        let recording = self.recording.borrow();
        ensure!(recording.gap.is_none(), "a watch was interrupted: {:?}", recording.gap);
        let mut text = String::new();
        for Line { at, event, content } in &recording.lines {
            let second = at
                .checked_duration_since(zero)
                .map_or(-0.001, |since| (since.as_secs_f64() * 1_000.0).round() / 1_000.0);
            let line = match event {
                Some(event) => json!({"t": second, "type": event, "object": content}),
                None => json!({"t": second, "action": content}),
            };
            writeln!(text, "{line}")?;
        }
        std::fs::create_dir_all(file.parent().context("a file in a directory")?)?;
        std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

impl Recording {
    fn see(&mut self, mut object: Value, kind: &ApiResource, initial: bool) {
        object["apiVersion"] = kind.api_version.as_str().into();
        object["kind"] = kind.kind.as_str().into();
        self.trace.add(&object);
        if !is_of_interest(&object) {
            return;
        }
        let key = key(&object);
        trim(&mut object);
        let before = self.objects.get(&key);
        // Heartbeats and the like.
        if before.is_some_and(|before| without_version(before) == without_version(&object)) {
            return;
        }
        let event = if initial {
            "INITIAL"
        } else if before.is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.objects.insert(key, object.clone());
        self.lines.push(Line { at: Instant::now(), event: Some(event), content: object });
    }

    fn lose(&mut self, mut object: Value, kind: &ApiResource) {
        object["apiVersion"] = kind.api_version.as_str().into();
        object["kind"] = kind.kind.as_str().into();
        trim(&mut object);
        if self.objects.remove(&key(&object)).is_some() {
            self.lines.push(Line { at: Instant::now(), event: Some("DELETED"), content: object });
        }
    }
}

fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

fn record(
    client: &Client,
    kind: ApiResource,
    recording: &Rc<RefCell<Recording>>,
) -> JoinHandle<()> {
    let recording = Rc::clone(recording);
    let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
    tokio::task::spawn_local(async move {
        let mut events = std::pin::pin!(watcher(api, Config::default()));
        let mut listed = false;
        while let Some(event) = events.next().await {
            let mut pause = false;
            {
                let mut recording = recording.borrow_mut();
                let value =
                    |object: DynamicObject| serde_json::to_value(object).unwrap_or_default();
                match event {
                    Ok(Event::InitApply(object)) => recording.see(value(object), &kind, !listed),
                    Ok(Event::Apply(object)) => recording.see(value(object), &kind, false),
                    Ok(Event::Delete(object)) => recording.lose(value(object), &kind),
                    Ok(Event::InitDone) if !listed => {
                        listed = true;
                        recording.listed += 1;
                    }
                    Ok(Event::Init) if listed => recording.gap = Some(kind.kind.clone()),
                    Ok(Event::Init | Event::InitDone) => {}
                    Err(_) => pause = true,
                }
            }
            if pause {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    })
}

/// Kind, namespace and name.
fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    format!(
        "{}/{}/{}",
        object["kind"].as_str().unwrap_or_default(),
        text("namespace"),
        text("name")
    )
}

fn is_of_interest(object: &Value) -> bool {
    let label = |key: &str| object["metadata"]["labels"][key].as_str().unwrap_or_default();
    match object["kind"].as_str() {
        Some("Node") => label("feature.node.kubernetes.io/pci-10de.present") == "true",
        Some("ClusterPolicy") => true,
        _ => {
            [Operand::Driver, Operand::Validator]
                .iter()
                .any(|operand| operand.name() == label("app"))
                || object["metadata"]["namespace"] == NAMESPACE
        }
    }
}

fn trim(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|field, _| !LEFT_OUT.contains(&field.as_str()));
            fields.values_mut().for_each(trim);
        }
        Value::Array(items) => items.iter_mut().for_each(trim),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn without_version(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object
}
