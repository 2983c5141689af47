//! The operator's view of the cluster.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::DynamicObject;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::operands::Operand;
use super::{OPERATOR_NAMESPACE, cluster_policy_kind};
use crate::harness::stand_in::cache::Cache;

const NFD_GPU_LABEL: &str = "feature.node.kubernetes.io/pci-10de.present";
const NFD_PREFIX: &str = "feature.node.kubernetes.io/";

/// The caches of all objects that the operator reads.
pub(super) struct Caches {
    policies: Cache<DynamicObject>,
    nodes: Cache<Node>,
    daemon_sets: Cache<DaemonSet>,
    revisions: Cache<ControllerRevision>,
    pods: Cache<Pod>,
}

/// One consistent snapshot.
pub(super) struct Observed {
    /// The oldest ClusterPolicy.
    pub(super) policy: Arc<DynamicObject>,
    /// The operator's own version, such as `v26.3.1`.
    pub(super) version: String,
    /// Nodes with NVIDIA GPUs, by name.
    pub(super) gpu_nodes: Vec<Arc<Node>>,
    /// Whether node-feature-discovery has labeled any node.
    pub(super) nfd_labels: bool,
    /// The operands' pods.
    pub(super) pods: Vec<Arc<Pod>>,
    daemon_sets: Vec<Arc<DaemonSet>>,
    revisions: Vec<Arc<ControllerRevision>>,
}

impl Caches {
    pub(super) fn start(client: &Client, changed: &Arc<Notify>, tasks: &mut JoinSet<()>) -> Self {
        let kind = cluster_policy_kind();
        let all = Config::default;
        Self {
            policies: Cache::start(
                Api::all_with(client.clone(), &kind),
                kind,
                all(),
                changed,
                tasks,
            ),
            nodes: Cache::start(Api::all(client.clone()), (), all(), changed, tasks),
            daemon_sets: Cache::start(
                Api::namespaced(client.clone(), OPERATOR_NAMESPACE),
                (),
                all(),
                changed,
                tasks,
            ),
            revisions: Cache::start(
                Api::namespaced(client.clone(), OPERATOR_NAMESPACE),
                (),
                all(),
                changed,
                tasks,
            ),
            pods: Cache::start(
                Api::namespaced(client.clone(), OPERATOR_NAMESPACE),
                (),
                all(),
                changed,
                tasks,
            ),
        }
    }

    /// Returns the number of the operands' pods.
    pub(super) fn pods(&self) -> usize {
        self.pods.len()
    }

    /// Returns the snapshot for an operator of this version. `None`: there is no ClusterPolicy.
    pub(super) fn observe(&self, version: &str) -> Option<Observed> {
        let policy =
            self.policies.all().into_iter().min_by_key(|policy| {
                (policy.metadata.creation_timestamp.clone(), policy.name_any())
            })?;
        let pods = self.pods.all();
        let mut nodes = self.nodes.all();
        nodes.sort_by_key(|node| node.name_any());
        let nfd_labels = nodes
            .iter()
            .any(|node| node.labels().keys().any(|label| label.starts_with(NFD_PREFIX)));
        let mut gpu_nodes = nodes;
        gpu_nodes
            .retain(|node| node.labels().get(NFD_GPU_LABEL).is_some_and(|value| value == "true"));
        Some(Observed {
            policy,
            version: version.to_owned(),
            gpu_nodes,
            nfd_labels,
            pods,
            daemon_sets: self.daemon_sets.all(),
            revisions: self.revisions.all(),
        })
    }
}

impl Observed {
    /// A field of the ClusterPolicy's spec, such as `/driver/version`.
    pub(super) fn spec(&self, pointer: &str) -> &serde_json::Value {
        self.policy.data.pointer(&format!("/spec{pointer}")).unwrap_or(&serde_json::Value::Null)
    }

    /// Returns a text field of the ClusterPolicy's spec.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.spec(pointer).as_str().unwrap_or_default()
    }

    /// Whether the operator is of this release (year and month) or a newer one.
    pub(super) fn is_at_least(&self, year: u32, month: u32) -> bool {
        let mut numbers = self
            .version
            .trim_start_matches('v')
            .split('.')
            .map(|number| number.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (year, month)
    }

    /// An operand's DaemonSet.
    pub(super) fn daemon_set(&self, operand: Operand) -> Option<&DaemonSet> {
        self.daemon_sets.iter().find(|object| object.name_any() == operand.name()).map(Arc::as_ref)
    }

    /// The hash of a DaemonSet's newest revision.
    pub(super) fn newest_revision(&self, operand: Operand) -> Option<&str> {
        let uid = self.daemon_set(operand)?.uid();
        let owned = self.revisions.iter().filter(|revision| {
            revision.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
        });
        owned
            .max_by_key(|revision| revision.revision)?
            .labels()
            .get("controller-revision-hash")
            .map(String::as_str)
    }

    /// An operand's pods.
    pub(super) fn pods_of(&self, operand: Operand) -> impl Iterator<Item = &Pod> {
        let of_operand =
            move |pod: &&Arc<Pod>| pod.labels().get("app").is_some_and(|app| app == operand.name());
        self.pods.iter().filter(of_operand).map(Arc::as_ref)
    }

    /// Whether a pod is of its DaemonSet's newest revision.
    pub(super) fn is_in_sync(&self, operand: Operand, pod: &Pod) -> bool {
        pod.labels().get("controller-revision-hash").map(String::as_str)
            == self.newest_revision(operand)
    }
}

/// Running with all containers ready.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    status.phase.as_deref() == Some("Running")
        && !containers.is_empty()
        && containers.iter().all(|container| container.ready)
}
