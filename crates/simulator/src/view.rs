//! What the hook sees: its caches, which lag behind the world.

use std::collections::{BTreeMap, BTreeSet};

use contract::selector::Selector;
use observed::pause::ObservedPause;
use observed::workload::{AwaitedPod, DisruptionBudget, NodeMaintenance, Workload};
use observed::{Observed, ObservedNode, ObservedPod, ObservedSlice, OperandPod, OptionalApi, Views};

use super::objects::{self, OperatorObjects, SimulatedOperand};
use super::operand_pods;
use super::setup::SimulationSetup;

/// One change of the world, as a watch tells it.
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
    /// What the operator has made, and nodes in maintenance.
    Fixed(Box<OperatorObjects>, BTreeSet<String>),
}

/// The caches.
#[derive(Debug, Default)]
pub(super) struct HookCaches {
    pub(super) observed: Observed,
    /// Where the pod of an operand stands in its list.
    places: BTreeMap<(SimulatedOperand, String), usize>,
    slices: BTreeMap<String, usize>,
    /// Of which version the list of a node's pods is.
    pub(super) listed: BTreeMap<String, u64>,
    jobs: BTreeMap<String, AwaitedPod>,
    /// The number of driver revisions that it knows of.
    pub(super) revisions: usize,
    /// The newest revisions of other operands that it knows of.
    pub(super) operand_revisions: BTreeMap<contract::operand::Operand, u32>,
}

impl HookCaches {
    pub(super) fn apply(&mut self, change: WorldChange, version: u64, jobs: Option<&Selector>, setup: &SimulationSetup) {
        match change {
            WorldChange::Node(name, Some(node)) => self.observed.nodes.insert(name, *node),
            WorldChange::Node(name, None) => drop(self.observed.nodes.remove(&name)),
            WorldChange::Operand(node, operand, pod) => {
                if setup.operands && operand == SimulatedOperand::Validator {
                    self.operand_pod(&node, contract::operand::Operand::Validator, pod.as_deref().map(operand_pods::validator));
                }
                self.operand(node, operand, pod.map(|pod| *pod));
            }
            WorldChange::OperandPod(node, operand, pod) => self.operand_pod(&node, operand, pod.map(|pod| *pod)),
            WorldChange::Slice(node, slice) => self.slice(node, slice),
            WorldChange::Pod(uid, pod) => self.pod(&uid, pod.as_deref(), version, jobs),
            WorldChange::Budgets(budgets) => self.observed.workloads.budgets = budgets,
            WorldChange::Pauses(pauses) => self.observed.pauses = pauses,
            WorldChange::Fixed(fixed, maintenances) => {
                self.revisions = fixed.revisions.len();
                self.operand_revisions.clone_from(&fixed.operand_revisions);
                objects::fixed(&mut self.observed, &fixed, setup);
                let of = |node: &String| NodeMaintenance {
                    namespace: "default".to_owned(),
                    name: format!("others-{node}"),
                    node: node.clone(),
                    requestor: "others".to_owned(),
                    state: None,
                    ..NodeMaintenance::default()
                };
                self.observed.workloads.maintenances = OptionalApi::Served(maintenances.iter().map(of).collect());
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
            (Some(place), Some(pod)) => pods[place] = pod,
            (None, Some(pod)) => {
                let place = pods.len();
                pods.push(pod);
                self.places.insert((operand, node), place);
            }
            (Some(place), None) => {
                pods.swap_remove(place);
                let moved = pods.get(place).map(|pod| (pod.node.clone().unwrap_or_default(), pod.containers[0].name.clone()));
                self.places.remove(&(operand, node));
                if let Some((node, container)) = moved {
                    let of = |place: &&SimulatedOperand| objects::container(**place) == container;
                    let moved = SimulatedOperand::ALL.iter().find(of).copied().unwrap_or(operand);
                    self.places.insert((moved, node), place);
                }
            }
            (None, None) => {}
        }
    }

    fn operand_pod(&mut self, node: &str, operand: contract::operand::Operand, pod: Option<OperandPod>) {
        let owner = operand.traits().daemon_set;
        let pods = &mut self.observed.operand_pods;
        // There are few in a simulated fleet.
        let place = pods.iter().position(|known| *known.owner == *owner && known.node.as_deref() == Some(node));
        match (place, pod) {
            (Some(place), Some(pod)) => pods[place] = pod,
            (None, Some(pod)) => pods.push(pod),
            (Some(place), None) => pods.swap_remove(place),
            (None, None) => {}
        }
    }

    fn slice(&mut self, node: String, slice: Option<ObservedSlice>) {
        let place = self.slices.get(&node).copied();
        let OptionalApi::Served(slices) = &mut self.observed.dra.slices else { return };
        match (place, slice) {
            (Some(place), Some(slice)) => slices[place] = slice,
            (None, Some(slice)) => {
                self.slices.insert(node, slices.len());
                slices.push(slice);
            }
            (Some(place), None) => {
                slices.swap_remove(place);
                self.slices.remove(&node);
                if let Some(moved) = slices.get(place) {
                    self.slices.insert(moved.node.clone(), place);
                }
            }
            (None, None) => {}
        }
    }

    fn pod(&mut self, uid: &str, pod: Option<&Workload>, version: u64, selector: Option<&Selector>) {
        if let Some(selector) = selector {
            let job = pod.filter(|pod| selector.matches(&pod.labels) && !pod.node.is_empty());
            let changed = match job {
                Some(pod) => {
                    let job =
                        AwaitedPod { namespace: pod.namespace.clone(), name: pod.name.clone(), node: pod.node.clone(), phase: pod.phase };
                    self.jobs.insert(uid.to_owned(), job.clone()) != Some(job)
                }
                None => self.jobs.remove(uid).is_some(),
            };
            if changed {
                self.observed.workloads.jobs = self.jobs.values().cloned().collect();
            }
        }
        for (node, pods) in &mut self.observed.workloads.pods {
            // What is older than the list is in it.
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

    /// The pods of a node are known from now on.
    pub(super) fn list(&mut self, node: &str, pods: Vec<Workload>, version: u64) {
        self.listed.insert(node.to_owned(), version);
        self.observed.workloads.pods.insert(node.to_owned(), pods);
    }

    /// Forgets the pods of nodes that are not in focus any more; answers those that are to be listed.
    pub(super) fn focus(&mut self, focus: &BTreeSet<String>, asked: &BTreeSet<String>) -> Vec<String> {
        self.observed.workloads.pods.retain(|node, _| focus.contains(node));
        self.listed.retain(|node, _| focus.contains(node));
        focus.iter().filter(|node| !self.listed.contains_key(*node) && !asked.contains(*node)).cloned().collect()
    }
}
