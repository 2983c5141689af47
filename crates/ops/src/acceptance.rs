//! `gpu-rollout accept`: runs the acceptance tests of a deployed bundle by hand, on nodes that no
//! workload uses. No hook takes these pods for its own.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::Value;

use contract::acceptance::{ACCEPTANCE_NAMESPACE, AcceptanceGpus, AcceptanceTest};
use contract::driver::Driver;
use contract::settings::{Mode, Settings};
use kube_io::acceptance_tests::list_templates;
use nvidia_upgrade::ControllerState;
use observed::workload::Workload;
use observed::{Observed, ObservedNode};
use planner::acceptance::requested_gpus;
use planner::action::RequestedGpus;
use planner::drive_upgrade::record::{NodeRecordState, read};
use planner::pods::device_users::{DeviceRelation, DeviceRules, DeviceUsers, consumers};
use planner::pods::listed;

use super::command_error::CommandError;
use super::observe::RolloutSnapshot;

mod hand_pod;
mod run;

pub use run::{HandTestOutcome, HandTestResult, run_tests};

/// The time of a test that the settings of no hook have.
const DEFAULT_SECONDS: u64 = 600;

/// A deployed acceptance test.
#[derive(Clone, Debug)]
pub struct HandTest {
    /// Its name.
    pub name: String,
    /// Seconds from the creation of its pod to its end.
    pub timeout_seconds: u64,
    /// Which GPUs its pod requests.
    gpus: AcceptanceGpus,
    template: Value,
}

/// A node on which tests can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandTestNode {
    /// Its name.
    pub name: String,
    uid: String,
    /// All GPUs that it offers.
    gpus: RequestedGpus,
}

/// Why no test runs on a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UntestableNode {
    /// The node is not in the cluster.
    #[error("not found")]
    Unknown,
    /// The node does not report.
    #[error("it is not ready")]
    NotReady,
    /// A hook or NVIDIA's controller is upgrading its driver.
    #[error("its driver is being upgraded")]
    InProgress,
    /// Workloads may use its GPUs.
    #[error("pods use its GPUs: {}", listed(.0))]
    InUse(Vec<String>),
    /// Another acceptance test is on it.
    #[error("another acceptance test is on it: pod {0}")]
    Tested(String),
}

impl UntestableNode {
    /// Returns the hint: what to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unknown => "`kubectl get nodes` lists the nodes",
            Self::NotReady => "repair the node first",
            Self::InProgress => {
                "wait until the upgrade of the node has ended: `gpu-rollout why NODE` shows how far it is"
            }
            Self::InUse(_) => {
                "wait until the pods have ended, or run `kubectl cordon NODE` and move them first"
            }
            Self::Tested(_) => "wait until that test has ended",
        }
    }
}

/// Finds the deployed tests: those of the settings in their order, then others by name. RBAC: `list`
/// on `podtemplates` in the namespace of acceptance tests.
///
/// # Errors
/// They cannot be listed.
pub async fn find_tests(
    client: &Client,
    snapshots: &[RolloutSnapshot],
) -> Result<Vec<HandTest>, CommandError> {
    let settings = snapshots.iter().flat_map(|snapshot| &snapshot.settings.upgrade.acceptance);
    let known: BTreeMap<&str, (usize, &AcceptanceTest)> =
        settings.enumerate().map(|(place, test)| (test.name.as_str(), (place, test))).collect();
    let test = |template: Value| {
        let name = template["metadata"]["name"].as_str()?.to_owned();
        let found = known.get(name.as_str());
        let place = found.map_or(usize::MAX, |(place, _)| *place);
        let timeout_seconds = found.map_or(DEFAULT_SECONDS, |(_, test)| test.timeout_seconds);
        let gpus = found.map_or(AcceptanceGpus::All, |(_, test)| test.gpus);
        Some((place, HandTest { name, timeout_seconds, gpus, template }))
    };
    let mut tests: Vec<(usize, HandTest)> =
        list_templates(client).await?.into_iter().filter_map(test).collect();
    tests.sort_by(|(place, test), (other_place, other)| {
        (place, &test.name).cmp(&(other_place, &other.name))
    });
    Ok(tests.into_iter().map(|(_, test)| test).collect())
}

/// A test that is not deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTest {
    /// The name.
    pub name: String,
    /// The names of the deployed tests.
    pub deployed: Vec<String>,
}

/// Returns the tests with these names, in the order of the deployed ones; without names, all.
///
/// # Errors
/// The first name that no deployed test has.
pub fn select_tests(
    deployed: Vec<HandTest>,
    names: &[String],
) -> Result<Vec<HandTest>, UnknownTest> {
    let is_deployed = |name: &&String| deployed.iter().any(|test| test.name == **name);
    if let Some(unknown) = names.iter().find(|name| !is_deployed(name)) {
        let deployed = deployed.into_iter().map(|test| test.name).collect();
        return Err(UnknownTest { name: unknown.clone(), deployed });
    }
    let is_selected = |test: &HandTest| names.is_empty() || names.contains(&test.name);
    Ok(deployed.into_iter().filter(is_selected).collect())
}

/// Returns the node, if tests can run on it. `pods`: the pods that are bound to it.
///
/// # Errors
/// Why not.
pub fn testable(
    snapshots: &[RolloutSnapshot],
    name: &str,
    pods: &[Workload],
) -> Result<HandTestNode, UntestableNode> {
    let (snapshot, node) = snapshots
        .iter()
        .find_map(|snapshot| Some((snapshot, snapshot.observed.nodes.get(name)?)))
        .ok_or(UntestableNode::Unknown)?;
    if !node.ready {
        return Err(UntestableNode::NotReady);
    }
    let is_driven = |driver: Driver| {
        let drives =
            |settings: &Settings| settings.driver == driver && settings.mode == Mode::Drive;
        snapshots.iter().any(|snapshot| drives(&snapshot.settings))
    };
    if Driver::ALL.into_iter().any(|driver| is_in_progress(node, driver, is_driven(driver))) {
        return Err(UntestableNode::InProgress);
    }
    let here = || pods.iter().filter(|pod| pod.node == name && !pod.phase.is_finished());
    if let Some(test) = here().find(|pod| pod.namespace == ACCEPTANCE_NAMESPACE) {
        return Err(UntestableNode::Tested(test.name.clone()));
    }
    // Selectors that cannot be read select nothing: the hook refuses them.
    let selectors = consumers(&snapshot.settings.upgrade).unwrap_or_default();
    let claims = &snapshot.observed.workloads.claims;
    let users = DeviceUsers::new(Driver::Gpu, DeviceRules::Ours, claims).with_consumers(&selectors);
    let is_user = |pod: &&Workload| matches!(users.judge(pod), DeviceRelation::Holds(_));
    let users: Vec<String> =
        here().filter(is_user).map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    if !users.is_empty() {
        return Err(UntestableNode::InUse(users));
    }
    let gpus = offered_gpus(&snapshot.observed, node);
    Ok(HandTestNode { name: node.name.clone(), uid: node.uid.clone(), gpus })
}

/// Returns whether a hook or NVIDIA's controller is upgrading a driver of the node. `is_driven`: a
/// hook in mode `drive` upgrades it, so that a state of NVIDIA's controller is out of date.
fn is_in_progress(node: &ObservedNode, driver: Driver, is_driven: bool) -> bool {
    let traits = driver.traits();
    let by_hook = match read(node, traits) {
        NodeRecordState::Record(record) => record.state.is_in_progress(),
        NodeRecordState::Newer(_) | NodeRecordState::Broken => true,
        NodeRecordState::Nothing => false,
    };
    let is_operated = driver.has_operator() && !is_driven;
    by_hook || is_operated && ControllerState::of_node(node, traits).is_busy()
}

/// Returns what a pod requests to get all GPUs of a node; nothing, if the node offers none.
fn offered_gpus(observed: &Observed, node: &ObservedNode) -> RequestedGpus {
    requested_gpus(AcceptanceGpus::All, node, observed).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use planner::drive_upgrade::record::UpgradeRecord;
    use planner::drive_upgrade::state::UpgradeState;

    use super::*;

    fn node(record: Option<UpgradeState>) -> ObservedNode {
        let mut node =
            ObservedNode { name: "gpu-0".to_owned(), ready: true, ..ObservedNode::default() };
        if let Some(state) = record {
            let record = UpgradeRecord::new(state, "digest", jiff::Timestamp::UNIX_EPOCH);
            let key = Driver::Gpu.traits().own_record.to_owned();
            node.annotations.insert(key, record.text());
        }
        node
    }

    #[test]
    fn node_in_progress_is_not_tested_and_failed_one_is() {
        for (record, expected) in [
            (None, false),
            (Some(UpgradeState::PodRestartRequired), true),
            (Some(UpgradeState::ValidationRequired), true),
            (Some(UpgradeState::UpgradeFailed), false),
        ] {
            assert_eq!(is_in_progress(&node(record), Driver::Gpu, true), expected, "{record:?}");
        }
        let mut busy = node(None);
        let key = Driver::Gpu.traits().state_label.to_owned();
        busy.labels.insert(key, "drain-required".to_owned());
        assert!(is_in_progress(&busy, Driver::Gpu, false));
        assert!(!is_in_progress(&busy, Driver::Gpu, true), "that controller is off");
    }

    #[test]
    fn pod_requests_all_gpus_that_the_node_offers() {
        let mut node = node(None);
        assert_eq!(offered_gpus(&Observed::default(), &node), RequestedGpus::Nothing);
        node.gpus_allocatable.insert("nvidia.com/gpu".to_owned(), "8".to_owned());
        node.gpus_allocatable.insert("nvidia.com/mig-1g.10gb".to_owned(), "0".to_owned());
        let all = BTreeMap::from([("nvidia.com/gpu".to_owned(), "8".to_owned())]);
        assert_eq!(offered_gpus(&Observed::default(), &node), RequestedGpus::Resources(all));
    }
}
