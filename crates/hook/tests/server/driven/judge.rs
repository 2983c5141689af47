//! The end of a run, its writes, and the invariants at every change, all from the view of the
//! server.

use std::collections::{BTreeMap, BTreeSet};

use contract::acceptance::{TEST_LABEL, TIME_ANNOTATION};
use contract::count::Count;
use contract::driver::Driver;
use serde_json::{Value, json};

use super::objects::{FOREIGN, Kind, is_test, node_of_test};
use super::{Driven, NODES};
use crate::fake::request::Entry;
use crate::fake::store::Change;

/// The final state that must not depend on disturbances of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Labels, annotations and cordon of each node, and the hook's record without times and
    /// durations.
    pub(crate) nodes: BTreeMap<String, Value>,
    /// The pods of the DaemonSets: node, kind, revision, whether it is ready.
    pub(crate) operands: Vec<(String, Kind, String, bool)>,
    /// The number of pods of each workload, and how many of them are ready. The scheduler decides
    /// about their nodes.
    pub(crate) workloads: BTreeMap<String, (usize, usize)>,
    /// The nodes that still have the pod of an acceptance test.
    pub(crate) tested: Vec<String>,
}

/// The number of applied writes by object. Pods of workloads are counted by UID.
pub(crate) type Writes = BTreeMap<String, usize>;

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

fn is_deleting(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

/// Returns the record of a driver on a node.
fn record(driver: Driver, node: &Value) -> Option<Value> {
    serde_json::from_str(node["metadata"]["annotations"][driver.traits().own_record].as_str()?).ok()
}

/// Returns test and time of the pod of an acceptance test.
fn test_of(pod: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (labels, annotations) = (&pod["metadata"]["labels"], &pod["metadata"]["annotations"]);
    format!("{} {}", text(&labels[TEST_LABEL]), text(&annotations[TIME_ANNOTATION]))
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

impl Driven {
    /// Returns the current state as an end.
    pub(crate) fn end(&self) -> End {
        let state = self.world.server.state();
        let of = |resource: &'static str| {
            state
                .store
                .objects
                .iter()
                .filter(move |(key, _)| key.resource == resource)
                .map(|(_, value)| value)
        };
        let nodes =
            of("nodes").map(|node| (name_of(node).to_owned(), self.lasting(node))).collect();
        let kinds = of("pods").filter_map(|pod| Some((pod, Kind::of(pod)?)));
        let revision = |pod: &Value| {
            pod["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap().to_owned()
        };
        let mut operands: Vec<(String, Kind, String, bool)> = kinds
            .map(|(pod, kind)| (node_of(pod).to_owned(), kind, revision(pod), is_ready(pod)))
            .collect();
        operands.sort();
        let mut workloads: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for pod in of("pods").filter(|pod| Kind::of(pod).is_none() && !is_test(pod)) {
            let entry = workloads
                .entry(pod["metadata"]["labels"]["app"].as_str().unwrap().to_owned())
                .or_default();
            entry.0 += 1;
            entry.1 += usize::from(is_ready(pod));
        }
        let tests = of("pods").filter(|pod| is_test(pod));
        let tested = tests.map(|pod| node_of_test(pod).to_owned()).collect();
        End { nodes, operands, workloads, tested }
    }

    /// Returns the part of a node that must not depend on the deaths of the process.
    fn lasting(&self, node: &Value) -> Value {
        let mut annotations = node["metadata"]["annotations"].clone();
        for driver in &self.drivers {
            if let Some(record) = record(*driver, node) {
                annotations[driver.traits().own_record] = json!([
                    record["state"],
                    record["failure"]["cause"],
                    record["attempts"],
                    record["driverChanged"],
                    record["cordoned"]
                ]);
            }
        }
        json!([node["metadata"]["labels"], annotations, node["spec"]["unschedulable"]])
    }

    /// Describes the final state of a node. Empty: it is as every other done node.
    pub(crate) fn left(&self, node: &str) -> String {
        let node = self.world.get("nodes", "", node);
        let record = record(self.driver(), &node).unwrap_or_default();
        let cause = record["failure"]["cause"].as_str().unwrap_or_default();
        let attempts = record["attempts"][cause]
            .as_u64()
            .map(|attempts| attempts.to_string())
            .unwrap_or_default();
        let state = node["metadata"]["labels"][self.driver().traits().own_state_label]
            .as_str()
            .unwrap_or_default();
        let cordon = if node["spec"]["unschedulable"] == true { "cordoned" } else { "" };
        [state, cause, &attempts, cordon]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns the writes of the hook's pods by object, without Lease, record and events.
    pub(crate) fn writes(&self) -> Writes {
        let log = self.world.log();
        let pods = self.pods_ever();
        let mut writes = Writes::new();
        for entry in log.iter().filter(|entry| entry.applied) {
            let Some(object) = written(entry, &pods) else { continue };
            *writes.entry(object).or_default() += 1;
        }
        writes
    }

    /// Returns every pod that ever existed, by namespace and name.
    fn pods_ever(&self) -> BTreeMap<(String, String), Value> {
        let state = self.world.server.state();
        let pods = state.store.history.iter().filter(|change| change.key.resource == "pods");
        pods.map(|change| {
            ((change.key.namespace.clone(), change.key.name.clone()), change.object.clone())
        })
        .collect()
    }

    /// Asserts that no invariant was violated at any change.
    pub(crate) fn assert_safe(&self, place: &str) {
        let broken = self.violations();
        assert!(broken.is_empty(), "{place}:\n{}", broken.join("\n"));
    }

    /// Returns the violated invariants with their versions.
    fn violations(&self) -> Vec<String> {
        let history: Vec<Change> = self.world.server.state().store.history.clone();
        let mut now = Moment {
            fleet: self,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            broken: Vec::new(),
        };
        for change in &history {
            now.passes(change);
        }
        for entry in self.world.log().iter().filter(|entry| entry.request.is("patch", "nodes")) {
            let metadata = &entry.request.body["metadata"];
            if metadata["resourceVersion"].is_null() || metadata["uid"].is_null() {
                now.broken.push(format!("a node was patched without a precondition: {entry:?}"));
            }
        }
        now.broken
    }
}

/// Returns the object that a request wrote, for the count.
fn written(entry: &Entry, pods: &BTreeMap<(String, String), Value>) -> Option<String> {
    let request = &entry.request;
    match (request.verb, request.resource.as_str()) {
        ("patch", "nodes") => Some(format!("node {}", request.name)),
        ("delete", "pods") => {
            let pod = &pods[&(request.namespace.clone(), request.name.clone())];
            if is_test(pod) {
                return Some(format!("end of test {} on {}", test_of(pod), node_of_test(pod)));
            }
            Some(format!("{:?} of {}", Kind::of(pod).unwrap(), node_of(pod)))
        }
        ("create", "pods") => {
            let pod = &request.body;
            Some(format!("test {} on {}", test_of(pod), node_of_test(pod)))
        }
        ("create", "pods/eviction") => Some(format!("eviction of {}", request.name)),
        _ => None,
    }
}

/// The state of the fleet on the server after one change.
struct Moment<'a> {
    fleet: &'a Driven,
    nodes: BTreeMap<String, Value>,
    pods: BTreeMap<(String, String), Value>,
    broken: Vec<String>,
}

impl Moment<'_> {
    fn passes(&mut self, change: &Change) {
        let key = (change.key.namespace.clone(), change.key.name.clone());
        match change.key.resource.as_str() {
            "nodes" if change.kind == "DELETED" => drop(self.nodes.remove(&change.key.name)),
            "nodes" => self.node(change),
            "pods" if change.kind == "DELETED" => drop(self.pods.remove(&key)),
            "pods" => {
                let before = self.pods.insert(key, change.object.clone());
                if before.is_none() && is_test(&change.object) {
                    self.test(change);
                }
                if is_deleting(&change.object) && before.is_none_or(|before| !is_deleting(&before))
                {
                    self.deletion(change);
                }
            }
            _ => {}
        }
    }

    fn breaks(&mut self, change: &Change, what: &str) {
        self.broken.push(format!("at version {}: {} {what}", change.version, change.key.name));
    }

    fn node(&mut self, change: &Change) {
        let before = self.nodes.insert(change.key.name.clone(), change.object.clone());
        let cordoned = |node: &Value| node["spec"]["unschedulable"] == true;
        let foreign = |node: &Value| node["metadata"]["annotations"][FOREIGN].is_string();
        if before.is_some_and(|before| foreign(&before) && cordoned(&before))
            && foreign(&change.object)
            && !cordoned(&change.object)
        {
            self.breaks(change, "lost a foreign cordon");
        }
        let drivers = &self.fleet.drivers;
        let under_way = |node: &Value| {
            let state = |driver: &Driver| {
                node["metadata"]["labels"][driver.traits().own_state_label]
                    .as_str()
                    .map(str::to_owned)
            };
            drivers.iter().filter_map(state).filter(|state| state != "upgrade-failed").count()
        };
        if under_way(&change.object) > 1 {
            self.breaks(change, "has two drivers replaced at once");
        }
        let in_progress = self.nodes.values().filter(|node| under_way(node) > 0).count();
        let ours = |node: &&Value| {
            cordoned(node)
                && drivers.iter().any(|driver| {
                    record(*driver, node).is_some_and(|record| record["cordoned"] == true)
                })
        };
        let unavailable = self.nodes.values().filter(ours).count();
        let policy = &self.fleet.world.settings.upgrade.policy;
        let limit = policy.max_unavailable.unwrap_or(Count::Percent(100)).resolve(NODES);
        if in_progress > policy.max_parallel_upgrades as usize {
            self.breaks(change, &format!("was started as number {in_progress}"));
        }
        if unavailable > limit {
            self.breaks(change, &format!("was cordoned as number {unavailable}"));
        }
    }

    /// Checks the pod of an acceptance test that is created: its node takes no workloads, and has
    /// no other pod of a test.
    fn test(&mut self, change: &Change) {
        let node = node_of_test(&change.object).to_owned();
        if self.nodes.get(&node).is_none_or(|node| node["spec"]["unschedulable"] != true) {
            self.breaks(change, &format!("tests {node}, which accepts new pods"));
        }
        let tests = self.pods.values().filter(|pod| is_test(pod) && node_of_test(pod) == node);
        if tests.count() > 1 {
            self.breaks(change, &format!("is the second test on {node} at a time"));
        }
    }

    /// Checks a pod that is deleted. In these stories, only the hook deletes pods.
    fn deletion(&mut self, change: &Change) {
        let pod = &change.object;
        if is_test(pod) {
            return;
        }
        let node = self.nodes.get(node_of(pod)).cloned().unwrap_or_default();
        let kind = Kind::of(pod);
        if node["spec"]["unschedulable"] != true {
            self.breaks(change, &format!("left {}, which accepted new pods", name_of(&node)));
        }
        if !kind.is_some_and(Kind::is_driver) {
            return;
        }
        let network = |other: &&Value| {
            Kind::of(other) == Some(Kind::Mofed) && node_of(other) == name_of(&node)
        };
        if kind == Some(Kind::Driver)
            && self.pods.values().find(network).is_some_and(|mofed| {
                mofed["metadata"]["labels"]["controller-revision-hash"] != "new"
            })
        {
            self.breaks(change, "was replaced before the network's driver");
        }
        let policy = &self.fleet.world.settings.upgrade.policy;
        // If the policy has both pod deletion and drain, only nodes with a failed pod deletion are
        // drained.
        let (deletes, drains) = (policy.pod_deletion.is_some(), policy.drain.is_some());
        let protects = |other: &&Value| {
            let holds =
                other["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"].is_string();
            let over = matches!(other["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            Kind::of(other).is_none()
                && node_of(other) == name_of(&node)
                && !over
                && (drains && !deletes || holds && deletes || is_test(other))
        };
        let there: BTreeSet<&str> = self.pods.values().filter(protects).map(name_of).collect();
        if !there.is_empty() {
            let names = there.into_iter().collect::<Vec<_>>().join(", ");
            self.breaks(change, &format!("was deleted while {names} used the device"));
        }
    }
}
