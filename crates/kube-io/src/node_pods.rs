//! Per-node pod watches: each node has its own list and watch, because a hook Job cannot hold all
//! pods of a large cluster in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::Client;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use observed::workload::Workload;
use planner::pods::FOCUS_LIMIT;

use super::api_collection::{ApiCollection, PODS};
use super::cache::{CacheTable, WatchHealth};
use super::list_watch::{ObjectSelection, follow};
use super::sink::ProjectedTable;
use super::version_floor::ResourceVersionFloors;
use observed::intern::LabelInterner;
use observed::project;

/// The maximum number of nodes that are followed at the same time. Each is a connection and a watch
/// of the API server; with an unlimited `maxParallelUpgrades` there could be thousands. Further
/// nodes wait until one of these is no longer followed.
pub const MOST_NODES: usize = FOCUS_LIMIT;

/// The pods of the followed nodes.
pub struct FocusedNodes {
    client: Client,
    changed: Arc<Notify>,
    interner: Arc<LabelInterner>,
    floors: ResourceVersionFloors,
    nodes: BTreeMap<String, FocusedNode>,
    /// Nodes that wait to be followed, each with the sequence number of its request: the node that
    /// has waited longest is next.
    waiting: BTreeMap<String, u64>,
    turn: u64,
    /// Ends the followers when dropped.
    followers: JoinSet<()>,
}

struct FocusedNode {
    pods: CacheTable<Workload>,
    follower: AbortHandle,
}

impl FocusedNodes {
    /// Creates the focus without any node. It notifies `changed` after every change.
    pub fn new(
        client: &Client,
        changed: Arc<Notify>,
        interner: Arc<LabelInterner>,
        floors: ResourceVersionFloors,
    ) -> Self {
        Self {
            client: client.clone(),
            changed,
            interner,
            floors,
            nodes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            turn: 0,
            followers: JoinSet::new(),
        }
    }

    /// Follows the pods of exactly these nodes. Nodes that are already followed are not listed
    /// again; others follow in the order of their requests. RBAC: `list` and `watch` on `pods`.
    pub fn set(&mut self, nodes: &BTreeSet<String>) {
        self.nodes.retain(|node, focused| {
            let stays = nodes.contains(node);
            if !stays {
                focused.follower.abort();
            }
            stays
        });
        // Remove the tasks that have ended.
        while self.followers.try_join_next().is_some() {}
        self.waiting.retain(|node, _| nodes.contains(node));
        for node in nodes.iter().filter(|node| !self.nodes.contains_key(*node)) {
            self.waiting.entry(node.clone()).or_insert(self.turn);
        }
        self.turn += 1;
        let mut order: Vec<(u64, &String)> =
            self.waiting.iter().map(|(node, turn)| (*turn, node)).collect();
        order.sort_unstable();
        let free = MOST_NODES.saturating_sub(self.nodes.len());
        let next: Vec<String> =
            order.into_iter().take(free).map(|(_, node)| node.clone()).collect();
        for node in next {
            self.waiting.remove(&node);
            self.follow(node);
        }
    }

    fn follow(&mut self, node: String) {
        let pods = CacheTable::new(Arc::clone(&self.changed));
        let project = self.interner.sharing(project::workload, |workload| &mut workload.labels);
        let sink = ProjectedTable::new(pods.clone(), project);
        let collection = ApiCollection::new(&self.client, PODS, None);
        let follower = self.followers.spawn(follow(
            collection,
            ObjectSelection::on_node(&node),
            sink,
            self.floors.for_resource(PODS.1),
        ));
        self.nodes.insert(node, FocusedNode { pods, follower });
    }

    /// Returns the pods of each node whose cache is in step with the API server. A missing node has
    /// not been listed, or its watch is failing, so its pods are unknown.
    pub fn pods(&self) -> BTreeMap<String, Vec<Workload>> {
        let in_step =
            self.nodes.iter().filter(|(_, focused)| focused.pods.health() == WatchHealth::InStep);
        in_step.map(|(node, focused)| (node.clone(), focused.pods.values())).collect()
    }

    /// Returns the followed nodes whose cache is not in step.
    pub fn listing(&self) -> BTreeSet<String> {
        let behind =
            self.nodes.iter().filter(|(_, focused)| focused.pods.health() != WatchHealth::InStep);
        behind.map(|(node, _)| node.clone()).collect()
    }

    /// Returns the first refusal of the server, if there is one.
    pub fn forbidden(&self) -> Option<String> {
        self.problem(|health| {
            if let WatchHealth::Forbidden(message) = health { Some(message) } else { None }
        })
    }

    /// Returns the first node whose pods the server has long shown in an older state, if there is
    /// one.
    pub(crate) fn past(&self) -> Option<String> {
        self.problem(
            |health| if let WatchHealth::Past(message) = health { Some(message) } else { None },
        )
    }

    /// Returns the first message about a node's watch.
    fn problem(&self, message: fn(WatchHealth) -> Option<String>) -> Option<String> {
        self.nodes.iter().find_map(|(node, focused)| {
            Some(format!("pods on node {node}: {}", message(focused.pods.health())?))
        })
    }
}
