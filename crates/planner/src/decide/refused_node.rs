//! Refused writes: the node of a refused write fails, its slot becomes free, and the other nodes
//! continue.
//!
//! The caller only records the server's answer. This module evaluates it: a final refusal goes into
//! the node's record, so that it survives the process. A node that still accepts patches is then
//! marked as failed, and uncordoned if its driver was not changed. Otherwise the node stays as it
//! is. In both cases nothing more is written in this run, unless a user requests the node.

use std::sync::Arc;

use jiff::Timestamp;

use crate::drive_upgrade::record::{NodeRecordState, read};
use crate::memory::RunMemory;
use crate::reason::Reason;
use crate::write_refusals::{RefusalKind, WriteRefusals};
use contract::driver::DriverTraits;
use contract::record::{NodeRecord, RefusedWrite, WriteKind};
use contract::settings::Settings;
use nvidia_upgrade::state::ControllerState;
use observed::{Observed, ObservedNode};

use super::modes::drive::is_requested;
use super::node_draft::NodeDraft;

/// Evaluates the refusals that were recorded since the last decision.
pub(super) fn judge(
    memory: &mut RunMemory,
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) {
    if memory.refusals.is_empty() {
        return;
    }
    let nodes = &observed.nodes;
    memory
        .refusals
        .retain(|(node, _), refusal| nodes.contains_key(node) && !refusal.is_forgotten(now));
    // The refused pod of an acceptance test is a result of the test.
    let fails_node =
        |refusal: &WriteRefusals| refusal.is_final() && refusal.write != WriteKind::AcceptancePod;
    let is_final = memory.refusals.iter().filter(|(_, refusal)| fails_node(refusal));
    let given_up: Vec<_> = is_final.map(|(object, _)| object.clone()).collect();
    for object in given_up {
        let Some(refusal) = memory.refusals.remove(&object) else { continue };
        let (name, pod) = object;
        let Some(node) = nodes.get(&name) else { continue };
        match refusal.write {
            // Part of the patch may have taken effect, which must be observed first.
            WriteKind::Node if refusal.kind == RefusalKind::Changed => {}
            // The patch counted as if it had taken effect.
            WriteKind::Node => drop(memory.patched.remove(&name)),
            WriteKind::PodDeletion => drop(memory.issued.remove(&pod)),
            WriteKind::Eviction | WriteKind::AcceptancePod => {}
        }
        let traits = settings.driver.traits();
        let changed = refusal.kind == RefusalKind::Changed;
        let is_ours = settings.mode.decides() && (changed || is_in_progress(node, traits));
        let mut record = memory
            .nodes
            .get(&name)
            .filter(|record| record.uid == node.uid)
            .cloned()
            .unwrap_or_default();
        record.uid.clone_from(&node.uid);
        // A plugin that still exists occupies no slot.
        record.replaced.remove(&pod);
        let is_patch = refusal.write == WriteKind::Node;
        if let Some(before) = &mut record.refused {
            // The patch that should release the node is refused too. The first refusal is the
            // cause.
            before.stays |= is_patch;
        } else {
            let (write, message, cordon) = (refusal.write, refusal.message, refusal.cordon);
            let (stays, requested) = (is_patch && !is_ours, is_requested(node, traits));
            record.refused = Some(RefusedWrite { write, message, stays, cordon, requested });
        }
        memory.nodes.insert(name, record);
    }
}

/// Returns why the node's plugin pods are not deleted: their deletion was refused before.
pub(super) fn keeps_its_pods(draft: &NodeDraft<'_>) -> Option<Reason> {
    let refused =
        draft.refused_write().filter(|refused| refused.write == WriteKind::PodDeletion)?;
    Some(write_refused(draft, refused))
}

/// Retries a node whose upgrade was stopped, once for each request of a user: the user has fixed
/// the cause of the refusal.
pub(super) fn heed_request(draft: &mut NodeDraft<'_>) {
    let Some(refused) = draft.refused_write() else { return };
    let (requested, before) = (is_requested(draft.node, draft.traits()), refused.requested);
    if requested == before {
        return;
    }
    draft.change_record(|record: &mut NodeRecord| match &mut record.refused {
        Some(refused) if !requested => refused.requested = false,
        refused => *refused = None,
    });
}

/// Returns the reason for which the node waits while one of its writes is retried; `None` if there
/// is none, or if the retry is due.
pub(super) fn tried_again(draft: &mut NodeDraft<'_>) -> Option<Reason> {
    let refusals = &draft.fleet.memory.refusals;
    if refusals.is_empty() {
        return None;
    }
    let first = (draft.node.name.clone(), String::new());
    let of_node = refusals.range(first..).take_while(|((name, _), _)| *name == draft.node.name);
    // Evictions have their own pauses, one for each pod, and so have pods of acceptance tests.
    let now = draft.now();
    let stops_node = |refusal: &&WriteRefusals| match refusal.write {
        WriteKind::Node | WriteKind::PodDeletion => refusal.due() > now,
        WriteKind::Eviction | WriteKind::AcceptancePod => false,
    };
    let waits = of_node.map(|(_, refusal)| refusal).filter(stops_node);
    let refusal = waits.max_by_key(|refusal| refusal.due())?;
    draft.alarm.set(refusal.due());
    Some(Reason::WriteRetried {
        write: refusal.write,
        message: refusal.message.clone(),
        attempts: refusal.times,
        limit: refusal.limit(),
    })
}

/// Returns the reason of the node if NVIDIA's controller upgrades it: the refusal, unless the
/// controller is working on the node and may finish it.
pub(super) fn instead(draft: &mut NodeDraft<'_>) -> Option<Arc<Reason>> {
    if ControllerState::of_node(draft.node, draft.traits()).is_busy() {
        return None;
    }
    let refused = draft.refused_write().map(|refused| write_refused(draft, refused));
    refused.or_else(|| tried_again(draft)).map(Arc::new)
}

pub(super) fn write_refused(draft: &NodeDraft<'_>, refused: &RefusedWrite) -> Reason {
    let ours = match read(draft.node, draft.traits()) {
        NodeRecordState::Record(record) => record.cordoned,
        NodeRecordState::Nothing | NodeRecordState::Broken => refused.cordon,
        NodeRecordState::Newer(_) => false,
    };
    Reason::WriteRefused {
        write: refused.write,
        message: refused.message.clone(),
        cordoned: ours && draft.node.unschedulable,
    }
}

/// Returns whether the hook's upgrade of the node is in progress.
fn is_in_progress(node: &ObservedNode, traits: &DriverTraits) -> bool {
    read(node, traits).record().is_some_and(|record| record.state.is_in_progress())
}
