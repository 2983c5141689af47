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

/// What comes to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStep {
    /// Its driver stays as it is.
    Unchanged,
    /// It has no driver yet: nothing on it uses one.
    First,
    /// Its driver pod is restarted, and pods that use the GPU may stay.
    RestartOnly,
    /// Its driver is replaced, and what uses the GPU has to leave.
    Evicting,
}

/// A difference that has driver pods replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriverChange {
    /// Of what.
    pub of: &'static str,
    /// The NVIDIADriver whose nodes it concerns; absent: all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvidia_driver: Option<String>,
    /// As it is.
    pub from: String,
    /// As it will be.
    pub to: String,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct DriverChanges {
    /// The driver's version that most of the nodes have that get another one.
    pub(crate) from: Option<String>,
    /// The version that they get.
    pub(crate) to: Option<String>,
    /// What is different for the fleet as a whole.
    pub(crate) all: Vec<DriverChange>,
    /// What comes to each node.
    pub(crate) steps: BTreeMap<String, NodeStep>,
}

/// Compares what is deployed with what is proposed.
pub(crate) fn changes(snapshot: &RolloutSnapshot, proposed: &ProposedDeployment) -> DriverChanges {
    let driver = snapshot.settings.driver;
    let operands = DriverOperands::new(&snapshot.observed, driver);
    let daemon_sets = driver_daemon_sets(&snapshot.observed, driver);
    let versions = DriverVersions::new(snapshot, proposed, &daemon_sets);
    let mut all = versions.changes(snapshot, proposed, &daemon_sets);
    // A template that changes for another reason than the driver leaves the driver's configuration as it is; the operators tell which one by a digest.
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

/// The drivers of NVIDIADrivers that some of their nodes do not run yet, where nothing else is going to change them.
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

const DRIVER: &str = "driver";
const CHART: &str = "operator chart";
const MODE: &str = "mode";

/// The driver's versions, as templates tell them.
struct DriverVersions {
    live: Option<String>,
    asked: Option<String>,
    /// The NVIDIADriver that takes what is asked for: the chart's values reach no other one.
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
