//! The effects of `gpu-rollout pause` and `resume`.

use contract::settings::Mode;
use jiff::Timestamp;
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

    /// Whether a pause covers the fleet at this time, in milliseconds.
    pub(super) fn is_in_force(&self, now: u64) -> bool {
        self.0.iter().any(|pause| !pause.has_ended(timestamp(now)))
    }

    /// Whether a pause ends by itself after this time, in milliseconds.
    pub(super) fn will_end(&self, now: u64) -> bool {
        self.0.iter().any(|pause| pause.until.is_some() && !pause.has_ended(timestamp(now)))
    }

    fn publish(&self, context: &mut SimulationContext<'_>) {
        context.publish(WorldChange::Pauses(self.0.clone()));
    }

    /// Whether a pause holds nodes against the upgrade controller. In mode `steer`, waiting nodes
    /// are held anyway.
    fn holds_nodes(context: &SimulationContext<'_>) -> bool {
        context.has_controller() && !context.setup.settings.mode.decides()
    }

    /// Pauses the fleet for this time, until a user resumes it.
    pub(super) fn start(
        &mut self,
        milliseconds: u64,
        nodes: &mut SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        let key = format!("at-{}", context.now());
        self.add(key.clone(), None, context);
        context.after(milliseconds, WorldEvent::PauseEnds(key));
        Self::hold(nodes, context);
    }

    /// Pauses the fleet for this time, after which the pause ends by itself. In mode `observe`, the
    /// hook writes to no node, so a user releases the holds.
    pub(super) fn freeze(
        &mut self,
        milliseconds: u64,
        nodes: &mut SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        let key = format!("freeze-at-{}", context.now());
        let until = timestamp(context.now().saturating_add(milliseconds));
        self.add(key.clone(), Some(until), context);
        if context.setup.settings.mode == Mode::Observe {
            context.after(milliseconds, WorldEvent::PauseEnds(key));
        }
        Self::hold(nodes, context);
    }

    fn add(&mut self, key: String, until: Option<Timestamp>, context: &mut SimulationContext<'_>) {
        self.0.push(ObservedPause {
            key,
            selector: None,
            by: "ada@example.com".to_owned(),
            reason: None,
            at: Some(timestamp(context.now())),
            until,
        });
        self.publish(context);
    }

    /// Puts holds on nodes, as `gpu-rollout pause` does.
    fn hold(nodes: &mut SimulatedNodes, context: &mut SimulationContext<'_>) {
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
        if !self.is_in_force(context.now()) && Self::holds_nodes(context) {
            let driver = context.setup.settings.driver;
            let held = nodes.observed().filter(|node| has_hold(node, driver));
            let patches: Vec<NodePatch> = held.map(|node| hold::released(node, driver)).collect();
            nodes.patch_all(&patches, context);
        }
    }
}
