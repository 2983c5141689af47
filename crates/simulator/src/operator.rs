//! The operator's own process. While its pod is being replaced, nothing reconciles. When the new
//! pod is ready, it must still wait until the Lease of the old one expires.

use super::caches::WorldChange;
use super::context::SimulationContext;
use super::event::WorldEvent;
use super::fault::OperandFault;
use super::nodes::SimulatedNodes;
use super::operand_pods::PLUGIN_AND_EXPORTER;
use super::operator_objects::{OperatorObjects, count_pools};
use super::setup::SimulationSetup;

/// The operator's process and the objects that it has created.
#[derive(Debug)]
pub(super) struct OperatorProcess {
    pub(super) objects: OperatorObjects,
}

impl OperatorProcess {
    pub(super) fn new(setup: &SimulationSetup) -> Self {
        Self { objects: OperatorObjects::new(setup) }
    }

    pub(super) fn publish(&self, context: &mut SimulationContext<'_>) {
        context.publish(WorldChange::Operator(Box::new(self.objects.clone())));
    }

    /// Removes the operator's pod. Another pod is ready after this time.
    pub(super) fn fail(&mut self, milliseconds: u64, context: &mut SimulationContext<'_>) {
        self.objects.is_up = false;
        self.objects.pod += 1;
        self.publish(context);
        context.after(milliseconds, WorldEvent::OperatorAvailable);
        // The Lease expires after the last renewal, and the candidate cannot lead before it is
        // ready.
        let gap = context.draw(context.setup.times.lease, "lease", "").max(milliseconds + 200);
        context.after(gap, WorldEvent::OperatorLeads(self.objects.pod));
    }

    pub(super) fn become_available(&mut self, context: &mut SimulationContext<'_>) {
        self.objects.is_up = true;
        context.log(|| "the operator is available".to_owned());
        self.publish(context);
    }

    /// Handles the readiness of the new version's pod. The old pod ends, and the new one waits for
    /// its Lease.
    pub(super) fn replace(&mut self, context: &mut SimulationContext<'_>) {
        self.objects.pod += 1;
        self.objects.version.clone_from(&context.setup.operator);
        context.log(|| "the operator's new version is rolled out".to_owned());
        self.publish(context);
        let gap = context.draw(context.setup.times.lease, "lease", "");
        context.after(gap, WorldEvent::OperatorLeads(self.objects.pod));
    }

    /// Returns the template that the leader renders for the requested driver.
    fn rendered(&self, setup: &SimulationSetup) -> String {
        // The old operator version renders a different template with the same image.
        let is_old = setup.operator_upgrade.is_some() && self.objects.leader == 0;
        if is_old {
            format!("{}-by-old-operator", self.objects.asked)
        } else {
            self.objects.asked.clone()
        }
    }

    /// Schedules the rendering of the requested driver. Without a leader, the next leader renders
    /// it.
    pub(super) fn render_template(&mut self, context: &mut SimulationContext<'_>) {
        if !self.is_working() {
            return;
        }
        self.objects.template = self.rendered(context.setup);
        if self.objects.revisions.last() != Some(&self.objects.template) {
            self.objects.revisions.push(self.objects.template.clone());
        }
        self.publish(context);
        if let Some(controller) = &mut context.watches.controller {
            controller.notice_operator(&self.objects, context.setup, &mut context.queue);
        }
    }

    fn schedule_template(context: &mut SimulationContext<'_>) {
        let rendered = context.draw(context.setup.times.operator, "operator", "");
        context.after(rendered, WorldEvent::TemplateRendered);
    }

    /// Whether a leader reconciles.
    pub(super) fn is_working(&self) -> bool {
        self.objects.is_up && self.objects.leader == self.objects.pod
    }

    /// Makes a pod take the Lease. Returns `false` if the pod is gone.
    pub(super) fn lead(&mut self, pod: u32, context: &mut SimulationContext<'_>) -> bool {
        if pod != self.objects.pod || !self.objects.is_up {
            return false;
        }
        self.objects.leader = pod;
        context.log(|| "the operator leads".to_owned());
        self.publish(context);
        if self.objects.template != self.rendered(context.setup) {
            Self::schedule_template(context);
        }
        true
    }

    /// Requests another driver version.
    pub(super) fn request_driver(&mut self, version: String, context: &mut SimulationContext<'_>) {
        self.objects.asked = version;
        self.publish(context);
        Self::schedule_template(context);
    }

    /// Updates the desired number of driver pods to the current nodes.
    pub(super) fn count_nodes(
        &mut self,
        nodes: &SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        if context.has_controller() {
            self.objects.desired = i32::try_from(nodes.len()).unwrap_or(i32::MAX);
            self.objects.desired_of_pool = count_pools(context.setup, nodes.observed());
            self.publish(context);
        }
    }

    /// Creates the new revision of a rolling operand.
    pub(super) fn revise_operand(
        &mut self,
        fault: &OperandFault,
        context: &mut SimulationContext<'_>,
    ) {
        if let OperandFault::Rolls(operand, _) = fault
            && PLUGIN_AND_EXPORTER.contains(operand)
        {
            *self.objects.operand_revisions.entry(*operand).or_default() += 1;
            self.publish(context);
        }
    }

    /// Gives a node to NVIDIA's maintenance-operator for this time.
    pub(super) fn start_maintenance(
        &mut self,
        node: String,
        milliseconds: u64,
        context: &mut SimulationContext<'_>,
    ) {
        self.objects.maintenances.insert(node.clone());
        self.publish(context);
        context.after(milliseconds, WorldEvent::MaintenanceEnds(node));
    }

    pub(super) fn end_maintenance(&mut self, node: &str, context: &mut SimulationContext<'_>) {
        self.objects.maintenances.remove(node);
        context.log(|| format!("{node} maintenance is over"));
        self.publish(context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_without_the_lease_renders_nothing() {
        let setup = crate::fixture::setup(1);
        let mut operator = OperatorProcess::new(&setup);
        let mut context = SimulationContext::new(&setup);
        operator.fail(1_000, &mut context);
        operator.become_available(&mut context);
        operator.render_template(&mut context);
        assert_eq!(operator.objects.newest(), setup.from);
        assert!(!operator.lead(0, &mut context), "this pod is gone");
        assert!(operator.lead(1, &mut context));
        operator.render_template(&mut context);
        assert_eq!(operator.objects.newest(), setup.to);
    }
}
