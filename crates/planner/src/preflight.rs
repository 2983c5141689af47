//! What stands in the way of a rollout, found before anything is cordoned. Pure: from what is observed, the settings, and all pods of the
//! cluster. Only nodes with the device count.

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

/// What a preflight looks at.
#[derive(Clone, Copy, Debug)]
pub struct PreflightInput<'a> {
    /// The cluster, with PodDisruptionBudgets, ResourceClaims and NodeMaintenances.
    pub observed: &'a Observed,
    /// The hook's settings.
    pub settings: &'a Settings,
    /// By which policy nodes will go ([`policy`]).
    pub policy: &'a Policy,
    /// All pods of the cluster.
    pub pods: &'a [Workload],
    /// What is known of the DaemonSets of these pods.
    pub daemon_sets: &'a DaemonSetLiveness,
    /// Our own pods.
    pub own: &'a OwnPods,
    /// Now.
    pub now: Timestamp,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PreflightFinding {
    /// What was looked at.
    pub check: PreflightCheck,
    /// What it means for the rollout.
    pub severity: CheckSeverity,
    /// The nodes that it concerns.
    pub nodes: Vec<String>,
    /// The pods that it concerns (`namespace/name`).
    pub pods: Vec<String>,
    /// What was found.
    pub text: String,
    /// What people can do about it.
    pub advice: &'static str,
}

impl fmt::Display for PreflightFinding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}; what to do: {}", self.check.name(), self.text, self.advice)
    }
}

/// A finding whose severity is not settled.
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

/// The input, and what all checks need of it.
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

    /// The names of the nodes with the device that are so.
    fn nodes_where(&self, so: impl Fn(&ObservedNode) -> bool) -> Vec<String> {
        self.nodes.values().filter(|node| so(node)).map(|node| node.name.clone()).collect()
    }
}

/// The policy by which nodes will go: ours where we decide, the live one where the vendor's controller does and there is one. Where
/// NVIDIADrivers have different ones, what all of them permit.
pub fn policy(observed: &Observed, settings: &Settings) -> Policy {
    NodePools::in_force(observed, settings).common()
}

/// Looks at everything: blocking findings first, then in the order of [`PreflightCheck::ALL`].
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

/// Whether none of them blocks.
pub fn may_begin(findings: &[PreflightFinding]) -> bool {
    findings.iter().all(|finding| finding.severity != CheckSeverity::Blocking)
}
