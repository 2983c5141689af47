//! What the operator's DaemonSets and the kubelets do with driver, toolkit, validator and DRA plugin, and what happens to nodes.

use super::objects::{self, SimulatedOperand};
use super::random::TimeSpread;
use super::simulated_node::SimulatedNode;
use super::view::WorldChange;
use super::world::{HookWatch, World, WorldEvent};
use observed::ObservedPod;

/// A kubelet's back-off after the first failure of a container, in milliseconds; doubled each time.
const BACK_OFF: u64 = 10_000;
/// Its longest one.
const LONGEST_BACK_OFF: u64 = 300_000;
/// How long a driver container runs until it fails, in milliseconds.
const FAILS_AFTER: u64 = 20_000;

impl World<'_> {
    /// A pod of an operand is deleted: by whomever.
    pub(super) fn delete_operand(&mut self, node: &str, operand: SimulatedOperand) {
        let Some(pod) = self.hosts.get_mut(node).and_then(|host| host.operands[operand.index()].as_mut()) else { return };
        if pod.deleting {
            return;
        }
        (pod.deleting, pod.ready) = (true, false);
        let uid = pod.uid.clone();
        self.touch_operand(node, operand);
        let end = self.draw(self.setup.times.operand_end, "end", node);
        self.after(end, WorldEvent::OperandGone(node.to_owned(), operand, uid));
    }

    pub(super) fn operand_gone(&mut self, node: &str, operand: SimulatedOperand, uid: &str) {
        if !self.kubelet_does(node, WorldEvent::OperandGone(node.to_owned(), operand, uid.to_owned())) {
            return;
        }
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.operand(operand).is_none_or(|pod| pod.uid != uid) {
            return;
        }
        host.operands[operand.index()] = None;
        self.touch_operand(node, operand);
        let recreate = self.draw(self.setup.times.recreate, "recreate", node);
        self.after(recreate, WorldEvent::OperandComes(node.to_owned(), operand));
    }

    pub(super) fn operand_comes(&mut self, node: &str, operand: SimulatedOperand) {
        let absent = |host: &SimulatedNode| operand == SimulatedOperand::Validator && host.extras.absent;
        if self.hosts.get(node).is_none_or(|host| host.operand(operand).is_some() || absent(host)) {
            return;
        }
        let revision = if operand == SimulatedOperand::Driver { self.newest().to_owned() } else { "only".to_owned() };
        let uid = self.uid();
        let mut pod = objects::operand(operand, node, uid.clone(), &revision, self.now, self.setup);
        let Some(host) = self.hosts.get_mut(node) else { return };
        objects::joins_pool(&mut pod, operand, &host.node, self.setup);
        host.operands[operand.index()] = Some(pod);
        let fails = operand == SimulatedOperand::Driver && host.driver_fails != Some(0);
        if operand == SimulatedOperand::Driver && self.setup.has_operator() {
            // The driver manager sends away what stands on the old driver.
            host.operands[SimulatedOperand::Toolkit.index()] = None;
            host.operands[SimulatedOperand::Validator.index()] = None;
            self.touch_operand(node, SimulatedOperand::Toolkit);
            self.touch_operand(node, SimulatedOperand::Validator);
            self.extras_go(node);
        }
        self.touch_operand(node, operand);
        if fails {
            self.after(FAILS_AFTER, WorldEvent::OperandCrashes(node.to_owned(), operand, uid));
        } else {
            self.starts(node, operand, uid);
        }
    }

    fn starts(&mut self, node: &str, operand: SimulatedOperand, uid: String) {
        let times = &self.setup.times;
        let spread = match operand {
            SimulatedOperand::Driver => times.driver,
            SimulatedOperand::Toolkit => times.toolkit,
            SimulatedOperand::Validator => times.validator,
            SimulatedOperand::Plugin => times.plugin,
        };
        let start = self.draw(spread, operand.name(), node);
        if operand == SimulatedOperand::Driver {
            self.report.driver_times.insert(node.to_owned(), start);
        }
        if operand == SimulatedOperand::Plugin && self.hosts.get(node).is_some_and(|host| host.plugin_fails) {
            return;
        }
        self.after(start, WorldEvent::OperandReady(node.to_owned(), operand, uid));
    }

    pub(super) fn operand_ready(&mut self, node: &str, operand: SimulatedOperand, uid: &str) {
        if !self.kubelet_does(node, WorldEvent::OperandReady(node.to_owned(), operand, uid.to_owned())) {
            return;
        }
        let now = self.setup.clocks.of_node(node, self.now);
        let other = |pod: &ObservedPod| pod.uid != uid || pod.deleting;
        if self.hosts.get(node).and_then(|host| host.operand(operand)).is_none_or(other) || self.crashes_instead(node, operand) {
            return;
        }
        let Some(pod) = self.hosts.get_mut(node).and_then(|host| host.operands[operand.index()].as_mut()) else { return };
        // A driver's container installs first; its start is that of the pod, and its readiness comes later.
        objects::is_ready(pod, now);
        self.touch_operand(node, operand);
        self.log(|| format!("{node} {} ready", operand.name()));
        match operand {
            SimulatedOperand::Driver if !self.setup.has_operator() => {}
            SimulatedOperand::Driver => self.after(0, WorldEvent::OperandComes(node.to_owned(), SimulatedOperand::Toolkit)),
            SimulatedOperand::Toolkit => {
                self.after(0, WorldEvent::OperandComes(node.to_owned(), SimulatedOperand::Validator));
                self.extras_come(node);
                if self.setup.dra {
                    self.after(0, WorldEvent::OperandComes(node.to_owned(), SimulatedOperand::Plugin));
                }
            }
            SimulatedOperand::Validator => {}
            SimulatedOperand::Plugin => {
                let publish = self.draw(self.setup.times.publish, "publish", node);
                self.after(publish, WorldEvent::Published(node.to_owned(), uid.to_owned()));
            }
        }
    }

    pub(super) fn operand_crashes(&mut self, node: &str, operand: SimulatedOperand, uid: &str) {
        if !self.kubelet_does(node, WorldEvent::OperandCrashes(node.to_owned(), operand, uid.to_owned())) {
            return;
        }
        let Some(host) = self.hosts.get_mut(node) else { return };
        let Some(pod) = host.operands[operand.index()].as_mut().filter(|pod| pod.uid == uid && !pod.deleting) else { return };
        if let Some(left) = host.driver_fails.as_mut() {
            *left = left.saturating_sub(1);
        }
        let over = host.driver_fails == Some(0);
        pod.unready_restarts += 1;
        pod.running = true;
        pod.trouble = Some("CrashLoopBackOff".to_owned());
        let restarts = pod.unready_restarts;
        for container in &mut pod.containers {
            container.restarts = restarts;
        }
        self.touch_operand(node, operand);
        self.log(|| format!("{node} {} fails ({restarts})", operand.name()));
        let doubled = BACK_OFF << u32::try_from(restarts - 1).unwrap_or(0).min(8);
        let back_off = doubled.min(LONGEST_BACK_OFF);
        let uid = uid.to_owned();
        if over {
            let start = self.draw(self.setup.times.driver, "driver", node);
            self.after(back_off + start, WorldEvent::OperandReady(node.to_owned(), operand, uid));
        } else {
            self.after(back_off + FAILS_AFTER, WorldEvent::OperandCrashes(node.to_owned(), operand, uid));
        }
    }

    pub(super) fn published(&mut self, node: &str, uid: &str) {
        if !self.kubelet_does(node, WorldEvent::Published(node.to_owned(), uid.to_owned())) {
            return;
        }
        let Some(host) = self.hosts.get_mut(node) else { return };
        if host.operand(SimulatedOperand::Plugin).is_none_or(|pod| pod.uid != uid) {
            return;
        }
        // What the plugin found when it started: the driver that is loaded.
        let Some(version) = host.operand(SimulatedOperand::Driver).and_then(|pod| pod.revision.clone()) else { return };
        host.slice = Some(objects::slice(node, &version));
        self.touch_slice(node);
    }

    /// The kubelet stops: nothing on the node goes on, and nothing on it counts as ready.
    pub(super) fn stops(&mut self, node: &str, milliseconds: Option<u64>) {
        let now = self.setup.clocks.of_node(node, self.now);
        let Some(host) = self.hosts.get_mut(node).filter(|host| host.node.ready) else { return };
        (host.node.ready, host.node.ready_since) = (false, Some(now));
        for pod in host.operands.iter_mut().flatten() {
            pod.ready = false;
        }
        self.touch(node);
        self.extras_follow(node);
        for operand in SimulatedOperand::ALL {
            self.touch_operand(node, operand);
        }
        self.pods_on(node, |pod| pod.ready = false);
        if let Some(milliseconds) = milliseconds {
            self.after(milliseconds, WorldEvent::Recovers(node.to_owned()));
        }
    }

    pub(super) fn recovers(&mut self, node: &str) {
        let now = self.setup.clocks.of_node(node, self.now);
        let Some(host) = self.hosts.get_mut(node).filter(|host| !host.node.ready) else { return };
        (host.node.ready, host.node.ready_since) = (true, Some(now));
        for pod in host.operands.iter_mut().flatten().filter(|pod| pod.containers_ready && !pod.deleting) {
            (pod.ready, pod.ready_since) = (true, Some(now));
        }
        let frozen = std::mem::take(&mut host.frozen);
        self.log(|| format!("{node} is Ready again"));
        self.touch(node);
        self.extras_follow(node);
        for operand in SimulatedOperand::ALL {
            self.touch_operand(node, operand);
        }
        let running = |pod: &mut observed::workload::Workload| {
            pod.ready = pod.phase == observed::workload::PodPhase::Running && pod.deleted_at.is_none();
        };
        self.pods_on(node, running);
        for (later, event) in (0_u64..).zip(frozen) {
            self.after(100 + later * 10, event);
        }
        self.after(100, WorldEvent::Place);
    }

    pub(super) fn leaves(&mut self, node: &str) {
        if self.hosts.remove(node).is_none() {
            return;
        }
        let before = self.vendor_knows(node);
        self.publish(HookWatch::Nodes, Some(WorldChange::Node(node.to_owned(), None)));
        self.vendor_hears_of(node, before.as_ref());
        self.count_nodes();
        for operand in SimulatedOperand::ALL {
            self.publish(HookWatch::Operands, Some(WorldChange::Operand(node.to_owned(), operand, None)));
        }
        self.extras_follow(node);
        self.publish(HookWatch::Slices, Some(WorldChange::Slice(node.to_owned(), None)));
        let here: Vec<String> = self.placed.get(node).into_iter().flatten().cloned().collect();
        for uid in here {
            self.pod_gone(&uid);
        }
    }

    pub(super) fn plugin_breaks(&mut self, node: &str, milliseconds: Option<u64>) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        host.plugin_fails = true;
        if let Some(milliseconds) = milliseconds {
            self.after(milliseconds, WorldEvent::PluginRepaired(node.to_owned()));
        }
    }

    pub(super) fn plugin_repaired(&mut self, node: &str) {
        let Some(host) = self.hosts.get_mut(node) else { return };
        host.plugin_fails = false;
        let hangs = host.operand(SimulatedOperand::Plugin).filter(|pod| !pod.ready && !pod.deleting).map(|pod| pod.uid.clone());
        if let Some(uid) = hangs {
            let start = self.draw(self.setup.times.plugin, "plugin", node);
            self.after(start, WorldEvent::OperandReady(node.to_owned(), SimulatedOperand::Plugin, uid));
        }
    }

    /// The share of a grace period that a pod takes to end, in milliseconds.
    pub(super) fn ending(&mut self, grace_seconds: u64, uid: &str) -> u64 {
        let spread: TimeSpread = self.setup.times.grace_percent;
        let percent = self.draw(spread, "grace", uid);
        grace_seconds.saturating_mul(10).saturating_mul(percent)
    }
}
