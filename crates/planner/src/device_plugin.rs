//! Device plugin, GPU feature discovery and MPS daemon: which DaemonSets they are, which configuration a node uses, and whether a pod is
//! older than what it runs with. They read their configuration once, when they start; an edit of the ConfigMap reaches no running pod.

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

/// Which configuration a node uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePluginConfig<'a> {
    /// The one with this key.
    Key(&'a str),
    /// One that the ConfigMap does not have: a pod that starts with it never gets ready.
    Missing(&'a str),
    /// None: the plugin's own defaults.
    None,
}

/// Why a pod is to be restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalePluginPod {
    /// What it is behind; at most one restart for each.
    pub under: String,
    /// The same for people.
    pub cause: String,
    /// When that changed. `None`: when driver and toolkit became ready, as far as we have seen.
    pub since: Option<Timestamp>,
}

impl<'a> DevicePlugins<'a> {
    /// Finds the DaemonSets: those that mount the ConfigMap, and those of the stand-alone chart, as far as the settings' release brings
    /// them. The latter share selector and labels, and their names follow the release, so containers tell what all of them are.
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

    /// The ConfigMap, if it is there.
    pub fn config(&self) -> Option<&'a ObservedConfigMap> {
        self.config
    }

    /// The DaemonSets.
    pub fn daemon_sets(&self) -> impl Iterator<Item = &'a ObservedDaemonSet> {
        self.daemon_sets.iter().copied()
    }

    /// Whether any of them mounts the ConfigMap.
    pub fn use_config(&self) -> bool {
        self.daemon_sets().any(|daemon_set| uses_config(daemon_set, self.settings))
    }

    /// All their pods on a node.
    pub fn pods_on(&self, node: &ObservedNode) -> impl Iterator<Item = &'a ObservedPod> {
        let owned = |pod: &&ObservedPod| {
            self.daemon_sets.iter().any(|daemon_set| pod.owner.as_ref() == Some(&daemon_set.uid))
        };
        self.pods.on(&node.name).filter(owned)
    }

    /// The pod of one DaemonSet on a node: while it is replaced two stand there, and the one that stays counts.
    pub fn pod(
        &self,
        node: &ObservedNode,
        daemon_set: &ObservedDaemonSet,
    ) -> Option<&'a ObservedPod> {
        let owned = |pod: &&ObservedPod| pod.owner.as_ref() == Some(&daemon_set.uid);
        self.pods.on(&node.name).filter(owned).max_by_key(|pod| (!pod.deleting, pod.created))
    }

    /// Whether the DaemonSet replaces the pod by itself, because its template has changed, or may be about to: its controller, or the
    /// operator that owns it, has yet to look at the newest spec.
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

    /// Which configuration the node uses, by the rules of config-manager (k8s-device-plugin `cmd/config-manager`).
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

    /// Why a pod is stale, each reason once: its configuration changed after it started, or the driver under it did. The GPU operator's
    /// own pods follow their driver without us.
    pub fn staleness(
        &self,
        node: &ObservedNode,
        pod: &ObservedPod,
        daemon_set: &ObservedDaemonSet,
        base: Option<&PluginBase>,
        configs: &BTreeMap<String, RecordedPluginConfig>,
    ) -> Vec<StalePluginPod> {
        // The container that has been running longest decides; a pod without running containers is yet to read anything.
        let Some(started) = pod.containers.iter().filter_map(|container| container.started).min()
        else {
            return Vec::new();
        };
        let mut reasons = Vec::new();
        // The container's time is the node's, the configuration's is the API server's: the start is taken as early as it may have been.
        let leads = self
            .pods
            .on(&node.name)
            .filter_map(clock_lead)
            .chain(base.and_then(|base| base.clock_lead));
        let by_server = started.saturating_sub(leads.min().unwrap_or_default()).unwrap_or(started);
        // Times have a grain of one second: a tie is stale.
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

/// Device plugin, GPU feature discovery or MPS daemon: others may mount the ConfigMap too, and are not ours to restart.
fn is_known(daemon_set: &ObservedDaemonSet) -> bool {
    names::DEVICE_PLUGIN_CONTAINERS
        .iter()
        .any(|container| daemon_set.images.contains_key(*container))
}

/// Whether a chart made it in another release than the settings name: that one has its own hook, or none on purpose.
fn is_of_another_release(daemon_set: &ObservedDaemonSet, settings: &DevicePluginSettings) -> bool {
    let instance = daemon_set.template_labels.get(names::HELM_INSTANCE_LABEL);
    stands_alone(daemon_set)
        && settings.release.as_ref().is_some_and(|release| instance != Some(release))
}

/// Made by a chart and not by the operator.
fn stands_alone(daemon_set: &ObservedDaemonSet) -> bool {
    daemon_set.owner.is_none()
}
