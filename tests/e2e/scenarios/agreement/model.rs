//! The model: the expected results of a pass and of the evictions that it starts.

use std::collections::{BTreeMap, BTreeSet};

use contract::names;
use contract::policy::Policy;
use jiff::Timestamp;
use nvidia_upgrade::background_task::{
    EvictionTask, drain_ended, drain_selector, drained, eviction, eviction_ended,
};
use nvidia_upgrade::operator::policies;
use nvidia_upgrade::pass::{PassError, PassWrite};
use nvidia_upgrade::snapshot::SnapshotError;
use nvidia_upgrade::users::{users, uses_gpu};
use nvidia_upgrade::{ControllerState, UpgradeController};
use observed::workload::{PodPhase, Workload};

use super::library::Of;
use super::seen::{NodeLook, Picture, Seen, about};
use super::world::SHORT;

/// The controller, and the evictions and drains that it has started.
pub(super) struct Model {
    of: Of,
    controller: UpgradeController,
    tasks: BTreeMap<String, Task>,
}

/// An eviction or a drain.
struct Task {
    /// The pods to evict, as `namespace/name`.
    pods: BTreeSet<String>,
    /// The pods whose eviction failed with an error.
    given_up: BTreeSet<String>,
    drains: bool,
    /// Whether it has a short timeout.
    short: bool,
    policy: Policy,
}

/// The expected state after a pass.
pub(super) struct Expected {
    pub(super) picture: Picture,
    /// The number of evictions and drains that are still running.
    pub(super) tasks: usize,
    /// The error that ends the pass.
    pub(super) error: Option<PassError>,
    /// Whether upgrades are enabled, so that a next pass follows without a change.
    pub(super) on: bool,
}

impl Expected {
    /// Returns the expected part of the library's error message.
    pub(super) fn library_error(&self) -> Option<String> {
        Some(match self.error.as_ref()? {
            PassError::Build(SnapshotError::PodCount { .. }) => {
                "driver DaemonSet should not have Unscheduled pods".to_owned()
            }
            PassError::Build(SnapshotError::NodeMissing { node, .. }) => {
                format!("unable to get node {node}:")
            }
            PassError::Build(SnapshotError::NoNode { .. }) => "unable to get node :".to_owned(),
            PassError::NoHash { pod, .. } => {
                format!("controller-revision-hash label not present for pod {pod}")
            }
            PassError::NoRevision { .. } => "no revision found for daemonset".to_owned(),
            PassError::MaxUnavailable { .. } => "invalid value for IntOrString".to_owned(),
            PassError::NoDrain => "the upgrade policy has no drain".to_owned(),
            PassError::NoPodDeletion { .. } => "pod deletion spec should not be empty".to_owned(),
            PassError::StartTime { value, .. } => format!("parsing {value:?}: invalid syntax"),
            PassError::Refused { write } => {
                format!("{write} is refused, which happens in no world")
            }
        })
    }
}

impl Model {
    /// Creates the model of a controller that has just started.
    pub(super) fn new(of: Of) -> Self {
        let controller = UpgradeController::new(of.driver(), of.generation, None, Timestamp::now());
        Self { of, controller, tasks: BTreeMap::new() }
    }

    /// Continues the running evictions.
    pub(super) fn settle(&mut self, seen: &Seen) -> Expected {
        let mut picture = seen.picture.clone();
        self.go_on(seen, &mut picture);
        Expected { picture, tasks: self.tasks.len(), error: None, on: false }
    }

    /// Performs a pass, then continues the evictions.
    pub(super) fn pass(&mut self, seen: &Seen) -> Expected {
        let mut picture = seen.picture.clone();
        let mut writes = Vec::new();
        let done = self.controller.run(&seen.observed, Timestamp::now(), &mut |write| {
            writes.push(write.clone());
            true
        });
        for write in &writes {
            self.write(write, seen, &mut picture);
        }
        for node in &done.cleaned {
            label(&mut picture, node, ControllerState::Unknown);
        }
        self.go_on(seen, &mut picture);
        let error = done.error().cloned();
        Expected { picture, tasks: self.tasks.len(), error, on: self.controller.due().is_some() }
    }

    fn write(&mut self, write: &PassWrite, seen: &Seen, picture: &mut Picture) {
        let name = write.node();
        match write {
            PassWrite::State { state, .. } => label(picture, name, *state),
            PassWrite::Annotate { key, value, .. } => {
                let Some(look) = picture.nodes.get_mut(name) else { return };
                match value {
                    Some(value) => drop(look.notes.insert((*key).to_owned(), about(value))),
                    None => drop(look.notes.remove(*key)),
                }
            }
            PassWrite::Cordon { .. } => cordon(picture, name, true),
            PassWrite::Uncordon { .. } => cordon(picture, name, false),
            PassWrite::DeletePod { namespace, name: pod, .. } => {
                let pod = format!("{namespace}/{pod}");
                let grace = seen
                    .pods_on(name)
                    .iter()
                    .find(|workload| key(workload) == pod)
                    .map_or(0, grace);
                delete(picture, &pod, grace);
            }
            PassWrite::Evict { .. } => self.evict(name, seen, picture),
            PassWrite::Drain { .. } => self.drain(name, seen, picture),
            PassWrite::CreateMaintenance { .. }
            | PassWrite::JoinMaintenance { .. }
            | PassWrite::LeaveMaintenance { .. }
            | PassWrite::DeleteMaintenance { .. } => {}
        }
    }

    /// Returns the policy of a node.
    fn policy(&self, node: &str, seen: &Seen) -> Policy {
        let owner = seen
            .observed
            .nodes
            .get(node)
            .and_then(|node| node.labels.get(names::DRIVER_OWNER_LABEL));
        let all = policies(&seen.observed, self.of.driver(), self.of.generation);
        let of_node = |of: Option<&str>| of.is_none() || of == owner.map(String::as_str);
        all.into_iter()
            .find(|(of, _)| of_node(*of))
            .map(|(_, rules)| rules.policy)
            .unwrap_or_default()
    }

    fn evict(&mut self, node: &str, seen: &Seen, picture: &mut Picture) {
        let policy = self.policy(node, seen);
        let deletion = policy.pod_deletion.clone().unwrap_or_default();
        let pods = seen.pods_on(node);
        match eviction(&users(pods, seen.workloads(), &deletion, self.of.generation), &policy) {
            EvictionTask::Ends(state) => self.ends(node, state, picture),
            EvictionTask::Runs => {
                let pods = pods
                    .iter()
                    .filter(|pod| uses_gpu(pod, seen.workloads(), self.of.generation))
                    .map(key)
                    .collect();
                let short = deletion.timeout_seconds == SHORT;
                self.tasks.insert(
                    node.to_owned(),
                    Task { pods, given_up: BTreeSet::new(), drains: false, short, policy },
                );
            }
        }
    }

    fn drain(&mut self, node: &str, seen: &Seen, picture: &mut Picture) {
        cordon(picture, node, true);
        let policy = self.policy(node, seen);
        let drain = policy.drain.clone().unwrap_or_default();
        let selector =
            drain_selector(&drain.pod_selector, self.of.driver().traits().drain_skip_label)
                .parse()
                .ok();
        match selector.and_then(|selector| drained(seen.pods_on(node), &drain, &selector)) {
            None => self.ends(node, drain_ended(false), picture),
            Some(pods) => {
                let pods = pods.into_iter().map(key).collect();
                let short = drain.timeout_seconds == SHORT;
                self.tasks.insert(
                    node.to_owned(),
                    Task { pods, given_up: BTreeSet::new(), drains: true, short, policy },
                );
            }
        }
    }

    fn ends(&mut self, node: &str, state: ControllerState, picture: &mut Picture) {
        self.controller.ended(node);
        label(picture, node, state);
    }

    /// Continues evictions. A refused eviction is retried until it is granted or the timeout
    /// expires. The task then waits for the deletion of the pods.
    fn go_on(&mut self, seen: &Seen, picture: &mut Picture) {
        for (node, task) in std::mem::take(&mut self.tasks) {
            let mut task = task;
            for pod in task.pods.clone() {
                if task.given_up.contains(&pod) || picture.pods.get(&pod) != Some(&false) {
                    continue;
                }
                let Some(workload) =
                    seen.pods.values().flatten().find(|workload| key(workload) == pod)
                else {
                    continue;
                };
                match answer(workload, seen) {
                    Answer::Granted => delete(picture, &pod, grace(workload)),
                    Answer::Refused => {}
                    Answer::Error => drop(task.given_up.insert(pod)),
                }
            }
            let left = task
                .pods
                .iter()
                .any(|pod| picture.pods.contains_key(pod) && !task.given_up.contains(pod));
            if left && !task.short {
                self.tasks.insert(node, task);
                continue;
            }
            let well = !left && task.given_up.is_empty();
            let state =
                if task.drains { drain_ended(well) } else { eviction_ended(well, &task.policy) };
            self.ends(&node, state, picture);
        }
    }
}

/// The answer of the API server to an eviction.
enum Answer {
    Granted,
    /// 429: the client retries.
    Refused,
    /// 500, because more than one budget selects the pod: the client does not retry.
    Error,
}

fn answer(pod: &Workload, seen: &Seen) -> Answer {
    // Budgets protect only running pods.
    if pod.phase != PodPhase::Running {
        return Answer::Granted;
    }
    let has = |selector: &contract::selector::Selector| selector.matches(&pod.labels);
    let budgets = seen.workloads().budgets.iter();
    let budgets: Vec<_> = budgets
        .filter(|budget| {
            budget.namespace == pod.namespace && budget.selector.as_ref().is_some_and(has)
        })
        .collect();
    match budgets.as_slice() {
        [] => Answer::Granted,
        [budget] if budget.allowed > 0 && budget.observed => Answer::Granted,
        [_] => Answer::Refused,
        [_, _, ..] => Answer::Error,
    }
}

/// Returns the grace period of a deleted pod in seconds. It is 0 for a pod that has ended.
fn grace(pod: &Workload) -> u64 {
    if pod.phase.is_finished() { 0 } else { pod.grace_seconds }
}

/// Returns `namespace/name`.
fn key(pod: &Workload) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn delete(picture: &mut Picture, pod: &str, grace_seconds: u64) {
    if grace_seconds == 0 {
        picture.pods.remove(pod);
    } else if let Some(deleting) = picture.pods.get_mut(pod) {
        *deleting = true;
    }
}

fn cordon(picture: &mut Picture, node: &str, cordoned: bool) {
    if let Some(look) = picture.nodes.get_mut(node) {
        look.cordoned = cordoned;
    }
}

fn label(picture: &mut Picture, node: &str, state: ControllerState) {
    if let Some(NodeLook { state: label, .. }) = picture.nodes.get_mut(node) {
        state.label().clone_into(label);
    }
}
