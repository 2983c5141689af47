//! Records the pods of acceptance tests and the cordons of their nodes, in the order of the API
//! server's revisions: they order the changes of different objects, too.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use contract::acceptance::{ACCEPTANCE_NAMESPACE, NODE_ANNOTATION, TEST_LABEL, TIME_ANNOTATION};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use super::wait::until;

/// How long the watches may lag behind.
const LAG: Duration = Duration::from_secs(20);

/// A state of an object.
enum Change {
    Node { node: String, cordoned: bool },
    Pod { node: String, pod: TestPod, succeeded: bool },
}

/// A pod of a test.
#[derive(Clone, PartialEq, Eq)]
struct TestPod {
    uid: String,
    test: String,
    /// `before` or `after`.
    time: String,
}

/// The changes by their revision.
type Changes = Rc<RefCell<BTreeMap<u64, Change>>>;

/// What is known of a node.
#[derive(Default)]
struct NodeState {
    cordoned: bool,
    uncordons: usize,
    /// The tests with the new driver that have passed since its cordon.
    passed: BTreeSet<String>,
    pods: Vec<TestPod>,
}

/// A recording in progress. Dropping it ends the recording.
pub(crate) struct TestTimeline {
    changes: Changes,
    watches: [JoinHandle<()>; 2],
}

impl TestTimeline {
    /// Starts to record.
    pub(crate) fn record(client: &Client) -> Self {
        let changes = Changes::default();
        let pods = Api::<Pod>::namespaced(client.clone(), ACCEPTANCE_NAMESPACE);
        let watches = [
            record(Api::<Node>::all(client.clone()), &changes, |node| Some(of_node(node))),
            record(pods, &changes, of_pod),
        ];
        Self { changes, watches }
    }

    /// Checks that each of these nodes was uncordoned once, after these tests had passed with its
    /// new driver, and that tests were started on cordoned nodes only.
    pub(crate) async fn check(&self, nodes: &[String], tests: &[&str]) -> Result<()> {
        until("the timeline of tests and cordons", LAG, async || {
            self.check_known(nodes, tests).map(Some)
        })
        .await
    }

    /// Returns the tests that were started on each node, in order, as `TEST TIME`.
    pub(crate) fn started(&self) -> BTreeMap<String, Vec<String>> {
        let mut nodes: BTreeMap<String, Vec<TestPod>> = BTreeMap::new();
        for change in self.changes.borrow().values() {
            if let Change::Pod { node, pod, .. } = change {
                let pods = nodes.entry(node.clone()).or_default();
                if !pods.contains(pod) {
                    pods.push(pod.clone());
                }
            }
        }
        let name = |TestPod { test, time, .. }: TestPod| format!("{test} {time}");
        let names = |pods: Vec<TestPod>| -> Vec<String> { pods.into_iter().map(name).collect() };
        nodes.into_iter().map(|(node, pods)| (node, names(pods))).collect()
    }

    fn check_known(&self, nodes: &[String], tests: &[&str]) -> Result<()> {
        let changes = self.changes.borrow();
        let mut states: BTreeMap<&str, NodeState> = BTreeMap::new();
        for (revision, change) in changes.iter() {
            match change {
                Change::Node { node, cordoned } => {
                    let state = states.entry(node).or_default();
                    if state.cordoned && !cordoned && nodes.contains(node) {
                        state.uncordons += 1;
                        ensure!(
                            tests.iter().all(|test| state.passed.contains(*test)),
                            "{node} was uncordoned (revision {revision}), and only {:?} had passed",
                            state.passed
                        );
                    }
                    if *cordoned && !state.cordoned {
                        state.passed.clear();
                    }
                    state.cordoned = *cordoned;
                }
                Change::Pod { node, pod, succeeded } => {
                    let state = states.entry(node).or_default();
                    if !state.pods.contains(pod) {
                        let TestPod { test, time, .. } = pod;
                        ensure!(state.cordoned, "test {test} {time} on {node} without a cordon");
                        state.pods.push(pod.clone());
                    }
                    if *succeeded && pod.time == "after" {
                        state.passed.insert(pod.test.clone());
                    }
                }
            }
        }
        for node in nodes {
            let state = states.get(node.as_str()).with_context(|| format!("{node} is unknown"))?;
            let uncordons = state.uncordons;
            ensure!(uncordons == 1, "{node} was uncordoned {uncordons} times");
        }
        Ok(())
    }
}

impl Drop for TestTimeline {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

fn record<K>(
    api: Api<K>,
    changes: &Changes,
    change: impl Fn(&K) -> Option<Change> + 'static,
) -> JoinHandle<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let changes = Rc::clone(changes);
    tokio::task::spawn_local(async move {
        let mut events = std::pin::pin!(watcher(api, Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    let revision = object.resource_version();
                    let revision = revision.and_then(|text| text.parse::<u64>().ok());
                    if let Some((revision, change)) = revision.zip(change(&object)) {
                        changes.borrow_mut().insert(revision, change);
                    }
                }
                Ok(Event::Delete(_) | Event::Init | Event::InitDone) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    })
}

fn of_node(node: &Node) -> Change {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    Change::Node { node: node.name_any(), cordoned }
}

/// Returns the state of a pod of a hook. Pods that users create by hand have another label.
fn of_pod(pod: &Pod) -> Option<Change> {
    let annotation = |key: &str| pod.annotations().get(key).cloned();
    let test = pod.labels().get(TEST_LABEL)?.clone();
    let (node, time) = (annotation(NODE_ANNOTATION)?, annotation(TIME_ANNOTATION)?);
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let succeeded = phase == Some("Succeeded");
    let pod = TestPod { uid: pod.uid().unwrap_or_default(), test, time };
    Some(Change::Pod { node, pod, succeeded })
}
