//! The pods of single nodes, each node by a list and a watch of its own: all pods of a large cluster are more than a hook Job can hold.

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

/// Nodes focused at once. Each one is a connection and a watch of the API server; with an unlimited `maxParallelUpgrades` there could
/// be thousands. The others' turn comes when one of these leaves the focus.
pub const MOST_NODES: usize = FOCUS_LIMIT;

/// The pods of the nodes in focus.
pub struct FocusedNodes {
    client: Client,
    changed: Arc<Notify>,
    interner: Arc<LabelInterner>,
    floors: ResourceVersionFloors,
    nodes: BTreeMap<String, FocusedNode>,
    /// Nodes without a place, and in which turn each of them asked for one: the longest waiting comes first.
    waiting: BTreeMap<String, u64>,
    turn: u64,
    /// Ends the followers when it is dropped.
    followers: JoinSet<()>,
}

struct FocusedNode {
    pods: CacheTable<Workload>,
    follower: AbortHandle,
}

impl FocusedNodes {
    /// Follows no node yet. `changed` is notified after every change.
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

    /// Follows the pods of these nodes, and of no others any more. Nodes that are followed already are not listed again and keep their place;
    /// the others get one in the order in which they asked. RBAC: `list` and `watch` on `pods`.
    pub fn set(&mut self, nodes: &BTreeSet<String>) {
        self.nodes.retain(|node, focused| {
            let stays = nodes.contains(node);
            if !stays {
                focused.follower.abort();
            }
            stays
        });
        // Those that have ended are forgotten.
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

    /// Returns the pods of each node whose cache is in step with the API server. A node that is missing has not been listed, or its watch is
    /// failing: nothing can be said about it.
    pub fn pods(&self) -> BTreeMap<String, Vec<Workload>> {
        let in_step =
            self.nodes.iter().filter(|(_, focused)| focused.pods.health() == WatchHealth::InStep);
        in_step.map(|(node, focused)| (node.clone(), focused.pods.values())).collect()
    }

    /// Returns the nodes that have a place and whose cache is not in step.
    pub fn listing(&self) -> BTreeSet<String> {
        let behind =
            self.nodes.iter().filter(|(_, focused)| focused.pods.health() != WatchHealth::InStep);
        behind.map(|(node, _)| node.clone()).collect()
    }

    /// Returns what the server refuses, if it does.
    pub fn forbidden(&self) -> Option<String> {
        self.problem(|health| {
            if let WatchHealth::Forbidden(message) = health { Some(message) } else { None }
        })
    }

    /// Returns of what the server has long shown an older state.
    pub(crate) fn past(&self) -> Option<String> {
        self.problem(
            |health| if let WatchHealth::Past(message) = health { Some(message) } else { None },
        )
    }

    /// Returns the first message that there is of a node's watch.
    fn problem(&self, message: fn(WatchHealth) -> Option<String>) -> Option<String> {
        self.nodes.iter().find_map(|(node, focused)| {
            Some(format!("pods on node {node}: {}", message(focused.pods.health())?))
        })
    }
}
