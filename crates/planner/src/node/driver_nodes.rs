//! The nodes that need the driver.

use std::collections::BTreeSet;

use contract::driver::Driver;
use contract::names;
use observed::{Labels, Observed, ObservedDaemonSet, ObservedNode, ObservedPod, Views, selects};

use crate::spec::driver_daemon_sets;

/// Returns the nodes that need the driver and that its operator should serve.
pub fn driver_nodes(observed: &Observed, driver: Driver) -> impl Iterator<Item = &ObservedNode> {
    let which = DriverNodes::new(observed, driver);
    observed.nodes.values().filter(move |node| which.contains(node))
}

/// The nodes that need the driver.
#[derive(Debug)]
pub struct DriverNodes<'a> {
    driver: Driver,
    pods: &'a Views<ObservedPod>,
    /// If no label identifies the nodes: the driver's DaemonSets, whose pods identify them, …
    daemon_sets: Vec<&'a ObservedDaemonSet>,
    /// … and the selectors of those that still need more pods.
    lacking: Vec<&'a Labels>,
}

impl<'a> DriverNodes<'a> {
    /// Looks up the DaemonSets once for a whole fleet.
    pub fn new(observed: &'a Observed, driver: Driver) -> Self {
        let daemon_sets =
            if driver.has_operator() { Vec::new() } else { driver_daemon_sets(observed, driver) };
        let uids =
            if driver.has_operator() { BTreeSet::new() } else { lacking(observed, driver).now };
        let lacks = |daemon_set: &&&ObservedDaemonSet| uids.contains(daemon_set.uid.as_str());
        let lacking =
            daemon_sets.iter().filter(lacks).map(|daemon_set| &daemon_set.node_selector).collect();
        Self { driver, pods: &observed.pods, daemon_sets, lacking }
    }

    /// Returns whether the node needs the driver.
    pub fn contains(&self, node: &ObservedNode) -> bool {
        if self.driver.has_operator() {
            return is_driver_node(node, self.driver);
        }
        let of_driver = |pod: &ObservedPod| {
            self.daemon_sets.iter().any(|daemon_set| pod.owner.as_ref() == Some(&daemon_set.uid))
        };
        self.pods.on(&node.name).any(of_driver)
            || self.lacking.iter().any(|selector| selects(selector, &node.labels))
    }
}

/// Returns whether a node needs the driver and its operator should serve it. For a driver without
/// an operator, any node may need it.
pub fn is_driver_node(node: &ObservedNode, driver: Driver) -> bool {
    !driver.has_operator()
        || has_device(node, driver) && (driver != Driver::Gpu || operands_wanted(node))
}

/// Returns whether the node has the operator's own label, or the labels of node-feature-discovery
/// (the operator's own test: `pci-10de` with a display class or none).
fn has_device(node: &ObservedNode, driver: Driver) -> bool {
    driver.traits().device_labels.iter().any(|key| node.labels.has(key, "true"))
}

fn operands_wanted(node: &ObservedNode) -> bool {
    !node.labels.has(names::DEPLOY_OPERANDS_LABEL, "false")
}

/// UIDs of driver DaemonSets that need more pods than they have, if their node selectors are not
/// sufficient to identify their nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UnscheduledDaemonSets<'a> {
    /// By the current numbers.
    pub now: BTreeSet<&'a str>,
    /// The largest possible set: it is used for nodes whose pod the hook may have deleted. Pods
    /// that are being deleted, or that are on a node that is gone or should have none, do not
    /// count.
    pub at_most: BTreeSet<&'a str>,
}

/// Returns the driver DaemonSets that need more pods than they have.
pub fn lacking(observed: &Observed, driver: Driver) -> UnscheduledDaemonSets<'_> {
    let mut lacking = UnscheduledDaemonSets::default();
    if driver == Driver::Gpu {
        return lacking;
    }
    for daemon_set in driver_daemon_sets(observed, driver) {
        let uid = daemon_set.uid.as_str();
        let owned = || observed.pods.iter().filter(|pod| pod.owner.as_deref() == Some(uid));
        let of_node = |pod: &'_ ObservedPod| {
            !pod.deleting
                && pod.node.as_deref().is_some_and(|node| observed.nodes.contains_key(node))
        };
        let staying: BTreeSet<&str> =
            owned().filter(|pod| of_node(pod)).filter_map(|pod| pod.node.as_deref()).collect();
        let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        if i64::from(daemon_set.desired) > signed(owned().count()) {
            lacking.now.insert(uid);
        }
        let wanted = i64::from(daemon_set.desired) + i64::from(daemon_set.misscheduled);
        if !daemon_set.observed || wanted > signed(staying.len()) {
            lacking.at_most.insert(uid);
        }
    }
    lacking
}
