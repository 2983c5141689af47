//! Runs the hook's preflight at any time: finds what would block a rollout that starts now.

use std::collections::BTreeSet;

use kube::Client;
use schemars::JsonSchema;
use serde::Serialize;

use contract::policy::Policy;
use contract::settings::Settings;
use kube_io::gpus::{GpuUse, list_gpus};
use kube_io::list::list_workloads;
use observed::workload::Workload;
use planner::node::driver_nodes;
use planner::pods::filter::{DaemonSetLiveness, OwnPods};
use planner::preflight::{PreflightFinding, PreflightInput, can_start, preflight};

use super::observe::{ObserveError, RolloutSnapshot};
use super::session::ClusterSession;
use super::target::RolloutTarget;

/// The preflight findings of one rollout.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightReport {
    /// The title of the rollout, for people.
    pub title: String,
    /// The mode.
    pub mode: &'static str,
    /// The number of checked nodes.
    pub nodes: usize,
    /// The number of pods on these nodes.
    pub pods: usize,
    /// Whether no finding blocks the rollout.
    pub can_start: bool,
    /// The findings.
    pub findings: Vec<PreflightFinding>,
}

/// Checks a rollout with the preflight settings of the hook before the operator's release, if there
/// is one. RBAC: `list` on `pods`.
///
/// # Errors
/// The cluster cannot be read.
pub async fn check_rollout(
    session: &ClusterSession,
    target: &RolloutTarget,
) -> Result<PreflightReport, ObserveError> {
    let snapshot = session.observe(target).await?;
    let nodes = driver_node_names(&snapshot);
    let pods = list_workloads(session.client(), &nodes, Some).await?;
    let preflight = session.preflight_before(&target.settings).cloned().unwrap_or_default();
    let findings = examine(
        &snapshot,
        &Settings { preflight, ..snapshot.settings.clone() },
        &snapshot.policy,
        &pods,
    );
    Ok(PreflightReport {
        title: target.title(),
        mode: target.settings.mode.name(),
        nodes: nodes.len(),
        pods: pods.len(),
        can_start: can_start(&findings),
        findings,
    })
}

fn driver_node_names(snapshot: &RolloutSnapshot) -> BTreeSet<String> {
    driver_nodes(&snapshot.observed, snapshot.settings.driver)
        .map(|node| node.name.clone())
        .collect()
}

/// The workloads on the nodes that need the driver, with their GPUs.
pub(crate) struct AffectedWorkloads {
    /// All pods.
    pub(crate) pods: Vec<Workload>,
    /// The GPUs of nodes and pods.
    pub(crate) gpus: GpuUse,
}

/// Lists the workloads on the nodes that need the driver. RBAC: `list` on `pods` and `nodes`.
///
/// # Errors
/// Pods or nodes cannot be listed.
pub(crate) async fn list_affected(
    client: &Client,
    snapshot: &RolloutSnapshot,
) -> Result<AffectedWorkloads, ObserveError> {
    let nodes = driver_node_names(snapshot);
    Ok(AffectedWorkloads {
        pods: list_workloads(client, &nodes, Some).await?,
        gpus: list_gpus(client, &nodes).await?,
    })
}

/// Runs the preflight with these pods, settings and policy.
pub(crate) fn examine(
    snapshot: &RolloutSnapshot,
    settings: &Settings,
    policy: &Policy,
    pods: &[Workload],
) -> Vec<PreflightFinding> {
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
