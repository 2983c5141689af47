//! The fleet as it was when the run began: which operands were failing already, and how many GPUs each node had. What was broken before is
//! reported, and is not the run's fault; a GPU that is missing afterwards is found by it.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::contract::names;

use super::named::Named;
use super::observed::{DaemonSet, Labels, Node, Observed};
use super::operands::OperandSets;

/// A pod of the newest revision counts as failing before the run only if it is older than this: it may be what this deployment brought. Both
/// times are the API server's.
const BROUGHT_BY_DEPLOYMENT: SignedDuration = SignedDuration::from_mins(30);

/// The fleet when the run began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// By name of the node.
    pub nodes: Named<NodeBaseline>,
}

/// A node when the run began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeBaseline {
    /// UID of the node object.
    pub uid: String,
    /// Labels that decide how many GPUs it offers.
    pub shape: Labels,
    /// GPUs in its capacity, by extended resource.
    pub gpus: Labels,
    /// DaemonSets whose pod on the node was failing, and has not worked since.
    pub failing: BTreeSet<Arc<str>>,
}

impl NodeBaseline {
    /// Whether a DaemonSet's pod on the node was failing, and has not worked since.
    pub fn failed(&self, daemon_set: &DaemonSet) -> bool {
        self.failing.contains(daemon_set.name.as_str())
    }
}

impl Baseline {
    /// Records the fleet as it is. `nodes`: those that need the driver; `at`: when the run began.
    pub fn record<'a>(observed: &Observed, operands: &OperandSets<'_>, nodes: impl Iterator<Item = &'a Node>, at: Timestamp) -> Self {
        let brought = at.saturating_sub(BROUGHT_BY_DEPLOYMENT).unwrap_or(Timestamp::MIN);
        let mut baseline = Self::default();
        for node in nodes {
            let failing = operands.failing_since_before(node, brought).map(|name| Arc::from(name.as_str())).collect();
            let entry = NodeBaseline { uid: node.uid.clone(), shape: shape(node), gpus: node.gpus_capacity.clone(), failing };
            baseline.nodes.insert(node.name.as_str(), entry);
        }
        // A fault of every node is not a fault of nodes: what works nowhere cannot be left out.
        let total = baseline.nodes.len();
        for daemon_set in observed.daemon_sets.iter().map(|daemon_set| daemon_set.name.as_str()) {
            let fails = |node: &&NodeBaseline| node.failing.contains(daemon_set);
            if baseline.nodes.values().filter(fails).count() < total {
                continue;
            }
            for entry in baseline.nodes.values_mut() {
                entry.failing.remove(daemon_set);
            }
        }
        baseline
    }

    /// The entry of a node; `None`: it was not there when the run began, or is another one of the same name.
    pub fn of(&self, node: &Node) -> Option<&NodeBaseline> {
        self.nodes.get(&node.name).filter(|entry| entry.uid == node.uid)
    }
}

/// The labels of a node that decide how many GPUs it offers.
pub fn shape(node: &Node) -> Labels {
    let label = |key: &&str| Some(((*key).to_owned(), node.labels.get(*key)?.clone()));
    names::GPU_SHAPE_LABELS.iter().filter_map(label).collect()
}
