//! Operands other than driver and toolkit: the reasons for which a node waits, and its outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::baseline::take_baseline;
use crate::memory::RunMemory;
use crate::node::is_driver_node;
use crate::note::DecisionNote;
use crate::operands::OperandSets;
use crate::reason::{Reason, Wait};
use contract::driver::Driver;
use contract::record::NodeOutcome;
use contract::record::baseline::NodeBaseline;
use contract::settings::{MissingGpus, Settings};
use contract::task::Task;
use observed::Observed;

use super::node_draft::NodeDraft;

/// Seconds for which a node must offer fewer GPUs than before to count as degraded: the kubelet
/// updates a node's status every 10 s.
const DEGRADED_SECONDS: u64 = 30;
/// Seconds for which an operand that was failing before the run must be ready to count as
/// recovered: a container without a probe is ready for a short time after each start, and then
/// crashes again.
const RECOVERED_SECONDS: u64 = 60;

/// Records the fleet as it is when the run first observes it.
pub(super) fn record_baseline(memory: &mut RunMemory, observed: &Observed, settings: &Settings) {
    if memory.baseline.is_some() || settings.driver != Driver::Gpu || !settings.has(Task::Settle) {
        return;
    }
    let operands = OperandSets::new(observed, settings);
    let nodes = observed.nodes.values().filter(|node| is_driver_node(node, Driver::Gpu));
    let earlier = memory.earlier_baseline.as_deref();
    memory.baseline =
        Some(Arc::new(take_baseline(observed, &operands, nodes, memory.started_at, earlier)));
}

/// Returns the reason for which a node waits for its operands and GPUs.
pub(super) fn fault(draft: &mut NodeDraft<'_>) -> Option<Reason> {
    let operands =
        draft.fleet.operand_sets.as_ref().filter(|_| is_driver_node(draft.node, Driver::Gpu))?;
    note_recovery(draft, operands);
    let reason = operands.fault(draft.node, draft.memory.baseline.as_deref());
    // The node that stalls the update depends on the others.
    draft.effects.depends_on_others |= matches!(reason, Some(Reason::OperandOutdated { .. }));
    reason
}

/// Records recoveries: an operand that was failing and has recovered counts as failing for the
/// first time if it fails again.
fn note_recovery(draft: &mut NodeDraft<'_>, operands: &OperandSets<'_>) {
    let Some(entry) = draft.memory.baseline.clone().filter(|entry| !entry.failing.is_empty())
    else {
        return;
    };
    let before = std::mem::take(&mut draft.memory.recovering);
    let works = entry.failing.iter().filter(|failing| operands.works(draft.node, failing));
    let now = draft.now();
    let mut recovering: BTreeMap<String, Timestamp> = works
        .map(|failing| (failing.clone(), before.get(failing).copied().unwrap_or(now)))
        .collect();
    let mut has_recovered = |since: Option<&Timestamp>| {
        since.is_some_and(|since| draft.alarm.passed(*since, RECOVERED_SECONDS))
    };
    let still: BTreeSet<String> = entry
        .failing
        .iter()
        .filter(|failing| !has_recovered(recovering.get(*failing)))
        .cloned()
        .collect();
    if still.len() < entry.failing.len() {
        recovering.retain(|failing, _| still.contains(failing));
        draft.memory.baseline = Some(Arc::new(NodeBaseline { failing: still, ..(*entry).clone() }));
    }
    draft.memory.recovering = recovering;
}

/// Returns the outcome of a node that waits for its operands; `None` if it still waits.
pub(super) fn outcome(
    draft: &mut NodeDraft<'_>,
    reason: &Reason,
    since: Timestamp,
) -> Option<NodeOutcome> {
    if failed_before(draft, reason) {
        let note = DecisionNote::FailedBefore {
            node: draft.node.name.as_str().into(),
            reason: reason.clone().into(),
        };
        draft.effects.notes.push(note);
        return Some(NodeOutcome::Deferred);
    }
    if let Reason::NodeTainted { daemon_set, .. } = reason {
        // The operator does not serve the node, and cannot. A new node has taints that are removed
        // automatically.
        draft.effects.depends_on_others = true;
        let over = draft.alarm.passed(since, draft.settings().per_node_seconds)
            && draft.fleet.gets_somewhere(daemon_set);
        if over {
            note_tolerated(draft, reason);
        }
        return over.then_some(NodeOutcome::Deferred);
    }
    if let Reason::GpusDegraded { .. } = reason {
        if !draft.alarm.passed(since, DEGRADED_SECONDS) {
            return None;
        }
        note_tolerated(draft, reason);
        return Some(match draft.settings().settle.gpus_missing {
            MissingGpus::Report => NodeOutcome::Done,
            MissingGpus::Fail => NodeOutcome::Failed,
        });
    }
    if let Reason::OperandOutdated { awaited: Some(node), .. } = reason
        && !node.is_ready
    {
        // If a tolerated node stalls the update, the nodes that it stalls are tolerated too.
        return draft.outcome_of(&node.name).filter(|outcome| *outcome == NodeOutcome::Deferred);
    }
    None
}

/// Reports a problem of a node that the policy tolerates.
pub(super) fn note_tolerated(draft: &mut NodeDraft<'_>, reason: &Reason) {
    let node = Some(draft.node.name.as_str().into());
    draft.effects.notes.push(DecisionNote::Tolerated { node, reason: reason.clone().into() });
}

/// Returns whether the node waits for an operand that was failing before the run, and has not
/// worked since.
pub(super) fn failed_before(draft: &NodeDraft<'_>, reason: &Reason) -> bool {
    let entry = draft.memory.baseline.as_ref();
    reason.operand().is_some_and(|operand| {
        entry.is_some_and(|entry| entry.failing.contains(&operand.daemon_set))
    })
}

/// Returns one note for each operand that does not gate and is not ready.
pub(super) fn reported(
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) -> Vec<DecisionNote> {
    if settings.driver != Driver::Gpu {
        return Vec::new();
    }
    let operands = OperandSets::new(observed, settings);
    let mut found: Vec<(String, Vec<Wait>)> = Vec::new();
    for (name, node) in
        observed.nodes.iter().filter(|(_, node)| is_driver_node(node, Driver::Gpu) && node.ready)
    {
        let Some(reason) = operands.reported_fault(node) else { continue };
        let Some(operand) = reason.operand().map(|operand| operand.daemon_set.clone()) else {
            continue;
        };
        let wait = Wait { node: Some(Arc::clone(name)), reason: reason.into(), since: now };
        match found.iter_mut().find(|(known, _)| *known == operand) {
            Some((_, waits)) => waits.push(wait),
            None => found.push((operand, vec![wait])),
        }
    }
    let note = |(daemon_set, waits): (String, Vec<Wait>)| {
        let advice =
            waits.first().map(|wait| wait.reason.advice(settings.driver)).unwrap_or_default();
        DecisionNote::OperandReported { daemon_set, waits, advice }
    };
    found.into_iter().map(note).collect()
}
