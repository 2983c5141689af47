//! Checks of the upgrade controller, which must not act against the hook.

use contract::mode::Mode;
use nvidia_upgrade::state::ControllerState;
use planner::drive_upgrade::state::UpgradeState;

use super::InvariantChecker;

impl InvariantChecker<'_, '_> {
    /// Checks a node that the upgrade controller starts. In mode `steer`, it must start only nodes
    /// that the hook has released.
    pub(crate) fn controller_starts(&mut self, name: &str, state: ControllerState) {
        let Some(node) = self.untampered(name) else { return };
        let is_lifted =
            self.record(&node.node).is_some_and(|record| record.state == UpgradeState::Lifted);
        // If a template is changed without the bundle, the hook holds no node. The operator's own
        // limits apply.
        let operator = &self.cluster.operator.objects;
        let is_planned = operator.asked == self.context.setup.to && operator.revisions.len() <= 2;
        let is_steered = self.context.setup.settings.mode == Mode::Steer;
        if is_planned && is_steered && state == ControllerState::CordonRequired && !is_lifted {
            self.context.violation(&format!(
                "{name}: the operator starts it, but the hook has not released it"
            ));
        }
    }

    /// Checks a driver that the upgrade controller deletes. In mode `steer`, its node must be
    /// cordoned.
    pub(crate) fn controller_deletes(&mut self, name: &str) {
        let is_open = self.untampered(name).is_some_and(|node| !node.node.unschedulable);
        if self.context.setup.settings.mode == Mode::Steer
            && is_open
            && self.hook.is_running
            && self.knows_node(name)
        {
            self.context
                .violation(&format!("{name}: its driver is deleted while it accepts new pods"));
        }
    }

    /// Checks a cordon that the upgrade controller removes. The note on the node must prevent it
    /// from removing a cordon of the hook.
    pub(crate) fn controller_uncordons(&mut self, name: &str) {
        if self.untampered(name).is_some() {
            self.context.violation(&format!("{name}: the operator removes the hook's cordon"));
        }
    }
}
