//! The simulated cluster: everything except the hook and the upgrade controller.

use std::sync::Arc;

use contract::names;
use contract::selector::Selector;
use jiff::Timestamp;
use observed::{Labels, ObservedNode};

use super::acceptance::AcceptanceFaults;
use super::caches::{ClusterCaches, WorldChange};
use super::context::SimulationContext;
use super::event::WorldEvent;
use super::found_fleet::FoundNode;
use super::nodes::{SimulatedNode, SimulatedNodes};
use super::objects::{self, SimulatedOperand, timestamp};
use super::operands::{OperandScope, SimulatedOperands};
use super::operator::OperatorProcess;
use super::operator_objects::count_pools;
use super::pauses::FleetPauses;
use super::refusals::WriteAdmissions;
use super::setup::SimulationSetup;
use super::workloads::SimulatedWorkloads;

/// The parts of the cluster.
pub(super) struct SimulatedCluster {
    pub(super) nodes: SimulatedNodes,
    pub(super) operands: SimulatedOperands,
    pub(super) workloads: SimulatedWorkloads,
    pub(super) operator: OperatorProcess,
    pub(super) pauses: FleetPauses,
    pub(super) admissions: WriteAdmissions,
    /// What happens to the pods of acceptance tests.
    pub(super) acceptance: AcceptanceFaults,
}

/// Returns a generated node before the rollout.
fn new_node(name: &str, uid: String, index: usize, setup: &SimulationSetup) -> ObservedNode {
    let topology = setup.settings.upgrade.topology.as_ref().filter(|_| setup.group_size > 0);
    let group = topology.map(|topology| {
        (topology.label.clone(), format!("group-{}", index / setup.group_size.max(1)))
    });
    let day = jiff::SignedDuration::from_hours(24);
    let created = timestamp(0).saturating_sub(day).unwrap_or(timestamp(0));
    let mut node = objects::node(name, uid, created, group, setup.has_operator());
    if let Some(pool) = setup.pool_at(index) {
        node.labels.insert(names::DRIVER_OWNER_LABEL.to_owned(), pool.name.clone());
    }
    for (key, value) in setup.labels.get(name).into_iter().flat_map(Labels::iter) {
        node.labels.insert(key.clone(), value.clone());
    }
    node
}

impl SimulatedCluster {
    /// Returns the cluster before the rollout: the found fleet, or a fleet generated from the
    /// setup.
    pub(super) fn new(context: &mut SimulationContext<'_>) -> Self {
        let setup = context.setup;
        let mut cluster = Self {
            nodes: SimulatedNodes::default(),
            operands: SimulatedOperands::default(),
            workloads: SimulatedWorkloads::default(),
            operator: OperatorProcess::new(setup),
            pauses: FleetPauses::default(),
            admissions: WriteAdmissions::default(),
            acceptance: setup.acceptance.clone(),
        };
        if let Some(found) = &setup.found {
            for node in &found.nodes {
                cluster.add_found_node(node, context);
            }
            cluster.workloads.add_found(found, context);
        } else {
            for index in 0..setup.nodes {
                cluster.add_new_node(&format!("gpu-{index}"), index, context);
            }
            for workload in &setup.workers {
                cluster.workloads.add_running(workload, &cluster.nodes, context);
            }
        }
        cluster.operator.objects.desired_of_pool = count_pools(setup, cluster.nodes.observed());
        cluster.operator.publish(context);
        cluster
    }

    fn add_new_node(&mut self, name: &str, index: usize, context: &mut SimulationContext<'_>) {
        let node = new_node(name, context.queue.next_uid(), index, context.setup);
        self.add_running_node(node, context.setup.gpus, &context.setup.from, None, context);
    }

    fn add_found_node(&mut self, found: &FoundNode, context: &mut SimulationContext<'_>) {
        let setup = context.setup;
        let config = found.same_config.then(|| objects::config_digest(setup, &setup.to));
        let version = if found.outdated { &setup.from } else { &setup.to };
        self.add_running_node(found.node.clone(), found.gpus, version, config.as_deref(), context);
    }

    /// Adds a node with all operands running. The driver has this version and, if given, this
    /// configuration.
    fn add_running_node(
        &mut self,
        node: ObservedNode,
        gpus: usize,
        version: &str,
        config: Option<&str>,
        context: &mut SimulationContext<'_>,
    ) {
        let name = node.name.clone();
        self.operands.add_running(&node, version, config, context);
        self.nodes.insert(SimulatedNode::new(node, gpus));
        self.workloads.pods.add_node(&name);
        self.with_operands(context, |operands, scope| operands.pods.add_running(&name, scope));
        self.nodes.publish(&name, context);
    }

    /// Calls `act` with the operands and their scope.
    pub(super) fn with_operands<'a>(
        &mut self,
        context: &mut SimulationContext<'a>,
        act: impl FnOnce(&mut SimulatedOperands, &mut OperandScope<'_, 'a>),
    ) {
        let mut scope =
            OperandScope { nodes: &mut self.nodes, operator: &self.operator.objects, context };
        act(&mut self.operands, &mut scope);
    }

    /// Adds a node to the cluster, without operands.
    pub(super) fn join_node(&mut self, name: &str, context: &mut SimulationContext<'_>) {
        if self.nodes.contains(name) {
            return;
        }
        let index = self.nodes.len();
        self.add_new_node(name, index, context);
        let now = objects::second(context.now());
        self.operands.clear(name);
        if let Some(node) = self.nodes.get_mut(name) {
            (node.node.created, node.node.ready_since) = (now, Some(now));
        }
        self.with_operands(context, |operands, scope| operands.pods.remove_all(name, scope));
        self.nodes.publish(name, context);
        self.operator.count_nodes(&self.nodes, context);
        self.operands.publish_all(name, context);
        self.operands.publish_slice(name, context);
        context.after(500, WorldEvent::CreateOperand(name.to_owned(), SimulatedOperand::Driver));
        self.workloads.create_daemon_pods(name, &self.nodes, context);
        context.after(500, WorldEvent::SchedulePods);
    }

    /// Removes a node from the cluster, with its pods.
    pub(super) fn remove_node(&mut self, name: &str, context: &mut SimulationContext<'_>) {
        if !self.nodes.remove(name, context) {
            return;
        }
        self.operator.count_nodes(&self.nodes, context);
        self.operands.remove_node(name, context);
        self.operands.publish_slice(name, context);
        self.workloads.pods.remove_node(name);
        for uid in self.workloads.pods.uids_on(name) {
            self.workloads.remove(&uid, &mut self.nodes, context);
        }
    }

    /// Stops a kubelet. Nothing on the node continues or counts as ready.
    pub(super) fn stop_node(
        &mut self,
        name: &str,
        milliseconds: Option<u64>,
        context: &mut SimulationContext<'_>,
    ) {
        if !self.nodes.set_ready(name, false, context) {
            return;
        }
        self.with_operands(context, |operands, scope| operands.follow_kubelet(name, scope));
        self.workloads.follow_kubelet(name, false, context);
        let since = self.nodes.get(name).and_then(|node| node.node.ready_since);
        self.workloads.schedule_taint_eviction(name, since, context);
        if let Some(milliseconds) = milliseconds {
            context.after(milliseconds, WorldEvent::NodeRecovers(name.to_owned()));
        }
    }

    /// Evicts the pods of tests from a node, if it has not been Ready since this time.
    pub(super) fn evict_tests(
        &mut self,
        name: &str,
        since: Option<Timestamp>,
        context: &mut SimulationContext<'_>,
    ) {
        let is_down = |node: &SimulatedNode| !node.node.ready && node.node.ready_since == since;
        if self.nodes.get(name).is_some_and(is_down) {
            self.workloads.delete_tests(name, context);
        }
    }

    /// Restarts a kubelet.
    pub(super) fn recover_node(&mut self, name: &str, context: &mut SimulationContext<'_>) {
        if !self.nodes.set_ready(name, true, context) {
            return;
        }
        context.log(|| format!("{name} is Ready again"));
        self.with_operands(context, |operands, scope| operands.follow_kubelet(name, scope));
        self.workloads.follow_kubelet(name, true, context);
        self.nodes.resume_kubelet(name, context);
        context.after(100, WorldEvent::SchedulePods);
    }

    /// Returns the caches of a client that lists everything now.
    pub(super) fn list_all(
        &self,
        job_selector: Option<Selector>,
        context: &SimulationContext<'_>,
    ) -> ClusterCaches {
        let lists_pods = job_selector.is_some();
        let mut caches = ClusterCaches::new(job_selector);
        let mut put = |change| caches.apply(&change, context.watches.version, context.setup);
        put(WorldChange::Operator(Box::new(self.operator.objects.clone())));
        for node in self.nodes.observed() {
            let name = &node.name;
            put(WorldChange::Node(name.clone(), Some(Arc::new(node.clone()))));
            for operand in SimulatedOperand::ALL {
                put(WorldChange::Operand(
                    name.clone(),
                    operand,
                    self.operands.pod(name, operand).cloned(),
                ));
            }
            for (operand, pod) in self.operands.pods.on_node(name) {
                put(WorldChange::OperandPod(name.clone(), operand, Some(Arc::new(pod.clone()))));
            }
            put(WorldChange::Slice(name.clone(), self.operands.slice(name).cloned().map(Arc::new)));
        }
        put(WorldChange::Budgets(self.workloads.budgets.snapshot()));
        put(WorldChange::Pauses(self.pauses.as_slice().to_vec()));
        for pod in self.workloads.pods.iter().filter(|_| lists_pods) {
            put(WorldChange::Pod(pod.uid.clone(), Some(Arc::new(pod.clone()))));
        }
        for pod in self.workloads.list_tests() {
            let (node, name) = (pod.node.clone(), pod.name.clone());
            put(WorldChange::TestPod(node, name, Some(Arc::new(pod))));
        }
        caches
    }
}
