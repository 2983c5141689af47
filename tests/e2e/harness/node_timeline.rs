//! Records what happens to each node and to its pods during an upgrade, as the API server's watches
//! report it: where the time between two nodes goes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context, Result};
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use super::fleet::DRA_NAMESPACE;
use super::stand_in::{OPERATOR_NAMESPACE, is_ready};

/// The labels of a node whose changes are recorded, with the word for them.
const LABELS: [(&str, &str); 3] = [
    ("gpu-rollout.dev/gpu-driver-upgrade-state", "hook"),
    ("nvidia.com/gpu-driver-upgrade-state", "operator"),
    ("nvidia.com/gpu-driver-upgrade.skip", "skip"),
];

/// One event: its time, its node, and what happened.
type TimelineEvent = (Timestamp, String, String);

/// A recording in progress. Dropping it ends the recording.
pub(crate) struct NodeTimeline {
    events: Rc<RefCell<Vec<TimelineEvent>>>,
    watches: Vec<JoinHandle<()>>,
}

impl NodeTimeline {
    /// Starts to record.
    pub(crate) fn record(client: &Client) -> Self {
        let events: Rc<RefCell<Vec<TimelineEvent>>> = Rc::default();
        let nodes = watch(Api::<Node>::all(client.clone()), &events, |node| Some(node_facts(node)));
        let pods = [OPERATOR_NAMESPACE, DRA_NAMESPACE].map(|namespace| {
            watch(Api::<Pod>::namespaced(client.clone(), namespace), &events, pod_facts)
        });
        Self { events, watches: std::iter::once(nodes).chain(pods).collect() }
    }

    /// Ends the recording, and keeps its events.
    pub(crate) fn stop(&mut self) {
        self.watches.drain(..).for_each(|watch| watch.abort());
    }

    /// Returns when each node was cordoned first, in the order of these times.
    pub(crate) fn cordons(&self) -> Vec<(Timestamp, String)> {
        let mut first: BTreeMap<String, Timestamp> = BTreeMap::new();
        for (at, node, what) in self.events.borrow().iter() {
            if what == "node: cordoned" {
                first.entry(node.clone()).or_insert(*at);
            }
        }
        let mut cordons: Vec<_> = first.into_iter().map(|(node, at)| (at, node)).collect();
        cordons.sort();
        cordons
    }

    /// Returns when this happened last to any node.
    pub(crate) fn last_of(&self, event: &str) -> Result<Timestamp> {
        let events = self.events.borrow();
        let last = events.iter().filter(|(.., what)| what == event).map(|(at, ..)| *at).max();
        last.with_context(|| format!("no node: {event}"))
    }

    /// Returns the events of a node in a period, with their offsets.
    pub(crate) fn between(
        &self,
        node: &str,
        (from, to): (Timestamp, Timestamp),
    ) -> Vec<(SignedDuration, String)> {
        let events = self.events.borrow();
        let of_node = events.iter().filter(|(at, of, _)| of == node && *at >= from && *at <= to);
        of_node.map(|(at, _, what)| (at.duration_since(from), what.clone())).collect()
    }
}

impl Drop for NodeTimeline {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Watches objects and records each fact that begins or ends. `facts`: returns the node of an
/// object, and the facts about it.
fn watch<K>(
    objects: Api<K>,
    events: &Rc<RefCell<Vec<TimelineEvent>>>,
    facts: impl Fn(&K) -> Option<(String, Vec<String>)> + 'static,
) -> JoinHandle<()>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let events = Rc::clone(events);
    tokio::task::spawn_local(async move {
        let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut changes = std::pin::pin!(watcher(objects, Config::default()).default_backoff());
        while let Some(change) = changes.next().await {
            let now = Timestamp::now();
            let (object, is_gone) = match change {
                Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
                Ok(Event::Delete(object)) => (object, true),
                // A watch that fails restarts.
                Ok(Event::Init | Event::InitDone) | Err(_) => continue,
            };
            let Some((node, mut facts)) = facts(&object) else { continue };
            let uid = object.uid().unwrap_or_default();
            if is_gone {
                facts.push(format!("{}: gone", short(&object.name_any())));
            }
            let before = known.insert(uid, facts.clone()).unwrap_or_default();
            let new = facts.into_iter().filter(|fact| !before.contains(fact));
            events.borrow_mut().extend(new.map(|fact| (now, node.clone(), fact)));
        }
    })
}

fn node_facts(node: &Node) -> (String, Vec<String>) {
    let label = |(name, word): &(&str, &str)| {
        let value = node.labels().get(*name).map_or("none", String::as_str);
        format!("{word}: {value}")
    };
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let cordon = if is_cordoned { "node: cordoned" } else { "node: uncordoned" };
    let facts = LABELS.iter().map(label).chain([cordon.to_owned()]).collect();
    (node.name_any(), facts)
}

fn pod_facts(pod: &Pod) -> Option<(String, Vec<String>)> {
    let node = pod.spec.as_ref()?.node_name.clone()?;
    let name = short(&pod.name_any()).to_owned();
    let ends = pod.metadata.deletion_timestamp.is_some();
    let facts = [
        Some(format!("{name}: created")),
        ends.then(|| format!("{name}: ends")),
        (!ends && is_ready(pod)).then(|| format!("{name}: ready")),
    ];
    Some((node, facts.into_iter().flatten().collect()))
}

/// Returns the name of a pod of a DaemonSet without its random end.
fn short(pod: &str) -> &str {
    pod.rsplit_once('-').map_or(pod, |(name, _)| name)
}
