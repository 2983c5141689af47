//! The preflight: finds problems that would stop a rollout, before any node is cordoned. It is
//! pure: its inputs are the observed state, the settings and all pods of the cluster. Only nodes
//! with the device count.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::check::{CheckSeverity, PreflightCheck};
use contract::policy::Policy;
use contract::preflight::ComingValues;
use contract::settings::{Mode, Settings};

use super::node::driver_nodes;
use super::pods::filter::{DaemonSetLiveness, OwnPods};
use super::policies::NodePools;
use observed::workload::Workload;
use observed::{Observed, ObservedNode};

mod actors;
mod identity;
mod nodes;
mod workloads;

pub use actors::leaves_evictions;

#[cfg(test)]
mod tests;

/// The input of a preflight.
#[derive(Clone, Copy, Debug)]
pub struct PreflightInput<'a> {
    /// The cluster, with PodDisruptionBudgets, ResourceClaims and NodeMaintenances.
    pub observed: &'a Observed,
    /// The hook's settings.
    pub settings: &'a Settings,
    /// The policy that will govern the nodes ([`policy`]).
    pub policy: &'a Policy,
    /// All pods of the cluster.
    pub pods: &'a [Workload],
    /// Whether the DaemonSets of these pods exist.
    pub daemon_sets: &'a DaemonSetLiveness,
    /// The hook's own pods.
    pub own: &'a OwnPods,
    /// The current time.
    pub now: Timestamp,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PreflightFinding {
    /// The check.
    pub check: PreflightCheck,
    /// The severity for the rollout.
    pub severity: CheckSeverity,
    /// The nodes that it concerns.
    pub nodes: Vec<String>,
    /// The pods that it concerns (`namespace/name`).
    pub pods: Vec<String>,
    /// The message.
    pub text: String,
    /// What the user can do about it.
    pub advice: &'static str,
}

impl fmt::Display for PreflightFinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}; hint: {}", self.check.name(), self.text, self.advice)
    }
}

/// A finding without its severity.
#[derive(Debug)]
struct DraftFinding {
    check: PreflightCheck,
    nodes: Vec<String>,
    pods: Vec<String>,
    text: String,
    advice: &'static str,
}

impl DraftFinding {
    fn new(check: PreflightCheck, text: String) -> Self {
        Self { check, nodes: Vec::new(), pods: Vec::new(), text, advice: check.advice() }
    }

    fn with_nodes(self, nodes: Vec<String>) -> Self {
        Self { nodes, ..self }
    }
}

/// The input, and the data that all checks share.
struct PreflightView<'a> {
    input: PreflightInput<'a>,
    /// Nodes with the device.
    nodes: BTreeMap<&'a str, &'a ObservedNode>,
}

impl<'a> PreflightView<'a> {
    fn observed(&self) -> &'a Observed {
        self.input.observed
    }

    fn coming(&self) -> &'a ComingValues {
        &self.input.settings.preflight.coming
    }

    fn mode(&self) -> Mode {
        self.input.settings.mode
    }

    /// Returns the names of the nodes with the device for which the predicate holds.
    fn nodes_where(&self, so: impl Fn(&ObservedNode) -> bool) -> Vec<String> {
        self.nodes.values().filter(|node| so(node)).map(|node| node.name.clone()).collect()
    }
}

/// Returns the policy that will govern the nodes: the settings' policy if the hook decides;
/// otherwise the live policy, if there is one. If NVIDIADrivers have different policies, it permits
/// what all of them permit.
pub fn policy(observed: &Observed, settings: &Settings) -> Policy {
    NodePools::in_force(observed, settings).common()
}

/// Performs all checks. Returns blocking findings first, then in the order of
/// [`PreflightCheck::ALL`].
pub fn preflight(input: PreflightInput<'_>) -> Vec<PreflightFinding> {
    let strictness = &input.settings.preflight.strictness;
    let nodes = driver_nodes(input.observed, input.settings.driver)
        .map(|node| (node.name.as_str(), node))
        .collect();
    let view = PreflightView { input, nodes };
    let drafts = [workloads::check, actors::check, identity::check, nodes::check]
        .into_iter()
        .flat_map(|check| check(&view));
    let judged = drafts.filter_map(|DraftFinding { check, mut nodes, mut pods, text, advice }| {
        let severity = strictness.severity(check, input.settings.mode)?;
        nodes.sort();
        nodes.dedup();
        pods.sort();
        Some(PreflightFinding { check, severity, nodes, pods, text, advice })
    });
    let mut findings: Vec<PreflightFinding> = judged.collect();
    let place =
        |check: PreflightCheck| PreflightCheck::ALL.iter().position(|other| *other == check);
    findings.sort_by_key(|finding| (finding.severity, place(finding.check)));
    findings
}

/// Returns whether none of the findings blocks.
pub fn can_start(findings: &[PreflightFinding]) -> bool {
    findings.iter().all(|finding| finding.severity != CheckSeverity::Blocking)
}
