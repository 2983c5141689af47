//! The actions of the kubelets on the pods: containers become ready or fail, and the DRA plugin
//! publishes its devices.

use std::sync::Arc;

use super::{OperandScope, SimulatedOperands};
use crate::event::WorldEvent;
use crate::objects::{self, SimulatedOperand};

/// A kubelet's back-off after the first failure of a container, in milliseconds. It doubles each
/// time.
const BACK_OFF: u64 = 10_000;
/// The longest back-off, in milliseconds.
const LONGEST_BACK_OFF: u64 = 300_000;
/// The time from the start of a driver container to its failure, in milliseconds.
pub(super) const FAILS_AFTER: u64 = 20_000;

impl SimulatedOperands {
    /// Marks the containers of a pod as ready.
    pub(crate) fn ready(
        &mut self,
        name: &str,
        operand: SimulatedOperand,
        uid: &str,
        scope: &mut OperandScope<'_, '_>,
    ) {
        if !scope.nodes.kubelet_acts(name, || {
            WorldEvent::OperandReady(name.to_owned(), operand, uid.to_owned())
        }) {
            return;
        }
        let Some(operands) = self.by_node.get_mut(name) else { return };
        let Some(pod) = operands.pods[operand as usize]
            .as_mut()
            .filter(|pod| pod.uid == uid && !pod.deleting)
            .map(Arc::make_mut)
        else {
            return;
        };
        let context = &mut *scope.context;
        let setup = context.setup;
        if operand == SimulatedOperand::Validator && operands.validator_fails {
            return self.fail_validator(name, context);
        }
        // A driver container first installs the driver. It starts with the pod, and is ready later.
        objects::set_pod_ready(pod, setup.clocks.of_node(name, context.now()));
        self.publish(name, operand, context);
        context.log(|| format!("{name} {} ready", operand.traits().name));
        let create = |operand| WorldEvent::CreateOperand(name.to_owned(), operand);
        match operand {
            SimulatedOperand::Driver if !setup.has_operator() => {}
            SimulatedOperand::Driver => context.after(0, create(SimulatedOperand::Toolkit)),
            SimulatedOperand::Toolkit => {
                context.after(0, create(SimulatedOperand::Validator));
                self.pods.create_all(name, scope);
                if setup.dra {
                    scope.context.after(0, create(SimulatedOperand::Plugin));
                }
            }
            SimulatedOperand::Validator => {}
            SimulatedOperand::Plugin => {
                let publish = context.draw(setup.times.publish, "publish", name);
                context.after(publish, WorldEvent::PublishSlice(name.to_owned(), uid.to_owned()));
            }
        }
    }

    /// Handles the failure of a driver container.
    pub(crate) fn failed(
        &mut self,
        name: &str,
        operand: SimulatedOperand,
        uid: &str,
        scope: &mut OperandScope<'_, '_>,
    ) {
        if !scope.nodes.kubelet_acts(name, || {
            WorldEvent::OperandFailed(name.to_owned(), operand, uid.to_owned())
        }) {
            return;
        }
        let Some(operands) = self.by_node.get_mut(name) else { return };
        let Some(pod) = operands.pods[operand as usize]
            .as_mut()
            .filter(|pod| pod.uid == uid && !pod.deleting)
            .map(Arc::make_mut)
        else {
            return;
        };
        if let Some(left) = operands.driver_failures.as_mut() {
            *left = left.saturating_sub(1);
        }
        let is_last = operands.driver_failures == Some(0);
        pod.unready_restarts += 1;
        pod.running = true;
        pod.trouble = Some("CrashLoopBackOff".to_owned());
        let restarts = pod.unready_restarts;
        for container in &mut pod.containers {
            container.restarts = restarts;
        }
        let context = &mut *scope.context;
        self.publish(name, operand, context);
        context.log(|| format!("{name} {} fails ({restarts})", operand.traits().name));
        let doubled = BACK_OFF << u32::try_from(restarts - 1).unwrap_or(0).min(8);
        let back_off = doubled.min(LONGEST_BACK_OFF);
        let uid = uid.to_owned();
        if is_last {
            let start = context.draw(context.setup.times.driver, "driver", name);
            context
                .after(back_off + start, WorldEvent::OperandReady(name.to_owned(), operand, uid));
        } else {
            context.after(
                back_off + FAILS_AFTER,
                WorldEvent::OperandFailed(name.to_owned(), operand, uid),
            );
        }
    }

    /// Publishes the ResourceSlice of a DRA plugin, with the driver version that was loaded when
    /// the plugin started.
    pub(crate) fn refresh_slice(
        &mut self,
        name: &str,
        uid: &str,
        scope: &mut OperandScope<'_, '_>,
    ) {
        if !scope
            .nodes
            .kubelet_acts(name, || WorldEvent::PublishSlice(name.to_owned(), uid.to_owned()))
        {
            return;
        }
        if self.pod(name, SimulatedOperand::Plugin).is_none_or(|pod| pod.uid != uid) {
            return;
        }
        let Some(version) =
            self.pod(name, SimulatedOperand::Driver).and_then(|pod| pod.revision.clone())
        else {
            return;
        };
        if let Some(operands) = self.by_node.get_mut(name) {
            operands.slice = Some(objects::slice(name, &version));
        }
        self.publish_slice(name, scope.context);
    }

    /// Updates the operands after the node's kubelet stopped or restarted.
    pub(crate) fn follow_kubelet(&mut self, name: &str, scope: &mut OperandScope<'_, '_>) {
        let at = scope.context.setup.clocks.of_node(name, scope.context.now());
        let is_back = scope.nodes.is_ready(name);
        for pod in self
            .by_node
            .get_mut(name)
            .into_iter()
            .flat_map(|operands| &mut operands.pods)
            .flatten()
            .map(Arc::make_mut)
        {
            if !is_back {
                pod.ready = false;
            } else if pod.containers_ready && !pod.deleting {
                (pod.ready, pod.ready_since) = (true, Some(at));
            }
        }
        self.pods.follow_kubelet(name, scope);
        self.publish_all(name, scope.context);
    }
}
