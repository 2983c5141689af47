//! The end of a run that has not finished: nodes with an unchanged driver are released unchanged.

use std::collections::BTreeSet;

use crate::action::{NodeNews, NodePatch};
use crate::decide::inputs::FleetInputs;
use crate::decide::node_draft::NodeDraft;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::drive_upgrade::state::UpgradeState;
use crate::memory::RunMemory;
use crate::pods::{listed, verdict_reasons};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::driver::DriverTraits;
use contract::record::VerdictReason;
use observed::{Observed, ObservedNode};

use super::DrivenNode;
use super::patch::{remove, take_note};
use super::turn::is_untouched;

/// Releases started nodes with an unchanged driver. The run ends while the whole fleet waits: its
/// time is over, or the fleet has waited for longer than the grace time.
pub(in crate::decide) fn release_all_unchanged<'a>(
    fleet: &'a FleetInputs<'a>,
    nodes: impl Iterator<Item = &'a ObservedNode>,
) -> Vec<NodeDraft<'a>> {
    let mut drafts = Vec::new();
    for node in nodes {
        let Some(driven) = DrivenNode::of(fleet, node) else { continue };
        let Some(record) =
            driven.record().filter(|record| record.state != UpgradeState::UpgradeFailed).cloned()
        else {
            continue;
        };
        let mut draft = NodeDraft::new(fleet, node);
        if is_untouched(&draft, &driven, &record) {
            // Its reason is that of the fleet.
            drop(release_unchanged(&mut draft, &record));
            drafts.push(draft);
        }
    }
    drafts
}

/// Releases a node unchanged because the run ends before its driver was changed; the next run starts
/// it again.
pub(super) fn release_unchanged(draft: &mut NodeDraft<'_>, record: &UpgradeRecord) -> Reason {
    draft.effects.released_unchanged = true;
    let (node, traits) = (draft.node, draft.traits());
    let mut patch = NodePatch::for_node(node);
    remove(&mut patch, traits);
    patch.unschedulable = (record.cordoned && node.unschedulable).then_some(false);
    take_note(&mut patch, node, record, traits);
    if record.requested && !node.annotations.contains_key(traits.requested) {
        // The request was removed when the node was started, and is still open.
        patch.annotations.insert(traits.requested.to_owned(), Some("true".to_owned()));
    }
    patch.news =
        Some(NodeNews::HandedBack(format!("the run ends; {}", record.describe_steps(draft.now()))));
    draft.issue(patch);
    let (deadline, per_node) = (draft.fleet.memory.deadline, draft.settings().per_node_seconds);
    Reason::Upgrading(UpgradeReason::NoTime { deadline, per_node, held: None })
}

/// Describes which nodes were released at the end, and which were not.
pub(in crate::decide) fn describe_released_unchanged(
    memory: &RunMemory,
    observed: &Observed,
    traits: &DriverTraits,
) -> (String, Vec<VerdictReason>) {
    let has_ours = |name: &String| {
        observed
            .nodes
            .get(name)
            .is_some_and(|node| node.annotations.contains_key(traits.own_record))
    };
    let there: BTreeSet<&String> =
        memory.released_unchanged.iter().filter(|name| observed.nodes.contains_key(name)).collect();
    let (not, back): (Vec<String>, Vec<String>) = there.into_iter().cloned().partition(has_ours);
    let told = [
        ("Released", "released unchanged", back),
        ("NotReleased", "not released in time (the next deployment continues with them)", not),
    ];
    let told = told.iter().filter(|(_, _, names)| !names.is_empty());
    told.map(|(reason, what, names)| {
        (format!("; {what}: {}", listed(names)), verdict_reasons(names, reason))
    })
    .fold((String::new(), Vec::new()), |(texts, reasons), (text, more)| {
        (texts + &text, [reasons, more].concat())
    })
}
