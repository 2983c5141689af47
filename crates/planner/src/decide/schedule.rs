//! The upgrades, by mode: what is under way goes on, what may begin begins, and NVIDIA's controller is helped or asked.

use std::sync::Arc;

use crate::drive_upgrade::record::UpgradeRecord;
use crate::memory::RunMemory;
use crate::note::DecisionNote;
use crate::reason::Reason;
use contract::task::Task;

use super::assess::UpgradeTurn;
use super::memo::Unchanged;
use super::modes::drive::{self, DriveTurn, DrivenNode};
use super::modes::observe::{self, ControllerView};
use super::modes::steer;
use super::node_draft::NodeDraft;
use super::run_nodes::RunNodes;

pub(super) mod replacements;
mod starts;

/// Advances all upgrades as far as they can go now: what a node waits for becomes what it waits for with its upgrade. Returns what NVIDIA's
/// controller sees of the nodes, where that was asked for.
pub(super) fn schedule(
    nodes: &mut RunNodes<'_>,
    memory: &mut RunMemory,
    told: &mut Vec<DecisionNote>,
    unchanged: Option<&Unchanged<'_>>,
) -> Option<ControllerView> {
    let fleet = nodes.fleet;
    if fleet.has(Task::Drive) {
        let ends = set_reasons(nodes);
        advance_all(nodes, |draft, driven, record, left| {
            DriveTurn::new(draft, driven, record, left).advance()
        });
        starts::start(nodes, ends, drive::start_patch::start);
        return None;
    }
    let view = observe::ask_controller(nodes, memory, told, unchanged);
    let ends = set_reasons(nodes);
    if fleet.has(Task::Steer) {
        advance_all(nodes, |draft, driven, record, left| {
            steer::advance(draft, driven, record, left.as_ref())
        });
        starts::start(nodes, ends, |draft, _| steer::lift(draft));
    }
    for node in nodes.listed.iter_mut().filter(|node| node.reason.is_some()) {
        if let Some(refused) = &node.assessment.refused {
            node.reason = Some(Arc::clone(refused));
        }
    }
    view
}

/// Sets what nodes wait for, as far as nothing is under way. Returns whether the upgrade of one ends.
fn set_reasons(nodes: &mut RunNodes<'_>) -> bool {
    let mut ends = false;
    for node in &mut nodes.listed {
        ends |= node.assessment.upgrade.ends;
        match &node.assessment.upgrade.turn {
            UpgradeTurn::Over => node.reason = None,
            UpgradeTurn::Waits(reason) => node.reason = Some(Arc::clone(reason)),
            UpgradeTurn::Left | UpgradeTurn::Candidate(_) | UpgradeTurn::UnderWay => {}
        }
    }
    ends
}

/// Advances the nodes that are under way.
fn advance_all<'a>(
    nodes: &mut RunNodes<'a>,
    advance: impl Fn(&mut NodeDraft<'a>, &DrivenNode<'a>, &UpgradeRecord, Option<Arc<Reason>>) -> Reason,
) {
    let fleet = nodes.fleet;
    for node in
        nodes.listed.iter_mut().filter(|node| node.assessment.upgrade.turn == UpgradeTurn::UnderWay)
    {
        let Some(driven) = DrivenNode::of(fleet, node.node) else { continue };
        let Some(record) = driven.record() else { continue };
        let left = node.reason.take();
        node.reason = Some(advance(node.draft(fleet), &driven, record, left).into());
    }
}
