//! Driver, toolkit, validator and DRA plugin: the actions of their DaemonSets and of the kubelets
//! on their pods.

use std::collections::HashMap;
use std::sync::Arc;

use observed::{ObservedNode, ObservedPod, ObservedSlice};

use super::caches::WorldChange;
use super::context::SimulationContext;
use super::event::WorldEvent;
use super::nodes::SimulatedNodes;
use super::objects::{self, SimulatedOperand, timestamp};
use super::operand_pods::{OperandEvent, OperandPods};
use super::operator_objects::OperatorObjects;
use super::setup::SimulationSetup;

mod daemon_sets;
mod faults;
mod kubelet;

/// The parts of the world that operands depend on.
pub(super) struct OperandScope<'s, 'a> {
    pub(super) nodes: &'s mut SimulatedNodes,
    pub(super) operator: &'s OperatorObjects,
    pub(super) context: &'s mut SimulationContext<'a>,
}

impl OperandScope<'_, '_> {
    pub(super) fn after(&mut self, milliseconds: u64, node: &str, event: OperandEvent) {
        self.context.after(milliseconds, WorldEvent::OperandPod(node.to_owned(), event));
    }
}

/// The operands of one node.
#[derive(Debug)]
struct NodeOperands {
    /// Shared with the caches that have listed or watched them.
    pods: [Option<Arc<ObservedPod>>; 4],
    slice: Option<ObservedSlice>,
    /// Number of further starts at which its driver fails. `None`: at every start.
    driver_failures: Option<u32>,
    plugin_fails: bool,
    validator_fails: bool,
    /// Whether the DaemonSet creates no validator.
    validator_is_absent: bool,
}

/// The operands of all nodes.
#[derive(Debug, Default)]
pub(super) struct SimulatedOperands {
    by_node: HashMap<String, NodeOperands>,
    /// Device plugin and exporter.
    pub(super) pods: OperandPods,
}

impl SimulatedOperands {
    /// Adds a node with all operands running. The driver has this version and, if given, this
    /// configuration.
    pub(super) fn add_running(
        &mut self,
        node: &ObservedNode,
        version: &str,
        config: Option<&str>,
        context: &mut SimulationContext<'_>,
    ) {
        let setup = context.setup;
        let mut pods = [None, None, None, None];
        for operand in SimulatedOperand::ALL {
            let is_absent = !setup.has_operator() && operand != SimulatedOperand::Driver;
            if is_absent || operand == SimulatedOperand::Plugin && !setup.dra {
                continue;
            }
            let revision = if operand == SimulatedOperand::Driver { version } else { "only" };
            let mut pod =
                objects::operand(operand, node, context.queue.next_uid(), revision, 0, setup);
            // They started long ago, in this order, so the plugin is not stale.
            let age = jiff::SignedDuration::from_secs(3600 - 60 * (operand as i64));
            let since = timestamp(0).saturating_sub(age).unwrap_or(timestamp(0));
            objects::set_pod_ready(&mut pod, since);
            pod.created = since;
            if let Some(config) = config.filter(|_| operand == SimulatedOperand::Driver) {
                pod.config_digest = Some(config.to_owned());
            }
            pods[operand as usize] = Some(Arc::new(pod));
        }
        let slice =
            (setup.dra && setup.has_operator()).then(|| objects::slice(&node.name, version));
        let operands = NodeOperands {
            pods,
            slice,
            driver_failures: Some(0),
            plugin_fails: false,
            validator_fails: false,
            validator_is_absent: false,
        };
        self.by_node.insert(node.name.clone(), operands);
    }

    /// Removes all pods and the slice of a node that has just joined.
    pub(super) fn clear(&mut self, name: &str) {
        if let Some(operands) = self.by_node.get_mut(name) {
            (operands.pods, operands.slice) = ([None, None, None, None], None);
        }
    }

    /// Drops the operands of a node that has left the cluster.
    pub(super) fn remove_node(&mut self, name: &str, context: &mut SimulationContext<'_>) {
        self.by_node.remove(name);
        self.pods.remove_node(name);
        self.publish_all(name, context);
    }

    pub(super) fn pod(&self, name: &str, operand: SimulatedOperand) -> Option<&Arc<ObservedPod>> {
        self.by_node.get(name)?.pods[operand as usize].as_ref()
    }

    fn pod_mut(&mut self, name: &str, operand: SimulatedOperand) -> Option<&mut ObservedPod> {
        self.by_node.get_mut(name)?.pods[operand as usize].as_mut().map(Arc::make_mut)
    }

    pub(super) fn slice(&self, name: &str) -> Option<&ObservedSlice> {
        self.by_node.get(name)?.slice.as_ref()
    }

    pub(super) fn set_driver_failures(&mut self, name: &str, failures: Option<u32>) {
        if let Some(operands) = self.by_node.get_mut(name) {
            operands.driver_failures = failures;
        }
    }

    fn publish(&self, name: &str, operand: SimulatedOperand, context: &mut SimulationContext<'_>) {
        let pod = self.pod(name, operand).cloned();
        context.publish(WorldChange::Operand(name.to_owned(), operand, pod));
    }

    pub(super) fn publish_all(&self, name: &str, context: &mut SimulationContext<'_>) {
        for operand in SimulatedOperand::ALL {
            self.publish(name, operand, context);
        }
    }

    pub(super) fn publish_slice(&self, name: &str, context: &mut SimulationContext<'_>) {
        context
            .publish(WorldChange::Slice(name.to_owned(), self.slice(name).cloned().map(Arc::new)));
    }

    /// Returns the problem of the node's operands that gate. `None`: there is no problem, or the
    /// setup has no such operands.
    pub(super) fn trouble(
        &self,
        node: &ObservedNode,
        operator: &OperatorObjects,
        setup: &SimulationSetup,
    ) -> Option<String> {
        if !setup.operands {
            return None;
        }
        if self.pod(&node.name, SimulatedOperand::Validator).is_none_or(|pod| !pod.containers_ready)
        {
            return Some("its validator is not ready".to_owned());
        }
        self.pods.trouble(node, operator)
    }
}
