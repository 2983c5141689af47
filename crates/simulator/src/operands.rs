//! Driver, toolkit, validator and DRA plugin: the actions of their DaemonSets and of the kubelets
//! on their pods.

use std::collections::BTreeMap;

use contract::operand::Operand;
use observed::{ObservedNode, ObservedPod, ObservedSlice};

use super::caches::WorldChange;
use super::context::SimulationContext;
use super::event::WorldEvent;
use super::fault::OperandFault;
use super::nodes::SimulatedNodes;
use super::objects::{self, SimulatedOperand, timestamp};
use super::operand_pods::{OperandEvent, OperandPods, PLUGIN_AND_EXPORTER, ROLL};
use super::operator_objects::OperatorObjects;
use super::setup::SimulationSetup;

/// A kubelet's back-off after the first failure of a container, in milliseconds. It doubles each
/// time.
const BACK_OFF: u64 = 10_000;
/// The longest back-off, in milliseconds.
const LONGEST_BACK_OFF: u64 = 300_000;
/// The time from the start of a driver container to its failure, in milliseconds.
const FAILS_AFTER: u64 = 20_000;

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
    pods: [Option<ObservedPod>; 4],
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
    by_node: BTreeMap<String, NodeOperands>,
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
            pods[operand as usize] = Some(pod);
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

    pub(super) fn pod(&self, name: &str, operand: SimulatedOperand) -> Option<&ObservedPod> {
        self.by_node.get(name)?.pods[operand as usize].as_ref()
    }

    fn pod_mut(&mut self, name: &str, operand: SimulatedOperand) -> Option<&mut ObservedPod> {
        self.by_node.get_mut(name)?.pods[operand as usize].as_mut()
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
        let pod = self.pod(name, operand).cloned().map(Box::new);
        context.publish(WorldChange::Operand(name.to_owned(), operand, pod));
    }

    pub(super) fn publish_all(&self, name: &str, context: &mut SimulationContext<'_>) {
        for operand in SimulatedOperand::ALL {
            self.publish(name, operand, context);
        }
    }

    pub(super) fn publish_slice(&self, name: &str, context: &mut SimulationContext<'_>) {
        context.publish(WorldChange::Slice(name.to_owned(), self.slice(name).cloned()));
    }

    /// Deletes a pod.
    pub(super) fn delete(
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
    pub(super) fn removed(
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
    pub(super) fn create(
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
        operands.pods[operand as usize] = Some(pod);
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

    /// Marks the containers of a pod as ready.
    pub(super) fn ready(
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
        let Some(pod) =
            operands.pods[operand as usize].as_mut().filter(|pod| pod.uid == uid && !pod.deleting)
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
    pub(super) fn failed(
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
        let Some(pod) =
            operands.pods[operand as usize].as_mut().filter(|pod| pod.uid == uid && !pod.deleting)
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
    pub(super) fn refresh_slice(
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
    pub(super) fn follow_kubelet(&mut self, name: &str, scope: &mut OperandScope<'_, '_>) {
        let at = scope.context.setup.clocks.of_node(name, scope.context.now());
        let is_back = scope.nodes.is_ready(name);
        for pod in
            self.by_node.get_mut(name).into_iter().flat_map(|operands| &mut operands.pods).flatten()
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

    /// Keeps new DRA plugin pods of the node unready until the plugin is repaired.
    pub(super) fn break_plugin(
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

    pub(super) fn repair_plugin(&mut self, name: &str, context: &mut SimulationContext<'_>) {
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

    fn fail_validator(&mut self, name: &str, context: &mut SimulationContext<'_>) {
        if let Some(pod) = self.pod_mut(name, SimulatedOperand::Validator) {
            (pod.ready, pod.containers_ready, pod.unready_restarts) =
                (false, false, pod.unready_restarts + 1);
            pod.trouble = Some("CrashLoopBackOff".to_owned());
        }
        self.publish(name, SimulatedOperand::Validator, context);
    }

    /// Handles an event of the validator, the device plugin or the exporter.
    pub(super) fn operand_event(
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
    pub(super) fn apply_fault(&mut self, fault: &OperandFault, scope: &mut OperandScope<'_, '_>) {
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
                scope.after(*milliseconds, "", OperandEvent::Roll(*operand))
            }
            OperandFault::GpuDies(name) => self.pods.lose_gpu(name, scope),
        }
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
