//! Faults of operands, and their repair.

use contract::operand::Operand;

use super::{OperandScope, SimulatedOperands};
use crate::context::SimulationContext;
use crate::event::WorldEvent;
use crate::fault::OperandFault;
use crate::objects::SimulatedOperand;
use crate::operand_pods::{OperandEvent, PLUGIN_AND_EXPORTER, ROLL};

impl SimulatedOperands {
    /// Crashes the driver container of a node, if it is ready.
    pub(crate) fn crash_driver(
        &mut self,
        name: &str,
        milliseconds: Option<u64>,
        context: &mut SimulationContext<'_>,
    ) {
        let driver = SimulatedOperand::Driver;
        let pod = self.pod_mut(name, driver).filter(|pod| pod.containers_ready && !pod.deleting);
        let Some(pod) = pod else { return };
        (pod.ready, pod.containers_ready, pod.unready_restarts) =
            (false, false, pod.unready_restarts + 1);
        pod.trouble = Some("CrashLoopBackOff".to_owned());
        let uid = pod.uid.clone();
        self.publish(name, driver, context);
        if let Some(milliseconds) = milliseconds {
            context.after(milliseconds, WorldEvent::OperandReady(name.to_owned(), driver, uid));
        }
    }

    /// Keeps new DRA plugin pods of the node unready until the plugin is repaired.
    pub(crate) fn break_plugin(
        &mut self,
        name: &str,
        milliseconds: Option<u64>,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(operands) = self.by_node.get_mut(name) else { return };
        operands.plugin_fails = true;
        if let Some(milliseconds) = milliseconds {
            context.after(milliseconds, WorldEvent::PluginRepaired(name.to_owned()));
        }
    }

    pub(crate) fn repair_plugin(&mut self, name: &str, context: &mut SimulationContext<'_>) {
        let Some(operands) = self.by_node.get_mut(name) else { return };
        operands.plugin_fails = false;
        let hangs = self
            .pod(name, SimulatedOperand::Plugin)
            .filter(|pod| !pod.ready && !pod.deleting)
            .map(|pod| pod.uid.clone());
        if let Some(uid) = hangs {
            let start = context.draw(context.setup.times.plugin, "plugin", name);
            context.after(
                start,
                WorldEvent::OperandReady(name.to_owned(), SimulatedOperand::Plugin, uid),
            );
        }
    }

    pub(super) fn fail_validator(&mut self, name: &str, context: &mut SimulationContext<'_>) {
        if let Some(pod) = self.pod_mut(name, SimulatedOperand::Validator) {
            (pod.ready, pod.containers_ready, pod.unready_restarts) =
                (false, false, pod.unready_restarts + 1);
            pod.trouble = Some("CrashLoopBackOff".to_owned());
        }
        self.publish(name, SimulatedOperand::Validator, context);
    }

    /// Handles an event of the validator, the device plugin or the exporter.
    pub(crate) fn operand_event(
        &mut self,
        name: &str,
        event: OperandEvent,
        scope: &mut OperandScope<'_, '_>,
    ) {
        match event {
            OperandEvent::Create(operand) => {
                if operand == Operand::Validator {
                    let Some(operands) = self.by_node.get_mut(name) else { return };
                    operands.validator_is_absent = false;
                }
                if self.pod(name, SimulatedOperand::Toolkit).is_none_or(|pod| !pod.containers_ready)
                {
                    // The DaemonSets wait for the toolkit.
                } else if operand == Operand::Validator {
                    self.create(name, SimulatedOperand::Validator, scope);
                } else {
                    self.pods.create(name, operand, scope);
                }
            }
            OperandEvent::Ready(operand, number) => self.pods.ready(name, operand, number, scope),
            OperandEvent::Repaired(operand) => {
                let Some(operands) = self.by_node.get_mut(name) else { return };
                scope.context.log(|| format!("{name} {operand:?} is mended"));
                if operand == Operand::Validator {
                    operands.validator_fails = false;
                    let pod = operands.pods[SimulatedOperand::Validator as usize].as_ref();
                    if let Some(pod) = pod.filter(|pod| !pod.containers_ready && !pod.deleting) {
                        let event = WorldEvent::OperandReady(
                            name.to_owned(),
                            SimulatedOperand::Validator,
                            pod.uid.clone(),
                        );
                        scope.context.after(ROLL, event);
                    }
                } else {
                    self.pods.repair(name, operand, scope);
                }
            }
            OperandEvent::Roll(operand) => self.pods.roll(operand, scope),
        }
    }

    /// Applies a fault of the validator, the device plugin or the exporter.
    pub(crate) fn apply_fault(&mut self, fault: &OperandFault, scope: &mut OperandScope<'_, '_>) {
        match fault {
            OperandFault::Fails(name, operand, milliseconds) => {
                let Some(operands) = self.by_node.get_mut(name) else { return };
                if *operand == Operand::Validator {
                    operands.validator_fails = true;
                    self.fail_validator(name, scope.context);
                } else {
                    self.pods.break_pod(name, *operand, scope);
                }
                if let Some(milliseconds) = milliseconds {
                    scope.after(*milliseconds, name, OperandEvent::Repaired(*operand));
                }
            }
            OperandFault::Missing(name, operand, milliseconds) => {
                if *operand == Operand::Validator {
                    let Some(operands) = self.by_node.get_mut(name) else { return };
                    operands.validator_is_absent = true;
                    self.delete(name, SimulatedOperand::Validator, scope.context);
                }
                self.pods.remove(name, *operand, scope);
                scope.after(*milliseconds, name, OperandEvent::Create(*operand));
            }
            // The operator has already created the new revision, if the operand is simulated.
            OperandFault::Rolls(operand, _) if !PLUGIN_AND_EXPORTER.contains(operand) => {}
            OperandFault::Rolls(operand, milliseconds) => {
                scope.after(*milliseconds, "", OperandEvent::Roll(*operand));
            }
            OperandFault::GpuDies(name) => self.pods.lose_gpu(name, scope),
        }
    }
}
