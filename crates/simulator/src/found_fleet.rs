//! A fleet found in a real cluster, with which a run starts instead of a generated one.

use jiff::{SignedDuration, Timestamp};

use contract::driver::Driver;
use nvidia_upgrade::state::ControllerState;
use observed::workload::{DeviceClaim, DisruptionBudget, Workload};
use observed::{ObservedNode, OptionalApi};
use planner::abort;

use super::nodes::apply_patch;
use super::objects::timestamp;
use super::random::TimeSpread;

/// A fleet found in a real cluster.
#[derive(Clone, Debug)]
pub struct FoundFleet {
    /// The nodes that need the driver.
    pub nodes: Vec<FoundNode>,
    /// The pods on these nodes, without the operator's pods.
    pub pods: Vec<FoundPod>,
    /// All PodDisruptionBudgets.
    pub budgets: Vec<DisruptionBudget>,
    /// All ResourceClaims.
    pub claims: OptionalApi<Vec<DeviceClaim>>,
    /// When a job ends, in milliseconds from now or from its start.
    pub job_time: TimeSpread,
}

/// A node of a found fleet.
#[derive(Clone, Debug)]
pub struct FoundNode {
    /// The observed node, without the traces of a rollout in progress.
    pub node: ObservedNode,
    /// Number of GPUs that pods can use on the node.
    pub gpus: usize,
    /// Whether its driver pod is, or will be, of an older revision.
    pub outdated: bool,
    /// Whether the older revision installs the same driver from the same configuration.
    pub same_config: bool,
}

/// A pod of a found fleet.
#[derive(Clone, Debug)]
pub struct FoundPod {
    /// The observed pod.
    pub workload: Workload,
    /// Number of GPUs that it uses.
    pub gpus: usize,
}

/// Maps a time of the cluster to the time of a run that starts now.
fn moved(moment: Timestamp, now: Timestamp) -> Timestamp {
    let since: SignedDuration = moment.duration_since(now);
    timestamp(0).saturating_add(since).unwrap_or(timestamp(0))
}

impl FoundNode {
    /// Returns the node without the changes that an upgrade in progress has made to it.
    pub fn new(node: &ObservedNode, gpus: usize, outdated: bool, now: Timestamp) -> Self {
        let mut node = node.clone();
        if let Some(patch) = abort::of_node(&node, &[]) {
            apply_patch(&mut node, &patch);
        }
        let traits = Driver::Gpu.traits();
        let state = ControllerState::of_node(&node, traits);
        if state.is_busy() {
            node.labels.remove(traits.state_label);
            node.unschedulable &= node.annotations.contains_key(traits.initially_unschedulable);
            for noted in
                [traits.initially_unschedulable, traits.wait_start, traits.validation_start]
            {
                node.annotations.remove(noted);
            }
        }
        // A prediction is about the time after the pause.
        node.annotations.remove(contract::pause::ANNOTATION);
        // The driver manager pauses operands during an upgrade and resumes them afterwards.
        let paused: Vec<String> = node
            .labels
            .iter()
            .filter(|(_, value)| value.starts_with("paused-for-"))
            .map(|(key, _)| key.clone())
            .collect();
        for key in paused {
            node.labels.insert(key, "true".to_owned());
        }
        node.created = moved(node.created, now);
        node.ready_since = node.ready_since.map(|since| moved(since, now));
        Self { node, gpus, outdated, same_config: false }
    }
}

impl FoundPod {
    /// Returns a pod that uses `gpus` GPUs.
    pub fn new(pod: &Workload, gpus: usize, now: Timestamp) -> Self {
        let mut workload = pod.clone();
        workload.created = moved(workload.created, now);
        workload.deleted_at = workload.deleted_at.map(|at| moved(at, now));
        Self { workload, gpus }
    }
}
