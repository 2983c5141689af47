//! Pods.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::ObjectMetadata;
use super::node::Condition;

/// A Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMetadata,
    /// The desired state.
    pub spec: Option<PodSpec>,
    /// The observed state.
    pub status: Option<PodStatus>,
}

/// `spec` of a Pod or of a pod template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node that it is bound to.
    pub node_name: Option<String>,
    /// Labels of the nodes that it may be bound to.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Where it may run.
    pub affinity: Option<Affinity>,
    /// Containers that run before the others, or alongside them.
    pub init_containers: Option<Vec<Container>>,
    /// Containers.
    pub containers: Vec<Container>,
    /// Volumes.
    pub volumes: Option<Vec<Volume>>,
    /// Seconds between the request to terminate and the forced termination.
    pub termination_grace_period_seconds: Option<i64>,
    /// The runtime class.
    pub runtime_class_name: Option<String>,
    /// ResourceClaims.
    pub resource_claims: Option<Vec<PodResourceClaim>>,
    /// Taints that it tolerates.
    pub tolerations: Option<Vec<Toleration>>,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// The taint's key; empty with `Exists`: every taint.
    pub key: String,
    /// `Exists` or `Equal`; empty: `Equal`.
    pub operator: String,
    /// The taint's value.
    pub value: String,
    /// The taint's effect; empty: every effect.
    pub effect: String,
}

/// Where a pod may run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// On which nodes.
    pub node_affinity: Option<NodeAffinity>,
}

/// On which nodes a pod may run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    /// What must hold.
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

/// A selection of nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// Alternatives.
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// One alternative.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Requirements on fields.
    pub match_fields: Option<Vec<NodeSelectorRequirement>>,
}

/// A requirement on a field of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSelectorRequirement {
    /// The field.
    pub key: String,
    /// `In` …
    pub operator: String,
    /// The values.
    pub values: Option<Vec<String>>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: Option<String>,
    /// Its environment.
    pub env: Option<Vec<EnvVar>>,
    /// `Always`: an init container that runs alongside the others.
    pub restart_policy: Option<String>,
    /// Resources.
    pub resources: Option<ResourceRequirements>,
    /// What it may do.
    pub security_context: Option<SecurityContext>,
    /// The volumes that it mounts.
    pub volume_mounts: Option<Vec<NameReference>>,
}

/// A variable of a container's environment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value, if it is a literal.
    pub value: Option<String>,
}

/// Resources of a container, by name; quantities are not needed.
#[expect(
    clippy::zero_sized_map_values,
    reason = "in JSON they are maps, and only their keys are read"
)]
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    /// Limits.
    pub limits: Option<BTreeMap<String, IgnoredAny>>,
    /// Requests.
    pub requests: Option<BTreeMap<String, IgnoredAny>>,
}

/// What a container may do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SecurityContext {
    /// Everything.
    pub privileged: Option<bool>,
}

/// A volume of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name in the pod.
    pub name: String,
    /// A ConfigMap.
    pub config_map: Option<NameReference>,
    /// A directory that lives as long as the pod.
    pub empty_dir: Option<EmptyDirVolumeSource>,
    /// A path of the node.
    pub host_path: Option<HostPathVolumeSource>,
}

/// Something with a name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NameReference {
    /// The name.
    pub name: String,
}

/// A directory that lives as long as the pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EmptyDirVolumeSource {
    /// Its medium; absent: disk.
    pub medium: Option<String>,
}

/// A path of the node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostPathVolumeSource {
    /// The path.
    pub path: String,
}

/// A ResourceClaim of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    /// Its name in the pod.
    pub name: String,
    /// Its name in the namespace; absent: it is created from a template.
    pub resource_claim_name: Option<String>,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running` …
    pub phase: Option<String>,
    /// Conditions.
    pub conditions: Option<Vec<Condition>>,
    /// Init containers.
    pub init_container_statuses: Option<Vec<ContainerStatus>>,
    /// Containers.
    pub container_statuses: Option<Vec<ContainerStatus>>,
    /// Claims that were created from templates.
    pub resource_claim_statuses: Option<Vec<PodResourceClaim>>,
    /// The claim that Kubernetes created for extended resources that a DRA driver serves (1.34 and
    /// later).
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
}

impl PodStatus {
    /// Returns the condition of a type.
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().flatten().find(|condition| condition.r#type == kind)
    }

    /// Returns whether the condition `Ready` is true.
    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Returns the statuses of all containers, init containers first.
    pub(crate) fn all_containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.init_container_statuses
            .iter()
            .flatten()
            .chain(self.container_statuses.iter().flatten())
    }

    /// Returns the most restarts of a container, init containers included, that is not ready.
    pub(crate) fn unready_restarts(&self) -> i32 {
        self.all_containers()
            .filter(|status| !status.ready)
            .map(|status| status.restart_count)
            .max()
            .unwrap_or(0)
    }
}

impl PodSpec {
    /// Returns all containers, init containers first.
    pub(crate) fn all_containers(&self) -> impl Iterator<Item = &Container> + Clone {
        self.init_containers.iter().flatten().chain(&self.containers)
    }
}

/// The claim of a pod's extended resources.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedResourceClaimStatus {
    /// Its name in the namespace.
    pub resource_claim_name: String,
}

/// The status of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// Whether it is ready.
    pub ready: bool,
    /// How often it was restarted.
    pub restart_count: i32,
    /// Its state.
    pub state: Option<ContainerState>,
}

/// The state of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// It waits.
    pub waiting: Option<ContainerStateWaiting>,
    /// It runs.
    pub running: Option<ContainerStateRunning>,
    /// It has ended.
    pub terminated: Option<ContainerStateTerminated>,
}

/// A container waits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerStateWaiting {
    /// For what.
    pub reason: Option<String>,
}

/// A container runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStateRunning {
    /// Since when.
    pub started_at: Option<Time>,
}

/// A container has ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStateTerminated {
    /// How.
    pub exit_code: i32,
}
