//! The events that make the controller run before its next tick (the watches of its operator). It
//! notices everything else only at the tick: a driver or validator that became ready, a job that
//! ended, a cordon, a node that became Ready.

use std::collections::{BTreeMap, BTreeSet};

use contract::driver::Driver;

use super::controller_generation::ControllerGeneration;
use super::snapshot::DriverSelection;
use observed::{Labels, Observed, ObservedDaemonSet, ObservedNode};

/// A kind of change in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakingChange {
    /// The driver's state label of a node, also of a node without driver.
    NodeState,
    /// The driver's skip label of a node, whatever its value.
    NodeSkip,
    /// Another label of a node.
    NodeLabel,
    /// An annotation of a node that concerns upgrades.
    NodeAnnotation,
    /// A node was cordoned or uncordoned, or its readiness changed.
    NodeCondition,
    /// A node was created.
    NodeCreated,
    /// A node was deleted.
    NodeDeleted,
    /// The spec of the operator's own custom resource.
    PolicySpec,
    /// The spec of an NVIDIADriver.
    DriverSpec,
    /// The spec of a driver DaemonSet; it was created or deleted.
    DaemonSetSpec,
    /// Its status, which follows its pods.
    DaemonSetStatus,
    /// Any other change of a driver pod.
    DriverPod,
    /// A NodeMaintenance.
    Maintenance,
}

impl ControllerGeneration {
    /// Returns whether it makes the controller run at once.
    pub fn is_woken_by(self, change: WakingChange) -> bool {
        self.features().wakes.contains(&change)
    }

    /// Returns whether the changes between two observations made it run.
    pub fn is_woken(self, before: &Observed, after: &Observed, driver: Driver) -> bool {
        changes(before, after, driver).into_iter().any(|change| self.is_woken_by(change))
    }

    /// Returns whether a change of one node made it run. `None`: the node does not exist.
    pub fn is_woken_by_node(
        self,
        before: Option<&ObservedNode>,
        after: Option<&ObservedNode>,
        driver: Driver,
    ) -> bool {
        let mut is_woken = false;
        of_node(before, after, driver, &mut |change, happened| {
            is_woken |= happened && self.is_woken_by(change);
        });
        is_woken
    }
}

/// Returns UID and generation of the operator's own custom resource: what shows an edit of its
/// spec.
pub(super) fn policy_spec(observed: &Observed, driver: Driver) -> Option<(&str, i64)> {
    match driver {
        Driver::DaemonSet => None,
        Driver::Gpu => {
            observed.live_cluster_policy().map(|policy| (policy.uid.as_str(), policy.generation))
        }
        Driver::Ofed => observed
            .live_nic_cluster_policy()
            .map(|policy| (policy.uid.as_str(), policy.generation)),
    }
}

/// Returns UID and generation of every NVIDIADriver.
pub(super) fn driver_specs(observed: &Observed) -> BTreeSet<(&str, i64)> {
    let all = observed.live_nvidia_drivers();
    all.map(|object| (object.uid.as_str(), object.generation)).collect()
}

/// Returns the changes between two observations.
pub fn changes(before: &Observed, after: &Observed, driver: Driver) -> BTreeSet<WakingChange> {
    let mut changes = BTreeSet::new();
    let mut note = |change: WakingChange, happened: bool| {
        if happened {
            changes.insert(change);
        }
    };
    of_nodes(before, after, driver, &mut note);
    of_custom_resources(before, after, driver, &mut note);
    let selection = DriverSelection::from_observed(after, driver);
    of_daemon_sets(before, after, selection, &mut note);
    note(WakingChange::DriverPod, before.pods != after.pods);
    note(WakingChange::Maintenance, before.workloads.maintenances != after.workloads.maintenances);
    changes
}

fn of_nodes(
    before: &Observed,
    after: &Observed,
    driver: Driver,
    note: &mut impl FnMut(WakingChange, bool),
) {
    for (name, node) in &after.nodes {
        of_node(before.nodes.get(name), Some(node), driver, note);
    }
    for (name, node) in &before.nodes {
        if !after.nodes.contains_key(name) {
            of_node(Some(node), None, driver, note);
        }
    }
}

/// Notes the changes of a node. `None`: it does not exist.
fn of_node(
    before: Option<&ObservedNode>,
    after: Option<&ObservedNode>,
    driver: Driver,
    note: &mut impl FnMut(WakingChange, bool),
) {
    match (before, after) {
        (Some(old), Some(new)) if old.uid == new.uid => of_kept_node(old, new, driver, note),
        _ => {
            note(WakingChange::NodeCreated, after.is_some());
            note(WakingChange::NodeDeleted, before.is_some());
        }
    }
}

fn of_custom_resources(
    before: &Observed,
    after: &Observed,
    driver: Driver,
    note: &mut impl FnMut(WakingChange, bool),
) {
    note(WakingChange::PolicySpec, policy_spec(before, driver) != policy_spec(after, driver));
    note(WakingChange::DriverSpec, driver_specs(before) != driver_specs(after));
}

/// Notes the changes of the driver DaemonSets, and of their status, which follows their pods.
fn of_daemon_sets(
    before: &Observed,
    after: &Observed,
    selection: DriverSelection,
    note: &mut impl FnMut(WakingChange, bool),
) {
    let daemon_sets = |observed: &Observed, key: fn(&ObservedDaemonSet) -> ObservedDaemonSet| {
        let selected = observed
            .daemon_sets
            .iter()
            .filter(|daemon_set| selection.selects(&daemon_set.template_labels));
        selected
            .map(|daemon_set| (daemon_set.uid.clone(), key(daemon_set)))
            .collect::<BTreeMap<_, _>>()
    };
    let (old, new) = (daemon_sets(before, spec), daemon_sets(after, spec));
    // The view does not contain every edit; a generation that the DaemonSet controller has not
    // observed yet shows any edit.
    let edited = |(uid, daemon_set): (&String, &ObservedDaemonSet)| {
        !daemon_set.observed && old.get(uid).is_some_and(|old| old.observed)
    };
    let seen = |sets: &BTreeMap<String, ObservedDaemonSet>| {
        sets.values()
            .map(|set| ObservedDaemonSet { observed: true, ..set.clone() })
            .collect::<Vec<_>>()
    };
    note(WakingChange::DaemonSetSpec, seen(&old) != seen(&new) || new.iter().any(edited));
    let readiness = |observed: &Observed| {
        let selected = observed.pods.iter().filter(|pod| selection.selects(&pod.labels));
        selected.map(|pod| (pod.uid.clone(), pod.ready)).collect::<BTreeSet<_>>()
    };
    note(
        WakingChange::DaemonSetStatus,
        readiness(before) != readiness(after)
            || daemon_sets(before, Clone::clone) != daemon_sets(after, Clone::clone),
    );
}

/// Returns a DaemonSet without the parts that its pods change.
fn spec(daemon_set: &ObservedDaemonSet) -> ObservedDaemonSet {
    ObservedDaemonSet { desired: 0, ..daemon_set.clone() }
}

/// Notes the changes of a node that is the same object.
fn of_kept_node(
    old: &ObservedNode,
    new: &ObservedNode,
    driver: Driver,
    note: &mut impl FnMut(WakingChange, bool),
) {
    let traits = driver.traits();
    let own = [traits.state_label, traits.skip_label];
    for (key, change) in own.into_iter().zip([WakingChange::NodeState, WakingChange::NodeSkip]) {
        note(change, old.labels.get(key) != new.labels.get(key));
    }
    let differ = |old: &Labels, new: &Labels| {
        let changed = |one: &Labels, other: &Labels| {
            one.iter()
                .any(|(key, value)| !own.contains(&key.as_str()) && other.get(key) != Some(value))
        };
        changed(old, new) || changed(new, old)
    };
    note(WakingChange::NodeLabel, differ(&old.labels, &new.labels));
    note(WakingChange::NodeAnnotation, old.annotations != new.annotations);
    note(
        WakingChange::NodeCondition,
        (old.unschedulable, old.ready) != (new.unschedulable, new.ready),
    );
}
