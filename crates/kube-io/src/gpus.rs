//! Counts the GPUs that each node offers and that each pod uses. The engine does not need them. A
//! prediction does, to find nodes for evicted pods.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use serde::Deserialize;

use contract::driver::Driver;
use planner::pods::device_users::resource_prefixes;

use super::api_collection::{ApiCollection, NODES, PODS};
use super::call::CallError;
use super::list::list_pages;
use super::list_watch::ObjectSelection;

/// The GPUs of nodes and pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuUse {
    /// The number of GPUs that a node offers to pods, by the node's name; nodes without GPUs are
    /// missing.
    pub nodes: BTreeMap<String, usize>,
    /// The number of GPUs that a pod uses, by the pod's UID; pods without GPUs are missing.
    pub pods: BTreeMap<String, usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GpuMetadata {
    name: String,
    uid: String,
}

type Quantities = BTreeMap<String, String>;

#[derive(Deserialize)]
struct GpuNode {
    #[serde(default)]
    metadata: GpuMetadata,
    status: Option<GpuNodeStatus>,
}

#[derive(Deserialize)]
struct GpuNodeStatus {
    #[serde(default)]
    allocatable: Quantities,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GpuPodSpec {
    node_name: Option<String>,
    #[serde(default)]
    containers: Vec<GpuContainer>,
    #[serde(default)]
    init_containers: Vec<GpuContainer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GpuContainer {
    #[serde(default)]
    resources: GpuResources,
    restart_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GpuResources {
    limits: Quantities,
}

#[derive(Deserialize)]
struct GpuPod {
    #[serde(default)]
    metadata: GpuMetadata,
    spec: Option<GpuPodSpec>,
}

/// Returns the number of GPUs among these resources. Extended resources are whole numbers, and
/// their limits are their requests; anything else counts as none.
fn count(quantities: &Quantities) -> usize {
    let is_gpu = |name: &str| {
        resource_prefixes(Driver::Gpu).iter().any(|resource| name.starts_with(resource))
    };
    quantities
        .iter()
        .filter(|(name, _)| is_gpu(name))
        .filter_map(|(_, quantity)| quantity.parse::<usize>().ok())
        .sum()
}

fn count_of_pod(spec: &GpuPodSpec) -> usize {
    let of = |containers: &[GpuContainer], sidecars: bool| -> usize {
        let applies = |container: &&GpuContainer| {
            !sidecars || container.restart_policy.as_deref() == Some("Always")
        };
        containers.iter().filter(applies).map(|container| count(&container.resources.limits)).sum()
    };
    of(&spec.containers, false) + of(&spec.init_containers, true)
}

/// Lists the GPUs of these nodes, and of the pods that are bound to them. RBAC: `list` on `nodes`
/// and `pods`.
///
/// # Errors
/// A page of a list could not be read.
pub async fn list_gpus(client: &Client, nodes: &BTreeSet<String>) -> Result<GpuUse, CallError> {
    let mut found = GpuUse::default();
    let each = |node: GpuNode| {
        let count = node.status.map_or(0, |status| count(&status.allocatable));
        if count > 0 && nodes.contains(&node.metadata.name) {
            found.nodes.insert(node.metadata.name, count);
        }
    };
    list_pages(&ApiCollection::new(client, NODES, None), &ObjectSelection::default(), each).await?;
    let each = |pod: GpuPod| {
        let Some(spec) = pod.spec else { return };
        let count = count_of_pod(&spec);
        if count > 0 && spec.node_name.is_some_and(|node| nodes.contains(&node)) {
            found.pods.insert(pod.metadata.uid, count);
        }
    };
    list_pages(&ApiCollection::new(client, PODS, None), &ObjectSelection::default(), each).await?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_uses_what_containers_and_sidecars_name() {
        let spec = json!({
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "4"}}}, {"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}, {}],
            "initContainers": [
                {"resources": {"limits": {"nvidia.com/gpu": "8"}}},
                {"restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
            ],
        });
        let spec: GpuPodSpec = serde_json::from_value(spec).expect("a pod's spec");
        assert_eq!(count_of_pod(&spec), 4);
    }
}
