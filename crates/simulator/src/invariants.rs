//! The invariants, checked from outside of the engine.
//!
//! A broken invariant is only counted as a race if the hook could not know about it yet, because
//! its caches lag behind.

use std::sync::Arc;

use contract::driver::Driver;
use observed::ObservedNode;
use planner::drive_upgrade::record::{UpgradeRecord, read};

use super::cluster::SimulatedCluster;
use super::context::SimulationContext;
use super::hook_state::HookState;
use super::nodes::SimulatedNode;

mod acceptance;
mod controller;
mod decisions;
mod end;
mod patches;
mod pods;

/// Milliseconds by which the hook may miss a time: its clock may be off, and a patch takes time.
const CLOCK_MARGIN: u64 = 60_000;

/// Returns the record of the hook's own upgrade on a node.
fn record(node: &ObservedNode, driver: Driver) -> Option<Arc<UpgradeRecord>> {
    read(node, driver.traits()).record().cloned()
}

/// Whether the hook's own upgrade of the node is in progress.
pub(super) fn is_in_progress(node: &ObservedNode, driver: Driver) -> bool {
    record(node, driver).is_some_and(|record| record.state.is_in_progress())
}

/// Checks the actions of the hook and the upgrade controller against the state of the cluster. It
/// changes only the report.
pub(super) struct InvariantChecker<'w, 'a> {
    pub(super) hook: &'w HookState,
    pub(super) cluster: &'w SimulatedCluster,
    pub(super) context: &'w mut SimulationContext<'a>,
}

impl<'w> InvariantChecker<'w, '_> {
    /// Reports a violation, or a race if the hook could not know.
    fn violates_if_known(&mut self, is_known: bool, what: &str) {
        if is_known {
            self.context.violation(what);
        } else {
            self.context.report.races += 1;
        }
    }

    /// Whether a pause covers the fleet, and will for the time by which the hook may miss its end.
    fn is_paused(&self) -> bool {
        self.cluster.pauses.is_in_force(self.context.now().saturating_add(CLOCK_MARGIN))
    }

    fn driver_kind(&self) -> Driver {
        self.hook.settings.driver
    }

    fn record(&self, node: &ObservedNode) -> Option<Arc<UpgradeRecord>> {
        record(node, self.driver_kind())
    }

    fn knows_node(&self, name: &str) -> bool {
        self.hook.knows_node(name, self.cluster)
    }

    /// Returns the node if the hook's writes arrive and no label or annotation was edited by hand.
    /// Otherwise a hold, or the note on a cordon, may be missing, and the controller applies its
    /// own limits.
    fn untampered(&self, name: &str) -> Option<&'w SimulatedNode> {
        self.cluster
            .nodes
            .get(name)
            .filter(|node| !node.is_edited && self.cluster.admissions.admits_all(name))
    }
}
