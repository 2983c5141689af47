//! GPU nodes. kwok simulates their kubelets with the stages in `kwok/stages.yaml`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use super::control_plane::ControlPlane;
use super::process::Process;
use super::tools::program;
use super::wait::watch_until;

const STAGES: &str = include_str!("kwok/stages.yaml");
/// kwok manages only the nodes with this label.
pub(crate) const KWOK_LABEL: (&str, &str) = ("type", "kwok");
/// Keeps pods away that need a real kubelet.
pub(crate) const KWOK_TAINT: &str = "stand-in.gpu-rollout.dev/kwok";
/// Annotation of pods that a node agent runs on a kwok node.
pub(crate) const REAL: &str = "stand-in.gpu-rollout.dev/real";
const NODE_LIMIT: Duration = Duration::from_mins(1);

/// Starts kwok.
pub(crate) fn start(directory: &Path, control_plane: &ControlPlane) -> Result<Process> {
    let stages = directory.join("stages.yaml");
    std::fs::write(&stages, STAGES)?;
    Process::start(
        directory,
        "kwok",
        &program("kwok")?,
        [
            format!("--kubeconfig={}", control_plane.kubeconfig.display()),
            format!("--config={}", stages.display()),
            format!("--manage-nodes-with-label-selector={}={}", KWOK_LABEL.0, KWOK_LABEL.1),
            "--node-lease-duration-seconds=40".into(),
        ],
        &[],
    )
}

/// Adds a node as node-feature-discovery describes it when it has NVIDIA GPUs, and returns once it
/// is Ready. It offers no GPUs until its device plugin is ready.
pub(crate) async fn add_gpu_node(client: &Client, name: &str) -> Result<()> {
    let features = [
        ("feature.node.kubernetes.io/pci-10de.present", "true"),
        ("feature.node.kubernetes.io/kernel-version.full", "6.8.0-60-generic"),
        ("feature.node.kubernetes.io/system-os_release.ID", "ubuntu"),
        ("feature.node.kubernetes.io/system-os_release.VERSION_ID", "24.04"),
    ];
    add_node(client, name, &features).await
}

/// Adds a node without labels of node-feature-discovery.
pub(crate) async fn add_cpu_node(client: &Client, name: &str) -> Result<()> {
    add_node(client, name, &[]).await
}

async fn add_node(client: &Client, name: &str, features: &[(&str, &str)]) -> Result<()> {
    let mut labels = BTreeMap::from([
        KWOK_LABEL,
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
    ]);
    labels.extend(features.iter().copied());
    let nodes = Api::<Node>::all(client.clone());
    let resources =
        json!({"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"});
    let node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": KWOK_TAINT, "value": "true", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources, "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "osImage": "Ubuntu 24.04.3 LTS", "kernelVersion": "6.8.0-60-generic",
            "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.34.4", "kubeProxyVersion": "",
            "bootID": "", "machineID": "", "systemUUID": "",
        }},
    }))?;
    nodes.create(&PostParams::default(), &node).await?;
    watch_until(nodes, name, "Ready", NODE_LIMIT, |node: Option<&Node>| node.is_some_and(is_ready))
        .await?;
    Ok(())
}

/// Whether a node's `Ready` condition is true.
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
