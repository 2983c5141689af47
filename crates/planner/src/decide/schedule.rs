//! The upgrades, by mode: nodes in progress continue, nodes that may start start, and NVIDIA's
//! controller is woken or predicted.

use std::sync::Arc;

use crate::drive_upgrade::record::{NodeRecordState, UpgradeRecord};
use crate::memory::RunMemory;
use crate::note::DecisionNote;
use crate::reason::Reason;
use contract::task::Task;

use super::assess::UpgradeTurn;
use super::modes::drive::{self, DriveTurn, DrivenNode};
use super::modes::observe::{self, ControllerForecast};
use super::modes::steer;
use super::node_draft::NodeDraft;
use super::run_nodes::RunNodes;

pub use proof::is_complete as is_proof_complete;
use starts::StartQueue;

mod proof;
pub(super) mod replacements;
pub(super) mod starts;
mod unstarted;

/// Advances all upgrades as far as possible now, and replaces the reasons of nodes by those of
/// their upgrades. `forecast`: the prediction of NVIDIA's controller, if it is needed; `queue`: why
/// candidates were not started in the last decision. Returns why they are not started now.
pub(super) fn schedule(
    nodes: &mut RunNodes<'_>,
    memory: &mut RunMemory,
    told: &mut Vec<DecisionNote>,
    forecast: Option<&ControllerForecast>,
    queue: Option<StartQueue>,
) -> Option<StartQueue> {
    let fleet = nodes.fleet;
    if fleet.has(Task::Drive) {
        let ends = set_reasons(nodes);
        advance_all(nodes, |draft, driven, record, left| {
            DriveTurn::new(draft, driven, record, left).advance()
        });
        let gate = proof::advance(nodes, memory);
        unstarted::end_waits(nodes, &gate);
        return starts::start(nodes, (gate, ends), queue, drive::start_patch::start);
    }
    observe::ask_controller(nodes, memory, told, forecast);
    let ends = set_reasons(nodes);
    let mut next = None;
    if fleet.has(Task::Steer) {
        advance_all(nodes, |draft, driven, record, left| {
            steer::advance(draft, driven, record, left.as_ref())
        });
        let gate = proof::advance(nodes, memory);
        unstarted::end_waits(nodes, &gate);
        next = starts::start(nodes, (gate, ends), queue, |draft, _| steer::lift(draft));
    }
    for node in nodes.listed.iter_mut().filter(|node| node.reason.is_some()) {
        if let Some(refused) = &node.assessment.refused {
            node.reason = Some(Arc::clone(refused));
        }
    }
    next
}

/// Sets the reasons of nodes whose upgrade is not in progress. Returns whether the upgrade of one
/// ends.
fn set_reasons(nodes: &mut RunNodes<'_>) -> bool {
    let mut ends = false;
    for node in &mut nodes.listed {
        ends |= node.assessment.upgrade.ends;
        match &node.assessment.upgrade.turn {
            UpgradeTurn::Over => node.reason = None,
            UpgradeTurn::Waits(reason) => node.reason = Some(Arc::clone(reason)),
            UpgradeTurn::Left | UpgradeTurn::Candidate(_) | UpgradeTurn::UnderWay(_) => {}
        }
    }
    ends
}

/// Advances the nodes in progress.
fn advance_all<'a>(
    nodes: &mut RunNodes<'a>,
    advance: impl Fn(&mut NodeDraft<'a>, &DrivenNode<'a>, &UpgradeRecord, Option<Arc<Reason>>) -> Reason,
) {
    let fleet = nodes.fleet;
    for node in &mut nodes.listed {
        let Some(record) = node.assessment.upgrade.turn.record().cloned() else { continue };
        let found = NodeRecordState::Record(Arc::clone(&record));
        let Some(driven) = DrivenNode::with_record(fleet, node.node, found) else { continue };
        let left = node.reason.take();
        let draft = node.draft(fleet);
        // The step decides it again.
        draft.keeps_focus = false;
        node.reason = Some(advance(draft, &driven, &record, left).into());
    }
}
