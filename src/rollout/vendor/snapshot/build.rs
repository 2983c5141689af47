//! The snapshot from what is observed.

use std::collections::{BTreeMap, HashSet};

use crate::contract::driver::{Driver, Traits};
use crate::contract::names;

use super::super::super::node::{node_tainted, selects};
use super::super::super::observed::{self, DaemonSet, Node, Observed, Pod, Views, newest};
use super::super::pass::Requestor;
use super::super::state::State;
use super::{BuildError, DriverPod, Entry, Maintenance, Notes, Quiet, Revision, Selection, Snapshot, Validator};

/// What a snapshot is made from besides what is observed.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'i> {
    /// Which driver.
    pub driver: Driver,
    /// By which labels its pods are found.
    pub selection: Selection,
    /// The maintenance-operator's mode, if it is on.
    pub requestor: Option<&'i Requestor>,
}

impl Inputs<'_> {
    /// As the driver's operator is seen to do it.
    pub fn of(observed: &Observed, driver: Driver) -> Self {
        Self { driver, selection: Selection::of(observed, driver), requestor: None }
    }
}

impl<'a> Snapshot<'a> {
    /// What the controller sees. Entries are there even where it is blocked, so that what it would do can be told.
    pub fn of(observed: &'a Observed, inputs: &Inputs<'_>) -> Self {
        let order = Order::new(observed, inputs.selection);
        let mut taken: Vec<Taken<'a>> =
            observed.pods.iter().flat_map(|pod| order.places(pod).map(move |place| Taken { place, pod })).collect();
        taken.sort_by_key(Taken::turn);
        let blocked = order.wrong_count(observed, || taken.iter().copied());
        let (entries, blocked) = Tables::new(observed, inputs).entries(observed, &order, taken, blocked);
        Self { driver: inputs.driver, entries, quiet: Quiet::default(), blocked }
    }
}

/// A pod that the controller takes for one of the driver's.
#[derive(Clone, Copy)]
pub(super) struct Taken<'a> {
    /// Its DaemonSet's place among the driver's; without owner it comes behind all of them.
    pub(super) place: usize,
    pub(super) pod: &'a Pod,
}

impl<'a> Taken<'a> {
    /// What the order goes by. The original's order is that of a Go map, which is none; within a DaemonSet it is that of the list.
    pub(super) fn turn(&self) -> (usize, &'a str, &'a str) {
        (self.place, &self.pod.namespace, &self.pod.name)
    }
}

/// The driver's DaemonSets, in the order in which the controller takes them.
pub(super) struct Order<'a> {
    selection: Selection,
    daemon_sets: Vec<&'a DaemonSet>,
    places: BTreeMap<&'a str, usize>,
}

impl<'a> Order<'a> {
    pub(super) fn new(observed: &'a Observed, selection: Selection) -> Self {
        let mut daemon_sets: Vec<&DaemonSet> =
            observed.daemon_sets.iter().filter(|daemon_set| selection.selects(&daemon_set.template_labels)).collect();
        daemon_sets.sort_by_key(|daemon_set| (&daemon_set.namespace, &daemon_set.name));
        let places = daemon_sets.iter().enumerate().map(|(place, daemon_set)| (daemon_set.uid.as_str(), place)).collect();
        Self { selection, daemon_sets, places }
    }

    /// Where the controller takes the pod. Nowhere: it is none of the driver's.
    pub(super) fn places(&self, pod: &Pod) -> impl Iterator<Item = usize> + use<> {
        let selected = self.selection.selects(&pod.labels);
        let owned = pod.owner.as_deref().and_then(|owner| self.places.get(owner).copied());
        let orphaned = pod.orphaned.then_some(self.daemon_sets.len());
        owned.into_iter().chain(orphaned).filter(move |_| selected)
    }

    /// The check that stops everything: a DaemonSet must have exactly the pods that it wants. `taken`: all pods.
    pub(super) fn wrong_count<I: Iterator<Item = Taken<'a>>>(&self, observed: &Observed, taken: impl Fn() -> I) -> Option<BuildError> {
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

/// A DaemonSet has not as many pods as it wants. `own`: those that it has.
fn pod_count(observed: &Observed, daemon_set: &DaemonSet, owned: i32, mut own: Vec<Taken<'_>>) -> BuildError {
    own.sort_by_key(Taken::turn);
    let on_nodes: Vec<&str> = own.iter().filter_map(|one| one.pod.node.as_deref()).collect();
    let served: HashSet<&str> = on_nodes.iter().copied().collect();
    // A pod that stood there before the taint stays, and is not one that is wanted.
    let wants_one = |node: &Node| selects(&daemon_set.node_selector, &node.labels) && node_tainted(daemon_set, node).is_none();
    let lacks_one = |node: &&Node| !served.contains(node.name.as_str()) && wants_one(node);
    let missing = if owned < daemon_set.desired {
        observed.nodes.values().filter(lacks_one).map(|node| node.name.clone()).collect()
    } else {
        Vec::new()
    };
    let surplus = on_nodes.into_iter().filter(|name| !observed.nodes.get(name).is_some_and(wants_one)).map(str::to_owned).collect();
    BuildError::PodCount { daemon_set: daemon_set.name.clone(), desired: daemon_set.desired, owned, missing, surplus }
}

/// What is looked up for each entry.
pub(super) struct Tables<'a> {
    traits: &'static Traits,
    newest: BTreeMap<&'a str, &'a str>,
    validators: &'a Views<Pod>,
    jobs: BTreeMap<&'a str, usize>,
    maintenances: BTreeMap<&'a str, &'a observed::workload::Maintenance>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(observed: &'a Observed, inputs: &Inputs<'_>) -> Self {
        let mut jobs: BTreeMap<&str, usize> = BTreeMap::new();
        for job in observed.workloads.jobs.iter().filter(|job| job.phase.is_busy()) {
            *jobs.entry(&job.node).or_default() += 1;
        }
        let maintenances = observed.workloads.maintenances.served().into_iter().flatten();
        let ours = maintenances.filter(|object| {
            inputs
                .requestor
                .is_some_and(|requestor| object.namespace == requestor.namespace && object.name == requestor.object(&object.node))
        });
        Self {
            traits: inputs.driver.traits(),
            newest: newest(&observed.revisions),
            validators: &observed.validators,
            jobs,
            maintenances: ours.map(|object| (object.node.as_str(), object)).collect(),
        }
    }

    /// The entries of pods, in their order. `blocked`: what is wrong already.
    pub(super) fn entries(
        &self,
        observed: &'a Observed,
        order: &Order<'a>,
        taken: Vec<Taken<'a>>,
        mut blocked: Option<BuildError>,
    ) -> (Vec<Entry<'a>>, Option<BuildError>) {
        let mut entries = Vec::with_capacity(taken.len());
        for one in taken {
            if one.pod.unbound {
                if one.pod.running {
                    blocked.get_or_insert_with(|| BuildError::NoNode { pod: one.pod.name.clone() });
                }
                continue;
            }
            let name = one.pod.node.as_deref().unwrap_or_default();
            match observed.nodes.get(name) {
                Some(node) => entries.push(self.entry(node, one, order)),
                None => {
                    blocked.get_or_insert_with(|| BuildError::NodeMissing { pod: one.pod.name.clone(), node: name.to_owned() });
                }
            }
        }
        (entries, blocked)
    }

    pub(super) fn entry(&self, node: &'a Node, Taken { place, pod }: Taken<'a>, order: &Order<'a>) -> Entry<'a> {
        let daemon_set = order.daemon_sets.get(place).copied();
        let label = |key: &str| node.labels.get(key).map(String::as_str);
        let annotation = |key: &str| node.annotations.get(key).map(String::as_str);
        let name = node.name.as_str();
        let ready = |pod: &Pod| pod.running && pod.containers_ready;
        let mut validators: Vec<&Pod> = self.validators.on(name).filter(|pod| !pod.unbound).collect();
        validators.sort_by_key(|pod| (&pod.namespace, &pod.name));
        Entry {
            node: name,
            state: State::of(label(self.traits.state_label)),
            label: label(self.traits.state_label).unwrap_or_default(),
            unschedulable: node.unschedulable,
            // A condition has the time of its last change, always: without one there is no condition.
            ready: (node.ready || node.ready_since.is_some()).then_some(node.ready),
            skip: label(self.traits.skip_label),
            owner: label(names::DRIVER_OWNER_LABEL).filter(|owner| !owner.is_empty()),
            notes: Notes {
                safe_load: annotation(self.traits.safe_load),
                initially_unschedulable: annotation(self.traits.initially_unschedulable).is_some(),
                wait_start: annotation(self.traits.wait_start),
                validation_start: annotation(self.traits.validation_start),
                requested: annotation(self.traits.requested),
                requestor: annotation(self.traits.requestor).is_some(),
            },
            pod: DriverPod {
                namespace: &pod.namespace,
                name: &pod.name,
                uid: &pod.uid,
                revision: daemon_set.map_or(Revision::Orphaned, |daemon_set| self.revision(pod, daemon_set)),
                deleting: pod.deleting,
                running: pod.running,
                containers_ready: pod.containers_ready,
                unready_restarts: pod.unready_restarts,
                trouble: pod.trouble.as_deref(),
                digest: pod.config_digest.as_deref(),
                template_digest: daemon_set.and_then(|daemon_set| daemon_set.config_digest.as_deref()),
            },
            validators: validators.into_iter().map(|pod| Validator { name: &pod.name, ready: ready(pod) }).collect(),
            jobs: self.jobs.get(name).copied().unwrap_or(0),
            users: None,
            maintenance: self.maintenances.get(name).map(|object| Maintenance {
                requestor: &object.requestor,
                additional: object.additional.iter().map(String::as_str).collect(),
                reason: object.state.as_deref(),
                deleting: object.deleting,
            }),
        }
    }

    fn revision(&self, pod: &Pod, daemon_set: &DaemonSet) -> Revision {
        match (&pod.revision, self.newest.get(daemon_set.uid.as_str())) {
            (None, _) => Revision::NoHash,
            (Some(_), None) => Revision::NoRevision,
            (Some(hash), Some(newest)) if hash == newest => Revision::Newest,
            (Some(_), Some(_)) => Revision::Older,
        }
    }
}
