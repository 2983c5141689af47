//! The API server's handling of the hook's writes.

use contract::acceptance::{AcceptanceTime, log_excerpt};
use nvidia_upgrade::state::ControllerState;
use planner::action::{AcceptanceCreation, NodePatch, PodDeletion, PodEviction, TestLogReading};
use planner::decide::Action;
use planner::pods::eviction_retry::{EvictionHistory, EvictionReply};
use planner::write_refusals::RefusalKind;

use super::acceptance::{AcceptanceEffect, StartedTest};
use super::budgets::EvictionAnswer;
use super::cluster::SimulatedCluster;
use super::context::SimulationContext;
use super::hook_state::HookState;
use super::invariants::{InvariantChecker, is_in_progress};
use super::nodes::apply_patch;
use super::objects::{SimulatedOperand, timestamp};
use super::workloads::NewTestPod;

/// Performs and checks the hook's writes, and records the answers.
pub(super) struct HookWriter<'w, 'a> {
    pub(super) hook: &'w mut HookState,
    pub(super) cluster: &'w mut SimulatedCluster,
    pub(super) context: &'w mut SimulationContext<'a>,
}

impl<'a> HookWriter<'_, 'a> {
    fn check(&mut self) -> InvariantChecker<'_, 'a> {
        InvariantChecker { hook: self.hook, cluster: self.cluster, context: self.context }
    }

    /// Performs one action. Returns `false` if it failed.
    pub(super) fn perform(&mut self, action: &Action) -> bool {
        if let Some(kind) = self.cluster.admissions.refusal(action) {
            self.note_refusal(action, kind, "refused by admission");
            // A refused eviction has an answer, so later actions on the node continue.
            let Action::Evict(eviction) = action else { return false };
            self.note_eviction(eviction, EvictionReply::Refused);
            return true;
        }
        match action {
            Action::PatchNode(patch) => {
                let admitted = self.cluster.admissions.admitted(patch);
                if !self.patch(&admitted) || !self.is_admitted(patch) {
                    return false;
                }
            }
            Action::Evict(eviction) => {
                self.evict(eviction);
                return true;
            }
            Action::DeleteDriver(deletion) => self.delete_driver(deletion),
            Action::ReplacePlugin { node, uid, .. } => self.delete_plugin(node, uid),
            Action::CreateAcceptancePod(creation) => {
                if !self.create_test(action, creation) {
                    return false;
                }
            }
            Action::DeleteAcceptancePod(deletion) => self.delete_test(deletion),
            Action::ReadTestLog(reading) => {
                self.read_test_log(reading);
                return true;
            }
        }
        self.hook.memory.note_accepted(action);
        true
    }

    fn note_refusal(&mut self, action: &Action, kind: RefusalKind, message: &str) {
        self.context.report.refuses(action.node());
        self.context.log(|| format!("{} {kind:?}: {message}", action.node()));
        self.hook.memory.note_refusal(action, kind, message, timestamp(self.context.now()));
        self.hook.decides_at_once = true;
    }

    /// Records the answer to an eviction. Returns whether it is the first one for the pod.
    fn note_eviction(&mut self, eviction: &PodEviction, reply: EvictionReply) -> bool {
        let before = self.hook.memory.evictions.get(&eviction.uid);
        let is_first = before.is_none();
        let history = EvictionHistory::after(before, timestamp(self.context.now()), reply);
        self.hook.memory.evictions.insert(eviction.uid.clone(), history);
        is_first
    }

    /// Whether admission left all parts of an accepted patch.
    fn is_admitted(&mut self, patch: &NodePatch) -> bool {
        let Some(node) = self.cluster.nodes.get(&patch.node).map(|node| &node.node) else {
            return true;
        };
        let missing = patch.missing(
            |key| node.labels.get(key),
            |key| node.annotations.get(key),
            node.unschedulable,
        );
        if !missing.is_empty() {
            self.note_refusal(
                &Action::PatchNode(patch.clone()),
                RefusalKind::Changed,
                &missing.join(", "),
            );
        }
        missing.is_empty()
    }

    fn patch(&mut self, patch: &NodePatch) -> bool {
        self.context.report.wrote(&patch.node, "patch");
        let Some(node) = self.cluster.nodes.get(&patch.node).map(|node| &node.node) else {
            return false;
        };
        if node.uid != patch.uid || node.version != patch.version {
            self.context.report.conflicts += 1;
            return false;
        }
        let was_in_progress = is_in_progress(node, self.hook.settings.driver);
        self.check().patch(patch);
        self.cluster.nodes.update(&patch.node, self.context, |node| {
            apply_patch(&mut node.node, patch);
            node.is_cordoned_by_hook = patch.unschedulable.unwrap_or(node.is_cordoned_by_hook);
        });
        self.report_state(&patch.node);
        self.check().node(&patch.node);
        self.check().logs(&patch.node);
        self.check().fleet(patch, was_in_progress);
        if patch.unschedulable == Some(false) {
            self.cluster.workloads.schedule_pods(&self.cluster.nodes, self.context);
        }
        true
    }

    /// Reports the state of a node after a patch. If the upgrade controller has a state for the
    /// node, a patch of the hook does not change it.
    fn report_state(&mut self, name: &str) {
        let Some(node) = self.cluster.nodes.get(name).map(|node| &node.node) else { return };
        let traits = self.hook.settings.driver.traits();
        let controllers =
            node.labels.get(traits.state_label).filter(|_| self.context.has_controller());
        let is_busy = |state: &&String| {
            !matches!(
                ControllerState::from_label(Some(state.as_str())),
                ControllerState::Unknown | ControllerState::Done
            )
        };
        let state =
            node.labels.get(traits.own_state_label).or(controllers.filter(is_busy)).cloned();
        let cordon = if node.unschedulable { "cordoned" } else { "schedulable" };
        self.context.log(|| format!("{name} {}, {cordon}", state.as_deref().unwrap_or("-")));
        self.context.report.enters(name, self.context.queue.now(), state, node.unschedulable);
    }

    fn evict(&mut self, eviction: &PodEviction) {
        self.context.report.wrote(&eviction.node, "eviction");
        self.check().eviction(eviction);
        let workloads = &mut self.cluster.workloads;
        // The server answers 404 for a pod that is gone.
        let Some(pod) =
            workloads.pods.get(&eviction.uid).filter(|pod| pod.name == eviction.pod).cloned()
        else {
            return;
        };
        let reply = match workloads.budgets.answer_eviction(&pod, self.context) {
            EvictionAnswer::Granted => EvictionReply::Accepted,
            EvictionAnswer::Blocked => EvictionReply::Blocked { retry_after: None },
            EvictionAnswer::Error => EvictionReply::Refused,
        };
        let is_first = self.note_eviction(eviction, reply);
        let now = self.context.now();
        let name = || format!("{}/{}", pod.namespace, pod.name);
        if reply == EvictionReply::Accepted {
            self.context.report.evicts(&pod, now);
            if let Some(record) = self.hook.memory.nodes.get_mut(&eviction.node) {
                record.evicts(name(), timestamp(now));
            }
            self.context.log(|| format!("{} {} evicted", eviction.node, name()));
            self.cluster.workloads.delete(&eviction.uid, self.context);
        } else {
            self.context.report.refused_evictions += 1;
            if is_first {
                self.context
                    .log(|| format!("{} {} may not be evicted: {reply}", eviction.node, name()));
            }
        }
    }

    /// Whether the node still has this pod of the operand, and it is not being deleted.
    fn has_operand(&self, node: &str, operand: SimulatedOperand, uid: &str) -> bool {
        self.cluster.operands.pod(node, operand).is_some_and(|pod| pod.uid == uid && !pod.deleting)
    }

    fn delete_driver(&mut self, deletion: &PodDeletion) {
        self.context.report.wrote(&deletion.node, "driver");
        if self.has_operand(&deletion.node, SimulatedOperand::Driver, &deletion.uid) {
            self.check().driver(deletion);
            self.context.log(|| format!("{} driver pod deleted", deletion.node));
            self.cluster.operands.delete(&deletion.node, SimulatedOperand::Driver, self.context);
        }
    }

    /// Creates the pod of a test. Returns `false` if the API server refuses it.
    fn create_test(&mut self, action: &Action, creation: &AcceptanceCreation) -> bool {
        self.context.report.wrote(&creation.node, "test pod");
        self.check().test_created(creation);
        let driver = self.cluster.operands.pod(&creation.node, SimulatedOperand::Driver);
        let version = driver.and_then(|pod| pod.revision.as_deref()).unwrap_or_default();
        let node = self.cluster.nodes.get(&creation.node).map(|node| &node.node);
        let effect = node.and_then(|node| {
            self.cluster.acceptance.effect(&StartedTest {
                test: &creation.test,
                time: creation.time,
                node,
                version,
                seed: self.context.setup.seed,
            })
        });
        if effect == Some(AcceptanceEffect::Refused) {
            self.note_refusal(action, RefusalKind::Denied, "exceeded quota: pods");
            return false;
        }
        let new = NewTestPod {
            creation,
            digest: &self.hook.settings.digest,
            driver_pod: driver.map(|pod| pod.uid.clone()),
            effect,
        };
        if self.cluster.workloads.create_test(new, &self.cluster.nodes, self.context) {
            let time = creation.time.map_or("at an unknown time", AcceptanceTime::name);
            self.context.log(|| format!("{} test {}: {time}", creation.node, creation.test));
        }
        true
    }

    fn delete_test(&mut self, deletion: &PodDeletion) {
        self.context.report.wrote(&deletion.node, "test pod");
        self.check().test_deleted(deletion);
        if self.cluster.workloads.tests.get(&deletion.uid).is_some() {
            self.cluster.workloads.delete(&deletion.uid, self.context);
        }
    }

    /// Answers the reading of a log. Without an answer, the hook reads it again later.
    fn read_test_log(&mut self, reading: &TestLogReading) {
        self.context.report.log_reads += 1;
        let node = self.cluster.nodes.get(&reading.node).map(|node| &node.node);
        let seed = self.context.setup.seed;
        let fault = node.and_then(|node| self.cluster.acceptance.log_fault_on(node, seed));
        let answer = match fault {
            Some(fault) if !fault.is_final => {
                self.context.log(|| format!("{} log of {}: no answer", reading.node, reading.test));
                return;
            }
            Some(_) => None,
            None => {
                let pod = self.cluster.workloads.tests.get(&reading.uid);
                pod.and_then(|pod| pod.log(&reading.container))
            }
        };
        let lines = answer.map(|text| log_excerpt(text, reading.lines));
        let what = if lines.is_some() { "read" } else { "not readable" };
        self.context.log(|| format!("{} log of {}: {what}", reading.node, reading.test));
        let (lines, now) = (lines.unwrap_or_default(), timestamp(self.context.now()));
        self.hook.memory.note_test_log(reading, lines, now);
        self.hook.decides_at_once = true;
    }

    fn delete_plugin(&mut self, node: &str, uid: &str) {
        self.context.report.wrote(node, "plugin");
        if self.has_operand(node, SimulatedOperand::Plugin, uid) {
            self.check().plugin(node);
            self.context.log(|| format!("{node} DRA plugin replaced"));
            self.cluster.operands.delete(node, SimulatedOperand::Plugin, self.context);
        }
    }
}
