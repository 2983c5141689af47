//! DaemonSets and their revisions.

use std::collections::BTreeMap;

use contract::count::Count;

use crate::{Labels, ObservedToleration};

/// A DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedDaemonSet {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// UID of the controller that owns it.
    pub owner: Option<String>,
    /// `metadata.generation`
    pub generation: i64,
    /// The operator's hash of the DaemonSet that it rendered
    /// ([`contract::names::LAST_APPLIED_HASH_ANNOTATION`]).
    pub applied_hash: Option<String>,
    /// The controller has observed the newest spec.
    pub observed: bool,
    /// `updateStrategy: OnDelete`.
    pub on_delete: bool,
    /// `updateStrategy.rollingUpdate.maxUnavailable`
    pub max_unavailable: Option<Count>,
    /// Being deleted.
    pub deleting: bool,
    /// Desired pods (`status.desiredNumberScheduled`).
    pub desired: i32,
    /// Nodes that have a pod but should not have one (`status.numberMisscheduled`).
    pub misscheduled: i32,
    /// The label `helm.sh/chart`: name and version of its chart, if a chart created it.
    pub chart: Option<String>,
    /// Labels of the pod template.
    pub template_labels: Labels,
    /// Node selector of the pod template.
    pub node_selector: Labels,
    /// Taints that the pod template tolerates.
    pub tolerations: Vec<ObservedToleration>,
    /// Images of the template by container name, init containers too.
    pub images: BTreeMap<String, String>,
    /// ConfigMaps that the template mounts.
    pub config_maps: Vec<String>,
    /// `DRIVER_CONFIG_DIGEST` of the template (gpu-operator v26.3 and later): with the
    /// same digest, the driver does not have to be installed again.
    pub config_digest: Option<String>,
    /// Environment of the container `k8s-driver-manager` in the template, without values that come
    /// from elsewhere.
    pub manager_environment: Labels,
}

impl ObservedDaemonSet {
    /// Returns how many pods may be unavailable during a rolling update. Kubernetes' default is 1.
    pub fn most_unavailable(&self) -> usize {
        self.max_unavailable
            .unwrap_or(Count::Number(1))
            .resolve(usize::try_from(self.desired).unwrap_or(0))
            .max(1)
    }

    /// Returns whether both differ at most in the numbers of their nodes. A DaemonSet that needs no
    /// pods differs from one that needs some.
    pub fn is_same_apart_from_counts(&self, other: &Self) -> bool {
        let Self {
            namespace,
            name,
            uid,
            owner,
            generation,
            applied_hash,
            observed,
            on_delete,
            max_unavailable,
            deleting,
            desired,
            misscheduled: _,
            chart,
            template_labels,
            node_selector,
            tolerations,
            images,
            config_maps,
            config_digest,
            manager_environment,
        } = self;
        *namespace == other.namespace
            && *name == other.name
            && *uid == other.uid
            && *owner == other.owner
            && *generation == other.generation
            && *applied_hash == other.applied_hash
            && *observed == other.observed
            && *on_delete == other.on_delete
            && *max_unavailable == other.max_unavailable
            && *deleting == other.deleting
            && (*desired > 0) == (other.desired > 0)
            && *chart == other.chart
            && *template_labels == other.template_labels
            && *node_selector == other.node_selector
            && *tolerations == other.tolerations
            && *images == other.images
            && *config_maps == other.config_maps
            && *config_digest == other.config_digest
            && *manager_environment == other.manager_environment
    }
}

/// A ControllerRevision of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedRevision {
    /// UID of its DaemonSet.
    pub owner: String,
    /// Its number; the highest is the newest.
    pub revision: i64,
    /// The hash in the label of this revision's pods.
    pub hash: String,
}

/// Returns the hash of each DaemonSet's newest revision, by UID of the DaemonSet.
pub fn newest(revisions: &[ObservedRevision]) -> BTreeMap<&str, &str> {
    let mut newest: BTreeMap<&str, &ObservedRevision> = BTreeMap::new();
    for revision in revisions {
        let known = newest.entry(&revision.owner).or_insert(revision);
        if revision.revision > known.revision {
            *known = revision;
        }
    }
    newest.into_iter().map(|(owner, revision)| (owner, revision.hash.as_str())).collect()
}
