//! A fleet that was found in a cluster: what a run begins with in place of one that is made up.

use jiff::{SignedDuration, Timestamp};

use contract::driver::Driver;
use nvidia_upgrade::state::ControllerState;
use observed::workload::{DeviceClaim, DisruptionBudget, Workload};
use observed::{Labels, ObservedNode, OptionalApi};
use planner::abort;

use super::objects::timestamp;
use super::random::TimeSpread;

/// What was found.
#[derive(Clone, Debug)]
pub struct FoundFleet {
    /// The nodes that need the driver.
    pub nodes: Vec<FoundNode>,
    /// What runs on them, without what the operator runs there.
    pub pods: Vec<FoundPod>,
    /// All PodDisruptionBudgets.
    pub budgets: Vec<DisruptionBudget>,
    /// All ResourceClaims.
    pub claims: OptionalApi<Vec<DeviceClaim>>,
    /// When a job has ended, in milliseconds from now or from its start.
    pub job_time: TimeSpread,
}

/// A node.
#[derive(Clone, Debug)]
pub struct FoundNode {
    /// As it is, without what a rollout under way has left on it.
    pub node: ObservedNode,
    /// GPUs that pods may take there.
    pub gpus: usize,
    /// Its driver pod is, or will be, of an older revision.
    pub outdated: bool,
    /// That one installs the same driver from the same configuration.
    pub same_config: bool,
}

/// A pod.
#[derive(Clone, Debug)]
pub struct FoundPod {
    /// As it is.
    pub workload: Workload,
    /// GPUs that it takes.
    pub gpus: usize,
}

/// How a moment of the cluster is called in a run that begins now.
fn moved(moment: Timestamp, now: Timestamp) -> Timestamp {
    let since: SignedDuration = moment.duration_since(now);
    timestamp(0).saturating_add(since).unwrap_or(timestamp(0))
}

impl FoundNode {
    /// A node as it is when what is under way on it has been given back.
    pub fn new(node: &ObservedNode, gpus: usize, outdated: bool, now: Timestamp) -> Self {
        let mut node = node.clone();
        if let Some(patch) = abort::of_node(&node, &[]) {
            for (key, value) in patch.labels {
                set_label(&mut node.labels, key, value);
            }
            for (key, value) in patch.annotations {
                set_label(&mut node.annotations, key, value);
            }
            node.unschedulable = patch.unschedulable.unwrap_or(node.unschedulable);
        }
        let traits = Driver::Gpu.traits();
        let state = ControllerState::of_node(&node, traits);
        if state.is_busy() {
            node.labels.remove(traits.state_label);
            node.unschedulable &= node.annotations.contains_key(traits.initially_unschedulable);
            for noted in [traits.initially_unschedulable, traits.wait_start, traits.validation_start] {
                node.annotations.remove(noted);
            }
        }
        // What the driver manager sends away for the time of an upgrade is there again after it.
        let paused: Vec<String> =
            node.labels.iter().filter(|(_, value)| value.starts_with("paused-for-")).map(|(key, _)| key.clone()).collect();
        for key in paused {
            node.labels.insert(key, "true".to_owned());
        }
        node.created = moved(node.created, now);
        node.ready_since = node.ready_since.map(|since| moved(since, now));
        Self { node, gpus, outdated, same_config: false }
    }
}

fn set_label(map: &mut Labels, key: String, value: Option<String>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

impl FoundPod {
    /// A pod that takes so many GPUs.
    pub fn new(pod: &Workload, gpus: usize, now: Timestamp) -> Self {
        let mut workload = pod.clone();
        workload.created = moved(workload.created, now);
        workload.deleted_at = workload.deleted_at.map(|at| moved(at, now));
        Self { workload, gpus }
    }
}
