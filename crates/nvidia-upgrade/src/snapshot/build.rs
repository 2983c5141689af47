//! Builds the snapshot from the observed state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::driver::{Driver, DriverTraits};

use super::super::pass::Requestor;
use super::super::state::ControllerState;
use super::{
    CountedEntries, DriverSelection, MaintenanceObject, NodeAnnotations, NodeEntry, PodRevision,
    SnapshotDriverPod, SnapshotError, UpgradeSnapshot, ValidatorPod,
};
use observed::text::is_same_text;
use observed::{self, Observed, ObservedDaemonSet, ObservedNode, ObservedPod, Views, newest};
use observed::{selects, untolerated_taint};

/// The inputs of a snapshot in addition to the observed state.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotInputs<'i> {
    /// The driver.
    pub driver: Driver,
    /// The labels by which its pods are found.
    pub selection: DriverSelection,
    /// Requestor mode, if it is on.
    pub requestor: Option<&'i Requestor>,
}

impl SnapshotInputs<'_> {
    /// Creates the inputs that the live operator uses.
    pub fn from_observed(observed: &Observed, driver: Driver) -> Self {
        Self {
            driver,
            selection: DriverSelection::from_observed(observed, driver),
            requestor: None,
        }
    }
}

impl<'a> UpgradeSnapshot<'a> {
    /// Builds the controller's view. It contains entries even if the controller is blocked, so that
    /// its steps can be predicted.
    pub fn from_observed(observed: &'a Observed, inputs: &SnapshotInputs<'_>) -> Self {
        let SnapshotTables { order, entries } = SnapshotTables::new(observed, inputs);
        let mut taken: Vec<TakenPod<'a>> = observed
            .pods
            .iter()
            .flat_map(|pod| order.places(pod).map(move |place| TakenPod { place, pod }))
            .collect();
        taken.sort_by_key(TakenPod::turn);
        let mut by_node: BTreeMap<&str, Vec<TakenPod<'a>>> =
            observed.nodes.keys().map(|name| (&**name, Vec::new())).collect();
        for one in &taken {
            by_node.entry(one.pod.node.as_deref().unwrap_or_default()).or_default().push(*one);
        }
        let mut counts = BTreeMap::new();
        for (name, taken) in by_node {
            order.count(name, observed.nodes.get(name), &taken, &mut counts);
        }
        let blocked = order.wrong_count(&counts);
        let (entries, blocked) = entries.entries(observed, &order, taken, blocked);
        Self { driver: inputs.driver, entries, counted: CountedEntries::default(), blocked }
    }
}

/// Lookup tables over the observed state, for snapshots of it.
pub struct SnapshotTables<'a> {
    pub(super) order: DaemonSetOrder<'a>,
    pub(super) entries: EntryTables<'a>,
}

impl<'a> SnapshotTables<'a> {
    /// Builds the tables.
    pub fn new(observed: &'a Observed, inputs: &SnapshotInputs<'_>) -> Self {
        Self {
            order: DaemonSetOrder::new(observed, inputs.selection),
            entries: EntryTables::new(observed, inputs),
        }
    }
}

/// A pod that the controller treats as one of the driver's.
#[derive(Clone, Copy)]
pub(super) struct TakenPod<'a> {
    /// The index of its DaemonSet among the driver's; pods without owner come after all of them.
    pub(super) place: usize,
    pub(super) pod: &'a ObservedPod,
}

impl<'a> TakenPod<'a> {
    /// Returns the sort key. The original's order is that of a Go map, which is random; within a
    /// DaemonSet it is that of the list.
    pub(super) fn turn(&self) -> (usize, &'a str, &'a str) {
        (self.place, &self.pod.namespace, &self.pod.name)
    }
}

/// The driver's DaemonSets, in the controller's order.
pub(super) struct DaemonSetOrder<'a> {
    selection: DriverSelection,
    daemon_sets: Vec<&'a ObservedDaemonSet>,
    places: BTreeMap<&'a str, usize>,
}

impl<'a> DaemonSetOrder<'a> {
    fn new(observed: &'a Observed, selection: DriverSelection) -> Self {
        let mut daemon_sets: Vec<&ObservedDaemonSet> = observed
            .daemon_sets
            .iter()
            .filter(|daemon_set| selection.selects(&daemon_set.template_labels))
            .collect();
        daemon_sets.sort_by_key(|daemon_set| (&daemon_set.namespace, &daemon_set.name));
        let places = daemon_sets
            .iter()
            .enumerate()
            .map(|(place, daemon_set)| (daemon_set.uid.as_str(), place))
            .collect();
        Self { selection, daemon_sets, places }
    }

    /// Returns the indexes at which the controller processes the pod; none if it is not one of the
    /// driver's.
    pub(super) fn places(&self, pod: &ObservedPod) -> impl Iterator<Item = usize> + use<> {
        let selected = self.selection.selects(&pod.labels);
        let owned = pod.owner.as_deref().and_then(|owner| self.places.get(owner).copied());
        let orphaned = pod.orphaned.then_some(self.daemon_sets.len());
        owned.into_iter().chain(orphaned).filter(move |_| selected)
    }

    /// Checks the condition that blocks everything: a DaemonSet must have exactly the pods that it
    /// needs. `counts`: the pods by the index of their DaemonSet.
    pub(super) fn wrong_count(&self, counts: &BTreeMap<usize, PodCounts>) -> Option<SnapshotError> {
        let none = PodCounts::default();
        self.daemon_sets.iter().enumerate().find_map(|(place, daemon_set)| {
            let counts = counts.get(&place).unwrap_or(&none);
            let owned = i32::try_from(counts.owned).unwrap_or(i32::MAX);
            (owned != daemon_set.desired).then(|| counts.error(daemon_set, owned))
        })
    }

    /// Counts the pods of a node. `counts`: by the index of their DaemonSet.
    pub(super) fn count(
        &self,
        name: &str,
        node: Option<&ObservedNode>,
        taken: &[TakenPod<'_>],
        counts: &mut BTreeMap<usize, PodCounts>,
    ) {
        for (place, daemon_set) in self.daemon_sets.iter().enumerate() {
            // A pod that existed before the taint stays, but is not needed there.
            let wants_one = node.is_some_and(|node| {
                selects(&daemon_set.node_selector, &node.labels)
                    && untolerated_taint(daemon_set, node).is_none()
            });
            let mut own = taken.iter().filter(|one| one.place == place).peekable();
            let is_served = own.peek().is_some();
            if !is_served && !wants_one {
                continue;
            }
            let counts = counts.entry(place).or_default();
            if !is_served {
                counts.missing.insert(name.into());
            }
            for one in own {
                counts.owned += 1;
                if !wants_one && one.pod.node.is_some() {
                    let pod = (one.pod.namespace.clone(), one.pod.name.clone());
                    counts.surplus.insert(pod, name.into());
                }
            }
        }
    }
}

/// The pods of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCounts {
    owned: usize,
    /// Nodes that need a pod and have none.
    missing: BTreeSet<Arc<str>>,
    /// The node of each pod that is not needed there, by namespace and name.
    surplus: BTreeMap<(String, String), Arc<str>>,
}

impl PodCounts {
    /// Returns the number of pods.
    pub(super) fn owned(&self) -> usize {
        self.owned
    }

    /// Removes the pods of a node, as they were counted. `taken`: those of this DaemonSet.
    pub(super) fn remove<'p>(&mut self, name: &str, taken: impl Iterator<Item = TakenPod<'p>>) {
        self.missing.remove(name);
        for one in taken {
            self.owned = self.owned.saturating_sub(1);
            if !self.surplus.is_empty() {
                self.surplus.remove(&(one.pod.namespace.clone(), one.pod.name.clone()));
            }
        }
    }

    fn error(&self, daemon_set: &ObservedDaemonSet, owned: i32) -> SnapshotError {
        let missing = if owned < daemon_set.desired {
            self.missing.iter().map(ToString::to_string).collect()
        } else {
            Vec::new()
        };
        SnapshotError::PodCount {
            daemon_set: daemon_set.name.clone(),
            desired: daemon_set.desired,
            owned,
            missing,
            surplus: self.surplus.values().map(ToString::to_string).collect(),
        }
    }
}

/// Lookup tables for entries.
pub(super) struct EntryTables<'a> {
    pub(super) driver: Driver,
    traits: &'static DriverTraits,
    newest: BTreeMap<&'a str, &'a str>,
    validators: &'a Views<ObservedPod>,
    jobs: BTreeMap<&'a str, usize>,
    maintenances: BTreeMap<&'a str, &'a observed::workload::NodeMaintenance>,
}

impl<'a> EntryTables<'a> {
    fn new(observed: &'a Observed, inputs: &SnapshotInputs<'_>) -> Self {
        let mut jobs: BTreeMap<&str, usize> = BTreeMap::new();
        for job in observed.workloads.jobs.iter().filter(|job| job.phase.is_busy()) {
            *jobs.entry(&job.node).or_default() += 1;
        }
        let maintenances = observed.workloads.maintenances.served().into_iter().flatten();
        let ours = maintenances.filter(|object| {
            inputs.requestor.is_some_and(|requestor| {
                object.namespace == requestor.namespace
                    && object.name == requestor.object(&object.node)
            })
        });
        Self {
            driver: inputs.driver,
            traits: inputs.driver.traits(),
            newest: newest(&observed.revisions),
            validators: &observed.validators,
            jobs,
            maintenances: ours.map(|object| (object.node.as_str(), object)).collect(),
        }
    }

    /// Creates the entries of pods, in their order. `blocked`: an error that was already found.
    pub(super) fn entries(
        &self,
        observed: &'a Observed,
        order: &DaemonSetOrder<'a>,
        taken: Vec<TakenPod<'a>>,
        mut blocked: Option<SnapshotError>,
    ) -> (Vec<NodeEntry<'a>>, Option<SnapshotError>) {
        let mut entries = Vec::with_capacity(taken.len());
        for one in taken {
            if one.pod.unbound {
                if one.pod.running {
                    blocked
                        .get_or_insert_with(|| SnapshotError::NoNode { pod: one.pod.name.clone() });
                }
                continue;
            }
            let name = one.pod.node.as_deref().unwrap_or_default();
            match observed.nodes.get(name) {
                Some(node) => entries.push(self.entry(node, one, order)),
                None => {
                    blocked.get_or_insert_with(|| SnapshotError::NodeMissing {
                        pod: one.pod.name.clone(),
                        node: name.to_owned(),
                    });
                }
            }
        }
        (entries, blocked)
    }

    pub(super) fn entry(
        &self,
        node: &'a ObservedNode,
        TakenPod { place, pod }: TakenPod<'a>,
        order: &DaemonSetOrder<'a>,
    ) -> NodeEntry<'a> {
        let daemon_set = order.daemon_sets.get(place).copied();
        let name = node.name.as_str();
        let ready = |pod: &ObservedPod| pod.running && pod.containers_ready;
        let mut validators: Vec<&ObservedPod> =
            self.validators.on(name).filter(|pod| !pod.unbound).collect();
        validators.sort_by_key(|pod| (&pod.namespace, &pod.name));
        let (state, skip) = state_and_skip(node, self.traits);
        NodeEntry {
            node: name,
            state: ControllerState::from_label(state),
            label: state.unwrap_or_default(),
            unschedulable: node.unschedulable,
            // A condition always has the time of its last change: without a time, there is no
            // condition.
            ready: (node.ready || node.ready_since.is_some()).then_some(node.ready),
            skip,
            owner: node.driver_owner(),
            notes: notes(node, self.traits),
            pod: SnapshotDriverPod {
                namespace: &pod.namespace,
                name: &pod.name,
                uid: &pod.uid,
                revision: daemon_set
                    .map_or(PodRevision::Orphaned, |daemon_set| self.revision(pod, daemon_set)),
                deleting: pod.deleting,
                running: pod.running,
                containers_ready: pod.containers_ready,
                unready_restarts: pod.unready_restarts,
                trouble: pod.trouble.as_deref(),
                digest: pod.config_digest.as_deref(),
                template_digest: daemon_set
                    .and_then(|daemon_set| daemon_set.config_digest.as_deref()),
            },
            validators: validators
                .into_iter()
                .map(|pod| ValidatorPod { name: &pod.name, ready: ready(pod) })
                .collect(),
            jobs: self.jobs.get(name).copied().unwrap_or(0),
            maintenance: self.maintenances.get(name).map(|object| MaintenanceObject {
                requestor: &object.requestor,
                additional: object.additional.iter().map(String::as_str).collect(),
                reason: object.state.as_deref(),
                deleting: object.deleting,
            }),
        }
    }

    fn revision(&self, pod: &ObservedPod, daemon_set: &ObservedDaemonSet) -> PodRevision {
        match (&pod.revision, self.newest.get(daemon_set.uid.as_str())) {
            (None, _) => PodRevision::NoHash,
            (Some(_), None) => PodRevision::NoRevision,
            (Some(hash), Some(newest)) if hash == newest => PodRevision::Newest,
            (Some(_), Some(_)) => PodRevision::Older,
        }
    }
}

/// Returns the labels that the controller reads.
fn state_and_skip<'a>(
    node: &'a ObservedNode,
    traits: &DriverTraits,
) -> (Option<&'a str>, Option<&'a str>) {
    let (mut state, mut skip) = (None, None);
    for (key, value) in node.labels.starting_with(traits.controller_prefix) {
        if is_same_text(key, traits.state_label) {
            state = Some(value);
        } else if is_same_text(key, traits.skip_label) {
            skip = Some(value);
        }
    }
    (state, skip)
}

/// Returns the annotations that the controller reads.
fn notes<'a>(node: &'a ObservedNode, traits: &DriverTraits) -> NodeAnnotations<'a> {
    let mut notes = NodeAnnotations::default();
    for (key, value) in node.annotations.starting_with(traits.controller_prefix) {
        if is_same_text(key, traits.safe_load) {
            notes.safe_load = Some(value);
        } else if is_same_text(key, traits.initially_unschedulable) {
            notes.initially_unschedulable = true;
        } else if is_same_text(key, traits.wait_start) {
            notes.wait_start = Some(value);
        } else if is_same_text(key, traits.validation_start) {
            notes.validation_start = Some(value);
        } else if is_same_text(key, traits.requested) {
            notes.requested = Some(value);
        } else if is_same_text(key, traits.requestor) {
            notes.requestor = true;
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_label_and_annotation_is_read_from_its_key() {
        for driver in Driver::ALL {
            let traits = driver.traits();
            let values = |keys: &[&'static str]| {
                keys.iter().map(|key| ((*key).to_owned(), format!("of {key}"))).collect()
            };
            let written = [traits.safe_load, traits.wait_start, traits.validation_start];
            let present = [traits.initially_unschedulable, traits.requestor, traits.requested];
            let mut node = ObservedNode {
                labels: values(&[traits.state_label, traits.skip_label, traits.own_state_label]),
                annotations: values(&traits.controller_annotations()),
                ..ObservedNode::default()
            };
            let of = |key: &str| format!("of {key}");
            let (state, skip) = (of(traits.state_label), of(traits.skip_label));
            assert_eq!(state_and_skip(&node, traits), (Some(&*state), Some(&*skip)));
            let [safe_load, wait_start, validation_start] = written.map(of);
            let expected = NodeAnnotations {
                safe_load: Some(&safe_load),
                initially_unschedulable: true,
                wait_start: Some(&wait_start),
                validation_start: Some(&validation_start),
                requested: Some(&of(traits.requested)),
                requestor: true,
            };
            assert_eq!(notes(&node, traits), expected);
            for key in present {
                node.annotations.remove(key);
            }
            let expected = NodeAnnotations {
                initially_unschedulable: false,
                requested: None,
                requestor: false,
                ..expected
            };
            assert_eq!(notes(&node, traits), expected);
        }
    }
}
