//! The externally visible course of a rollout: node states and the ClusterPolicy's status, live or
//! from a recording, and the shape that rollouts of different speeds share.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::repository::repository;

/// The visible state of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeLook {
    /// The state label.
    pub(crate) state: String,
    unschedulable: bool,
    /// Whether the controller has noted that the validator is not ready.
    pub(crate) validation_started: bool,
}

/// The visible status of the ClusterPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyLook {
    /// `status.state`
    pub(crate) state: String,
    /// Reasons of the conditions `Ready` and `Error`.
    pub(crate) reasons: (String, String),
}

#[derive(Clone, Debug)]
enum Look {
    Node(String, NodeLook),
    Policy(PolicyLook),
}

/// The shape of a rollout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The sequence of states of each node, sorted.
    nodes: Vec<Vec<NodeLook>>,
    policy: Vec<PolicyLook>,
    /// The highest number of nodes in progress at the same time.
    at_once: usize,
    /// Whether the status was `ready` while nodes were already out of date.
    stale_ready: bool,
    /// Whether the status was `ready` again before the last node was done.
    early_ready: bool,
}

/// The observed states in their order.
#[derive(Default)]
pub(crate) struct Trace {
    looks: Vec<Look>,
}

impl Trace {
    /// Reads a recording.
    pub(crate) fn read(name: &str) -> Result<Self> {
        let path = repository("tests/data/traces").join(name);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        let mut trace = Self::default();
        for line in text.lines() {
            trace.add(&serde_json::from_str::<Value>(line)?["object"]);
        }
        Ok(trace)
    }

    pub(super) fn add(&mut self, object: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match object["kind"].as_str() {
            Some("Node")
                if object["metadata"]["labels"]["feature.node.kubernetes.io/pci-10de.present"]
                    == "true" =>
            {
                let look = NodeLook {
                    state: text(
                        &object["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"],
                    ),
                    unschedulable: object["spec"]["unschedulable"] == true,
                    validation_started: object["metadata"]["annotations"]
                        .get("nvidia.com/gpu-driver-upgrade-validation-start-time")
                        .is_some(),
                };
                self.looks.push(Look::Node(text(&object["metadata"]["name"]), look));
            }
            Some("ClusterPolicy") => {
                let status = &object["status"];
                let reason = |kind: &str| {
                    let found = status["conditions"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .find(|condition| condition["type"] == kind);
                    found.map(|condition| text(&condition["reason"])).unwrap_or_default()
                };
                self.looks.push(Look::Policy(PolicyLook {
                    state: text(&status["state"]),
                    reasons: (reason("Ready"), reason("Error")),
                }));
            }
            _ => {}
        }
    }

    /// Returns the shape of the trace.
    pub(crate) fn shape(&self) -> Shape {
        let mut nodes: BTreeMap<&str, Vec<NodeLook>> = BTreeMap::new();
        let mut policy: Vec<PolicyLook> = Vec::new();
        let (mut under_way, mut at_once) = (BTreeSet::new(), 0);
        let (mut stale_ready, mut early_ready) = (false, false);
        for look in &self.looks {
            match look {
                Look::Node(name, look) => {
                    let seen = nodes.entry(name).or_default();
                    if seen.last() != Some(look) {
                        seen.push(look.clone());
                    }
                    let ready = policy.last().is_some_and(|look| look.state == "ready");
                    match look.state.as_str() {
                        "upgrade-required" => stale_ready |= ready,
                        "" => {}
                        "upgrade-done" => drop(under_way.remove(name.as_str())),
                        _ => {
                            under_way.insert(name.as_str());
                            early_ready |= ready && policy.len() > 2;
                        }
                    }
                    at_once = at_once.max(under_way.len());
                }
                Look::Policy(look) if policy.last() != Some(look) => policy.push(look.clone()),
                Look::Policy(_) => {}
            }
        }
        let mut nodes: Vec<_> = nodes.into_values().collect();
        nodes.sort();
        Shape { nodes, policy, at_once, stale_ready, early_ready }
    }

    /// Returns the current state of each node and of the ClusterPolicy.
    pub(crate) fn now(&self) -> (BTreeMap<String, NodeLook>, PolicyLook) {
        let (mut nodes, mut policy) = (BTreeMap::new(), PolicyLook::default());
        for look in &self.looks {
            match look {
                Look::Node(name, look) => drop(nodes.insert(name.clone(), look.clone())),
                Look::Policy(look) => policy = look.clone(),
            }
        }
        (nodes, policy)
    }
}
