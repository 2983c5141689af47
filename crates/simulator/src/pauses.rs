//! The effects of `gpu-rollout pause` and `resume`.

use observed::pause::{HOLD, ObservedPause, has_hold};
use planner::action::NodePatch;
use planner::hold;

use super::caches::WorldChange;
use super::context::SimulationContext;
use super::event::WorldEvent;
use super::nodes::SimulatedNodes;
use super::objects::timestamp;

/// The pauses of the fleet.
#[derive(Debug, Default)]
pub(super) struct FleetPauses(Vec<ObservedPause>);

impl FleetPauses {
    pub(super) fn as_slice(&self) -> &[ObservedPause] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn publish(&self, context: &mut SimulationContext<'_>) {
        context.publish(WorldChange::Pauses(self.0.clone()));
    }

    /// Whether a pause holds nodes against the upgrade controller. In mode `steer`, waiting nodes
    /// are held anyway.
    fn holds_nodes(context: &SimulationContext<'_>) -> bool {
        context.has_controller() && !context.setup.settings.mode.decides()
    }

    /// Pauses the fleet for this time.
    pub(super) fn start(
        &mut self,
        milliseconds: u64,
        nodes: &mut SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        let key = format!("at-{}", context.now());
        let at = timestamp(context.now());
        self.0.push(ObservedPause {
            key: key.clone(),
            selector: None,
            by: "ada@example.com".to_owned(),
            reason: None,
            at: Some(at),
        });
        self.publish(context);
        context.after(milliseconds, WorldEvent::PauseEnds(key));
        if Self::holds_nodes(context) {
            let driver = context.setup.settings.driver;
            let free = nodes.observed().filter(|node| hold::can_be_held(node, driver));
            let patches: Vec<NodePatch> =
                free.map(|node| hold::hold_as(node, driver, HOLD)).collect();
            nodes.patch_all(&patches, context);
        }
    }

    /// Ends a pause. If no other pause is left, removes the holds that pauses have put on nodes.
    pub(super) fn end(
        &mut self,
        key: &str,
        nodes: &mut SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        self.0.retain(|pause| pause.key != key);
        self.publish(context);
        if self.is_empty() && Self::holds_nodes(context) {
            let driver = context.setup.settings.driver;
            let held = nodes.observed().filter(|node| has_hold(node, driver));
            let patches: Vec<NodePatch> = held.map(|node| hold::released(node, driver)).collect();
            nodes.patch_all(&patches, context);
        }
    }
}
