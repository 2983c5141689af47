//! The actions of the DaemonSets: they delete and create pods.

use std::sync::Arc;

use super::kubelet::FAILS_AFTER;
use super::{OperandScope, SimulatedOperands};
use crate::context::SimulationContext;
use crate::event::WorldEvent;
use crate::objects::{self, SimulatedOperand};

impl SimulatedOperands {
    /// Deletes a pod.
    pub(crate) fn delete(
        &mut self,
        name: &str,
        operand: SimulatedOperand,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(pod) = self.pod_mut(name, operand).filter(|pod| !pod.deleting) else { return };
        (pod.deleting, pod.ready) = (true, false);
        let uid = pod.uid.clone();
        self.publish(name, operand, context);
        let end = context.draw(context.setup.times.operand_end, "end", name);
        context.after(end, WorldEvent::OperandRemoved(name.to_owned(), operand, uid));
    }

    /// Handles a pod that the kubelet has removed. Its DaemonSet replaces it.
    pub(crate) fn removed(
        &mut self,
        name: &str,
        operand: SimulatedOperand,
        uid: &str,
        scope: &mut OperandScope<'_, '_>,
    ) {
        if !scope.nodes.kubelet_acts(name, || {
            WorldEvent::OperandRemoved(name.to_owned(), operand, uid.to_owned())
        }) {
            return;
        }
        let Some(operands) = self.by_node.get_mut(name) else { return };
        let pod = &mut operands.pods[operand as usize];
        if pod.take_if(|pod| pod.uid == uid).is_none() {
            return;
        }
        let context = &mut *scope.context;
        self.publish(name, operand, context);
        let recreate = context.draw(context.setup.times.recreate, "recreate", name);
        context.after(recreate, WorldEvent::CreateOperand(name.to_owned(), operand));
    }

    /// Creates a pod, as the DaemonSet does.
    pub(crate) fn create(
        &mut self,
        name: &str,
        operand: SimulatedOperand,
        scope: &mut OperandScope<'_, '_>,
    ) {
        let (Some(operands), Some(node)) = (self.by_node.get_mut(name), scope.nodes.get(name))
        else {
            return;
        };
        let is_absent = operand == SimulatedOperand::Validator && operands.validator_is_absent;
        if operands.pods[operand as usize].is_some() || is_absent {
            return;
        }
        let context = &mut *scope.context;
        let is_driver = operand == SimulatedOperand::Driver;
        let revision = if is_driver { scope.operator.newest() } else { "only" };
        let uid = context.queue.next_uid();
        let pod = objects::operand(
            operand,
            &node.node,
            uid.clone(),
            revision,
            context.now(),
            context.setup,
        );
        operands.pods[operand as usize] = Some(Arc::new(pod));
        let fails = is_driver && operands.driver_failures != Some(0);
        if is_driver && context.setup.has_operator() {
            // The driver manager removes the operands that depend on the old driver.
            operands.pods[SimulatedOperand::Toolkit as usize] = None;
            operands.pods[SimulatedOperand::Validator as usize] = None;
            self.publish(name, SimulatedOperand::Toolkit, context);
            self.publish(name, SimulatedOperand::Validator, context);
            self.pods.remove_all(name, scope);
        }
        self.publish(name, operand, scope.context);
        if fails {
            scope
                .context
                .after(FAILS_AFTER, WorldEvent::OperandFailed(name.to_owned(), operand, uid));
        } else {
            self.start(name, operand, uid, scope.context);
        }
    }

    fn start(
        &self,
        name: &str,
        operand: SimulatedOperand,
        uid: String,
        context: &mut SimulationContext<'_>,
    ) {
        let times = &context.setup.times;
        let spread = match operand {
            SimulatedOperand::Driver => times.driver,
            SimulatedOperand::Toolkit => times.toolkit,
            SimulatedOperand::Validator => times.validator,
            SimulatedOperand::Plugin => times.plugin,
        };
        let start = context.draw(spread, operand.traits().name, name);
        if operand == SimulatedOperand::Driver {
            context.report.driver_times.insert(name.to_owned(), start);
        }
        if operand == SimulatedOperand::Plugin
            && self.by_node.get(name).is_some_and(|operands| operands.plugin_fails)
        {
            return;
        }
        context.after(start, WorldEvent::OperandReady(name.to_owned(), operand, uid));
    }
}
