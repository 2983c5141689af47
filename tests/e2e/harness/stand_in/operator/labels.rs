//! The labels and the annotation that the operator puts on nodes with GPUs.

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};

use super::observed::Observed;

/// The deploy labels of a node (recorded with sandbox workloads off). An existing value stays,
/// because it may be a pause.
const DEPLOY: [&str; 9] = [
    "client",
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "device-plugin",
    "driver",
    "gpu-feature-discovery",
    "node-status-exporter",
    "operator-validator",
];
const ENABLED: &str = "nvidia.com/gpu-driver-upgrade-enabled";

/// Writes missing labels and annotations.
pub(super) async fn label_nodes(client: &Client, observed: &Observed) -> Result<()> {
    let enabled = observed.spec("/driver/enabled") == true
        && observed.spec("/driver/upgradePolicy/autoUpgrade") == true;
    let nodes = Api::<Node>::all(client.clone());
    for node in &observed.gpu_nodes {
        let mut missing = Map::new();
        if !node.labels().contains_key("nvidia.com/gpu.present") {
            missing.insert("nvidia.com/gpu.present".into(), "true".into());
        }
        for name in DEPLOY.map(|name| format!("nvidia.com/gpu.deploy.{name}")) {
            if node.labels().get(&name).is_none_or(String::is_empty) {
                missing.insert(name, "true".into());
            }
        }
        if !missing.is_empty() {
            patch(&nodes, node, json!({"labels": missing})).await?;
        }
        match (enabled, node.annotations().get(ENABLED).map(String::as_str)) {
            (true, Some("true")) | (false, None) => {}
            (true, _) => patch(&nodes, node, json!({"annotations": {ENABLED: "true"}})).await?,
            (false, Some(_)) => {
                patch(&nodes, node, json!({"annotations": {ENABLED: null}})).await?;
            }
        }
    }
    Ok(())
}

async fn patch(nodes: &Api<Node>, node: &Node, metadata: Value) -> Result<()> {
    nodes
        .patch(
            &node.name_any(),
            &PatchParams::default(),
            &Patch::Merge(json!({"metadata": metadata})),
        )
        .await?;
    Ok(())
}
