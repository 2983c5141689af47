//! Builds the snapshot from the observed state.

use std::collections::{BTreeMap, HashSet};

use contract::driver::{Driver, DriverTraits};

use super::super::pass::Requestor;
use super::super::state::ControllerState;
use super::{
    CountedEntries, DriverSelection, MaintenanceObject, NodeAnnotations, NodeEntry, PodRevision,
    SnapshotDriverPod, SnapshotError, UpgradeSnapshot, ValidatorPod,
};
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
        let order = DaemonSetOrder::new(observed, inputs.selection);
        let mut taken: Vec<TakenPod<'a>> = observed
            .pods
            .iter()
            .flat_map(|pod| order.places(pod).map(move |place| TakenPod { place, pod }))
            .collect();
        taken.sort_by_key(TakenPod::turn);
        let blocked = order.wrong_count(observed, || taken.iter().copied());
        let (entries, blocked) =
            EntryTables::new(observed, inputs).entries(observed, &order, taken, blocked);
        Self { driver: inputs.driver, entries, counted: CountedEntries::default(), blocked }
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
    pub(super) fn new(observed: &'a Observed, selection: DriverSelection) -> Self {
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
    /// needs. `taken`: all pods.
    pub(super) fn wrong_count<I: Iterator<Item = TakenPod<'a>>>(
        &self,
        observed: &Observed,
        taken: impl Fn() -> I,
    ) -> Option<SnapshotError> {
        let mut owned = vec![0_usize; self.daemon_sets.len() + 1];
        for one in taken() {
            owned[one.place] += 1;
        }
        self.daemon_sets.iter().zip(owned).enumerate().find_map(|(place, (daemon_set, owned))| {
            let owned = i32::try_from(owned).unwrap_or(i32::MAX);
            let own = || taken().filter(|one| one.place == place).collect();
            (owned != daemon_set.desired).then(|| pod_count(observed, daemon_set, owned, own()))
        })
    }
}

/// Checks the number of pods of a DaemonSet. `own`: its pods.
fn pod_count(
    observed: &Observed,
    daemon_set: &ObservedDaemonSet,
    owned: i32,
    mut own: Vec<TakenPod<'_>>,
) -> SnapshotError {
    own.sort_by_key(TakenPod::turn);
    let on_nodes: Vec<&str> = own.iter().filter_map(|one| one.pod.node.as_deref()).collect();
    let served: HashSet<&str> = on_nodes.iter().copied().collect();
    // A pod that existed before the taint stays, but is not needed there.
    let wants_one = |node: &ObservedNode| {
        selects(&daemon_set.node_selector, &node.labels)
            && untolerated_taint(daemon_set, node).is_none()
    };
    let lacks_one = |node: &&ObservedNode| !served.contains(node.name.as_str()) && wants_one(node);
    let missing = if owned < daemon_set.desired {
        observed.nodes.values().filter(lacks_one).map(|node| node.name.clone()).collect()
    } else {
        Vec::new()
    };
    let surplus = on_nodes
        .into_iter()
        .filter(|name| !observed.nodes.get(name).is_some_and(wants_one))
        .map(str::to_owned)
        .collect();
    SnapshotError::PodCount {
        daemon_set: daemon_set.name.clone(),
        desired: daemon_set.desired,
        owned,
        missing,
        surplus,
    }
}

/// Lookup tables for entries.
pub(super) struct EntryTables<'a> {
    traits: &'static DriverTraits,
    newest: BTreeMap<&'a str, &'a str>,
    validators: &'a Views<ObservedPod>,
    jobs: BTreeMap<&'a str, usize>,
    maintenances: BTreeMap<&'a str, &'a observed::workload::NodeMaintenance>,
}

impl<'a> EntryTables<'a> {
    pub(super) fn new(observed: &'a Observed, inputs: &SnapshotInputs<'_>) -> Self {
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
        let label = |key: &str| node.labels.text(key);
        let annotation = |key: &str| node.annotations.text(key);
        let name = node.name.as_str();
        let ready = |pod: &ObservedPod| pod.running && pod.containers_ready;
        let mut validators: Vec<&ObservedPod> =
            self.validators.on(name).filter(|pod| !pod.unbound).collect();
        validators.sort_by_key(|pod| (&pod.namespace, &pod.name));
        NodeEntry {
            node: name,
            state: ControllerState::from_label(label(self.traits.state_label)),
            label: label(self.traits.state_label).unwrap_or_default(),
            unschedulable: node.unschedulable,
            // A condition always has the time of its last change: without a time, there is no
            // condition.
            ready: (node.ready || node.ready_since.is_some()).then_some(node.ready),
            skip: label(self.traits.skip_label),
            owner: node.driver_owner(),
            notes: NodeAnnotations {
                safe_load: annotation(self.traits.safe_load),
                initially_unschedulable: annotation(self.traits.initially_unschedulable).is_some(),
                wait_start: annotation(self.traits.wait_start),
                validation_start: annotation(self.traits.validation_start),
                requested: annotation(self.traits.requested),
                requestor: annotation(self.traits.requestor).is_some(),
            },
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
