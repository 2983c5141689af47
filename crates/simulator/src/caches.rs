//! The caches that watches fill: those of the hook, which lag behind the cluster, and those of the
//! upgrade controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::selector::Selector;
use observed::pause::ObservedPause;
use observed::workload::{AwaitedPod, DisruptionBudget, NodeMaintenance, Workload};
use observed::{
    Observed, ObservedNode, ObservedPod, ObservedSlice, OperandPod, OptionalApi, Views,
};

use super::objects::SimulatedOperand;
use super::operand_pods;
use super::operator_objects::{OperatorObjects, write_operator_objects};
use super::setup::SimulationSetup;
use super::watches::HookWatch;

/// A change of objects that a watch delivers.
#[derive(Clone, Debug)]
pub(super) enum WorldChange {
    Node(String, Option<Box<ObservedNode>>),
    Operand(String, SimulatedOperand, Option<Box<ObservedPod>>),
    OperandPod(String, contract::operand::Operand, Option<Box<OperandPod>>),
    Slice(String, Option<ObservedSlice>),
    /// UID and the pod.
    Pod(String, Option<Box<Workload>>),
    Budgets(Vec<DisruptionBudget>),
    Pauses(Vec<ObservedPause>),
    Operator(Box<OperatorObjects>),
}

impl WorldChange {
    /// The watch of the hook that delivers it.
    pub(super) fn watch(&self) -> HookWatch {
        match self {
            Self::Node(..) => HookWatch::Nodes,
            Self::Operand(..) | Self::OperandPod(..) => HookWatch::Operands,
            Self::Slice(..) => HookWatch::Slices,
            Self::Pod(..) => HookWatch::Pods,
            Self::Budgets(_) => HookWatch::Budgets,
            Self::Pauses(_) => HookWatch::Pauses,
            Self::Operator(_) => HookWatch::Operator,
        }
    }
}

/// Caches of the cluster's objects.
#[derive(Debug, Default)]
pub(super) struct ClusterCaches {
    pub(super) observed: Observed,
    /// The pods that `waitForCompletion` names; `None`: jobs are not watched.
    pub(super) job_selector: Option<Selector>,
    /// The position of an operand's pod in its list.
    places: BTreeMap<(SimulatedOperand, String), usize>,
    slices: BTreeMap<String, usize>,
    /// The resource version of the list of a node's pods.
    listed: BTreeMap<String, u64>,
    jobs: BTreeMap<String, AwaitedPod>,
    /// The number of known driver revisions.
    pub(super) revisions: usize,
    /// The newest known revisions of other operands.
    pub(super) operand_revisions: BTreeMap<contract::operand::Operand, u32>,
}

impl ClusterCaches {
    pub(super) fn new(job_selector: Option<Selector>) -> Self {
        Self { job_selector, ..Self::default() }
    }

    pub(super) fn apply(&mut self, change: WorldChange, version: u64, setup: &SimulationSetup) {
        match change {
            WorldChange::Node(name, Some(node)) => self.observed.nodes.insert(name, *node),
            WorldChange::Node(name, None) => drop(self.observed.nodes.remove(&name)),
            WorldChange::Operand(node, operand, pod) => {
                if setup.operands && operand == SimulatedOperand::Validator {
                    self.operand_pod(
                        &node,
                        contract::operand::Operand::Validator,
                        pod.as_deref().map(operand_pods::validator),
                    );
                }
                self.operand(node, operand, pod.map(|pod| *pod));
            }
            WorldChange::OperandPod(node, operand, pod) => {
                self.operand_pod(&node, operand, pod.map(|pod| *pod));
            }
            WorldChange::Slice(node, slice) => self.slice(node, slice),
            WorldChange::Pod(uid, pod) => self.pod(&uid, pod.as_deref(), version),
            WorldChange::Budgets(budgets) => self.observed.workloads.budgets = budgets,
            WorldChange::Pauses(pauses) => self.observed.pauses = pauses,
            WorldChange::Operator(operator) => {
                self.revisions = operator.revisions.len();
                self.operand_revisions.clone_from(&operator.operand_revisions);
                write_operator_objects(&mut self.observed, &operator, setup);
                let maintenance = |node: &String| NodeMaintenance {
                    namespace: "default".to_owned(),
                    name: format!("others-{node}"),
                    node: node.clone(),
                    requestor: "others".to_owned(),
                    state: None,
                    ..NodeMaintenance::default()
                };
                self.observed.workloads.maintenances =
                    OptionalApi::Served(operator.maintenances.iter().map(maintenance).collect());
            }
        }
    }

    fn pods(&mut self, operand: SimulatedOperand) -> &mut Views<ObservedPod> {
        match operand {
            SimulatedOperand::Driver | SimulatedOperand::Toolkit => &mut self.observed.pods,
            SimulatedOperand::Validator => &mut self.observed.validators,
            SimulatedOperand::Plugin => &mut self.observed.dra.pods,
        }
    }

    fn operand(&mut self, node: String, operand: SimulatedOperand, pod: Option<ObservedPod>) {
        let place = self.places.get(&(operand, node.clone())).copied();
        let pods = self.pods(operand);
        match (place, pod) {
            (Some(place), Some(pod)) => pods.changed()[place] = Arc::new(pod),
            (None, Some(pod)) => {
                let place = pods.len();
                pods.push(pod);
                self.places.insert((operand, node), place);
            }
            (Some(place), None) => {
                pods.changed().swap_remove(place);
                let moved = pods.get(place).map(|pod| {
                    (pod.node.clone().unwrap_or_default(), pod.containers[0].name.clone())
                });
                self.places.remove(&(operand, node));
                if let Some((node, container)) = moved {
                    let of = |place: &&SimulatedOperand| place.traits().container == container;
                    let moved = SimulatedOperand::ALL.iter().find(of).copied().unwrap_or(operand);
                    self.places.insert((moved, node), place);
                }
            }
            (None, None) => {}
        }
    }

    fn operand_pod(
        &mut self,
        node: &str,
        operand: contract::operand::Operand,
        pod: Option<OperandPod>,
    ) {
        let owner = operand.traits().daemon_set;
        let pods = &mut self.observed.operand_pods;
        // A simulated fleet has few of them.
        let place = pods
            .iter()
            .position(|known| *known.owner == *owner && known.node.as_deref() == Some(node));
        match (place, pod) {
            (Some(place), Some(pod)) => pods.changed()[place] = Arc::new(pod),
            (None, Some(pod)) => pods.push(pod),
            (Some(place), None) => drop(pods.changed().swap_remove(place)),
            (None, None) => {}
        }
    }

    fn slice(&mut self, node: String, slice: Option<ObservedSlice>) {
        let place = self.slices.get(&node).copied();
        let OptionalApi::Served(slices) = &mut self.observed.dra.slices else { return };
        match (place, slice) {
            (Some(place), Some(slice)) => slices.changed()[place] = Arc::new(slice),
            (None, Some(slice)) => {
                self.slices.insert(node, slices.len());
                slices.push(slice);
            }
            (Some(place), None) => {
                slices.changed().swap_remove(place);
                self.slices.remove(&node);
                if let Some(moved) = slices.get(place) {
                    self.slices.insert(moved.node.clone(), place);
                }
            }
            (None, None) => {}
        }
    }

    fn pod(&mut self, uid: &str, pod: Option<&Workload>, version: u64) {
        if let Some(selector) = &self.job_selector {
            let job = pod.filter(|pod| selector.matches(&pod.labels) && !pod.node.is_empty());
            let changed = match job {
                Some(pod) => {
                    let job = AwaitedPod {
                        namespace: pod.namespace.clone(),
                        name: pod.name.clone(),
                        node: pod.node.clone(),
                        phase: pod.phase,
                    };
                    self.jobs.insert(uid.to_owned(), job.clone()) != Some(job)
                }
                None => self.jobs.remove(uid).is_some(),
            };
            if changed {
                self.observed.workloads.jobs = self.jobs.values().cloned().collect();
            }
        }
        for (node, pods) in &mut self.observed.workloads.pods {
            // The list already contains this change.
            if self.listed.get(node).is_some_and(|listed| *listed >= version) {
                continue;
            }
            let place = pods.iter().position(|known| known.uid == uid);
            match (place, pod.filter(|pod| pod.node == *node)) {
                (Some(place), Some(pod)) => pods[place] = pod.clone(),
                (None, Some(pod)) => pods.push(pod.clone()),
                (Some(place), None) => drop(pods.remove(place)),
                (None, None) => {}
            }
        }
    }

    /// Stores the list of a node's pods.
    pub(super) fn list(&mut self, node: &str, pods: Vec<Workload>, version: u64) {
        self.listed.insert(node.to_owned(), version);
        self.observed.workloads.pods.insert(node.to_owned(), pods);
    }

    /// Drops the pods of nodes whose pods are no longer watched. Returns the nodes to list.
    pub(super) fn focus(
        &mut self,
        focus: &BTreeSet<String>,
        asked: &BTreeSet<String>,
    ) -> Vec<String> {
        self.observed.workloads.pods.retain(|node, _| focus.contains(node));
        self.listed.retain(|node, _| focus.contains(node));
        focus
            .iter()
            .filter(|node| !self.listed.contains_key(*node) && !asked.contains(*node))
            .cloned()
            .collect()
    }
}
