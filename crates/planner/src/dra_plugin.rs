//! The DRA kubelet plugin: its DaemonSets, and its status on each node.

use contract::names;
use contract::settings::Reroll;

use super::dra_staleness::{outdated_slice, staleness};
use super::node::PluginBase;
use super::pods::listed;
use super::reason::Reason;
use observed::selects;
use observed::{Observed, ObservedDaemonSet, ObservedNode, ObservedPod, ObservedSlice, Views};

/// The DRA driver of a cluster.
#[derive(Debug)]
pub struct DraPlugins<'a> {
    daemon_sets: Vec<&'a ObservedDaemonSet>,
    pods: &'a Views<ObservedPod>,
    slices: Option<&'a Views<ObservedSlice>>,
}

/// The status of one DaemonSet's plugin on a node.
#[derive(Debug)]
pub enum DraPluginStatus<'a> {
    /// It serves the loaded driver.
    Serving(&'a ObservedPod),
    /// It is stale, and can be replaced.
    Stale {
        /// The pod.
        pod: &'a ObservedPod,
        /// Its DaemonSet.
        daemon_set: &'a ObservedDaemonSet,
        /// The reason.
        cause: String,
    },
    /// It does not serve, or not yet.
    Waiting(Reason),
}

impl<'a> DraPlugins<'a> {
    /// Finds the plugin's DaemonSets by their containers, because their names differ between
    /// releases.
    pub fn new(observed: &'a Observed) -> Self {
        let is_plugin = |daemon_set: &&ObservedDaemonSet| {
            names::DRA_CONTAINERS
                .iter()
                .any(|(container, _)| daemon_set.images.contains_key(*container))
        };
        let daemon_sets: Vec<&ObservedDaemonSet> = observed
            .dra
            .daemon_sets
            .iter()
            .filter(is_plugin)
            .filter(|daemon_set| !daemon_set.deleting)
            .collect();
        Self { daemon_sets, pods: &observed.dra.pods, slices: observed.dra.slices.served() }
    }

    /// Returns whether there is no DRA driver.
    pub fn is_empty(&self) -> bool {
        self.daemon_sets.is_empty()
    }

    /// Returns all plugin pods on a node.
    pub fn pods_on(&self, node: &ObservedNode) -> impl Iterator<Item = &'a ObservedPod> {
        let owned = |pod: &&ObservedPod| {
            self.daemon_sets.iter().any(|daemon_set| pod.owner.as_ref() == Some(&daemon_set.uid))
        };
        self.pods.on(&node.name).filter(owned)
    }

    /// Returns the plugin's DaemonSets.
    pub fn daemon_sets(&self) -> impl Iterator<Item = &'a ObservedDaemonSet> {
        self.daemon_sets.iter().copied()
    }

    /// Returns the status of one DaemonSet's plugin on the node; `None` if it has no pod there, and
    /// no node selector that matches the node. `base`: the driver and toolkit that the plugin uses;
    /// `replaced`: whether the plugin was already replaced for this base, so that its age no longer
    /// counts.
    pub fn on_node(
        &self,
        node: &ObservedNode,
        daemon_set: &'a ObservedDaemonSet,
        base: &PluginBase,
        replaced: bool,
        reroll: Reroll,
        outdated: bool,
    ) -> Option<DraPluginStatus<'a>> {
        let Some(pod) = self.pod(node, daemon_set) else {
            // Affinity is not evaluated here: a DaemonSet with fewer pods than its selector matches
            // has its reasons, and the run record remembers the nodes on which it had a pod.
            return (!daemon_set.node_selector.is_empty()
                && selects(&daemon_set.node_selector, &node.labels))
            .then_some(DraPluginStatus::Waiting(Reason::PluginMissing));
        };
        if pod.deleting {
            return Some(DraPluginStatus::Waiting(Reason::PluginNotReady {
                trouble: Some("terminating".to_owned()),
            }));
        }
        if let Some(message) = &pod.unschedulable {
            return Some(DraPluginStatus::Waiting(Reason::PluginUnschedulable {
                message: message.clone(),
            }));
        }
        let slices = self.slices_of(node, daemon_set);
        if !replaced && let Some(cause) = staleness(pod, base, &slices, outdated) {
            let cause = with_taints(cause, &slices);
            return Some(match reroll {
                Reroll::Auto => DraPluginStatus::Stale { pod, daemon_set, cause },
                Reroll::Off => DraPluginStatus::Waiting(Reason::PluginStale { cause }),
            });
        }
        Some(
            self.serving(pod, daemon_set, node, base, &slices)
                .map_or_else(DraPluginStatus::Waiting, |()| DraPluginStatus::Serving(pod)),
        )
    }

    /// Returns the DaemonSet's pod on the node, and whether it is ready and publishes another
    /// driver version than the loaded one.
    pub fn publishes_outdated(
        &self,
        node: &ObservedNode,
        daemon_set: &ObservedDaemonSet,
        base: &PluginBase,
    ) -> Option<(&'a ObservedPod, bool)> {
        let pod = self.pod(node, daemon_set).filter(|pod| !pod.deleting)?;
        Some((pod, pod.ready && outdated_slice(base, &self.slices_of(node, daemon_set)).is_some()))
    }

    /// Returns the DaemonSet's pod on the node; while a pod is being replaced, the one that stays.
    fn pod(&self, node: &ObservedNode, daemon_set: &ObservedDaemonSet) -> Option<&'a ObservedPod> {
        let of_daemon_set = |pod: &&ObservedPod| pod.owner.as_ref() == Some(&daemon_set.uid);
        self.pods
            .on(&node.name)
            .filter(of_daemon_set)
            .max_by_key(|pod| (!pod.deleting, pod.created))
    }

    /// Ready, and the node's devices are published with the loaded version.
    fn serving(
        &self,
        pod: &ObservedPod,
        daemon_set: &ObservedDaemonSet,
        node: &ObservedNode,
        base: &PluginBase,
        slices: &[&ObservedSlice],
    ) -> Result<(), Reason> {
        if !(pod.running && pod.ready) {
            return Err(Reason::PluginNotReady { trouble: pod.trouble.clone() });
        }
        for driver in published_drivers(daemon_set) {
            let published = slices.iter().any(|slice| slice.driver == driver && slice.devices > 0);
            // A server without the API shows none at all: nothing to hold against the plugin.
            if !published && self.slices.is_some() {
                return Err(Reason::SliceMissing { driver: driver.to_owned() });
            }
        }
        match outdated_slice(base, slices) {
            Some((published, loaded)) => Err(Reason::SliceOutdated {
                published: published.to_string(),
                loaded: loaded.to_string(),
            }),
            None => Ok(()),
        }
        .map_err(|reason| {
            if node.ready { reason } else { Reason::NodeNotReady { since: node.ready_since } }
        })
    }

    fn slices_of(
        &self,
        node: &ObservedNode,
        daemon_set: &ObservedDaemonSet,
    ) -> Vec<&'a ObservedSlice> {
        let published = |slice: &&ObservedSlice| {
            published_drivers(daemon_set).any(|driver| driver == slice.driver)
        };
        self.slices.into_iter().flat_map(|slices| slices.on(&node.name)).filter(published).collect()
    }
}

/// A plugin that restarts publishes its devices without the taints that the old one had put on
/// them: what they said goes into the record.
fn with_taints(cause: String, slices: &[&ObservedSlice]) -> String {
    let taints: Vec<String> = slices.iter().flat_map(|slice| &slice.taints).cloned().collect();
    if taints.is_empty() {
        cause
    } else {
        format!("{cause}; device taints that are lost with it: {}", listed(&taints))
    }
}

fn published_drivers(daemon_set: &ObservedDaemonSet) -> impl Iterator<Item = &'static str> {
    names::DRA_CONTAINERS
        .iter()
        .filter(|(container, _)| daemon_set.images.contains_key(*container))
        .map(|(_, driver)| *driver)
}
