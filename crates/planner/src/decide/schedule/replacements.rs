//! The stale plugin pods that are replaced now: a few nodes at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::device_plugin::DevicePlugins;
use crate::dra_plugin::DraPlugins;
use crate::memory::RunMemory;
use crate::reason::Reason;
use contract::record::{NodeOutcome, NodeRecord, PluginReplacement, ReplacedPodKind};

use crate::decide::assess::plugins::{PluginNeed, StalePlugin, delete};
use crate::decide::node_draft::NodeDraft;
use crate::decide::run_nodes::RunNodes;
use observed::ObservedNode;

/// The limits on the number of nodes with unavailable plugins.
#[derive(Clone, Copy)]
pub(in crate::decide) struct ReplacementLimits {
    pub(in crate::decide) dra: usize,
    pub(in crate::decide) device: usize,
}

impl ReplacementLimits {
    fn of(self, plugin: ReplacedPodKind) -> usize {
        match plugin {
            ReplacedPodKind::Dra => self.dra,
            ReplacedPodKind::Device => self.device,
        }
    }
}

/// Nodes with plugins that are unavailable because of the hook.
#[derive(Clone, Copy, Default)]
pub(in crate::decide) struct AwayPlugins {
    nodes: usize,
    /// Number of them that have failed.
    failed: usize,
}

/// Replaces plugins within the limits, and sets the reasons of nodes with stale plugins.
pub(in crate::decide) fn replace(nodes: &mut RunNodes<'_>, limits: ReplacementLimits) {
    if !nodes.listed.iter().any(|node| node.assessment.needs.is_stale()) {
        return;
    }
    let fleet = nodes.fleet;
    let mut away = AwayPlugins::count(nodes);
    for node in nodes.listed.iter_mut().filter(|node| node.assessment.needs.is_stale()) {
        let assessment = Arc::clone(&node.assessment);
        let mut first = |needs: &[PluginNeed]| {
            let reasons: Vec<Reason> =
                needs.iter().map(|need| away.reason(need, node.draft(fleet), limits)).collect();
            reasons.into_iter().next()
        };
        let (dra, device) = (first(&assessment.needs.dra), first(&assessment.needs.device));
        node.reason = assessment.needs.reason(dra, device, fleet).map(Into::into);
    }
}

impl AwayPlugins {
    /// Counts one node.
    pub(in crate::decide) fn of_node(record: Option<&NodeRecord>, node: &ObservedNode) -> Self {
        let holds_slot = record.filter(|record| holds_slot(record, node.ready));
        let failed = holds_slot.filter(|record| record.outcome == Some(NodeOutcome::Failed));
        Self { nodes: holds_slot.iter().count(), failed: failed.iter().count() }
    }

    /// Adds the nodes of another count.
    pub(in crate::decide) fn add(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.failed += other.failed;
    }

    /// Removes the nodes of another count, which was added.
    pub(in crate::decide) fn remove(&mut self, other: Self) {
        self.nodes = self.nodes.saturating_sub(other.nodes);
        self.failed = self.failed.saturating_sub(other.failed);
    }

    fn count(nodes: &RunNodes<'_>) -> Self {
        let records = &nodes.fleet.memory.nodes;
        let mut all = nodes.kept.sums.away;
        for node in &nodes.listed {
            let record = match &node.draft {
                Some(draft) => draft.memory.record.as_deref(),
                None => records.get(node.name),
            };
            all.add(Self::of_node(record, node.node));
        }
        for (name, node, _) in &nodes.others {
            all.add(Self::of_node(records.get(name), node));
        }
        all
    }

    /// Returns the reason of a node for a DaemonSet whose stale pod is replaced if the limit allows
    /// it. If failed nodes occupy all slots, it never will.
    fn reason(
        &mut self,
        need: &PluginNeed,
        draft: &mut NodeDraft<'_>,
        limits: ReplacementLimits,
    ) -> Reason {
        let stale = match need {
            PluginNeed::Waits(reason) => return reason.clone(),
            PluginNeed::Stale(stale) => stale,
        };
        let limit = limits.of(stale.plugin);
        let held = draft.record().is_some_and(|record| holds_slot(record, draft.node.ready));
        if stale.ready && (held || self.nodes < limit) {
            replaced(draft, stale);
            self.nodes += usize::from(!held);
            return stale.being_replaced();
        }
        if stale.ready && self.failed >= limit {
            stale.held_up(self.failed)
        } else {
            stale.queued(self.nodes, limit)
        }
    }
}

/// Decides the replacement of one pod; its record is written before the pod is deleted.
fn replaced(draft: &mut NodeDraft<'_>, stale: &StalePlugin) {
    let replacement = PluginReplacement {
        plugin: stale.plugin,
        pod: stale.pod.clone(),
        daemon_set: stale.daemon_set.clone(),
        under: stale.under.clone(),
        cause: stale.cause.clone(),
        at: draft.now(),
        back_at: None,
    };
    draft.change_record(|record| drop(record.replaced.insert(stale.uid.clone(), replacement)));
    delete(draft, stale);
}

/// Closes replacements whose DaemonSet is gone, which would occupy a slot indefinitely. `changed`:
/// the nodes that have changed, if the DaemonSets have not.
pub(in crate::decide) fn close(
    memory: &mut RunMemory,
    changed: Option<&BTreeSet<String>>,
    plugins: &DraPlugins<'_>,
    devices: &DevicePlugins<'_>,
    now: Timestamp,
) {
    let known: BTreeSet<&String> = plugins
        .daemon_sets()
        .chain(devices.daemon_sets())
        .map(|daemon_set| &daemon_set.uid)
        .collect();
    let is_lost = |replacement: &PluginReplacement| {
        replacement.back_at.is_none() && !known.contains(&replacement.daemon_set)
    };
    let has_lost = |record: &NodeRecord| record.replaced.values().any(is_lost);
    let lost: Vec<String> = if let Some(changed) = changed {
        let has_lost = |name: &&String| memory.nodes.get(name).is_some_and(has_lost);
        changed.iter().filter(has_lost).cloned().collect()
    } else {
        let lost = memory.nodes.iter().filter(|(_, record)| has_lost(record));
        lost.map(|(name, _)| name.to_string()).collect()
    };
    for name in &lost {
        let record = memory.nodes.get_mut(name);
        let replaced = record.into_iter().flat_map(|record| record.replaced.values_mut());
        replaced
            .filter(|replacement| is_lost(replacement))
            .for_each(|replacement| replacement.back_at = Some(now));
    }
}

/// Returns whether a node's plugin is unavailable because of the hook. Nodes that are gone, or
/// deferred because they are not ready, do not count; a node that is deferred because of its DRA
/// driver counts until its device plugin is back.
fn holds_slot(record: &NodeRecord, ready: bool) -> bool {
    let counts = |replacement: &PluginReplacement| match record.outcome {
        Some(NodeOutcome::Gone) => false,
        Some(NodeOutcome::Deferred) => ready && replacement.plugin == ReplacedPodKind::Device,
        Some(NodeOutcome::Done | NodeOutcome::Failed) | None => true,
    };
    record.replaced.values().any(|replacement| replacement.back_at.is_none() && counts(replacement))
}
