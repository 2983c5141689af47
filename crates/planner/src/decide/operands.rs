//! Operands besides driver and toolkit: what a node waits for, and its outcome.

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

/// A node offers fewer GPUs than before only when it has done so for this long: the kubelet updates a node's status every 10 s.
const DEGRADED_SECONDS: u64 = 30;
/// What was failing before the run has recovered when it has been ready for this long: a container without a probe is ready for a short time whenever
/// that it starts, and then crashes again.
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

/// What a node still waits for of its operands and GPUs.
pub(super) fn fault(draft: &mut NodeDraft<'_>) -> Option<Reason> {
    let operands =
        draft.fleet.operand_sets.as_ref().filter(|_| is_driver_node(draft.node, Driver::Gpu))?;
    note_recovery(draft, operands);
    let reason = operands.fault(draft.node, draft.memory.baseline.as_deref());
    // Which node stalls the update depends on the others.
    draft.effects.depends_on_others |= matches!(reason, Some(Reason::OperandOutdated { .. }));
    reason
}

/// What was failing and has worked for a while fails for the first time when it fails again.
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

/// What has become of a node that waits for its operands; `None`: it still waits.
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
        // The operator does not serve the node, and cannot. A new node has taints that go by themselves.
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
    if let Reason::OperandOutdated { stalled_by: Some(stalling), .. } = reason {
        // A node that is tolerated and stalls the update is tolerated with what it stalls.
        return draft.outcome_of(stalling).filter(|outcome| *outcome == NodeOutcome::Deferred);
    }
    None
}

/// Reports what the policy tolerates of a node.
pub(super) fn note_tolerated(draft: &mut NodeDraft<'_>, reason: &Reason) {
    let node = Some(draft.node.name.as_str().into());
    draft.effects.notes.push(DecisionNote::Tolerated { node, reason: reason.clone().into() });
}

/// Whether what a node waits for is an operand that was failing before the run, and has not worked since.
pub(super) fn failed_before(draft: &NodeDraft<'_>, reason: &Reason) -> bool {
    let entry = draft.memory.baseline.as_ref();
    reason.operand().is_some_and(|operand| {
        entry.is_some_and(|entry| entry.failing.contains(&operand.daemon_set))
    })
}

/// Operands that do not gate and are not ready: one note each.
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
