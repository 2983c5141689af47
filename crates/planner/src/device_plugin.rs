//! Device plugin, GPU feature discovery and MPS daemon: their DaemonSets, the configuration of each
//! node, and whether a pod is older than its configuration or driver. They read their configuration
//! only at their start, so an edit of the ConfigMap has no effect on running pods.

use std::collections::BTreeMap;

use jiff::Timestamp;

use contract::names;
use contract::record::RecordedPluginConfig;
use contract::settings::{ConfigFallback, DevicePluginSettings};

use super::node::{PluginBase, clock_lead};
use super::spec::carries_labels;
use observed::{
    ClusterPolicy, Observed, ObservedConfigMap, ObservedDaemonSet, ObservedNode, ObservedPod,
    Views, newest,
};

/// The device plugin of a cluster.
#[derive(Debug)]
pub struct DevicePlugins<'a> {
    settings: &'a DevicePluginSettings,
    config: Option<&'a ObservedConfigMap>,
    policy: Option<&'a ClusterPolicy>,
    daemon_sets: Vec<&'a ObservedDaemonSet>,
    newest: BTreeMap<&'a str, &'a str>,
    pods: &'a Views<ObservedPod>,
}

/// The configuration that a node uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePluginConfig<'a> {
    /// The configuration with this key.
    Key(&'a str),
    /// A configuration that the ConfigMap does not contain: a pod that starts with it never becomes
    /// ready.
    Missing(&'a str),
    /// No configuration: the plugin's own defaults apply.
    None,
}

/// A reason to restart a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalePluginPod {
    /// Identity of the configuration or driver that the pod is older than; each identity causes at
    /// most one restart.
    pub under: String,
    /// The reason as a message.
    pub cause: String,
    /// When the configuration changed. `None`: when driver and toolkit became ready, as far as the
    /// hook has observed.
    pub since: Option<Timestamp>,
}

impl<'a> DevicePlugins<'a> {
    /// Finds the DaemonSets: those that mount the ConfigMap, and those of the stand-alone chart in
    /// the release of the settings. The DaemonSets of the stand-alone chart share selector and
    /// labels, and their names depend on the release, so they are recognized by their containers.
    pub fn new(observed: &'a Observed, settings: &'a DevicePluginSettings) -> Self {
        let seen = &observed.device_plugin;
        let of_interest = |daemon_set: &&ObservedDaemonSet| {
            is_known(daemon_set)
                && (uses_config(daemon_set, settings) || stands_alone(daemon_set))
                && !is_of_another_release(daemon_set, settings)
        };
        let daemon_sets: Vec<&ObservedDaemonSet> =
            seen.daemon_sets.iter().filter(|one| !one.deleting).filter(of_interest).collect();
        let policy = observed.live_cluster_policy();
        Self {
            settings,
            config: seen.config.as_ref(),
            policy,
            daemon_sets,
            newest: newest(&seen.revisions),
            pods: &seen.pods,
        }
    }

    /// Returns the ConfigMap, if it exists.
    pub fn config(&self) -> Option<&'a ObservedConfigMap> {
        self.config
    }

    /// Returns the DaemonSets.
    pub fn daemon_sets(&self) -> impl Iterator<Item = &'a ObservedDaemonSet> {
        self.daemon_sets.iter().copied()
    }

    /// Returns whether any of the DaemonSets mounts the ConfigMap.
    pub fn use_config(&self) -> bool {
        self.daemon_sets().any(|daemon_set| uses_config(daemon_set, self.settings))
    }

    /// Returns all pods of the DaemonSets on a node.
    pub fn pods_on(&self, node: &ObservedNode) -> impl Iterator<Item = &'a ObservedPod> {
        let owned = |pod: &&ObservedPod| {
            self.daemon_sets.iter().any(|daemon_set| pod.owner.as_ref() == Some(&daemon_set.uid))
        };
        self.pods.on(&node.name).filter(owned)
    }

    /// Returns the pod of one DaemonSet on a node. While a pod is being replaced, there are two;
    /// the one that stays is returned.
    pub fn pod(
        &self,
        node: &ObservedNode,
        daemon_set: &ObservedDaemonSet,
    ) -> Option<&'a ObservedPod> {
        let owned = |pod: &&ObservedPod| pod.owner.as_ref() == Some(&daemon_set.uid);
        self.pods.on(&node.name).filter(owned).max_by_key(|pod| (!pod.deleting, pod.created))
    }

    /// Returns whether the DaemonSet replaces the pod itself, because its template has changed or
    /// may be about to change: its controller, or the operator that owns it, has not yet processed
    /// the newest spec.
    pub fn is_rolled(&self, pod: &ObservedPod, daemon_set: &ObservedDaemonSet) -> bool {
        let changes = self.policy.is_some_and(|policy| {
            daemon_set.owner.as_ref() == Some(&policy.uid) && !carries_labels(daemon_set, policy)
        });
        let newest = self.newest.get(daemon_set.uid.as_str());
        changes
            || !daemon_set.on_delete
                && (!daemon_set.observed
                    || newest.is_none_or(|newest| pod.revision.as_deref() != Some(*newest)))
    }

    /// Returns the configuration of the node, by the rules of config-manager (k8s-device-plugin
    /// `cmd/config-manager`).
    pub fn choice<'b>(&'b self, node: &'b ObservedNode) -> NodePluginConfig<'b> {
        let Some(config) = self.config else { return NodePluginConfig::None };
        let named = |key: &'b str| {
            if config.digests.contains_key(key) {
                NodePluginConfig::Key(key)
            } else {
                NodePluginConfig::Missing(key)
            }
        };
        if let Some(label) =
            node.labels.get(names::DEVICE_PLUGIN_CONFIG_LABEL).filter(|label| !label.is_empty())
        {
            return named(label);
        }
        if let Some(default) = &self.settings.default {
            return named(default);
        }
        for fallback in &self.settings.fallbacks {
            match fallback {
                ConfigFallback::Named if config.digests.contains_key("default") => {
                    return NodePluginConfig::Key("default");
                }
                ConfigFallback::Single if config.digests.len() == 1 => {
                    return config
                        .digests
                        .keys()
                        .next()
                        .map_or(NodePluginConfig::None, |key| NodePluginConfig::Key(key));
                }
                ConfigFallback::Empty => return NodePluginConfig::None,
                ConfigFallback::Named | ConfigFallback::Single => {}
            }
        }
        NodePluginConfig::None
    }

    /// Returns the reasons for which a pod is stale, each once: its configuration or its driver
    /// changed after it started. The GPU Operator restarts its own pods when their driver changes.
    pub fn staleness(
        &self,
        node: &ObservedNode,
        pod: &ObservedPod,
        daemon_set: &ObservedDaemonSet,
        base: Option<&PluginBase>,
        configs: &BTreeMap<String, RecordedPluginConfig>,
    ) -> Vec<StalePluginPod> {
        // The container with the earliest start decides; a pod without running containers has not
        // read anything yet.
        let Some(started) = pod.containers.iter().filter_map(|container| container.started).min()
        else {
            return Vec::new();
        };
        let mut reasons = Vec::new();
        // The start time of the container is from the node's clock, the time of the configuration
        // from the API server's: assume the earliest possible start.
        let leads = self
            .pods
            .on(&node.name)
            .filter_map(clock_lead)
            .chain(base.and_then(|base| base.clock_lead));
        let by_server = started.saturating_sub(leads.min().unwrap_or_default()).unwrap_or(started);
        // Times have a resolution of one second: equal times count as stale.
        if uses_config(daemon_set, self.settings)
            && let NodePluginConfig::Key(key) = self.choice(node)
            && let Some(config) = configs
                .get(key)
                .filter(|config| pod.created <= config.since && by_server <= config.since)
        {
            reasons.push(StalePluginPod {
                under: format!("config:{}", config.digest),
                cause: format!("its container started at {started:.0}, its configuration `{key}` dates from {:.0}", config.since),
                since: Some(config.since),
            });
        }
        if stands_alone(daemon_set)
            && let Some(base) = base
        {
            let older = base.served_since.filter(|since| started <= *since);
            let older = older.map(|since| {
                format!("its container started at {started:.0}, its driver was ready at {since:.0}")
            });
            if let Some(cause) = older.or_else(|| base.replaced_under(pod)) {
                reasons.push(StalePluginPod {
                    under: format!("driver:{}", base.identity),
                    cause,
                    since: None,
                });
            }
        }
        reasons
    }
}

fn uses_config(daemon_set: &ObservedDaemonSet, settings: &DevicePluginSettings) -> bool {
    settings.config_map.as_ref().is_some_and(|name| daemon_set.config_maps.contains(name))
}

/// Returns whether it is device plugin, GPU feature discovery or MPS daemon. Other DaemonSets may
/// mount the ConfigMap too, and the hook must not restart them.
fn is_known(daemon_set: &ObservedDaemonSet) -> bool {
    names::DEVICE_PLUGIN_CONTAINERS
        .iter()
        .any(|container| daemon_set.images.contains_key(*container))
}

/// Returns whether a chart created it in another release than the settings name: that release has
/// its own hook, or intentionally none.
fn is_of_another_release(daemon_set: &ObservedDaemonSet, settings: &DevicePluginSettings) -> bool {
    let instance = daemon_set.template_labels.get(names::HELM_INSTANCE_LABEL);
    stands_alone(daemon_set)
        && settings.release.as_ref().is_some_and(|release| instance != Some(release))
}

/// Returns whether a chart created it, and not the operator.
fn stands_alone(daemon_set: &ObservedDaemonSet) -> bool {
    daemon_set.owner.is_none()
}
