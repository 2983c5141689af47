//! The upgrades, by mode: what is under way goes on, what may begin begins, and NVIDIA's controller is helped or asked.

use std::sync::Arc;

use crate::hold::HoldPurpose;
use crate::memory::RunMemory;
use crate::note::DecisionNote;
use crate::own_upgrade::record::UpgradeRecord;
use crate::reason::Reason;
use contract::task::Task;

use super::assess::UpgradeTurn;
use super::controller::ControllerView;
use super::drive::{self, DriveTurn, DrivenNode};
use super::memo::Unchanged;
use super::node_draft::NodeDraft;
use super::run_nodes::RunNodes;
use super::{assist, controller, schedule, steer};

/// Takes all upgrades as far as they can go now: what a node waits for becomes what it waits for with its upgrade. The answer: what NVIDIA's
/// controller sees of the nodes, where it was asked for.
pub(super) fn take_on(
    nodes: &mut RunNodes<'_>,
    memory: &mut RunMemory,
    told: &mut Vec<DecisionNote>,
    unchanged: Option<&Unchanged<'_>>,
) -> Option<ControllerView> {
    let fleet = nodes.fleet;
    if fleet.has(Task::Drive) {
        let ends = put_together(nodes);
        go_on(nodes, |draft, driven, record, left| DriveTurn::new(draft, driven, record, left).advance());
        schedule::start(nodes, ends, drive::start_patch::start);
        return None;
    }
    let view = ask_controller(nodes, memory, told, unchanged);
    let ends = put_together(nodes);
    if fleet.has(Task::Steer) {
        go_on(nodes, |draft, driven, record, left| steer::advance(draft, driven, record, left.as_ref()));
        schedule::start(nodes, ends, |draft, _| steer::lift(draft));
    }
    for node in nodes.listed.iter_mut().filter(|node| node.reason.is_some()) {
        if let Some(refused) = &node.assessment.refused {
            node.reason = Some(Arc::clone(refused));
        }
    }
    view
}

/// Says why NVIDIA's controller does not move the nodes, wakes it, and has it try nodes again.
fn ask_controller(
    nodes: &mut RunNodes<'_>,
    memory: &mut RunMemory,
    told: &mut Vec<DecisionNote>,
    unchanged: Option<&Unchanged<'_>>,
) -> Option<ControllerView> {
    let fleet = nodes.fleet;
    let wakes = fleet.has(Task::Wake) || fleet.has(Task::Steer);
    if !wakes {
        told.extend(held_by_other_mode(nodes));
    }
    let Some(generation) = fleet.generation else {
        told.extend(wakes.then_some(DecisionNote::OperatorVersionUnknown));
        return None;
    };
    let view = ControllerView::new(fleet, unchanged);
    let asleep_since = controller::asleep_since(memory, &view, fleet.now);
    let outlook = controller::outlook(fleet, generation, &view.roll, asleep_since);
    if wakes {
        assist::clean_bystanders(nodes);
        assist::wake(memory, nodes, generation, &outlook.moves);
    }
    let mut whys = outlook.whys();
    for node in &mut nodes.listed {
        node.reason = whys.with_why(node.name, node.reason.take());
    }
    if wakes {
        assist::retry_failed(nodes);
    }
    drop(outlook);
    Some(view)
}

/// Names holds that this hook may not take off: mode `observe` writes to no node.
fn held_by_other_mode(nodes: &RunNodes<'_>) -> Option<DecisionNote> {
    let settings = nodes.fleet.settings;
    let is_theirs = |purpose: HoldPurpose| purpose != HoldPurpose::Pause;
    let held = nodes.listed.iter().filter(|node| HoldPurpose::from_node(node.node, settings.driver).is_some_and(is_theirs)).count();
    (held > 0).then(|| DecisionNote::HeldByOtherMode { nodes: held, mode: settings.mode.name() })
}

/// Puts together what nodes wait for, as far as nothing is under way. The answer: whether one comes to its end.
fn put_together(nodes: &mut RunNodes<'_>) -> bool {
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

/// Goes on with the nodes that are under way.
fn go_on<'a>(
    nodes: &mut RunNodes<'a>,
    advance: impl Fn(&mut NodeDraft<'a>, &DrivenNode<'a>, &UpgradeRecord, Option<Arc<Reason>>) -> Reason,
) {
    let fleet = nodes.fleet;
    for node in nodes.listed.iter_mut().filter(|node| node.assessment.upgrade.turn == UpgradeTurn::UnderWay) {
        let Some(driven) = DrivenNode::of(fleet, node.node) else { continue };
        let Some(record) = driven.record() else { continue };
        let left = node.reason.take();
        node.reason = Some(advance(node.draft(fleet), &driven, record, left).into());
    }
}
