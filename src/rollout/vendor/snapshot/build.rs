//! The snapshot from what is observed.

use std::collections::BTreeMap;

use crate::contract::driver::{Driver, Traits};
use crate::contract::names;

use super::super::super::node::selects;
use super::super::super::observed::{self, DaemonSet, Node, Observed, Pod, Views, newest};
use super::super::pass::Requestor;
use super::super::state::State;
use super::{BuildError, DriverPod, Entry, Maintenance, Notes, Revision, Selection, Snapshot, Validator};

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
        let mut daemon_sets: Vec<&DaemonSet> =
            observed.daemon_sets.iter().filter(|daemon_set| inputs.selection.selects(&daemon_set.template_labels)).collect();
        // The original's order is that of a Go map, which is none; within a DaemonSet it is that of the list.
        daemon_sets.sort_by_key(|daemon_set| (&daemon_set.namespace, &daemon_set.name));
        let mut pods: Vec<&Pod> = observed.pods.iter().filter(|pod| inputs.selection.selects(&pod.labels)).collect();
        pods.sort_by_key(|pod| (&pod.namespace, &pod.name));

        let mut owned: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in &pods {
            if let Some(owner) = &pod.owner {
                owned.entry(owner).or_default().push(pod);
            }
        }
        let mut blocked = None;
        let mut taken: Vec<(&Pod, Option<&DaemonSet>)> = Vec::new();
        for daemon_set in daemon_sets {
            let own = owned.get(daemon_set.uid.as_str()).map(Vec::as_slice).unwrap_or_default();
            if blocked.is_none() {
                blocked = wrong_count(observed, daemon_set, own);
            }
            taken.extend(own.iter().map(|pod| (*pod, Some(daemon_set))));
        }
        taken.extend(pods.iter().filter(|pod| pod.orphaned).map(|pod| (*pod, None)));

        let tables = Tables::new(observed, inputs);
        let mut entries = Vec::with_capacity(taken.len());
        for (pod, daemon_set) in taken {
            if pod.unbound {
                if pod.running {
                    blocked.get_or_insert_with(|| BuildError::NoNode { pod: pod.name.clone() });
                }
                continue;
            }
            let name = pod.node.as_deref().unwrap_or_default();
            match observed.nodes.get(name) {
                Some(node) => entries.push(tables.entry(node, pod, daemon_set)),
                None => {
                    blocked.get_or_insert_with(|| BuildError::NodeMissing { pod: pod.name.clone(), node: name.to_owned() });
                }
            }
        }
        Self { driver: inputs.driver, entries, blocked }
    }
}

/// The check that stops everything: a DaemonSet must have exactly the pods that it wants.
fn wrong_count(observed: &Observed, daemon_set: &DaemonSet, own: &[&Pod]) -> Option<BuildError> {
    let owned = i32::try_from(own.len()).unwrap_or(i32::MAX);
    if owned == daemon_set.desired {
        return None;
    }
    let has_one = |node: &Node| own.iter().any(|pod| pod.node.as_ref() == Some(&node.name));
    let wants_one = |node: &Node| selects(&daemon_set.node_selector, &node.labels);
    let names = |nodes: Vec<&Node>| nodes.into_iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    let missing = if owned < daemon_set.desired {
        names(observed.nodes.values().filter(|node| wants_one(node) && !has_one(node)).collect())
    } else {
        Vec::new()
    };
    let on_nodes = own.iter().filter_map(|pod| pod.node.as_ref());
    let surplus = on_nodes.filter(|name| !observed.nodes.get(name).is_some_and(wants_one)).cloned().collect();
    Some(BuildError::PodCount { daemon_set: daemon_set.name.clone(), desired: daemon_set.desired, owned, missing, surplus })
}

/// What is looked up for each entry.
struct Tables<'a> {
    traits: &'static Traits,
    newest: BTreeMap<&'a str, &'a str>,
    validators: &'a Views<Pod>,
    jobs: BTreeMap<&'a str, usize>,
    maintenances: BTreeMap<&'a str, &'a observed::workload::Maintenance>,
}

impl<'a> Tables<'a> {
    fn new(observed: &'a Observed, inputs: &Inputs<'_>) -> Self {
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

    fn entry(&self, node: &'a Node, pod: &'a Pod, daemon_set: Option<&'a DaemonSet>) -> Entry<'a> {
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
