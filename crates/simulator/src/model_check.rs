//! Compares the planner's model of NVIDIA's controller, which only counts most nodes, with the
//! exact model, which has an entry for each node.

use std::collections::BTreeSet;

use jiff::Timestamp;

use contract::driver::Driver;
use nvidia_upgrade::controller_generation::ControllerGeneration;
use nvidia_upgrade::explain::{ControllerWait, PassOutlook, explain_pass};
use nvidia_upgrade::operator::{PartialPass, work};
use nvidia_upgrade::pass::PassOptions;
use nvidia_upgrade::predict::PredictedMove;
use nvidia_upgrade::snapshot::{
    EntryClass, SnapshotCache, SnapshotInputs, SnapshotTables, UpgradeSnapshot,
};
use observed::Observed;

/// Returns the first difference of the models in the nodes that they would move, or in the waits of
/// nodes.
pub(super) fn difference(observed: &Observed, driver: Driver, now: Timestamp) -> Option<String> {
    let generation = ControllerGeneration::from_version(driver, observed.operator_version())?;
    let tables = SnapshotTables::new(observed, &SnapshotInputs::from_observed(observed, driver));
    let roll = SnapshotCache::new(observed, &tables);
    let passes = work(observed, driver, generation, None).parts;
    passes.iter().filter(|pass| pass.rules.auto_upgrade).find_map(|pass| {
        let counted = roll.snapshot(observed, &tables, pass.owner, &pass.rules.policy);
        let nodes = |class| roll.counted_nodes(&counted, class, pass.owner);
        let common = [nodes(EntryClass::Pending), nodes(EntryClass::Skipped)];
        compared(pass, &counted, &common, &PassOptions::new(generation, now))
    })
}

fn compared(
    pass: &PartialPass<'_>,
    counted: &UpgradeSnapshot<'_>,
    [pending, skipped]: &[BTreeSet<&str>; 2],
    options: &PassOptions,
) -> Option<String> {
    let look = |snapshot: &UpgradeSnapshot<'_>| {
        explain_pass(snapshot, &pass.rules, &options.clone().seen_from_outside(snapshot), None)
    };
    let (each, some) = (look(&pass.snapshot), look(counted));
    let moves = |outlook: &PassOutlook| {
        let mut moves: Vec<PredictedMove> = outlook.moves.clone();
        moves.sort_by(|one, other| one.node.cmp(&other.node));
        format!("{moves:?}")
    };
    if moves(&each) != moves(&some) {
        return Some(format!(
            "the exact model moves {}, the planner's model moves {}",
            moves(&each),
            moves(&some)
        ));
    }
    let waits = |node: &str| -> Option<&ControllerWait> {
        let own =
            some.waits.iter().find(|waiting| waiting.node == node).map(|waiting| &waiting.wait);
        own.or_else(|| some.pending_wait.as_ref().filter(|_| pending.contains(node)))
            .or_else(|| some.skipped_wait.as_ref().filter(|_| skipped.contains(node)))
    };
    let differing =
        each.waits.iter().find(|waiting| waits(&waiting.node) != Some(&waiting.wait))?;
    Some(format!(
        "{} waits for {:?} in the exact model, for {:?} in the planner's model",
        differing.node,
        differing.wait,
        waits(&differing.node)
    ))
}
