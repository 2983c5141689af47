//! The rolling update of a DaemonSet of the operator: which node keeps it from replacing the next
//! pod.

use std::fmt;

use observed::{Observed, ObservedDaemonSet};

/// The node whose pod a rolling update waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedNode {
    /// Its name.
    pub name: String,
    /// Whether it is Ready. If not, its pod cannot become ready: the update stalls until the node is
    /// back or gone.
    pub is_ready: bool,
}

impl fmt::Display for AwaitedNode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, is_ready } = self;
        if *is_ready {
            write!(out, "the pod on node {name}")
        } else {
            write!(out, "node {name}, which is NotReady")
        }
    }
}

/// The nodes of a DaemonSet whose pod is not ready.
#[derive(Debug)]
pub(crate) struct UnreadyNodes {
    nodes: Vec<AwaitedNode>,
    /// How many may be unavailable until the update stops.
    limit: usize,
}

impl UnreadyNodes {
    /// Creates the list. `places`: the nodes of the DaemonSet's pods that are not ready.
    pub(crate) fn new<'a>(
        observed: &Observed,
        daemon_set: &ObservedDaemonSet,
        places: impl Iterator<Item = &'a str>,
    ) -> Self {
        let mut nodes: Vec<AwaitedNode> = Vec::new();
        for name in places {
            if let Some(node) = observed.nodes.get(name)
                && nodes.iter().all(|known| known.name != name)
            {
                nodes.push(AwaitedNode { name: name.to_owned(), is_ready: node.ready });
            }
        }
        Self { nodes, limit: daemon_set.most_unavailable() }
    }

    /// Returns another node that the update waits for before it replaces the pod on `node`: one that
    /// is NotReady if such nodes alone use up what the update allows.
    pub(crate) fn awaited_before(&self, node: &str) -> Option<AwaitedNode> {
        let down = || self.nodes.iter().filter(|unready| !unready.is_ready);
        if down().count() >= self.limit {
            return down().next().filter(|unready| unready.name != node).cloned();
        }
        let others = || self.nodes.iter().filter(|unready| unready.name != node);
        others().next().filter(|_| others().count() >= self.limit).cloned()
    }
}
