//! What is done to the cluster, so precise that whoever performs it has nothing left to decide.

use std::collections::BTreeMap;

use observed::ObservedNode;

/// A change of one node: refused by the server if the node has changed since it was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePatch {
    /// Its name.
    pub node: String,
    /// UID of the object.
    pub uid: String,
    /// `metadata.resourceVersion` of what was observed.
    pub version: String,
    /// Labels; `None` removes one.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations; `None` removes one.
    pub annotations: BTreeMap<String, Option<String>>,
    /// `spec.unschedulable`, if it changes.
    pub unschedulable: Option<bool>,
    /// It starts the node's upgrade.
    pub starts: bool,
    /// What it means for the node, for those who read its events.
    pub news: Option<NodeNews>,
}

/// What a change of a node means, where that is worth an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeNews {
    /// The node is done: how, and how long each part took.
    Upgraded(String),
    /// It failed: for what, and what becomes of it.
    Failed(String),
    /// It is given back with its old driver, and its turn comes again: why.
    HandedBack(String),
}

impl NodePatch {
    /// A patch that changes nothing yet of the node as it was seen.
    pub fn for_node(node: &ObservedNode) -> Self {
        Self {
            node: node.name.clone(),
            uid: node.uid.clone(),
            version: node.version.clone(),
            ..Self::default()
        }
    }

    /// The node that it is about.
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// What of it a node that was patched does not show: admission changed the patch.
    pub fn missing<'n>(
        &self,
        label: impl Fn(&str) -> Option<&'n String>,
        annotation: impl Fn(&str) -> Option<&'n String>,
        unschedulable: bool,
    ) -> Vec<String> {
        let labels = self
            .labels
            .iter()
            .filter(|(key, value)| label(key) != value.as_ref())
            .map(|(key, _)| format!("label {key}"));
        let differs = |(key, value): &(&String, &Option<String>)| annotation(key) != value.as_ref();
        let annotations =
            self.annotations.iter().filter(differs).map(|(key, _)| format!("annotation {key}"));
        let mut missing: Vec<String> = labels.chain(annotations).collect();
        missing.extend(
            self.unschedulable
                .filter(|wanted| *wanted != unschedulable)
                .map(|_| "spec.unschedulable".to_owned()),
        );
        missing
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.unschedulable.is_none()
    }
}

/// The eviction of one pod, with its own grace period, if it is still the one with this UID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodEviction {
    /// The node that it is on.
    pub node: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID.
    pub uid: String,
}

/// The deletion of one pod, with its own grace period, if it is still the one with this UID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDeletion {
    /// The node that it is on.
    pub node: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID.
    pub uid: String,
}
