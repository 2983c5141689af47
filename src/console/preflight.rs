//! What would stand in the way of a rollout that began now: the hook's own preflight, at any time.

use std::collections::BTreeSet;

use kube::Client;

use crate::cluster::gpus::{Gpus, list_gpus};
use crate::cluster::list::list_workloads;
use crate::contract::policy::Policy;
use crate::contract::preflight::PreflightSettings;
use crate::contract::settings::Settings;
use crate::rollout::node::driver_nodes;
use crate::rollout::observed::workload::Workload;
use crate::rollout::pods::filter::{DaemonSets, Own};
use crate::rollout::preflight::{Finding, Input, preflight};

use super::look::{LookError, Sight};

/// What was looked at, and what was found.
pub struct Looked {
    /// Nodes that need the driver.
    pub nodes: usize,
    /// Pods on them.
    pub pods: usize,
    /// The findings, blocking ones first.
    pub findings: Vec<Finding>,
}

/// Looks. `before`: how the hook before the operator looks, where there is one. RBAC: `list` on `pods`.
///
/// # Errors
/// The pods cannot be listed.
pub async fn look(client: &Client, sight: &Sight, before: Option<&PreflightSettings>) -> Result<Looked, LookError> {
    let nodes = driver_node_names(sight);
    let pods = list_workloads(client, &nodes, Some).await?;
    let settings = Settings { preflight: before.cloned().unwrap_or_default(), ..sight.settings.clone() };
    let findings = examine(sight, &settings, &sight.policy, &pods);
    Ok(Looked { nodes: nodes.len(), pods: pods.len(), findings })
}

fn driver_node_names(sight: &Sight) -> BTreeSet<String> {
    driver_nodes(&sight.observed, sight.settings.driver).map(|node| node.name.clone()).collect()
}

/// What runs on the nodes that need the driver, and with how many GPUs.
pub struct OnNodes {
    /// All pods.
    pub pods: Vec<Workload>,
    /// GPUs of nodes and pods.
    pub gpus: Gpus,
}

/// Lists what a prediction begins with. RBAC: `list` on `pods` and `nodes`.
///
/// # Errors
/// They cannot be listed.
pub async fn pods(client: &Client, sight: &Sight) -> Result<OnNodes, LookError> {
    let nodes = driver_node_names(sight);
    Ok(OnNodes { pods: list_workloads(client, &nodes, Some).await?, gpus: list_gpus(client, &nodes).await? })
}

/// What these pods would be in the way of, under these settings and this policy.
pub fn examine(sight: &Sight, settings: &Settings, policy: &Policy, pods: &[Workload]) -> Vec<Finding> {
    preflight(Input {
        observed: &sight.observed,
        settings,
        policy,
        pods,
        daemon_sets: &DaemonSets::new(),
        own: &Own::default(),
        now: sight.now,
    })
}
