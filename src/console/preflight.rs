//! What would stand in the way of a rollout that began now: the hook's own preflight, at any time.

use std::collections::BTreeSet;

use kube::Client;

use crate::cluster::list::list_workloads;
use crate::contract::preflight::PreflightSettings;
use crate::contract::settings::Settings;
use crate::rollout::node::driver_nodes;
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
    let nodes: BTreeSet<String> = driver_nodes(&sight.observed, sight.settings.driver).map(|node| node.name.clone()).collect();
    let pods = list_workloads(client, &nodes, Some).await?;
    let settings = Settings { preflight: before.cloned().unwrap_or_default(), ..sight.settings.clone() };
    let findings = preflight(Input {
        observed: &sight.observed,
        settings: &settings,
        policy: &sight.policy,
        pods: &pods,
        daemon_sets: &DaemonSets::new(),
        own: &Own::default(),
        now: sight.now,
    });
    Ok(Looked { nodes: nodes.len(), pods: pods.len(), findings })
}
