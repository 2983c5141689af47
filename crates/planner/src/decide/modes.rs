//! The upgrade logic of each mode, in one module each.

use std::sync::Arc;

use crate::reason::Reason;
use contract::task::Task;

use super::assess::{UpgradeStanding, UpgradeTurn};
use super::node_draft::NodeDraft;

pub(super) mod assist;
pub(super) mod drive;
pub(super) mod observe;
pub(super) mod steer;

/// Assesses the upgrade of a node. `left`: the reason for which it waits apart from its upgrade.
pub(super) fn assess(draft: &mut NodeDraft<'_>, left: Option<&Arc<Reason>>) -> UpgradeStanding {
    let fleet = draft.fleet;
    if fleet.has(Task::Drive) {
        drive::assess(draft, left)
    } else if fleet.has(Task::Steer) {
        steer::assess(draft, left)
    } else if fleet.has(Task::Wake) {
        assist::assess(draft, left)
    } else {
        UpgradeStanding::with(UpgradeTurn::Left)
    }
}
