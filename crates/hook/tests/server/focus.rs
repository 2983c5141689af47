//! Watches of the pods of single nodes: which nodes are watched, the content of their caches, and
//! the effect of a broken watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_io::list::list_workloads;
use kube_io::node_pods::{FocusedNodes, MOST_NODES};
use kube_io::version_floor::ResourceVersionFloors;
use tokio::sync::Notify;

use crate::fake::fault::{Break, Effect, Fault};
use crate::rig::Rig;

/// A focus with its server: two pods on `node-1`, one on `node-2`, none on `node-3`.
struct Case {
    rig: Rig,
    focus: FocusedNodes,
    changed: Arc<Notify>,
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

impl Case {
    fn new() -> Self {
        let rig = Rig::new();
        rig.pod("serve-0", "node-2");
        let changed = Arc::new(Notify::new());
        Self {
            focus: FocusedNodes::new(
                &rig.client,
                Arc::clone(&changed),
                Arc::default(),
                ResourceVersionFloors::default(),
            ),
            rig,
            changed,
        }
    }

    /// Returns the observed pod names by node.
    fn seen(&self) -> BTreeMap<String, Vec<String>> {
        let pods = self.focus.pods().into_iter();
        pods.map(|(node, pods)| (node, pods.into_iter().map(|pod| pod.name).collect())).collect()
    }

    fn sees(&self, expected: &[(&str, &[&str])]) {
        let expected: BTreeMap<String, Vec<String>> = expected
            .iter()
            .map(|(node, pods)| {
                ((*node).to_owned(), pods.iter().map(|pod| (*pod).to_owned()).collect())
            })
            .collect();
        assert_eq!(self.seen(), expected);
    }

    fn asked(&self, verb: &str, node: &str) -> usize {
        self.rig
            .server
            .state()
            .log
            .iter()
            .filter(|entry| entry.request.verb == verb && entry.request.node() == Some(node))
            .count()
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn focused_node_is_listed_once_and_watched() {
    let mut case = Case::new();
    case.focus.set(&names(["node-1", "node-3"]));
    case.sees(&[]);
    case.changed.notified().await;
    pass(1).await;
    case.sees(&[("node-1", &["train-0", "train-1"]), ("node-3", &[])]);
    case.rig.remove_pod("train-0");
    case.rig.pod("train-2", "node-1");
    case.rig.pod("new-0", "node-3");
    case.changed.notified().await;
    pass(1).await;
    case.focus.set(&names(["node-1", "node-3"]));
    pass(30).await;
    case.sees(&[("node-1", &["train-1", "train-2"]), ("node-3", &["new-0"])]);
    for node in ["node-1", "node-3"] {
        assert_eq!((case.asked("list", node), case.asked("watch", node)), (1, 1), "{node}");
    }
    case.focus.set(&names(["node-2"]));
    pass(1).await;
    case.sees(&[("node-2", &["serve-0"])]);
    pass(600).await;
    assert_eq!(case.asked("watch", "node-1"), 1, "a node out of focus is not requested any more");
    assert_eq!(
        case.asked("list", "node-2"),
        1,
        "the server's regular ends of a watch lose no event"
    );
    assert_eq!(
        case.asked("watch", "node-2"),
        3,
        "with bookmarks, the watch is requested again every five minutes"
    );
    case.focus.set(&names(["node-1"]));
    pass(1).await;
    case.sees(&[("node-1", &["train-1", "train-2"])]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn failing_watch_makes_only_its_node_unknown() {
    let mut case = Case::new();
    case.focus.set(&names(["node-1", "node-2"]));
    pass(1).await;
    let on_node = |request: &crate::fake::request::Request| request.node() == Some("node-1");
    case.rig.server.state().faults.push(Fault::new(on_node, 0, 6, Effect::Status(500)));
    case.rig.server.change(|state| state.breaks.push(Break::Gone));
    pass(2).await;
    case.rig.pod("train-2", "node-1");
    case.sees(&[("node-2", &["serve-0"])]);
    assert_eq!(case.focus.forbidden(), None);
    pass(60).await;
    case.sees(&[("node-1", &["train-0", "train-1", "train-2"]), ("node-2", &["serve-0"])]);
}

/// Regression: a lagging server listed a node without its newest pods, and the hook could have
/// deleted the driver that they use.
#[tokio::test(flavor = "local", start_paused = true)]
async fn list_older_than_other_nodes_is_not_believed() {
    let mut case = Case::new();
    let before = case.rig.server.state().store.version;
    case.rig.pod("serve-1", "node-3");
    case.focus.set(&names(["node-1"]));
    pass(1).await;
    case.rig.server.change(|state| state.frozen = Some((vec!["pods"], before)));
    case.focus.set(&names(["node-1", "node-3"]));
    pass(20).await;
    case.sees(&[("node-1", &["train-0", "train-1"])]);
    case.rig.server.change(|state| state.frozen = None);
    pass(10).await;
    case.sees(&[("node-1", &["train-0", "train-1"]), ("node-3", &["serve-1"])]);
}

/// The server sends bookmarks regularly, so a connection without bookmarks is dead.
#[tokio::test(flavor = "local", start_paused = true)]
async fn silent_watch_is_not_trusted_for_long() {
    let mut case = Case::new();
    case.focus.set(&names(["node-1"]));
    pass(100).await;
    case.rig.server.goes_silent(300);
    pass(40).await;
    case.sees(&[("node-1", &["train-0", "train-1"])]);
    case.rig.remove_pod("train-0");
    pass(40).await;
    case.sees(&[]);
    pass(250).await;
    case.sees(&[("node-1", &["train-1"])]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn broken_watches_lose_no_pod() {
    for how in [Break::EndOfFile, Break::Gone, Break::Error, Break::Cut] {
        let mut case = Case::new();
        case.focus.set(&names(["node-1"]));
        pass(1).await;
        case.rig.server.change(|state| state.breaks.push(how));
        case.rig.remove_pod("train-0");
        pass(10).await;
        case.sees(&[("node-1", &["train-1"])]);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_missing_right_is_told() {
    let mut case = Case::new();
    case.rig.server.state().denied.insert("list pods".into());
    case.focus.set(&names(["node-1"]));
    pass(1).await;
    case.sees(&[]);
    let message = case.focus.forbidden();
    assert!(
        message.as_ref().is_some_and(|message| message.starts_with("pods on node node-1: ")),
        "{message:?}"
    );
    case.rig.server.state().denied.clear();
    pass(20).await;
    assert_eq!(case.focus.forbidden(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn more_nodes_than_can_be_followed_take_turns() {
    let mut case = Case::new();
    let mut nodes: BTreeSet<String> =
        (0..MOST_NODES + 2).map(|index| format!("node-{index:04}")).collect();
    case.focus.set(&nodes);
    pass(1).await;
    let first = case.seen();
    assert_eq!(first.len(), MOST_NODES);
    // A node that sorts before the others does not displace a watched node.
    nodes.insert("a-node".to_owned());
    nodes.remove("node-0001");
    case.focus.set(&nodes);
    assert_eq!(
        case.focus.listing(),
        names(["node-0100"]),
        "the first of the nodes that have waited longest"
    );
    pass(1).await;
    let then = case.seen();
    assert_eq!((then.len(), case.focus.listing()), (MOST_NODES, names([])));
    assert!(then.contains_key("node-0100") && !then.contains_key("node-0001"));
    assert!(first.keys().filter(|node| *node != "node-0001").all(|node| then.contains_key(node)));
    for (leaves, comes) in [("node-0005", "node-0101"), ("node-0099", "a-node")] {
        nodes.remove(leaves);
        case.focus.set(&nodes);
        assert_eq!(case.focus.listing(), names([comes]));
        pass(1).await;
    }
    nodes.insert("node-0005".to_owned());
    nodes.insert("b-node".to_owned());
    case.focus.set(&nodes);
    nodes.remove("node-0005");
    case.focus.set(&nodes);
    nodes.insert("node-0005".to_owned());
    nodes.remove("node-0002");
    case.focus.set(&nodes);
    assert_eq!(
        case.focus.listing(),
        names(["b-node"]),
        "a node that leaves the queue and returns is last"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn pods_are_listed_again_if_a_page_expired() {
    let rig = Rig::new();
    for index in 0..250 {
        rig.pod(&format!("many-{index:03}"), if index % 2 == 0 { "node-2" } else { "node-3" });
    }
    let list = async || {
        let kept = list_workloads(&rig.client, &names(["node-1", "node-3"]), |pod| {
            Some((pod.node, pod.name))
        })
        .await;
        kept.map(|kept| kept.len())
    };
    assert_eq!(list().await.unwrap(), 127);
    assert_eq!(rig.requests(), 3);
    let third = |request: &crate::fake::request::Request| request.query.contains_key("continue");
    rig.server.state().faults.push(Fault::new(third, 1, 1, Effect::Status(410)));
    assert_eq!(list().await.unwrap(), 127, "nothing twice");
    rig.server.state().faults.push(Fault::new(third, 0, usize::MAX, Effect::Status(410)));
    assert!(list().await.is_err(), "not indefinitely");
}
