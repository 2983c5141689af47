//! The DRA kubelet plugins and the pods of device plugin, GPU feature discovery and MPS daemon of one node: what it waits for, and which of them
//! are stale. Which of the stale ones are replaced now is a matter of the whole fleet ([`crate::decide::schedule::replacements`]).

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
use crate::decide::others::paused;
use crate::decide::refused_writes;

/// Seconds that driver and toolkit must have been seen ready before their plugin is replaced: container times have a grain of one second, so
/// a replacement that starts right away could tie with what it serves and seem stale permanently. Both times are of the node's own clock, and
/// what is seen to be ready has been so before: what starts a whole second later has a later time.
const READY_SECONDS: u64 = 1;

/// What a node needs of one DaemonSet of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::decide) enum PluginNeed {
    /// It waits.
    Waits(Reason),
    /// Its pod is stale, and is replaced when there is room for that.
    Stale(StalePlugin),
}

/// A pod that is to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::decide) struct StalePlugin {
    pub(in crate::decide) plugin: ReplacedPodKind,
    pub(in crate::decide) namespace: String,
    pub(in crate::decide) pod: String,
    pub(in crate::decide) uid: String,
    /// UID of its DaemonSet.
    pub(in crate::decide) daemon_set: String,
    /// The name of that.
    pub(in crate::decide) name: String,
    /// What it is behind; at most one replacement for each.
    pub(in crate::decide) under: String,
    /// Why it is stale.
    pub(in crate::decide) cause: String,
    /// What it serves has been ready for long enough.
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

    /// What the node waits for once its pod is being replaced.
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

    /// The same while others are away.
    pub(in crate::decide) fn queued(&self, away: usize, limit: usize) -> Reason {
        let cause = self.cause.clone();
        match self.plugin {
            ReplacedPodKind::Dra => Reason::PluginQueued { cause, away, limit },
            ReplacedPodKind::Device => Reason::RestartQueued { cause, away, limit },
        }
    }

    /// The same when all that may be away have failed.
    pub(in crate::decide) fn held_up(&self, failed: usize) -> Reason {
        let cause = self.cause.clone();
        match self.plugin {
            ReplacedPodKind::Dra => Reason::PluginHeldUp { cause, failed },
            ReplacedPodKind::Device => Reason::RestartHeldUp { cause, failed },
        }
    }

    /// Its deletion.
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

/// What the node needs of its DRA kubelet plugins, one after the other.
pub(in crate::decide) fn dra(draft: &mut NodeDraft<'_>, base: &PluginBase) -> Vec<PluginNeed> {
    let (fleet, settings) = (draft.fleet, draft.settings());
    if !fleet.has(Task::Reroll) {
        return Vec::new();
    }
    let plugins = &fleet.plugins;
    let ready_since = draft.memory.ready_since(&base.identity, fleet.now);
    let mut needs = Vec::new();
    let mut found = false;
    for daemon_set in plugins.daemon_sets() {
        let replaced = was_replaced(draft, daemon_set, &base.identity);
        if replaced
            && let Some(stale) =
                repeat(draft, daemon_set, plugins.pods_on(draft.node), ReplacedPodKind::Dra)
        {
            needs.push(PluginNeed::Waits(stale.being_replaced()));
            found = true;
            continue;
        }
        let outdated = plugins.publishes_outdated(draft.node, daemon_set, base).is_some_and(
            |(pod, outdated)| {
                let since = draft.memory.outdated_since(&pod.uid, outdated, fleet.now);
                since.is_some_and(|since| draft.alarm.passed(since, PUBLISH_SECONDS))
            },
        );
        let Some(status) =
            plugins.on_node(draft.node, daemon_set, base, replaced, settings.dra.reroll, outdated)
        else {
            // A DaemonSet without a node selector that had a pod here is to bring another one.
            if is_away(draft, daemon_set) {
                needs.push(PluginNeed::Waits(Reason::PluginMissing));
            }
            continue;
        };
        found = true;
        match status {
            DraPluginStatus::Serving(pod) => is_back(draft, daemon_set, pod),
            DraPluginStatus::Stale { .. }
                if let Some(refused) = refused_writes::keeps_its_pods(draft) =>
            {
                needs.push(PluginNeed::Waits(refused));
            }
            DraPluginStatus::Stale { pod, daemon_set, cause } => {
                let ready = draft.alarm.passed(ready_since, READY_SECONDS);
                needs.push(PluginNeed::Stale(StalePlugin::new(
                    ReplacedPodKind::Dra,
                    pod,
                    daemon_set,
                    &base.identity,
                    cause,
                    ready,
                )));
            }
            DraPluginStatus::Waiting(reason) => needs.push(PluginNeed::Waits(reason)),
        }
    }
    if !found && needs.is_empty() && settings.dra.required == DraRequired::True {
        needs.push(PluginNeed::Waits(Reason::PluginMissing));
    }
    needs
}

/// What the node needs of the pods of its device plugin, one after the other. What was not restarted by us is not waited for either.
pub(in crate::decide) fn device(
    draft: &mut NodeDraft<'_>,
    base: Option<&PluginBase>,
) -> Vec<PluginNeed> {
    let (fleet, node) = (draft.fleet, draft.node);
    let devices = &fleet.devices;
    // A restart would leave the node without its GPUs. What was restarted before is still waited for.
    let restarts = missing_config(draft).is_none();
    let ready_since = base.map(|base| draft.memory.ready_since(&base.identity, fleet.now));
    let mut needs = Vec::new();
    for daemon_set in devices.daemon_sets() {
        let away = is_away(draft, daemon_set);
        let Some(pod) = devices.pod(node, daemon_set).filter(|pod| !pod.deleting) else {
            if away {
                needs.push(PluginNeed::Waits(pending(daemon_set, None, "there is no pod yet")));
            }
            continue;
        };
        let reasons = devices.staleness(node, pod, daemon_set, base, &fleet.memory.configs);
        let (recorded, mut reasons): (Vec<StalePluginPod>, Vec<StalePluginPod>) =
            reasons.into_iter().partition(|stale| was_replaced(draft, daemon_set, &stale.under));
        if !recorded.is_empty()
            && let Some(stale) =
                repeat(draft, daemon_set, devices.pods_on(node), ReplacedPodKind::Device)
        {
            needs.push(PluginNeed::Waits(stale.being_replaced()));
            continue;
        }
        let need = match reasons.pop().filter(|_| restarts) {
            Some(_) if devices.is_rolled(pod, daemon_set) => {
                Some(PluginNeed::Waits(Reason::RestartRolling {
                    daemon_set: daemon_set.name.clone(),
                }))
            }
            Some(_) if let Some(refused) = refused_writes::keeps_its_pods(draft) => {
                Some(PluginNeed::Waits(refused))
            }
            Some(_) if !node.ready => {
                Some(PluginNeed::Waits(Reason::NodeNotReady { since: node.ready_since }))
            }
            // One that is older than its driver serves what is gone: that is mended also while nothing new is begun.
            Some(stale)
                if base.is_none_or(|base| stale.under != base.identity)
                    && let Some(reason) = paused(fleet.observed, node) =>
            {
                Some(PluginNeed::Waits(reason))
            }
            Some(stale) => {
                let ready = stale
                    .since
                    .or(ready_since)
                    .is_none_or(|since| draft.alarm.passed(since, READY_SECONDS));
                let stale = StalePlugin::new(
                    ReplacedPodKind::Device,
                    pod,
                    daemon_set,
                    &stale.under,
                    stale.cause,
                    ready,
                );
                Some(PluginNeed::Stale(stale))
            }
            None if !away => None,
            None => returned(draft, daemon_set, pod).map(PluginNeed::Waits),
        };
        needs.extend(need);
    }
    needs
}

/// The key of the configuration that the node asks for and the ConfigMap does not have.
pub(in crate::decide) fn missing_config<'a>(draft: &NodeDraft<'a>) -> Option<&'a str> {
    match draft.fleet.devices.choice(draft.node) {
        NodePluginConfig::Missing(key) => Some(key),
        NodePluginConfig::Key(_) | NodePluginConfig::None => None,
    }
}

/// Whether the pod in place of a restarted one is ready again.
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

/// Whether a plugin of this DaemonSet was replaced on the node for being behind this very thing.
fn was_replaced(draft: &NodeDraft<'_>, daemon_set: &ObservedDaemonSet, under: &str) -> bool {
    let same = |replacement: &PluginReplacement| {
        replacement.under == under && replacement.daemon_set == daemon_set.uid
    };
    draft.record().is_some_and(|record| record.replaced.values().any(same))
}

/// Whether a plugin of this DaemonSet that was replaced on the node is not back.
fn is_away(draft: &NodeDraft<'_>, daemon_set: &ObservedDaemonSet) -> bool {
    let away = |replacement: &PluginReplacement| {
        replacement.back_at.is_none() && replacement.daemon_set == daemon_set.uid
    };
    draft.record().is_some_and(|record| record.replaced.values().any(away))
}

/// The pod whose replacement is recorded, if it is still there and not being deleted. If its deletion was lost (the process ended between record and
/// deletion, or the API server refused), it is done again: the same pod, so still only once.
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

/// Deletes the pod, unless that was asked for just now, or is to be tried again later.
pub(in crate::decide) fn delete(draft: &mut NodeDraft<'_>, stale: &StalePlugin) {
    let tried_again = refused_writes::tried_again(draft).is_some();
    if !tried_again && !draft.is_being_deleted(&stale.uid) {
        let deletion = stale.deletion(&draft.node.name);
        draft.effects.replacements.push(deletion);
    }
}

/// The pod in place of a replaced one serves.
fn is_back(draft: &mut NodeDraft<'_>, daemon_set: &ObservedDaemonSet, serving: &ObservedPod) {
    let now = draft.now();
    let comes_back = |uid: &String, replacement: &PluginReplacement| {
        replacement.back_at.is_none()
            && replacement.daemon_set == daemon_set.uid
            && *uid != serving.uid
    };
    for (uid, replacement) in draft.memory.record.iter_mut().flat_map(|record| &mut record.replaced)
    {
        if comes_back(uid, replacement) {
            replacement.back_at = Some(now);
        }
    }
}
