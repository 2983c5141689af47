//! Which plugin pods are replaced now: those that are stale, on nodes whose driver and toolkit are ready, a few at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::node::PluginBase;
use crate::plugin::{DraPluginStatus, DraPlugins};
use crate::reason::Reason;
use crate::stale::PUBLISH_SECONDS;
use contract::record::{NodeOutcome, NodeRecord, PluginReplacement, ReplacedPodKind};
use observed::{ObservedDaemonSet, ObservedNode, ObservedPod};

use super::{Action, Deciding, FleetInputs};

/// Seconds that driver and toolkit must have been seen ready before their plugin is replaced: container times have a grain of one second, so
/// a replacement that starts right away could tie with what it serves and look stale for ever. Both times are of the node's own clock, and
/// what is seen to be ready has been so before: what starts a whole second later has a later time.
pub(super) const READY_SECONDS: u64 = 1;

/// Whether a node's plugin is away because of us. Nodes that are gone, or left because they are not ready, keep nobody waiting; one that is
/// left for its DRA driver does until its device plugin is back.
fn holds_slot(record: &NodeRecord, ready: bool) -> bool {
    let counts = |replacement: &PluginReplacement| match record.outcome {
        Some(NodeOutcome::Gone) => false,
        Some(NodeOutcome::Deferred) => ready && replacement.plugin == ReplacedPodKind::Device,
        Some(NodeOutcome::Done | NodeOutcome::Failed) | None => true,
    };
    record.replaced.values().any(|replacement| replacement.back_at.is_none() && counts(replacement))
}

/// Whether a plugin of the node that was replaced is not back.
pub(super) fn is_open(record: &NodeRecord) -> bool {
    record.replaced.values().any(|replacement| replacement.back_at.is_none())
}

/// Whether a node's plugin may go now.
pub(super) enum ReplacementRoom {
    /// It may.
    Free,
    /// When others are back.
    Queued,
    /// All that may be away are on nodes that have failed.
    Never,
}

/// Seconds after which a deletion that had no effect is tried again.
const REPEAT_SECONDS: u64 = 10;

fn being_replaced() -> Reason {
    Reason::PluginNotReady { trouble: Some("being replaced".to_owned()) }
}

impl Deciding<'_> {
    /// How many plugins may be away at once.
    pub(super) fn replacement_limit(&self, nodes: usize) -> usize {
        self.settings.dra.max_unavailable.resolve(nodes).max(1)
    }

    /// Closes what nobody will bring back: a replacement whose DaemonSet is gone holds no slot for ever. `open`: the nodes with a plugin that
    /// is not back. The answer: the nodes of which something was closed.
    pub(super) fn close_replacements(&mut self, open: &mut BTreeSet<Arc<str>>, fleet: &FleetInputs<'_>) -> Vec<Arc<str>> {
        let now = self.now;
        let known = |replacement: &PluginReplacement| {
            fleet.plugins.daemon_sets().chain(fleet.devices.daemon_sets()).any(|daemon_set| daemon_set.uid == replacement.daemon_set)
        };
        let is_lost = |replacement: &PluginReplacement| replacement.back_at.is_none() && !known(replacement);
        let has_lost = |record: &NodeRecord| record.replaced.values().any(is_lost);
        let lost: Vec<Arc<str>> = open.iter().filter(|name| self.memory.nodes.get(name).is_some_and(has_lost)).cloned().collect();
        for name in &lost {
            let Some(record) = self.memory.nodes.get_mut(name) else { continue };
            record.replaced.values_mut().filter(|replacement| is_lost(replacement)).for_each(|replacement| replacement.back_at = Some(now));
            if !is_open(record) {
                open.remove(name);
            }
        }
        let ready = |name: &str| self.observed.nodes.get(name).is_some_and(|node| node.ready);
        let records = || open.iter().filter_map(|name| Some((name, self.memory.nodes.get(name)?)));
        let holders = || records().filter(|(name, record)| holds_slot(record, ready(name)));
        let failed = holders().filter(|(_, record)| record.outcome == Some(NodeOutcome::Failed)).count();
        (self.away, self.away_for_good) = (holders().count(), failed);
        lost
    }

    /// Whether another of the node's plugins may go; with all slots held by nodes that have failed there will be none.
    pub(super) fn room(&self, node: &ObservedNode, limit: usize) -> ReplacementRoom {
        if self.holds_slot(node) || self.away < limit {
            return ReplacementRoom::Free;
        }
        if self.away_for_good >= limit { ReplacementRoom::Never } else { ReplacementRoom::Queued }
    }

    /// The plugins of one node: replaces what is stale, and answers what the node still waits for.
    pub(super) fn plugins(&mut self, node: &ObservedNode, base: &PluginBase, plugins: &DraPlugins<'_>, limit: usize) -> Option<Reason> {
        if !self.rerolls() {
            return None;
        }
        let ready_since = self.memory.ready_since(&node.name, &base.identity, self.now);
        let mut waits = None;
        let mut found = false;
        for daemon_set in plugins.daemon_sets() {
            let replaced = self.was_replaced(node, daemon_set, &base.identity);
            if replaced && self.repeat(node, daemon_set, plugins.pods_on(node), ReplacedPodKind::Dra) {
                waits = waits.or(Some(being_replaced()));
                found = true;
                continue;
            }
            let outdated = plugins.publishes_outdated(node, daemon_set, base).is_some_and(|(pod, outdated)| {
                let since = self.memory.outdated_since(&node.name, &pod.uid, outdated, self.now);
                since.is_some_and(|since| self.passed(since, PUBLISH_SECONDS))
            });
            let status = plugins.on_node(node, daemon_set, base, replaced, self.settings.dra.reroll, outdated);
            let Some(status) = status else {
                // A DaemonSet without a node selector that had a pod here is to bring another one.
                if self.is_away(node, daemon_set) {
                    waits = waits.or(Some(Reason::PluginMissing));
                }
                continue;
            };
            found = true;
            waits = waits.or(match status {
                DraPluginStatus::Serving(pod) => {
                    self.back(node, daemon_set, pod);
                    None
                }
                DraPluginStatus::Stale { .. } if let Some(refused) = self.keeps_its_pods(node) => Some(refused),
                DraPluginStatus::Stale { pod, daemon_set, cause } => {
                    // Its turn depends on the others, and what it waits for names how many are away.
                    self.judge_again(node);
                    let ready = self.passed(ready_since, READY_SECONDS);
                    Some(match if ready { self.room(node, limit) } else { ReplacementRoom::Queued } {
                        ReplacementRoom::Free => {
                            self.replace(node, &base.identity, pod, daemon_set, cause, ReplacedPodKind::Dra);
                            being_replaced()
                        }
                        ReplacementRoom::Queued => Reason::PluginQueued { cause, away: self.away, limit },
                        ReplacementRoom::Never => Reason::PluginHeldUp { cause, failed: self.away_for_good },
                    })
                }
                DraPluginStatus::Waiting(reason) => Some(reason),
            });
        }
        if !found && waits.is_none() && self.requires_plugin() { Some(Reason::PluginMissing) } else { waits }
    }

    /// Whether a plugin of this DaemonSet was replaced on the node for being behind this very thing.
    pub(super) fn was_replaced(&self, node: &ObservedNode, daemon_set: &ObservedDaemonSet, under: &str) -> bool {
        let record = self.memory.nodes.get(&node.name).filter(|record| record.uid == node.uid);
        let same = |replacement: &PluginReplacement| replacement.under == under && replacement.daemon_set == daemon_set.uid;
        record.is_some_and(|record| record.replaced.values().any(same))
    }

    /// Whether a plugin of this DaemonSet that was replaced on the node is not back.
    pub(super) fn is_away(&self, node: &ObservedNode, daemon_set: &ObservedDaemonSet) -> bool {
        let record = self.memory.nodes.get(&node.name).filter(|record| record.uid == node.uid);
        record.is_some_and(|record| {
            record.replaced.values().any(|replacement| replacement.back_at.is_none() && replacement.daemon_set == daemon_set.uid)
        })
    }

    /// Decides the replacement of one pod; the record of it is written before the pod is deleted.
    pub(super) fn replace(
        &mut self,
        node: &ObservedNode,
        under: &str,
        pod: &ObservedPod,
        daemon_set: &ObservedDaemonSet,
        cause: String,
        plugin: ReplacedPodKind,
    ) {
        let replacement = PluginReplacement {
            plugin,
            pod: pod.name.clone(),
            daemon_set: daemon_set.uid.clone(),
            under: under.to_owned(),
            cause: cause.clone(),
            at: self.now,
            back_at: None,
        };
        let held = self.holds_slot(node);
        self.record(node, |record| drop(record.replaced.insert(pod.uid.clone(), replacement)));
        self.away += usize::from(!held);
        self.delete(node, pod, cause, plugin);
    }

    /// Whether the pod whose replacement is recorded still stands there undeleted. If its deletion was lost (the process ended between
    /// record and deletion, or the API server refused), it is done again: the same pod, so still only once.
    pub(super) fn repeat<'p>(
        &mut self,
        node: &ObservedNode,
        daemon_set: &ObservedDaemonSet,
        mut pods: impl Iterator<Item = &'p ObservedPod>,
        plugin: ReplacedPodKind,
    ) -> bool {
        let Some(record) = self.memory.nodes.get(&node.name) else { return false };
        let recorded =
            |pod: &&ObservedPod| !pod.deleting && pod.owner.as_ref() == Some(&daemon_set.uid) && record.replaced.contains_key(&pod.uid);
        let Some(pod) = pods.find(recorded) else { return false };
        let cause = record.replaced[&pod.uid].cause.clone();
        match self.memory.issued.get(&pod.uid).copied() {
            // The deletion is under way; its watch event is not here yet.
            Some(issued) if !self.passed(issued, REPEAT_SECONDS) => {}
            Some(_) | None => self.delete(node, pod, cause, plugin),
        }
        true
    }

    fn delete(&mut self, node: &ObservedNode, pod: &ObservedPod, cause: String, plugin: ReplacedPodKind) {
        if self.tried_again(node).is_some() {
            return;
        }
        self.memory.issued.insert(pod.uid.clone(), self.now);
        self.passed(self.now, REPEAT_SECONDS);
        self.actions.push(Action::ReplacePlugin {
            plugin,
            node: node.name.clone(),
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            cause,
        });
    }

    /// The pod in place of a replaced one serves.
    pub(super) fn back(&mut self, node: &ObservedNode, daemon_set: &ObservedDaemonSet, serving: &ObservedPod) {
        let now = self.now;
        let comes_back = |uid: &String, replacement: &PluginReplacement| {
            replacement.back_at.is_none() && replacement.daemon_set == daemon_set.uid && *uid != serving.uid
        };
        let record = self.memory.nodes.get(&node.name);
        if !record.is_some_and(|record| record.replaced.iter().any(|(uid, replacement)| comes_back(uid, replacement))) {
            return;
        }
        let held = record.is_some_and(|record| holds_slot(record, node.ready));
        if let Some(record) = self.memory.nodes.get_mut(&node.name) {
            for (_, replacement) in record.replaced.iter_mut().filter(|(uid, replacement)| comes_back(uid, replacement)) {
                replacement.back_at = Some(now);
            }
        }
        // A slot is free: nodes that were judged before this one are to see it.
        self.wakes(now);
        if held && !self.memory.nodes.get(&node.name).is_some_and(|record| holds_slot(record, node.ready)) {
            self.away = self.away.saturating_sub(1);
        }
    }

    /// Whether the node's plugin is away because of us.
    fn holds_slot(&self, node: &ObservedNode) -> bool {
        self.memory.nodes.get(&node.name).is_some_and(|record| record.uid == node.uid && holds_slot(record, node.ready))
    }
}
