//! The caches that watches fill: those of the hook, which lag behind the cluster, and those of the
//! upgrade controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::selector::Selector;
use observed::acceptance::AcceptancePod;
use observed::pause::ObservedPause;
use observed::workload::{AwaitedPod, DisruptionBudget, NodeMaintenance, Workload};
use observed::{
    Observed, ObservedNode, ObservedPod, ObservedSlice, OperandPod, OptionalApi, Views,
};
use planner::node::is_driver_node;

use super::invariants::is_in_progress;
use super::objects::SimulatedOperand;
use super::operand_pods;
use super::operator_objects::{OperatorObjects, write_operator_objects};
use super::setup::SimulationSetup;
use super::watches::HookWatch;

/// A change of objects that a watch delivers.
#[derive(Clone, Debug)]
pub(super) enum WorldChange {
    Node(String, Option<Arc<ObservedNode>>),
    Operand(String, SimulatedOperand, Option<Arc<ObservedPod>>),
    OperandPod(String, contract::operand::Operand, Option<Arc<OperandPod>>),
    Slice(String, Option<Arc<ObservedSlice>>),
    /// UID and the pod.
    Pod(String, Option<Arc<Workload>>),
    /// The pod of an acceptance test: its node, its name and the pod.
    TestPod(String, String, Option<Arc<AcceptancePod>>),
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
            Self::TestPod(..) => HookWatch::TestPods,
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
    /// Number of nodes that need the driver of an operator.
    pub(super) driver_nodes: usize,
    /// The nodes that are cordoned, not ready, or in progress by their record.
    pub(super) unavailable: BTreeSet<String>,
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

    pub(super) fn apply(&mut self, change: &WorldChange, version: u64, setup: &SimulationSetup) {
        match change {
            WorldChange::Node(name, node) => self.node(name, node.as_ref(), setup),
            WorldChange::Operand(node, operand, pod) => {
                if setup.operands && *operand == SimulatedOperand::Validator {
                    self.operand_pod(
                        node,
                        contract::operand::Operand::Validator,
                        pod.as_deref().map(operand_pods::validator).map(Arc::new),
                    );
                }
                set(self.pods(*operand), node, operand.traits().container, pod.clone());
            }
            WorldChange::OperandPod(node, operand, pod) => {
                self.operand_pod(node, *operand, pod.clone());
            }
            WorldChange::Slice(node, slice) => self.slice(node, slice.clone()),
            WorldChange::Pod(uid, pod) => self.pod(uid, pod.as_deref(), version),
            WorldChange::TestPod(node, name, pod) => {
                set(&mut self.observed.acceptance, node, name, pod.clone());
            }
            WorldChange::Budgets(budgets) => self.observed.workloads.budgets.clone_from(budgets),
            WorldChange::Pauses(pauses) => self.observed.pauses.clone_from(pauses),
            WorldChange::Operator(operator) => {
                self.revisions = operator.revisions.len();
                self.operand_revisions.clone_from(&operator.operand_revisions);
                write_operator_objects(&mut self.observed, operator, setup);
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

    fn node(&mut self, name: &str, node: Option<&Arc<ObservedNode>>, setup: &SimulationSetup) {
        let driver = setup.settings.driver;
        let counts =
            |node: Option<&ObservedNode>| node.is_some_and(|node| is_driver_node(node, driver));
        let before = counts(self.observed.nodes.get(name));
        self.driver_nodes += usize::from(counts(node.map(AsRef::as_ref)));
        self.driver_nodes -= usize::from(before);
        let is_away =
            |node: &ObservedNode| node.unschedulable || !node.ready || is_in_progress(node, driver);
        if node.is_some_and(|node| is_away(node)) {
            self.unavailable.insert(name.to_owned());
        } else {
            self.unavailable.remove(name);
        }
        match node {
            Some(node) => self.observed.nodes.insert_shared(name, Arc::clone(node)),
            None => drop(self.observed.nodes.remove(name)),
        }
    }

    fn pods(&mut self, operand: SimulatedOperand) -> &mut Views<ObservedPod> {
        match operand {
            SimulatedOperand::Driver | SimulatedOperand::Toolkit => &mut self.observed.pods,
            SimulatedOperand::Validator => &mut self.observed.validators,
            SimulatedOperand::Plugin => &mut self.observed.dra.pods,
        }
    }

    fn operand_pod(
        &mut self,
        node: &str,
        operand: contract::operand::Operand,
        pod: Option<Arc<OperandPod>>,
    ) {
        set(&mut self.observed.operand_pods, node, operand.traits().daemon_set, pod);
    }

    fn slice(&mut self, node: &str, slice: Option<Arc<ObservedSlice>>) {
        if let OptionalApi::Served(slices) = &mut self.observed.dra.slices {
            set(slices, node, "slice", slice);
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

/// Sets or removes the view with this key on a node.
fn set<T>(views: &mut Views<T>, node: &str, key: &str, view: Option<Arc<T>>) {
    match view {
        Some(view) => views.insert(node, key, view),
        None => drop(views.remove(node, key)),
    }
}
