//! Compares what is deployed with what is proposed: which driver pods are replaced, and why.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::image;
use crate::observe::RolloutSnapshot;
use contract::driver::Driver;
use contract::names;
use contract::settings::Mode;
use observed::{NvidiaDriver, ObservedDaemonSet};
use planner::node::{DriverOperands, driver_nodes};
use planner::preflight::leaves_evictions;
use planner::spec::chart::{is_version, version_of};
use planner::spec::driver_daemon_sets;

use super::ProposedDeployment;

/// What a deployment does to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStep {
    /// The driver of the node does not change.
    Unchanged,
    /// The node has no driver yet, so no pod uses one.
    First,
    /// The driver pod is restarted. Pods that use the GPU may stay.
    RestartOnly,
    /// The driver is replaced. Pods that use the GPU must leave.
    Evicting,
}

/// A difference that makes the operator replace driver pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriverChange {
    /// What changes: `driver`, `operator chart` or `mode`.
    pub of: &'static str,
    /// The NVIDIADriver whose nodes are affected; absent: all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvidia_driver: Option<String>,
    /// The current version or mode.
    pub from: String,
    /// The new version or mode.
    pub to: String,
}

/// All differences between what is deployed and what is proposed.
#[derive(Clone, Debug, Default)]
pub(crate) struct DriverChanges {
    /// The most frequent current driver version of the nodes that get a new driver pod.
    pub(crate) from: Option<String>,
    /// The new driver version.
    pub(crate) to: Option<String>,
    /// The differences for the fleet as a whole.
    pub(crate) all: Vec<DriverChange>,
    /// What happens to each node.
    pub(crate) steps: BTreeMap<String, NodeStep>,
}

/// Compares what is deployed with what is proposed.
pub(crate) fn changes(snapshot: &RolloutSnapshot, proposed: &ProposedDeployment) -> DriverChanges {
    let driver = snapshot.settings.driver;
    let operands = DriverOperands::new(&snapshot.observed, driver);
    let daemon_sets = driver_daemon_sets(&snapshot.observed, driver);
    let versions = DriverVersions::new(snapshot, proposed, &daemon_sets);
    let mut all = versions.changes(snapshot, proposed, &daemon_sets);
    // If the template changes for another reason than the driver, the driver's configuration stays
    // the same. The operators mark the configuration with a digest.
    let same_driver = |changes: &[&DriverChange]| {
        changes.iter().all(|change| change.of != DRIVER && change.of != CHART)
    };
    let mut steps = BTreeMap::new();
    let mut versions_now: BTreeMap<String, usize> = BTreeMap::new();
    for node in driver_nodes(&snapshot.observed, driver) {
        let pod = operands.driver_pod(node);
        let concerns = |change: &&DriverChange| {
            change.nvidia_driver.as_deref().is_none_or(|name| node.driver_owner() == Some(name))
        };
        let all: Vec<&DriverChange> = all.iter().filter(concerns).collect();
        let same_driver = same_driver(&all);
        let step = match &pod {
            None => NodeStep::First,
            Some(pod) => {
                let digest = pod.pod.config_digest.is_some();
                let live = digest && pod.pod.config_digest == pod.template_digest;
                match (all.is_empty(), pod.newest) {
                    (true, true) => NodeStep::Unchanged,
                    (true, false) if live => NodeStep::RestartOnly,
                    (false, newest) if same_driver && digest && (newest || live) => {
                        NodeStep::RestartOnly
                    }
                    _ => NodeStep::Evicting,
                }
            }
        };
        if step > NodeStep::First
            && let Some(version) = pod.as_ref().and_then(|pod| image::running(pod.pod, driver))
        {
            *versions_now.entry(version).or_default() += 1;
        }
        steps.insert(node.name.clone(), step);
    }
    all.extend(under_way(snapshot, &all, &operands));
    let from = versions_now
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(version, _)| version)
        .or_else(|| versions.live.clone());
    DriverChanges { from, to: versions.asked.clone().or(versions.live), all, steps }
}

/// Returns the drivers of NVIDIADrivers that some of their nodes do not run yet, except those that
/// the proposal changes.
fn under_way(
    snapshot: &RolloutSnapshot,
    coming: &[DriverChange],
    operands: &DriverOperands<'_>,
) -> Vec<DriverChange> {
    let driver = snapshot.settings.driver;
    if driver != Driver::Gpu || !snapshot.observed.uses_nvidia_drivers() {
        return Vec::new();
    }
    let is_coming = |name: &str| {
        coming.iter().any(|change| {
            change.of == DRIVER && change.nvidia_driver.as_deref().is_none_or(|other| other == name)
        })
    };
    let objects = snapshot
        .observed
        .nvidia_drivers
        .served()
        .into_iter()
        .flatten()
        .filter(|object| !is_coming(&object.name));
    let of = |object: &NvidiaDriver| {
        let to = object.driver.version.clone()?;
        let owned = driver_nodes(&snapshot.observed, driver)
            .filter(|node| node.driver_owner() == Some(object.name.as_str()));
        let outdated = owned.filter_map(|node| operands.driver_pod(node)).filter(|pod| !pod.newest);
        let from = outdated
            .filter_map(|pod| image::running(pod.pod, driver))
            .find(|version| *version != to)?;
        Some(DriverChange { of: DRIVER, nvidia_driver: Some(object.name.clone()), from, to })
    };
    objects.filter_map(of).collect()
}

pub(super) const DRIVER: &str = "driver";
const CHART: &str = "operator chart";
const MODE: &str = "mode";

/// The live and the proposed driver version.
struct DriverVersions {
    live: Option<String>,
    asked: Option<String>,
    /// The NVIDIADriver that gets the proposed version: the chart's values change no other one.
    nvidia_driver: Option<String>,
}

impl DriverVersions {
    fn new(
        snapshot: &RolloutSnapshot,
        proposed: &ProposedDeployment,
        daemon_sets: &[&ObservedDaemonSet],
    ) -> Self {
        let container = snapshot.settings.driver.traits().container;
        let objects = snapshot.observed.nvidia_drivers.served().into_iter().flatten();
        let default = objects
            .filter(|_| snapshot.observed.uses_nvidia_drivers())
            .find(|object| object.name == names::DEFAULT_NVIDIA_DRIVER && !object.deleting);
        let is_its = |daemon_set: &&&ObservedDaemonSet| {
            default.is_none_or(|object| daemon_set.owner.as_ref() == Some(&object.uid))
        };
        let image = daemon_sets.iter().filter(is_its).find_map(|daemon_set| {
            daemon_set.images.get(container).or_else(|| daemon_set.images.values().next())
        });
        Self {
            live: image
                .map(|image| image::version(image))
                .or_else(|| default.and_then(|object| object.driver.version.clone())),
            asked: proposed.driver.clone(),
            nvidia_driver: default.map(|object| object.name.clone()),
        }
    }

    fn changes(
        &self,
        snapshot: &RolloutSnapshot,
        proposed: &ProposedDeployment,
        daemon_sets: &[&ObservedDaemonSet],
    ) -> Vec<DriverChange> {
        let mut all = Vec::new();
        if daemon_sets.is_empty() {
            return all;
        }
        if let (Some(live), Some(asked)) = (&self.live, &self.asked)
            && live != asked
        {
            let nvidia_driver = self.nvidia_driver.clone();
            all.push(DriverChange {
                of: DRIVER,
                nvidia_driver,
                from: live.clone(),
                to: asked.clone(),
            });
        }
        let operator = snapshot.observed.operator.as_ref();
        let label = operator.and_then(|operator| operator.chart.as_deref());
        if let (Some(label), Some(asked)) = (label, &proposed.chart)
            && !is_version(label, asked)
        {
            let from = version_of(label, &proposed.settings.component).unwrap_or(label).to_owned();
            all.push(DriverChange { of: CHART, nvidia_driver: None, from, to: asked.clone() });
        }
        // In mode `drive` the driver manager's own evictions are switched off in the template.
        let drives = daemon_sets.iter().any(|daemon_set| leaves_evictions(daemon_set));
        let will = proposed.settings.mode == Mode::Drive;
        if proposed.chart.is_some() && drives != will {
            let live = snapshot.settings.mode;
            let from = if (live == Mode::Drive) == drives { live.name() } else { "another" };
            all.push(DriverChange {
                of: MODE,
                nvidia_driver: None,
                from: from.to_owned(),
                to: proposed.settings.mode.name().to_owned(),
            });
        }
        all
    }
}
