//! The work of the operators around the passes: which policy applies to which nodes, which labels
//! are removed, which nodes are marked.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use contract::driver::Driver;
use contract::names;

use super::controller_generation::{ControllerGeneration, TICK};
use super::pass::{PassWrite, Requestor};
use super::policy_rules::PolicyRules;
use super::snapshot::{SnapshotCache, SnapshotInputs, SnapshotTables, UpgradeSnapshot};
use super::state::ControllerState;
use observed::{LiveUpgradePolicy, NvidiaDriver, Observed, ObservedNode};

/// The plan of one reconciliation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReconciliationPlan<'a> {
    /// Passes, one after the other; an error in one ends the later ones. Empty: upgrades are off,
    /// and there is no next reconciliation until something changes.
    pub parts: Vec<PartialPass<'a>>,
    /// Nodes whose state label is removed, because upgrades are off for all. Cordons and
    /// annotations stay.
    pub cleaned: Vec<String>,
    /// Its own NodeMaintenance objects, which it deletes.
    pub maintenances: Vec<String>,
}

/// A pass over some of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialPass<'a> {
    /// The NVIDIADriver of the nodes. `None`: one policy applies to all.
    pub owner: Option<&'a str>,
    /// The policy.
    pub rules: PolicyRules,
    /// The nodes.
    pub snapshot: UpgradeSnapshot<'a>,
    /// Nodes whose state label is removed in this part: the upgrades of their NVIDIADriver are off,
    /// and there is no pass.
    pub cleaned: Vec<String>,
}

impl ReconciliationPlan<'_> {
    /// Returns the time until its next reconciliation without an event, if all passes were
    /// successful.
    pub fn again(&self) -> Option<SignedDuration> {
        (!self.parts.is_empty()).then_some(TICK)
    }
}

/// Returns the work of a driver's operator for the observed state.
pub fn work<'a>(
    observed: &'a Observed,
    driver: Driver,
    generation: ControllerGeneration,
    requestor: Option<&'a Requestor>,
) -> ReconciliationPlan<'a> {
    let all = UpgradeSnapshot::from_observed(
        observed,
        &SnapshotInputs { requestor, ..SnapshotInputs::from_observed(observed, driver) },
    );
    let snapshot = |owner: Option<&str>, _: &PolicyRules| {
        owner.map_or_else(|| all.clone(), |owner| all.owned_by(owner))
    };
    work_on(observed, driver, generation, requestor, &snapshot)
}

/// [`work`] without a snapshot of all nodes: most nodes are only counted. The controller must not
/// use the maintenance-operator.
pub fn counted_work<'a>(
    observed: &'a Observed,
    driver: Driver,
    generation: ControllerGeneration,
    (cache, tables): (&'a SnapshotCache, &SnapshotTables<'a>),
) -> ReconciliationPlan<'a> {
    let snapshot = |owner: Option<&str>, rules: &PolicyRules| {
        cache.snapshot(observed, tables, owner, &rules.policy)
    };
    work_on(observed, driver, generation, None, &snapshot)
}

/// Returns the work. `snapshot`: returns the nodes of an NVIDIADriver, or all, under a policy.
fn work_on<'a>(
    observed: &'a Observed,
    driver: Driver,
    generation: ControllerGeneration,
    requestor: Option<&'a Requestor>,
    snapshot: &dyn Fn(Option<&str>, &PolicyRules) -> UpgradeSnapshot<'a>,
) -> ReconciliationPlan<'a> {
    if driver == Driver::DaemonSet {
        return ReconciliationPlan::default();
    }
    let policies = policies(observed, driver, generation);
    if policies.is_empty() {
        // Releases with one policy for all do nothing without the ClusterPolicy that contains it.
        let nothing = driver == Driver::Gpu
            && !generation.features().policy_per_driver
            && observed.live_cluster_policy().is_none();
        return if nothing {
            ReconciliationPlan::default()
        } else {
            off(observed, driver, requestor)
        };
    }
    if policies.iter().all(|(owner, _)| owner.is_none()) {
        let part = |(owner, rules)| PartialPass {
            owner,
            snapshot: snapshot(None, &rules),
            rules,
            cleaned: Vec::new(),
        };
        return ReconciliationPlan {
            parts: policies.into_iter().map(part).collect(),
            ..ReconciliationPlan::default()
        };
    }
    let part = |object: &'a NvidiaDriver| {
        let (name, rules) = (object.name.as_str(), PolicyRules::from_live(&object.upgrade_policy));
        let snapshot = snapshot(Some(name), &rules);
        // An error that keeps the controller from the nodes also prevents all of this. A node
        // without a live owner is not changed.
        let off = !rules.auto_upgrade && snapshot.blocked.is_none();
        let cleaned = labeled(observed, driver)
            .filter(|node| off && node.driver_owner() == Some(name))
            .map(|node| node.name.clone())
            .collect();
        // An error that concerns all is reported by the first pass; a policy that is off has no
        // pass.
        PartialPass { owner: Some(name), rules, snapshot, cleaned }
    };
    let parts = observed.live_nvidia_drivers().map(part).collect();
    ReconciliationPlan { parts, ..ReconciliationPlan::default() }
}

/// Returns the policies of the passes, in order, each with the NVIDIADriver of its nodes; without
/// one, it applies to all. Empty: upgrades are off.
pub fn policies(
    observed: &Observed,
    driver: Driver,
    generation: ControllerGeneration,
) -> Vec<(Option<&str>, PolicyRules)> {
    let one = |on: bool, policy: &LiveUpgradePolicy| {
        if on { vec![(None, PolicyRules::from_live(policy))] } else { Vec::new() }
    };
    match driver {
        Driver::DaemonSet => Vec::new(),
        Driver::Ofed => {
            let policy = observed.live_nic_cluster_policy();
            policy.map_or_else(Vec::new, |policy| {
                one(
                    policy.ofed.is_some() && policy.upgrade_policy.auto_upgrade,
                    &policy.upgrade_policy,
                )
            })
        }
        Driver::Gpu => {
            match (observed.live_cluster_policy(), generation.features().policy_per_driver) {
                (Some(policy), per_driver) if !policy.uses_nvidia_drivers || !per_driver => one(
                    policy.upgrade_policy.auto_upgrade && !policy.sandbox_workloads,
                    &policy.upgrade_policy,
                ),
                (None, false) => Vec::new(),
                (Some(_) | None, _) => each_driver(observed),
            }
        }
    }
}

/// Returns every NVIDIADriver with its own policy.
fn each_driver(observed: &Observed) -> Vec<(Option<&str>, PolicyRules)> {
    let drivers =
        observed.live_nvidia_drivers().filter(|object| object.upgrade_policy.auto_upgrade);
    drivers
        .map(|object| (Some(object.name.as_str()), PolicyRules::from_live(&object.upgrade_policy)))
        .collect()
}

fn off<'a>(
    observed: &Observed,
    driver: Driver,
    requestor: Option<&Requestor>,
) -> ReconciliationPlan<'a> {
    let objects = observed.workloads.maintenances.served().into_iter().flatten();
    let own = |requestor: &Requestor| {
        objects
            .filter(|object| object.requestor == requestor.id)
            .map(|object| object.name.clone())
            .collect()
    };
    ReconciliationPlan {
        parts: Vec::new(),
        cleaned: labeled(observed, driver).map(|node| node.name.clone()).collect(),
        maintenances: requestor.map(own).unwrap_or_default(),
    }
}

fn labeled(observed: &Observed, driver: Driver) -> impl Iterator<Item = &ObservedNode> {
    observed
        .nodes
        .values()
        .filter(move |node| node.labels.contains_key(driver.traits().state_label))
}

/// Returns the nodes that the labeling controller sets to `upgrade-required`: a driver pod without
/// owner is left on a node of an NVIDIADriver (the migration from ClusterPolicy to NVIDIADrivers).
/// It does not record whether such a node was cordoned before.
pub fn orphaned(observed: &Observed) -> Vec<String> {
    let drivers = observed.live_nvidia_drivers();
    let live: BTreeSet<&str> =
        drivers.filter(|object| !object.deleting).map(|object| object.name.as_str()).collect();
    let (key, value) = names::DRIVER_COMPONENT;
    let orphans = observed
        .pods
        .iter()
        .filter(|pod| pod.orphaned && pod.running && !pod.unbound && pod.labels.has(key, value));
    let nodes: BTreeSet<&str> = orphans.filter_map(|pod| pod.node.as_deref()).collect();
    let fits = |node: &&ObservedNode| {
        node.driver_owner().is_some_and(|owner| live.contains(owner))
            && matches!(
                ControllerState::of_node(node, Driver::Gpu.traits()),
                ControllerState::Unknown | ControllerState::Done
            )
    };
    nodes
        .into_iter()
        .filter_map(|name| observed.nodes.get(name))
        .filter(fits)
        .map(|node| node.name.clone())
        .collect()
}

/// Returns the changes by the labeling controller of the annotation that leaves evictions to the
/// upgrade controller: `true` while upgrades are on for a node, and removed otherwise.
pub fn upgrade_enabled(observed: &Observed) -> Vec<PassWrite> {
    let policy = observed.live_cluster_policy();
    let drivers: BTreeMap<&str, bool> = observed
        .live_nvidia_drivers()
        .map(|object| (object.name.as_str(), object.upgrade_policy.auto_upgrade))
        .collect();
    let per_driver = observed.uses_nvidia_drivers();
    let enabled = |node: &ObservedNode| {
        if per_driver {
            node.driver_owner().and_then(|owner| drivers.get(owner)).copied().unwrap_or(false)
        } else {
            policy.is_some_and(|policy| {
                policy.driver_enabled
                    && policy.upgrade_policy.auto_upgrade
                    && !policy.sandbox_workloads
            })
        }
    };
    let change = |node: &ObservedNode| {
        let found = node.annotations.text(names::UPGRADE_ENABLED_ANNOTATION);
        let value = match (enabled(node), found) {
            (true, Some("true")) | (false, None) => return None,
            (true, _) => Some("true".to_owned()),
            (false, Some(_)) => None,
        };
        Some(PassWrite::Annotate {
            node: node.name.clone(),
            key: names::UPGRADE_ENABLED_ANNOTATION,
            value,
        })
    };
    let gpu = |node: &&ObservedNode| node.labels.has(names::GPU_PRESENT_LABEL, "true");
    observed.nodes.values().filter(gpu).filter_map(change).collect()
}

/// Returns the nodes because of which a ClusterPolicy with NVIDIADrivers is not `ready`: owned, not
/// skipped, and neither done nor without a state.
pub fn unfinished(observed: &Observed) -> Vec<String> {
    let traits = Driver::Gpu.traits();
    let counts = |node: &&ObservedNode| {
        node.driver_owner().is_some()
            && !node.labels.has(traits.skip_label, "true")
            && !matches!(
                ControllerState::of_node(node, Driver::Gpu.traits()),
                ControllerState::Unknown | ControllerState::Done
            )
    };
    observed.nodes.values().filter(counts).map(|node| node.name.clone()).collect()
}
