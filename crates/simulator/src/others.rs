//! What others do to the world.

use super::fault::Fault;
use super::objects::timestamp;
use super::server::change;
use super::view::WorldChange;
use super::world::{HookWatch, World, WorldEvent};
use observed::pause::{HOLD, ObservedPause, has_hold};
use planner::action::NodePatch;
use planner::hold;

impl World<'_> {
    pub(super) fn fault(&mut self, fault: Fault) {
        self.log(|| format!("* {fault}"));
        match fault {
            Fault::NotReady(node, milliseconds) => self.stops(&node, milliseconds),
            Fault::NodeGone(node) => {
                let hosts_hook = self.setup.hook_node.as_ref() == Some(&node);
                self.leaves(&node);
                if hosts_hook {
                    self.kill(30_000);
                }
            }
            Fault::NodeJoins(node) => self.add_host(&node),
            Fault::Cordon(node) => {
                let driver = self.setup.settings.driver;
                let Some(host) = self.hosts.get_mut(&node).filter(|host| !host.node.unschedulable) else { return };
                // A cordon that our record claims cannot be told from our own.
                (host.node.unschedulable, host.ours) = (true, host.claims_cordon(driver));
                self.touch(&node);
            }
            Fault::Uncordon(node) => {
                let Some(host) = self.hosts.get_mut(&node).filter(|host| host.node.unschedulable) else { return };
                (host.node.unschedulable, host.ours) = (false, false);
                self.touch(&node);
                self.after(10, WorldEvent::Place);
            }
            Fault::Label(node, key, value) => {
                let Some(host) = self.hosts.get_mut(&node) else { return };
                host.meddled = true;
                match value {
                    Some(value) => drop(host.node.labels.insert(key, value)),
                    None => drop(host.node.labels.remove(&key)),
                }
                self.touch(&node);
            }
            Fault::Annotate(node, key, value) => {
                let record = self.setup.settings.driver.traits().own_record;
                let Some(host) = self.hosts.get_mut(&node) else { return };
                // Without its record nobody can tell whose a cordon is.
                host.ours &= key != record;
                host.meddled = true;
                match value {
                    Some(value) => drop(host.node.annotations.insert(key, value)),
                    None => drop(host.node.annotations.remove(&key)),
                }
                self.touch(&node);
            }
            Fault::DriverFails(node, times) => {
                if let Some(host) = self.hosts.get_mut(&node) {
                    host.driver_fails = times;
                }
            }
            Fault::PluginFails(node, milliseconds) => self.plugin_breaks(&node, milliseconds),
            Fault::Operand(fault) => self.operand_fault(&fault),
            Fault::HoldBudget(workers, milliseconds) => self.hold_budget(&workers, milliseconds),
            Fault::KillHook(milliseconds) | Fault::LoseLease(milliseconds) => self.kill(milliseconds),
            Fault::OperatorDown(milliseconds) => {
                self.operator_down(milliseconds);
            }
            Fault::Template(version) => {
                self.fixed.asked = version;
                self.publish(HookWatch::Operator, None);
                let made = self.draw(self.setup.times.operator, "operator", "");
                self.after(made, WorldEvent::TemplateMade);
            }
            Fault::Deploy(count) => self.deploy(count),
            Fault::Maintenance(node, milliseconds) => {
                self.maintenances.insert(node.clone());
                self.publish(HookWatch::Operator, None);
                self.after(milliseconds, WorldEvent::MaintenanceOver(node));
            }
            Fault::PodComes(workers, node) => self.pod_bound(&workers, &node),
            Fault::Admission(node, admission) => match admission {
                Some(admission) => drop(self.admissions.insert(node, admission)),
                None => drop(self.admissions.remove(&node)),
            },
            Fault::Pause(milliseconds) => {
                let pause = ObservedPause {
                    key: format!("at-{}", self.now),
                    selector: None,
                    by: "somebody".to_owned(),
                    reason: None,
                    at: timestamp(self.now),
                };
                self.pauses.push(pause.clone());
                self.publish(HookWatch::Pauses, Some(WorldChange::Pauses(self.pauses.clone())));
                self.after(milliseconds, WorldEvent::PauseOver(pause.key));
                self.hold_paused();
            }
        }
    }

    /// Whether people keep the vendor's controller from nodes by holds: in mode `steer` those that are to go are held anyway.
    fn is_held_by_people(&self) -> bool {
        self.vendor.is_some() && !self.setup.settings.mode.decides()
    }

    /// What `gpu-rollout pause` does to nodes.
    fn hold_paused(&mut self) {
        let driver = self.setup.settings.driver;
        let free = self.hosts.values().map(|host| &host.node).filter(|node| hold::can_be_held(node, driver));
        let patches: Vec<NodePatch> = free.map(|node| hold::hold_as(node, driver, HOLD)).collect();
        if self.is_held_by_people() {
            self.people_patch(&patches);
        }
    }

    /// Somebody resumes: the pause goes, and then, if there is no other one, the holds that pauses have put on nodes.
    pub(super) fn pause_over(&mut self, key: &str) {
        self.pauses.retain(|pause| pause.key != key);
        self.publish(HookWatch::Pauses, Some(WorldChange::Pauses(self.pauses.clone())));
        if !self.pauses.is_empty() || !self.is_held_by_people() {
            return;
        }
        let driver = self.setup.settings.driver;
        let held = self.hosts.values().map(|host| &host.node).filter(|node| has_hold(node, driver));
        let patches: Vec<NodePatch> = held.map(|node| hold::released(node, driver)).collect();
        self.people_patch(&patches);
    }

    fn people_patch(&mut self, patches: &[NodePatch]) {
        for patch in patches {
            if let Some(host) = self.hosts.get_mut(&patch.node) {
                change(&mut host.node, patch);
                self.touch(&patch.node);
            }
        }
    }
}
