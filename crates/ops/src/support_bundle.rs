//! Collects what a user without access to the cluster needs to find out why a rollout is stuck:
//! objects, events and logs of operators and hooks, without private data. Secrets are never read,
//! and texts that look like a secret are removed from everything else.

use std::collections::BTreeSet;

use kube::Client;
use serde_json::Value;

use contract::driver::Driver;
use contract::names;
use contract::settings::Settings;
use kube_io::call::CallError;
use kube_io::raw::{RawKind, RawSelection, log, objects};

use super::observe::RolloutSnapshot;
use super::status::{NodeStage, RolloutStatus};

mod redact;
mod table;

use redact::redact;
use table::{CLUSTER, DRA, EVENTS, LEASE, OURS, PODS, THEIRS};

/// The maximum number of lines per log.
const LINES: u32 = 2_000;
/// The maximum number of pods whose logs are collected.
const MOST_PODS: usize = 60;

/// One file of a support bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupportFile {
    /// Path of the file in the archive.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

/// A support bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SupportBundle {
    /// The files.
    pub files: Vec<SupportFile>,
    /// How many texts were removed because they look like a secret or have such a name.
    pub redacted: usize,
    /// What could not be read, and why.
    pub missing: Vec<String>,
}

impl SupportBundle {
    /// Adds a file, without texts that look like a secret.
    pub fn add(&mut self, path: impl Into<String>, text: &str) {
        let (text, count) = contract::secret_patterns::redact(text);
        self.redacted += count;
        self.files.push(SupportFile { path: path.into(), text });
    }
}

/// Returns the namespaces of hooks, operators and plugins.
fn namespaces(snapshots: &[RolloutSnapshot], hooks: &[&Settings]) -> BTreeSet<String> {
    let observed = snapshots.iter().map(|snapshot| &snapshot.settings);
    let mut all = BTreeSet::new();
    for settings in observed.chain(hooks.iter().copied()) {
        all.extend(
            [&settings.namespace, &settings.operator_namespace, &settings.device_plugin.namespace]
                .map(Clone::clone),
        );
    }
    for snapshot in snapshots {
        all.extend(snapshot.observed.dra.pods.iter().map(|pod| pod.namespace.clone()));
    }
    all.remove("");
    all
}

/// Returns the namespaces of the GPU Operators, which contain the Leases of their leaders.
fn gpu_operator_namespaces<'a>(
    snapshots: &'a [RolloutSnapshot],
    hooks: &[&'a Settings],
) -> BTreeSet<&'a str> {
    let all = snapshots.iter().map(|snapshot| &snapshot.settings).chain(hooks.iter().copied());
    let of_gpus = all.filter(|settings| {
        settings.driver == Driver::Gpu && !settings.operator_namespace.is_empty()
    });
    of_gpus.map(|settings| settings.operator_namespace.as_str()).collect()
}

/// Returns the nodes that have failed or are in progress.
fn nodes_in_question(statuses: &[RolloutStatus]) -> BTreeSet<&str> {
    let open = |stage: NodeStage| matches!(stage, NodeStage::Failed | NodeStage::InProgress);
    statuses
        .iter()
        .flat_map(|status| &status.nodes)
        .filter(|row| open(row.stage))
        .map(|row| row.node.as_str())
        .collect()
}

/// Collects objects, events and, if `logs`, logs. What may not be read is listed in
/// [`SupportBundle::missing`]. RBAC: `list` on the kinds of `support/table.rs`, and `get` on
/// `pods/log`; all of them are optional.
pub async fn support(
    client: &Client,
    snapshots: &[RolloutSnapshot],
    hooks: &[&Settings],
    statuses: &[RolloutStatus],
    logs: bool,
) -> SupportBundle {
    let mut gathering = Gathering { client, support: SupportBundle::default() };
    for kind in CLUSTER {
        gathering.objects(kind, None, RawSelection::All).await;
    }
    for versions in DRA {
        for kind in versions {
            if gathering.objects(kind, None, RawSelection::All).await.is_some() {
                break;
            }
        }
    }
    gathering.objects(EVENTS, Some(names::LEASE_NAMESPACE), RawSelection::All).await;
    gathering
        .objects(LEASE, Some(names::LEASE_NAMESPACE), RawSelection::Named(names::LEASE_NAME))
        .await;
    for namespace in gpu_operator_namespaces(snapshots, hooks) {
        gathering.objects(LEASE, Some(namespace), RawSelection::Named(names::OPERATOR_LEASE)).await;
    }
    let ours = format!("app.kubernetes.io/name={}", names::PROGRAM);
    for kind in OURS {
        gathering.objects(kind, None, RawSelection::Labeled(&ours)).await;
    }
    let mut pods = Vec::new();
    for namespace in namespaces(snapshots, hooks) {
        for kind in THEIRS {
            gathering.objects(kind, Some(&namespace), RawSelection::All).await;
        }
        if namespace != names::LEASE_NAMESPACE {
            gathering.objects(EVENTS, Some(&namespace), RawSelection::All).await;
        }
        pods.extend(
            gathering.objects(PODS, Some(&namespace), RawSelection::All).await.unwrap_or_default(),
        );
    }
    if logs {
        gathering.logs(&pods, &nodes_in_question(statuses)).await;
    }
    gathering.support
}

struct Gathering<'a> {
    client: &'a Client,
    support: SupportBundle,
}

impl Gathering<'_> {
    /// Collects and returns the objects of one kind, in one namespace or all. Returns `None` if the
    /// cluster does not have the kind.
    async fn objects(
        &mut self,
        kind: RawKind,
        namespace: Option<&str>,
        selection: RawSelection<'_>,
    ) -> Option<Vec<Value>> {
        let mut objects = match objects(self.client, kind, namespace, selection).await {
            Ok(objects) => objects,
            // Not every cluster has every kind.
            Err(CallError::NotFound(_)) => return None,
            Err(error) => {
                let place = namespace
                    .map(|namespace| format!(" of namespace {namespace}"))
                    .unwrap_or_default();
                self.support.missing.push(format!("{}{place}: {error}", kind.plural));
                return Some(Vec::new());
            }
        };
        for object in &mut objects {
            self.support.redacted += redact(object);
            self.file(kind, object);
        }
        Some(objects)
    }

    fn file(&mut self, kind: RawKind, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        match yaml::to_string(object) {
            Ok(text) => self.support.files.push(SupportFile {
                path: format!("objects/{}/{place}{name}.yaml", kind.plural),
                text,
            }),
            Err(error) => {
                self.support.missing.push(format!("{} {place}{name}: {error}", kind.plural));
            }
        }
    }

    /// Collects the logs of pods: first of hooks and operators, then of DaemonSet pods on `nodes`.
    async fn logs(&mut self, pods: &[Value], nodes: &BTreeSet<&str>) {
        let on_every_node =
            |pod: &Value| pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet";
        let concerned = |pod: &&Value| {
            !on_every_node(pod)
                || pod["spec"]["nodeName"].as_str().is_some_and(|node| nodes.contains(node))
        };
        let mut chosen: Vec<&Value> = pods.iter().filter(concerned).collect();
        chosen.sort_by_key(|pod| on_every_node(pod));
        if chosen.len() > MOST_PODS {
            self.support.missing.push(format!(
                "logs of {} more pods: at most {MOST_PODS} pods are collected",
                chosen.len() - MOST_PODS
            ));
        }
        for pod in chosen.into_iter().take(MOST_PODS) {
            for container in containers(pod) {
                self.log(pod, &container).await;
            }
        }
    }

    async fn log(&mut self, pod: &Value, container: &LoggingContainer) {
        let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        for previous in [false, true] {
            if previous && !container.restarted || !previous && !container.started {
                continue;
            }
            let ending = if previous { ".previous.log" } else { ".log" };
            match log(self.client, (namespace, name), &container.name, previous, LINES).await {
                Ok(lines) => {
                    self.support
                        .add(format!("logs/{namespace}/{name}/{}{ending}", container.name), &lines);
                }
                Err(error) => self.support.missing.push(format!(
                    "log of {namespace}/{name}, container {}: {error}",
                    container.name
                )),
            }
        }
    }
}

/// A container that may have a log.
struct LoggingContainer {
    name: String,
    started: bool,
    restarted: bool,
}

fn containers(pod: &Value) -> Vec<LoggingContainer> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    let container = |status: &Value| {
        let state = &status["state"];
        Some(LoggingContainer {
            name: status["name"].as_str()?.to_owned(),
            started: !state["running"].is_null() || !state["terminated"].is_null(),
            restarted: status["restartCount"].as_u64().unwrap_or_default() > 0,
        })
    };
    statuses.filter_map(container).collect()
}
