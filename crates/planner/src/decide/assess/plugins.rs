//! The DRA kubelet plugins and the pods of device plugin, GPU feature discovery and MPS daemon of
//! one node: the reasons for which it waits, and its stale pods.
//! [`crate::decide::schedule::replacements`] decides for the whole fleet which of the stale pods
//! are replaced now.

use std::sync::Arc;

use jiff::Timestamp;

use crate::device_plugin::{NodePluginConfig, StalePluginPod};
use crate::dra_plugin::DraPluginStatus;
use crate::dra_staleness::PUBLISH_SECONDS;
use crate::node::PluginBase;
use crate::reason::Reason;
use contract::record::{PluginReplacement, ReplacedPodKind};
use contract::settings::DraRequired;
use contract::task::Task;
use observed::{ObservedDaemonSet, ObservedPod};

use crate::decide::Action;
use crate::decide::node_draft::NodeDraft;
use crate::decide::paused_nodes::paused;
use crate::decide::refused_node;
use crate::time::after;

/// Seconds after [`counts_from`] at which a stale plugin is replaced. Container times have a
/// resolution of one second, so a replacement that starts at once could have the same time as its
/// driver, and seem stale permanently.
const READY_SECONDS: u64 = 1;

/// The need of a node about one DaemonSet of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::decide) enum PluginNeed {
    /// It waits.
    Waits(Reason),
    /// Its pod is stale, and is replaced when the limit allows it.
    Stale(StalePlugin),
}

/// A stale pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::decide) struct StalePlugin {
    pub(in crate::decide) plugin: ReplacedPodKind,
    pub(in crate::decide) namespace: String,
    pub(in crate::decide) pod: String,
    pub(in crate::decide) uid: String,
    /// UID of its DaemonSet.
    pub(in crate::decide) daemon_set: String,
    /// Name of its DaemonSet.
    pub(in crate::decide) name: String,
    /// Identity of the driver, toolkit or configuration that it is older than; each identity causes
    /// at most one replacement.
    pub(in crate::decide) under: String,
    /// Why it is stale.
    pub(in crate::decide) cause: String,
    /// Whether its driver and toolkit have been ready for long enough.
    pub(in crate::decide) ready: bool,
}

impl StalePlugin {
    fn new(
        plugin: ReplacedPodKind,
        pod: &ObservedPod,
        daemon_set: &ObservedDaemonSet,
        under: &str,
        cause: String,
        ready: bool,
    ) -> Self {
        Self {
            plugin,
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            daemon_set: daemon_set.uid.clone(),
            name: daemon_set.name.clone(),
            under: under.to_owned(),
            cause,
            ready,
        }
    }

    /// Returns the reason for which the node waits while its pod is being replaced.
    pub(in crate::decide) fn being_replaced(&self) -> Reason {
        match self.plugin {
            ReplacedPodKind::Dra => {
                Reason::PluginNotReady { trouble: Some("being replaced".to_owned()) }
            }
            ReplacedPodKind::Device => Reason::RestartPending {
                daemon_set: self.name.clone(),
                trouble: "being restarted".to_owned(),
            },
        }
    }

    /// Returns the reason while the plugins of other nodes are unavailable.
    pub(in crate::decide) fn queued(&self, away: usize, limit: usize) -> Reason {
        let cause = self.cause.clone();
        match self.plugin {
            ReplacedPodKind::Dra => Reason::PluginQueued { cause, away, limit },
            ReplacedPodKind::Device => Reason::RestartQueued { cause, away, limit },
        }
    }

    /// Returns the reason if the limit is used up by plugins that did not come back.
    pub(in crate::decide) fn held_up(&self, failed: usize) -> Reason {
        let cause = self.cause.clone();
        match self.plugin {
            ReplacedPodKind::Dra => Reason::PluginHeldUp { cause, failed },
            ReplacedPodKind::Device => Reason::RestartHeldUp { cause, failed },
        }
    }

    /// Returns the action that deletes it.
    pub(in crate::decide) fn deletion(&self, node: &str) -> Action {
        Action::ReplacePlugin {
            plugin: self.plugin,
            node: node.to_owned(),
            namespace: self.namespace.clone(),
            pod: self.pod.clone(),
            uid: self.uid.clone(),
            cause: self.cause.clone(),
        }
    }
}

/// The DRA kubelet plugin of one DaemonSet on a node.
enum NodeDraPlugin {
    /// The DaemonSet has no pod for the node.
    Absent,
    /// Its pod serves the loaded driver.
    Serves,
    Needs(PluginNeed),
}

/// Returns the needs of the node about its DRA kubelet plugins, one for each DaemonSet.
pub(in crate::decide) fn dra(draft: &mut NodeDraft<'_>, base: &PluginBase) -> Vec<PluginNeed> {
    let fleet = draft.fleet;
    if !fleet.has(Task::Reroll) {
        return Vec::new();
    }
    let ready_since = counts_from(draft, base);
    let mut needs = Vec::new();
    let mut found = false;
    for daemon_set in fleet.plugins.daemon_sets() {
        match dra_plugin(draft, base, daemon_set, ready_since) {
            NodeDraPlugin::Absent => {}
            NodeDraPlugin::Serves => found = true,
            NodeDraPlugin::Needs(need) => {
                found = true;
                needs.push(need);
            }
        }
    }
    if !found && draft.settings().dra.required == DraRequired::True {
        needs.push(PluginNeed::Waits(Reason::PluginMissing));
    }
    needs
}

/// Returns the time from which to count [`READY_SECONDS`]. The times of driver, toolkit and plugin
/// are from the node's own clock, in whole seconds.
///
/// If the hook observed readiness within the second in which it is dated, it counts from the dated
/// time. The node's clock is then ahead of the hook's, or less than a second behind. This assumes
/// that a pod takes longer from its deletion to the start of its successor than the clock is behind.
/// A plugin that were faster would have the time of its driver: this run has recorded its
/// replacement and takes it as good, and a run without that record replaces it again.
///
/// Otherwise it counts from the observation, which is never before readiness itself, whatever the
/// node's clock shows.
fn counts_from(draft: &mut NodeDraft<'_>, base: &PluginBase) -> Timestamp {
    let observed = draft.memory.ready_since(base, draft.fleet.now);
    let within = |dated: &Timestamp| (*dated..after(*dated, READY_SECONDS)).contains(&observed);
    base.served_since.filter(within).unwrap_or(observed)
}

/// Assesses the plugin of one DaemonSet. `ready_since`: of driver and toolkit.
fn dra_plugin(
    draft: &mut NodeDraft<'_>,
    base: &PluginBase,
    daemon_set: &ObservedDaemonSet,
    ready_since: Timestamp,
) -> NodeDraPlugin {
    let (fleet, reroll) = (draft.fleet, draft.settings().dra.reroll);
    let plugins = &fleet.plugins;
    let waits = |reason| NodeDraPlugin::Needs(PluginNeed::Waits(reason));
    let replaced = was_replaced(draft, daemon_set, &base.identity);
    if replaced
        && let Some(stale) =
            repeat(draft, daemon_set, plugins.pods_on(draft.node), ReplacedPodKind::Dra)
    {
        return waits(stale.being_replaced());
    }
    let outdated =
        plugins.publishes_outdated(draft.node, daemon_set, base).is_some_and(|(pod, outdated)| {
            let since = draft.memory.outdated_since(&pod.uid, outdated, fleet.now);
            since.is_some_and(|since| draft.alarm.passed(since, PUBLISH_SECONDS))
        });
    match plugins.on_node(draft.node, daemon_set, base, replaced, reroll, outdated) {
        // A DaemonSet without a node selector that had a pod here must create another one.
        None if is_away(draft, daemon_set) => waits(Reason::PluginMissing),
        None => NodeDraPlugin::Absent,
        Some(DraPluginStatus::Serving(pod)) => {
            is_back(draft, daemon_set, pod);
            NodeDraPlugin::Serves
        }
        Some(DraPluginStatus::Stale { .. })
            if let Some(refused) = refused_node::keeps_its_pods(draft) =>
        {
            waits(refused)
        }
        Some(DraPluginStatus::Stale { pod, daemon_set, cause }) => {
            let ready = draft.alarm.passed(ready_since, READY_SECONDS);
            NodeDraPlugin::Needs(PluginNeed::Stale(StalePlugin::new(
                ReplacedPodKind::Dra,
                pod,
                daemon_set,
                &base.identity,
                cause,
                ready,
            )))
        }
        Some(DraPluginStatus::Waiting(reason)) => waits(reason),
    }
}

/// Returns the needs of the node about the pods of its device plugin, one for each DaemonSet. The
/// hook does not wait for pods that it did not restart.
pub(in crate::decide) fn device(
    draft: &mut NodeDraft<'_>,
    base: Option<&PluginBase>,
) -> Vec<PluginNeed> {
    let fleet = draft.fleet;
    let ready_since = base.map(|base| counts_from(draft, base));
    let daemon_sets = fleet.devices.daemon_sets();
    daemon_sets.filter_map(|daemon_set| device_need(draft, base, daemon_set, ready_since)).collect()
}

/// Returns the need about the pod of one DaemonSet. `ready_since`: of driver and toolkit.
fn device_need(
    draft: &mut NodeDraft<'_>,
    base: Option<&PluginBase>,
    daemon_set: &ObservedDaemonSet,
    ready_since: Option<Timestamp>,
) -> Option<PluginNeed> {
    let (fleet, node) = (draft.fleet, draft.node);
    let devices = &fleet.devices;
    let away = is_away(draft, daemon_set);
    let Some(pod) = devices.pod(node, daemon_set).filter(|pod| !pod.deleting) else {
        return away.then(|| PluginNeed::Waits(pending(daemon_set, None, "there is no pod yet")));
    };
    let reasons = devices.staleness(node, pod, daemon_set, base, &fleet.memory.configs);
    let (recorded, mut reasons): (Vec<StalePluginPod>, Vec<StalePluginPod>) =
        reasons.into_iter().partition(|stale| was_replaced(draft, daemon_set, &stale.under));
    if !recorded.is_empty()
        && let Some(stale) =
            repeat(draft, daemon_set, devices.pods_on(node), ReplacedPodKind::Device)
    {
        return Some(PluginNeed::Waits(stale.being_replaced()));
    }
    // Without its configuration, a restart would leave the node without its GPUs. The hook still
    // waits for pods that it restarted before.
    let Some(stale) = reasons.pop().filter(|_| missing_config(draft).is_none()) else {
        let waits = if away { returned(draft, daemon_set, pod) } else { None };
        return waits.map(PluginNeed::Waits);
    };
    if let Some(reason) = restart_obstacle(draft, base, daemon_set, (pod, &stale)) {
        return Some(PluginNeed::Waits(reason));
    }
    let ready =
        stale.since.or(ready_since).is_none_or(|since| draft.alarm.passed(since, READY_SECONDS));
    Some(PluginNeed::Stale(StalePlugin::new(
        ReplacedPodKind::Device,
        pod,
        daemon_set,
        &stale.under,
        stale.cause,
        ready,
    )))
}

/// Returns why a stale pod is not restarted now, whatever the limit allows.
fn restart_obstacle(
    draft: &NodeDraft<'_>,
    base: Option<&PluginBase>,
    daemon_set: &ObservedDaemonSet,
    (pod, stale): (&ObservedPod, &StalePluginPod),
) -> Option<Reason> {
    let (fleet, node) = (draft.fleet, draft.node);
    if fleet.devices.is_rolled(pod, daemon_set) {
        return Some(Reason::RestartRolling { daemon_set: daemon_set.name.clone() });
    }
    if let Some(refused) = refused_node::keeps_its_pods(draft) {
        return Some(refused);
    }
    if !node.ready {
        return Some(Reason::NodeNotReady { since: node.ready_since });
    }
    // A pod that is older than its driver serves files that no longer exist: it is replaced even
    // while no new work starts.
    if base.is_some_and(|base| stale.under == base.identity) {
        return None;
    }
    paused(fleet, node)
}

/// Returns the key of the configuration that the node requests and the ConfigMap does not contain.
pub(in crate::decide) fn missing_config<'a>(draft: &NodeDraft<'a>) -> Option<&'a str> {
    match draft.fleet.devices.choice(draft.node) {
        NodePluginConfig::Missing(key) => Some(key),
        NodePluginConfig::Key(_) | NodePluginConfig::None => None,
    }
}

/// Returns whether the replacement of a restarted pod is ready.
fn returned(
    draft: &mut NodeDraft<'_>,
    daemon_set: &ObservedDaemonSet,
    pod: &ObservedPod,
) -> Option<Reason> {
    if !(pod.running && pod.ready) {
        let trouble = pod.unschedulable.clone().or_else(|| pod.trouble.clone());
        let node = draft.node;
        return Some(if node.ready {
            pending(daemon_set, trouble, "not ready")
        } else {
            Reason::NodeNotReady { since: node.ready_since }
        });
    }
    is_back(draft, daemon_set, pod);
    None
}

fn pending(daemon_set: &ObservedDaemonSet, trouble: Option<String>, state: &str) -> Reason {
    Reason::RestartPending {
        daemon_set: daemon_set.name.clone(),
        trouble: trouble.unwrap_or_else(|| state.to_owned()),
    }
}

/// Returns whether a plugin of this DaemonSet was replaced on the node for this identity.
fn was_replaced(draft: &NodeDraft<'_>, daemon_set: &ObservedDaemonSet, under: &str) -> bool {
    let same = |replacement: &PluginReplacement| {
        replacement.under == under && replacement.daemon_set == daemon_set.uid
    };
    draft.record().is_some_and(|record| record.replaced.values().any(same))
}

/// Returns whether a replaced plugin of this DaemonSet is not back on the node.
fn is_away(draft: &NodeDraft<'_>, daemon_set: &ObservedDaemonSet) -> bool {
    let away = |replacement: &PluginReplacement| {
        replacement.back_at.is_none() && replacement.daemon_set == daemon_set.uid
    };
    draft.record().is_some_and(|record| record.replaced.values().any(away))
}

/// Returns the pod whose replacement is recorded, if it still exists and is not being deleted. If
/// its deletion was lost (the process ended between record and deletion, or the API server
/// refused), it is repeated: for the same pod, so still only once.
fn repeat<'p>(
    draft: &mut NodeDraft<'_>,
    daemon_set: &ObservedDaemonSet,
    mut pods: impl Iterator<Item = &'p ObservedPod>,
    plugin: ReplacedPodKind,
) -> Option<StalePlugin> {
    let replaced = &draft.memory.record.as_ref()?.replaced;
    let recorded = |pod: &&ObservedPod| {
        !pod.deleting
            && pod.owner.as_ref() == Some(&daemon_set.uid)
            && replaced.contains_key(&pod.uid)
    };
    let pod = pods.find(recorded)?;
    let before = &replaced[&pod.uid];
    let stale =
        StalePlugin::new(plugin, pod, daemon_set, &before.under, before.cause.clone(), true);
    delete(draft, &stale);
    Some(stale)
}

/// Deletes the pod, unless the deletion was just requested, or must be retried later.
pub(in crate::decide) fn delete(draft: &mut NodeDraft<'_>, stale: &StalePlugin) {
    let tried_again = refused_node::tried_again(draft).is_some();
    if !tried_again && !draft.is_just_requested(&stale.uid) {
        let deletion = stale.deletion(&draft.node.name);
        draft.effects.replacements.push(deletion);
    }
}

/// Records that the replacement of a pod serves.
fn is_back(draft: &mut NodeDraft<'_>, daemon_set: &ObservedDaemonSet, serving: &ObservedPod) {
    let now = draft.now();
    let comes_back = |uid: &String, replacement: &PluginReplacement| {
        replacement.back_at.is_none()
            && replacement.daemon_set == daemon_set.uid
            && *uid != serving.uid
    };
    let Some(record) = &mut draft.memory.record else { return };
    if record.replaced.iter().any(|(uid, replacement)| comes_back(uid, replacement)) {
        for (uid, replacement) in &mut Arc::make_mut(record).replaced {
            if comes_back(uid, replacement) {
                replacement.back_at = Some(now);
            }
        }
    }
}
