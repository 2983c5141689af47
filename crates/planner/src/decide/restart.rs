//! Which pods of device plugin, GPU feature discovery and MPS daemon are restarted now: those that are older than their configuration (or,
//! stand-alone, than their driver), all of a node together, a few nodes at a time.

use std::collections::BTreeMap;

use crate::device_plugin::{DevicePlugins, NodePluginConfig, StalePluginPod};
use crate::node::PluginBase;
use crate::note::DecisionNote;
use crate::reason::Reason;
use contract::record::{RecordedPluginConfig, ReplacedPodKind};
use contract::task::Task;
use observed::{ObservedConfigMap, ObservedDaemonSet, ObservedNode, ObservedPod};

use super::Deciding;
use super::replace::{READY_SECONDS, ReplacementRoom};

impl Deciding<'_> {
    /// The configurations must be those of the values before anything is restarted. Notes since when each one is as it is.
    pub(super) fn configs(&mut self, devices: &DevicePlugins<'_>) -> Option<Reason> {
        if !self.settings.has(Task::RestartPlugins) {
            return None;
        }
        let Some(name) = &self.settings.device_plugin.config_map else {
            self.notes.push(DecisionNote::NoConfigNamed);
            return None;
        };
        let Some(config) = devices.config() else {
            // A name that is left over from a device plugin that is switched off. GPU feature discovery uses the ConfigMap too.
            if !devices.use_config() && self.passed(self.memory.started_at, self.settings.grace_seconds) {
                self.notes.push(DecisionNote::ConfigNotUsed { config_map: name.clone() });
                return None;
            }
            return Some(Reason::ConfigMissing { config_map: name.clone(), namespace: self.settings.device_plugin.namespace.clone() });
        };
        let expected = self.settings.device_plugin.digests.iter().flatten();
        if let Some((key, _)) = expected.into_iter().find(|(key, digest)| config.digests.get(*key) != Some(digest)) {
            return Some(Reason::ConfigNotApplied {
                config_map: name.clone(),
                key: key.clone(),
                found: if config.digests.contains_key(key) { "another text" } else { "nothing" },
            });
        }
        if !devices.use_config() {
            let namespace = self.settings.device_plugin.namespace.clone();
            self.notes.push(DecisionNote::ConfigWithoutDaemonSet { config_map: name.clone(), namespace });
        }
        self.memory.configs = self.seen(config);
        None
    }

    /// Since when each configuration is as it is. A text that was seen before is no newer than then; a new one changed when the
    /// ConfigMap did, or, if the server tells no time that fits, just now.
    fn seen(&self, config: &ObservedConfigMap) -> BTreeMap<String, RecordedPluginConfig> {
        let since = |key: &String, digest: &String| match self.memory.configs.get(key) {
            Some(before) if before.digest == *digest => before.since,
            Some(before) => config.changed.filter(|changed| *changed > before.since).unwrap_or(self.now),
            None => config.changed.unwrap_or(config.created),
        };
        config
            .digests
            .iter()
            .map(|(key, digest)| (key.clone(), RecordedPluginConfig { digest: digest.clone(), since: since(key, digest) }))
            .collect()
    }

    /// On how many nodes pods may be away at once.
    pub(super) fn restart_limit(&self, nodes: usize) -> usize {
        self.settings.device_plugin.max_unavailable.resolve(nodes).max(1)
    }

    /// The pods of one node: restarts what is stale, and answers what the node still waits for. What was not restarted by us is not
    /// waited for either.
    pub(super) fn restarts(
        &mut self,
        node: &ObservedNode,
        base: Option<&PluginBase>,
        devices: &DevicePlugins<'_>,
        limit: usize,
    ) -> Option<Reason> {
        let choice = devices.choice(node);
        if let NodePluginConfig::Missing(key) = choice {
            // A restart would leave the node without its GPUs. What was restarted before is still waited for.
            self.judge_again(node);
            self.unconfigured.push((node.name.clone(), key.to_owned()));
        }
        let restarts = !matches!(choice, NodePluginConfig::Missing(_));
        let ready_since = base.map(|base| self.memory.ready_since(&node.name, &base.identity, self.now));
        let mut waits = None;
        for daemon_set in devices.daemon_sets() {
            let away = self.is_away(node, daemon_set);
            let Some(pod) = devices.pod(node, daemon_set).filter(|pod| !pod.deleting) else {
                if away {
                    waits = waits.or(Some(pending(daemon_set, None, "there is no pod yet")));
                }
                continue;
            };
            let reasons = devices.staleness(node, pod, daemon_set, base, &self.memory.configs);
            let (recorded, mut reasons): (Vec<StalePluginPod>, Vec<StalePluginPod>) =
                reasons.into_iter().partition(|stale| self.was_replaced(node, daemon_set, &stale.under));
            if !recorded.is_empty() && self.repeat(node, daemon_set, devices.pods_on(node), ReplacedPodKind::Device) {
                waits = waits.or(Some(pending(daemon_set, None, "being restarted")));
                continue;
            }
            let reason = match reasons.pop().filter(|_| restarts) {
                Some(_) if devices.is_rolled(pod, daemon_set) => Some(Reason::RestartRolling { daemon_set: daemon_set.name.clone() }),
                Some(_) if let Some(refused) = self.keeps_its_pods(node) => Some(refused),
                Some(_) if !node.ready => Some(Reason::NodeNotReady { since: node.ready_since }),
                // One that is older than its driver serves what is gone: that is mended also while nothing new is begun.
                Some(stale) if base.is_none_or(|base| stale.under != base.identity) && self.paused(node).is_some() => self.paused(node),
                Some(stale) => {
                    // Its turn depends on the others, and what it waits for names how many are away.
                    self.judge_again(node);
                    let ready = stale.since.or(ready_since).is_none_or(|since| self.passed(since, READY_SECONDS));
                    let room = if ready { self.room(node, limit) } else { ReplacementRoom::Queued };
                    Some(match room {
                        ReplacementRoom::Free => {
                            self.replace(node, &stale.under, pod, daemon_set, stale.cause, ReplacedPodKind::Device);
                            pending(daemon_set, None, "being restarted")
                        }
                        ReplacementRoom::Queued => Reason::RestartQueued { cause: stale.cause, away: self.away, limit },
                        ReplacementRoom::Never => Reason::RestartHeldUp { cause: stale.cause, failed: self.away_for_good },
                    })
                }
                None if !away => None,
                None => self.returned(node, daemon_set, pod),
            };
            waits = waits.or(reason);
        }
        waits
    }

    /// Says which nodes were left alone because their configuration is not there.
    pub(super) fn note_unconfigured(&mut self) {
        if !self.unconfigured.is_empty() {
            let nodes = std::mem::take(&mut self.unconfigured);
            self.notes.push(DecisionNote::ConfigKeyMissing { nodes });
        }
    }

    /// Whether the pod in place of a restarted one is ready again.
    fn returned(&mut self, node: &ObservedNode, daemon_set: &ObservedDaemonSet, pod: &ObservedPod) -> Option<Reason> {
        if !(pod.running && pod.ready) {
            let trouble = pod.unschedulable.clone().or_else(|| pod.trouble.clone());
            return Some(if node.ready {
                pending(daemon_set, trouble, "not ready")
            } else {
                Reason::NodeNotReady { since: node.ready_since }
            });
        }
        self.back(node, daemon_set, pod);
        None
    }
}

fn pending(daemon_set: &ObservedDaemonSet, trouble: Option<String>, state: &str) -> Reason {
    Reason::RestartPending { daemon_set: daemon_set.name.clone(), trouble: trouble.unwrap_or_else(|| state.to_owned()) }
}
