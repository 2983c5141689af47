//! Driver DaemonSets that the operator would replace because of the new values. The operator
//! deletes such a DaemonSet, and with it every driver pod at once: neither NVIDIA's upgrade
//! controller nor the hook is involved (gpu-operator#2166).

use crate::pods::listed;
use crate::spec::driver_daemon_sets;
use contract::check::PreflightCheck;
use contract::count::with_noun;
use contract::driver::Driver;
use contract::preflight::ComingValues;
use observed::selects;
use observed::{Observed, ObservedDaemonSet, ObservedNode};

use super::{DraftFinding, PreflightView};

/// Label of the operator's driver DaemonSets: `true` for precompiled drivers, one DaemonSet per
/// kernel.
const PRECOMPILED_LABEL: &str = "nvidia.com/precompiled";
/// Label of DaemonSets that build with OpenShift's driver toolkit, one DaemonSet per release of its
/// operating system.
const DRIVER_TOOLKIT_LABEL: &str = "openshift.driver-toolkit";
/// Label of node-feature-discovery by which the operator recognizes an OpenShift node.
const OPENSHIFT_LABEL: &str = "feature.node.kubernetes.io/system-os_release.OSTREE_VERSION";

/// How the operator creates its driver DaemonSets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DriverIdentity {
    /// One for all nodes.
    Compiled,
    /// One per kernel.
    Precompiled,
    /// One per release of OpenShift's operating system.
    DriverToolkit,
    /// From NVIDIADrivers: one per driver and operating system.
    NvidiaDriver,
    /// None.
    Off,
}

impl DriverIdentity {
    fn text(self) -> &'static str {
        match self {
            Self::Compiled => "the ClusterPolicy's single DaemonSet for all nodes",
            Self::Precompiled => {
                "the ClusterPolicy's DaemonSets of precompiled drivers, one per kernel"
            }
            Self::DriverToolkit => {
                "the ClusterPolicy's DaemonSets with the driver toolkit, one per operating system release"
            }
            Self::NvidiaDriver => "DaemonSets of NVIDIADrivers",
            Self::Off => "no driver DaemonSet at all",
        }
    }
}

pub(super) fn check(view: &PreflightView<'_>) -> Vec<DraftFinding> {
    let observed = view.observed();
    let driver = view.input.settings.driver;
    let mut drafts = Vec::new();
    for daemon_set in driver_daemon_sets(observed, driver) {
        let nodes = nodes_of(view, daemon_set);
        let becomes = match driver {
            Driver::Gpu => gpu(view, daemon_set),
            // The settings name the DaemonSet, and the values say nothing about it.
            Driver::DaemonSet => None,
            Driver::Ofed => (view.coming().driver == Some(false)).then_some(DriverIdentity::Off),
        };
        if let Some(becomes) = becomes {
            let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
            let text = format!(
                "the operator would replace daemonset/{} with {}: it would delete the driver pods of {} at once, while workloads run",
                daemon_set.name,
                becomes.text(),
                with_noun(names.len(), "node")
            );
            drafts
                .push(DraftFinding::new(PreflightCheck::DaemonSetIdentity, text).with_nodes(names));
            continue;
        }
        let left: Vec<&ObservedNode> = nodes
            .into_iter()
            .filter(|node| !selects(&daemon_set.node_selector, &node.labels))
            .collect();
        if !left.is_empty() {
            let say =
                |node: &&ObservedNode| format!("{} ({})", node.name, differs(daemon_set, node));
            let text = format!(
                "the node selector of daemonset/{} no longer selects {}, so the driver pods there are deleted at once: {}",
                daemon_set.name,
                with_noun(left.len(), "node"),
                listed(&left.iter().map(say).collect::<Vec<_>>())
            );
            drafts.push(
                DraftFinding::new(PreflightCheck::DaemonSetIdentity, text)
                    .with_nodes(left.iter().map(|node| node.name.clone()).collect()),
            );
        }
    }
    drafts
}

/// Returns the nodes with the device that have a pod of the DaemonSet.
fn nodes_of<'a>(view: &PreflightView<'a>, daemon_set: &ObservedDaemonSet) -> Vec<&'a ObservedNode> {
    let owned = view
        .observed()
        .pods
        .iter()
        .filter(|pod| pod.owner.as_ref() == Some(&daemon_set.uid) && !pod.deleting);
    owned.filter_map(|pod| view.nodes.get(pod.node.as_deref()?).copied()).collect()
}

/// Returns the first label of the node that does not match the DaemonSet's selector.
fn differs(daemon_set: &ObservedDaemonSet, node: &ObservedNode) -> String {
    let other =
        daemon_set.node_selector.iter().find(|(key, value)| node.labels.get(*key) != Some(*value));
    other.map_or_else(String::new, |(key, value)| {
        format!(
            "{key} is {}, but was {value}",
            node.labels.get(key).map_or("absent", String::as_str)
        )
    })
}

/// Returns what replaces a DaemonSet of the GPU Operator; `None` if it stays.
fn gpu(view: &PreflightView<'_>, daemon_set: &ObservedDaemonSet) -> Option<DriverIdentity> {
    let ComingValues { driver, precompiled, nvidia_drivers, driver_toolkit, .. } = *view.coming();
    let live = live(view.observed(), daemon_set);
    let openshift = view.nodes.values().any(|node| node.labels.contains_key(OPENSHIFT_LABEL));
    let becomes = if driver == Some(false) {
        DriverIdentity::Off
    } else if nvidia_drivers.unwrap_or(live == DriverIdentity::NvidiaDriver) {
        DriverIdentity::NvidiaDriver
    } else if precompiled.unwrap_or(live == DriverIdentity::Precompiled) {
        DriverIdentity::Precompiled
    } else if driver_toolkit
        .map_or(live == DriverIdentity::DriverToolkit, |asked| asked && openshift)
    {
        DriverIdentity::DriverToolkit
    } else {
        DriverIdentity::Compiled
    };
    (becomes != live).then_some(becomes)
}

fn live(observed: &Observed, daemon_set: &ObservedDaemonSet) -> DriverIdentity {
    let drivers = observed.live_nvidia_drivers();
    let label = |key: &str| daemon_set.template_labels.has(key, "true");
    if drivers.into_iter().any(|driver| daemon_set.owner.as_ref() == Some(&driver.uid)) {
        DriverIdentity::NvidiaDriver
    } else if label(DRIVER_TOOLKIT_LABEL) {
        DriverIdentity::DriverToolkit
    } else if label(PRECOMPILED_LABEL) {
        DriverIdentity::Precompiled
    } else {
        DriverIdentity::Compiled
    }
}
