//! The API server, as far as the hook writes to it.

use nvidia_upgrade::state::ControllerState;
use observed::{Labels, ObservedNode};
use planner::action::{NodePatch, PodDeletion, PodEviction};
use planner::decide::Action;
use planner::pods::eviction_retry::{EvictionHistory, EvictionReply};

use super::budgets::GuardAnswer;
use super::objects::{SimulatedOperand, timestamp};
use super::world::World;

/// Labels and annotations of a node as a patch wants them.
pub(super) fn change(node: &mut ObservedNode, patch: &NodePatch) {
    let change = |found: &mut Labels, key: &String, value: &Option<String>| match value {
        Some(value) => drop(found.insert(key.clone(), value.clone())),
        None => drop(found.remove(key)),
    };
    for (key, value) in &patch.labels {
        change(&mut node.labels, key, value);
    }
    for (key, value) in &patch.annotations {
        change(&mut node.annotations, key, value);
    }
}

impl World<'_> {
    /// Performs one action; `false`: it failed.
    pub(super) fn perform(&mut self, action: &Action) -> bool {
        if self.refuses(action) {
            // The answer to an eviction is an answer: it stops nothing behind it.
            return matches!(action, Action::Evict(eviction) if self.evict_refused(eviction));
        }
        let done = match action {
            Action::PatchNode(patch) => {
                let admitted = self.admitted(patch);
                return self.patch(&admitted) && self.was_admitted(patch) && self.accepted(action);
            }
            Action::Evict(eviction) => return self.evict(eviction),
            Action::DeleteDriver(deletion) => self.delete_driver(deletion),
            Action::ReplacePlugin { node, uid, .. } => self.delete_plugin(node, uid),
        };
        done && self.accepted(action)
    }

    fn accepted(&mut self, action: &Action) -> bool {
        self.hook.memory.note_accepted(action);
        true
    }

    fn evict_refused(&mut self, eviction: &PodEviction) -> bool {
        let before = self.hook.memory.evictions.get(&eviction.uid);
        let history = EvictionHistory::after(before, timestamp(self.now), EvictionReply::Refused);
        self.hook.memory.evictions.insert(eviction.uid.clone(), history);
        true
    }

    fn patch(&mut self, patch: &NodePatch) -> bool {
        self.report.wrote(&patch.node, "patch");
        let Some(host) = self.hosts.get(&patch.node) else { return false };
        if host.node.uid != patch.uid || host.node.version != patch.version {
            self.report.conflicts += 1;
            return false;
        }
        let was_in_progress = self.in_progress(&host.node);
        self.check_patch(patch);
        let Some(host) = self.hosts.get_mut(&patch.node) else { return false };
        change(&mut host.node, patch);
        if let Some(unschedulable) = patch.unschedulable {
            host.node.unschedulable = unschedulable;
            host.ours = unschedulable;
        }
        let freed = patch.unschedulable == Some(false);
        let traits = self.setup.settings.driver.traits();
        // Beside the vendor's controller a patch of ours changes nothing about how far the node is.
        let vendors = host.node.labels.get(traits.state_label).filter(|_| self.vendor.is_some());
        let vendors = vendors
            .filter(|state| !matches!(ControllerState::from_label(Some(state.as_str())), ControllerState::Unknown | ControllerState::Done));
        let state = host.node.labels.get(traits.own_state_label).or(vendors).cloned();
        let cordoned = host.node.unschedulable;
        self.touch(&patch.node);
        let shown = state.clone().unwrap_or_else(|| "-".to_owned());
        let cordon = if cordoned { "cordoned" } else { "schedulable" };
        self.log(|| format!("{} {shown}, {cordon}", patch.node));
        self.report.enters(&patch.node, self.now, state, cordoned);
        self.check_node(&patch.node);
        self.check_fleet(patch, was_in_progress);
        if freed {
            self.place();
        }
        true
    }

    fn evict(&mut self, eviction: &PodEviction) -> bool {
        self.report.wrote(&eviction.node, "eviction");
        self.check_eviction(eviction);
        let Some(pod) = self.pods.get(&eviction.uid).filter(|pod| pod.name == eviction.pod).cloned() else {
            // 404: it is gone.
            return true;
        };
        let answer = match self.ask_budgets(&pod) {
            GuardAnswer::Granted => EvictionReply::Accepted,
            GuardAnswer::Blocked => EvictionReply::Blocked { retry_after: None },
            GuardAnswer::Error => EvictionReply::Refused,
        };
        let before = self.hook.memory.evictions.get(&eviction.uid);
        let first = before.is_none();
        let history = EvictionHistory::after(before, timestamp(self.now), answer);
        self.hook.memory.evictions.insert(eviction.uid.clone(), history);
        let name = || format!("{}/{}", pod.namespace, pod.name);
        match answer {
            EvictionReply::Accepted => {
                self.report.evicts(&pod, self.now);
                if let Some(record) = self.hook.memory.nodes.get_mut(&eviction.node) {
                    record.evicts(name(), timestamp(self.now));
                }
                self.log(|| format!("{} {} evicted", eviction.node, name()));
                self.delete_pod(&eviction.uid);
            }
            EvictionReply::Blocked { .. } | EvictionReply::Denied | EvictionReply::Busy | EvictionReply::Refused | EvictionReply::Lost => {
                self.report.refused_evictions += 1;
                if first {
                    self.log(|| format!("{} {} may not be evicted: {answer}", eviction.node, name()));
                }
            }
        }
        // Whatever the answer is, it was one: it stops nothing behind it.
        true
    }

    fn delete_driver(&mut self, deletion: &PodDeletion) -> bool {
        self.report.wrote(&deletion.node, "driver");
        let Some(pod) = self.hosts.get(&deletion.node).and_then(|host| host.operand(SimulatedOperand::Driver)) else { return true };
        if pod.uid != deletion.uid || pod.deleting {
            return true;
        }
        self.check_driver(deletion);
        self.log(|| format!("{} driver pod deleted", deletion.node));
        self.delete_operand(&deletion.node, SimulatedOperand::Driver);
        true
    }

    fn delete_plugin(&mut self, node: &str, uid: &str) -> bool {
        self.report.wrote(node, "plugin");
        let Some(pod) = self.hosts.get(node).and_then(|host| host.operand(SimulatedOperand::Plugin)) else { return true };
        if pod.uid != uid || pod.deleting {
            return true;
        }
        self.check_plugin(node);
        self.log(|| format!("{node} DRA plugin replaced"));
        self.delete_operand(node, SimulatedOperand::Plugin);
        true
    }
}
