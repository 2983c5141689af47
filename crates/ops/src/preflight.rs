//! What would stand in the way of a rollout that began now: the hook's own preflight, at any time.

use std::collections::BTreeSet;

use kube::Client;

use contract::policy::Policy;
use contract::preflight::PreflightSettings;
use contract::settings::Settings;
use kube_io::gpus::{GpuUse, list_gpus};
use kube_io::list::list_workloads;
use observed::workload::Workload;
use planner::node::driver_nodes;
use planner::pods::filter::{DaemonSetLiveness, OwnPods};
use planner::preflight::{PreflightFinding, PreflightInput, preflight};

use super::observe::{ObserveError, RolloutSnapshot};

/// What was looked at, and what was found.
pub struct PreflightResult {
    /// Nodes that need the driver.
    pub nodes: usize,
    /// Pods on them.
    pub pods: usize,
    /// The findings, blocking ones first.
    pub findings: Vec<PreflightFinding>,
}

/// Looks. `before`: how the hook before the operator looks, where there is one. RBAC: `list` on `pods`.
///
/// # Errors
/// The pods cannot be listed.
pub async fn look(
    client: &Client,
    snapshot: &RolloutSnapshot,
    before: Option<&PreflightSettings>,
) -> Result<PreflightResult, ObserveError> {
    let nodes = driver_node_names(snapshot);
    let pods = list_workloads(client, &nodes, Some).await?;
    let settings = Settings { preflight: before.cloned().unwrap_or_default(), ..snapshot.settings.clone() };
    let findings = examine(snapshot, &settings, &snapshot.policy, &pods);
    Ok(PreflightResult { nodes: nodes.len(), pods: pods.len(), findings })
}

fn driver_node_names(snapshot: &RolloutSnapshot) -> BTreeSet<String> {
    driver_nodes(&snapshot.observed, snapshot.settings.driver).map(|node| node.name.clone()).collect()
}

/// What runs on the nodes that need the driver, and with how many GPUs.
pub struct AffectedWorkloads {
    /// All pods.
    pub pods: Vec<Workload>,
    /// GPUs of nodes and pods.
    pub gpus: GpuUse,
}

/// Lists what a prediction begins with. RBAC: `list` on `pods` and `nodes`.
///
/// # Errors
/// They cannot be listed.
pub async fn pods(client: &Client, snapshot: &RolloutSnapshot) -> Result<AffectedWorkloads, ObserveError> {
    let nodes = driver_node_names(snapshot);
    Ok(AffectedWorkloads { pods: list_workloads(client, &nodes, Some).await?, gpus: list_gpus(client, &nodes).await? })
}

/// What these pods would be in the way of, under these settings and this policy.
pub fn examine(snapshot: &RolloutSnapshot, settings: &Settings, policy: &Policy, pods: &[Workload]) -> Vec<PreflightFinding> {
    preflight(PreflightInput {
        observed: &snapshot.observed,
        settings,
        policy,
        pods,
        daemon_sets: &DaemonSetLiveness::new(),
        own: &OwnPods::default(),
        now: snapshot.now,
    })
}
