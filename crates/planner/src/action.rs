//! Writes to the cluster, and the reading of a log, so precise that the code that performs them has
//! nothing to decide.

use std::collections::BTreeMap;

use contract::acceptance::AcceptanceTime;
use contract::driver::DriverTraits;
use observed::ObservedNode;

/// A change of one node. The API server refuses it if the node has changed since it was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePatch {
    /// Its name.
    pub node: String,
    /// UID of the object.
    pub uid: String,
    /// `metadata.resourceVersion` of the observed node.
    pub version: String,
    /// Labels; `None` removes one.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations; `None` removes one.
    pub annotations: BTreeMap<String, Option<String>>,
    /// `spec.unschedulable`, if it changes.
    pub unschedulable: Option<bool>,
    /// Whether it starts the node's upgrade.
    pub starts: bool,
    /// The event about the node, if the change causes one.
    pub news: Option<NodeNews>,
}

/// The kind of an event about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeNews {
    /// The node is done: the steps of its upgrade with their durations.
    Upgraded(String),
    /// The node failed: the cause and the consequence.
    Failed(String),
    /// The node is released with its old driver, and will be started again: the reason.
    HandedBack(String),
}

impl NodePatch {
    /// Creates an empty patch of the node as it was observed.
    pub fn for_node(node: &ObservedNode) -> Self {
        Self {
            node: node.name.clone(),
            uid: node.uid.clone(),
            version: node.version.clone(),
            ..Self::default()
        }
    }

    /// Removes the start times that NVIDIA's controller stored on the node for its last attempt:
    /// they would end the next attempt at once.
    pub fn remove_attempt_times(&mut self, node: &ObservedNode, traits: &DriverTraits) {
        for noted in [traits.wait_start, traits.validation_start] {
            if node.annotations.contains_key(noted) {
                self.annotations.insert(noted.to_owned(), None);
            }
        }
    }

    /// Returns the name of the node.
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// Returns the changes of the patch that a patched node does not have: admission changed the
    /// patch.
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

    /// Returns whether the patch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.unschedulable.is_none()
    }
}

/// The eviction of one pod with its own grace period, if the pod still has this UID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodEviction {
    /// The node of the pod.
    pub node: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID.
    pub uid: String,
}

/// The deletion of one pod with its own grace period, if the pod still has this UID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDeletion {
    /// The node of the pod.
    pub node: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID.
    pub uid: String,
}

/// The creation of a pod from the PodTemplate of an acceptance test. If the pod exists already, this
/// is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptanceCreation {
    /// The node that the pod tests.
    pub node: String,
    /// The name of the test, and of its PodTemplate in
    /// [`contract::acceptance::ACCEPTANCE_NAMESPACE`].
    pub test: String,
    /// The name of the pod ([`contract::acceptance::pod_name`]).
    pub pod: String,
    /// When the test runs.
    pub time: Option<AcceptanceTime>,
    /// Seconds after which the kubelet ends the pod, also when no hook is at work.
    pub deadline_seconds: u64,
    /// What the pod requests apart from its template.
    pub gpus: RequestedGpus,
}

/// The reading of the end of the log of an acceptance test's pod. It changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestLogReading {
    /// The node that the pod tests.
    pub node: String,
    /// The name of the test.
    pub test: String,
    /// The name of the pod.
    pub pod: String,
    /// Its UID.
    pub uid: String,
    /// The container.
    pub container: String,
    /// How many lines are kept.
    pub lines: u32,
}

impl TestLogReading {
    /// Returns the key of the request in [`crate::memory::RunMemory::issued`], where the pod's own
    /// name and UID stand for other requests.
    pub(crate) fn request(&self) -> String {
        format!("log of {}", self.uid)
    }
}

/// The GPUs that a pod of an acceptance test requests, apart from its template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestedGpus {
    /// None.
    #[default]
    Nothing,
    /// Extended resources with their quantities, as limits of the first container.
    Resources(BTreeMap<String, String>),
    /// A claim of all GPUs of the node
    /// ([`contract::acceptance::ALL_GPUS_CLAIM_TEMPLATE`]), for all containers.
    Claim,
}
