//! Checks at the end of the run.

use contract::exit::ExitCode;
use contract::record::NodeOutcome;
use observed::pause::has_hold;
use planner::decide::WAKE_VALUE;

use super::{CLOCK_MARGIN, InvariantChecker};
use crate::fault::{Fault, OperandFault, ScheduledFault};
use crate::nodes::SimulatedNode;
use crate::objects::SimulatedOperand;

impl InvariantChecker<'_, '_> {
    /// Checks the end of the run. Returns whether it succeeded with caches that were up to date.
    pub(crate) fn end(&mut self) -> bool {
        let Some(verdict) = self.context.report.verdict.as_ref().map(|verdict| verdict.code) else {
            if !self.context.report.is_hopeless() {
                self.context.violation("no events are left, and there is no verdict");
            }
            return false;
        };
        for node in self.cluster.nodes.sorted() {
            if self.context.report.outcomes.get(&node.node.name) == Some(&NodeOutcome::Done) {
                self.done_node(node, verdict);
            } else {
                self.excuse(&node.node.name);
            }
        }
        self.no_test_left();
        let knows_all = self.hook.knows_revision(self.cluster)
            && self.cluster.nodes.iter().all(|node| self.knows_node(&node.node.name));
        // A second run would release the holds of a pause that ends by itself.
        let may_release =
            self.context.has_controller() && self.cluster.pauses.will_end(self.before());
        verdict == ExitCode::Success && knows_all && !may_release
    }

    /// Returns the time by which the hook may be late.
    fn before(&self) -> u64 {
        self.context.now().saturating_sub(CLOCK_MARGIN)
    }

    /// Checks a node that is done at the end of the run.
    fn done_node(&mut self, simulated: &SimulatedNode, verdict: ExitCode) {
        let (node, driver, cluster) = (&simulated.node, self.driver_kind(), self.cluster);
        let (name, traits) = (&node.name, driver.traits());
        let wakes =
            node.labels.get(traits.skip_label).is_some_and(|value| value.starts_with(WAKE_VALUE));
        // `resume`, or the hook at the end of the pause, removes the holds of a pause.
        let is_paused = cluster.pauses.is_in_force(self.before()) && has_hold(node, driver);
        let is_annotated = |key: &str| node.annotations.contains_key(key);
        let left: Vec<&str> = [
            (node.labels.contains_key(traits.own_state_label), traits.own_state_label),
            (is_annotated(traits.own_record), traits.own_record),
            (is_annotated(traits.retries), traits.retries),
            (is_annotated(traits.hold) && !is_paused, traits.hold),
            (wakes, traits.skip_label),
            (simulated.is_cordoned_by_hook, "a cordon"),
        ]
        .into_iter()
        .filter_map(|(is_left, what)| is_left.then_some(what))
        .collect();
        let is_known = self.knows_node(name) && self.hook.knows_revision(cluster);
        if !left.is_empty() {
            self.violates_if_known(
                is_known,
                &format!("{name}: done, but the hook left {} on it", left.join(", ")),
            );
        }
        let trouble = cluster.operands.trouble(node, &cluster.operator.objects, self.context.setup);
        if let Some(trouble) = trouble.filter(|_| verdict == ExitCode::Success) {
            let is_known = is_known && self.hook.knows_operands(name, cluster);
            self.violates_if_known(is_known, &format!("{name}: done, but {trouble}"));
        }
        let pod = cluster.operands.pod(name, SimulatedOperand::Driver);
        if !pod.is_some_and(|pod| {
            pod.revision.as_deref() == Some(cluster.operator.objects.newest())
                && pod.containers_ready
        }) {
            self.violates_if_known(
                is_known,
                &format!("{name}: done, but its driver is not the newest"),
            );
        }
    }

    /// Checks a node that was excused because of an operand: the operand must have been broken
    /// before the run.
    fn excuse(&mut self, name: &str) {
        if self.context.report.outcomes.get(name) != Some(&NodeOutcome::Deferred) {
            return;
        }
        let reason = self.hook.memory.nodes.get(name).and_then(|record| record.reason.as_ref());
        let Some(reason) = reason.filter(|reason| reason.name == "OperandNotReady") else { return };
        let was_broken = |scheduled: &ScheduledFault| {
            let Fault::Operand(OperandFault::Fails(node, operand, _)) = &scheduled.fault else {
                return false;
            };
            scheduled.at == 0 && node == name && reason.text.contains(operand.traits().daemon_set)
        };
        if !self.context.setup.faults.iter().any(was_broken) {
            self.context
                .violation(&format!("{name}: excused, but healthy before the run: {reason}"));
        }
    }
}
