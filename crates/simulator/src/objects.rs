//! The objects of a cluster with the GPU operator, as the engine sees them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use contract::count::Count;
use contract::driver::Driver;
use contract::mode::Mode;
use contract::names;
use contract::policy::{PodDeletionPolicy, Policy};
use observed::{
    ClusterPolicy, ImageSpec, Labels, LiveUpgradePolicy, NvidiaDriver, Observed, ObservedContainer, ObservedDaemonSet, ObservedDeployment,
    ObservedDra, ObservedNode, ObservedPod, ObservedRevision, ObservedSlice, OperatorLease, OperatorPod, OptionalApi,
};

use super::operand_pods;
use super::setup::{PoolSetup, SimulationSetup};

/// When a simulated run begins: 2026-01-01T00:00:00Z.
const EPOCH_SECONDS: i64 = 1_767_225_600;

/// UID of the driver's DaemonSet.
const DRIVER: &str = "driver-daemonset";
/// UID of the toolkit's.
const TOOLKIT: &str = "toolkit-daemonset";
/// UID of the DRA plugin's.
const PLUGIN: &str = "plugin-daemonset";
/// Labels of the operator's pods.
const OPERATOR: [(&str, &str); 1] = [("app", "gpu-operator")];
/// The first leader has led for long when a run begins.
const OLD_LEADER_SECONDS: u64 = 3600;
/// The duration of the operator's Lease with Helm.
const LEASE_SECONDS: u64 = 15;
/// Where the DRA driver is.
const DRA_NAMESPACE: &str = "nvidia-dra-driver-gpu";

/// The moment so many milliseconds after the beginning.
pub(super) fn timestamp(milliseconds: u64) -> Timestamp {
    let since = i64::try_from(milliseconds).unwrap_or(i64::MAX);
    Timestamp::from_millisecond((EPOCH_SECONDS * 1000).saturating_add(since)).unwrap_or(Timestamp::MAX)
}

/// The same as objects have it: whole seconds.
pub(super) fn second(milliseconds: u64) -> Timestamp {
    timestamp(milliseconds / 1000 * 1000)
}

/// Milliseconds from the beginning; 0 for what was before it.
pub(super) fn milliseconds(moment: Timestamp) -> u64 {
    u64::try_from(moment.as_millisecond() - EPOCH_SECONDS * 1000).unwrap_or(0)
}

/// What runs on every node for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SimulatedOperand {
    Driver,
    Toolkit,
    Validator,
    Plugin,
}

impl SimulatedOperand {
    pub(super) const ALL: [Self; 4] = [Self::Driver, Self::Toolkit, Self::Validator, Self::Plugin];

    /// Its place in a list of all.
    pub(super) fn index(self) -> usize {
        match self {
            Self::Driver => 0,
            Self::Toolkit => 1,
            Self::Validator => 2,
            Self::Plugin => 3,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Toolkit => "toolkit",
            Self::Validator => "validator",
            Self::Plugin => "plugin",
        }
    }

    fn labels(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Driver => &[names::DRIVER_COMPONENT, ("app", "nvidia-driver-daemonset")],
            Self::Toolkit => &[names::TOOLKIT_APP],
            Self::Validator => &[("app", "nvidia-operator-validator")],
            Self::Plugin => &[("app", "dra-plugin")],
        }
    }

    fn owner(self) -> &'static str {
        match self {
            Self::Driver => DRIVER,
            Self::Toolkit => TOOLKIT,
            Self::Validator => "validator-daemonset",
            Self::Plugin => PLUGIN,
        }
    }

    fn container_name(self) -> &'static str {
        match self {
            Self::Driver => Driver::Gpu.traits().container,
            Self::Toolkit => "nvidia-container-toolkit-ctr",
            Self::Validator => "nvidia-operator-validator",
            Self::Plugin => "gpus",
        }
    }
}

/// What the operator has made for the cluster as a whole.
#[derive(Clone, Debug)]
pub(super) struct OperatorObjects {
    pub(super) operator_up: bool,
    /// The number of the operator's newest pod, …
    pub(super) operator_pod: u32,
    /// … and of the one that holds the Lease, dead or alive.
    pub(super) operator_leader: u32,
    /// The version of the operator's Deployment.
    pub(super) operator_version: Option<String>,
    /// The version that the ClusterPolicy asks for.
    pub(super) asked: String,
    /// The version that the DaemonSet's template has.
    pub(super) template: String,
    /// How many driver pods there are to be, where somebody counts them.
    pub(super) desired: i32,
    /// The same of each NVIDIADriver.
    pub(super) desired_of: BTreeMap<String, i32>,
    /// The number of the newest revision of other operands; 0 where nothing is said.
    pub(super) operand_revisions: BTreeMap<contract::operand::Operand, u32>,
    /// Versions of the driver's revisions; the last one is the newest. A version that comes back takes its old hash with it.
    pub(super) revisions: Vec<String>,
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn image(name: &str, version: &str) -> ImageSpec {
    ImageSpec { repository: Some("nvcr.io/nvidia".to_owned()), image: Some(name.to_owned()), version: Some(version.to_owned()) }
}

fn driver_image(version: &str) -> String {
    format!("nvcr.io/nvidia/driver:{version}-ubuntu22.04")
}

/// The digest of the driver's configuration.
pub(super) fn config_digest(setup: &SimulationSetup, version: &str) -> String {
    if setup.same_config { "config".to_owned() } else { format!("config-{version}") }
}

/// The policy that the operator's own controller goes by: the one of the settings, or, where we say when a node goes, the one that lets go of
/// few nodes if every hold is lost.
pub(super) fn policy(setup: &SimulationSetup) -> Policy {
    let asked = &setup.settings.upgrade.policy;
    match setup.settings.mode {
        Mode::Steer => Policy { max_parallel_upgrades: 1, max_unavailable: Some(Count::Percent(25)), ..asked.clone() },
        Mode::Observe | Mode::Assist | Mode::Drive => asked.clone(),
    }
}

fn upgrade_policy(setup: &SimulationSetup) -> LiveUpgradePolicy {
    if setup.operator.is_none() {
        return LiveUpgradePolicy { stated: true, auto_upgrade: false, ..LiveUpgradePolicy::default() };
    }
    let Policy { max_parallel_upgrades, max_unavailable, wait_for_completion, pod_deletion, drain } = policy(setup);
    LiveUpgradePolicy {
        stated: true,
        auto_upgrade: true,
        max_parallel: Some(max_parallel_upgrades),
        max_unavailable: max_unavailable.map(|count| count.to_string()),
        wait_for_completion,
        // The chart always has them.
        pod_deletion: pod_deletion.or_else(|| Some(PodDeletionPolicy::default())),
        drain,
        lacks_drain: false,
    }
}

/// UID of the driver DaemonSet of an NVIDIADriver.
fn daemon_set_of(pool: &str) -> String {
    format!("{DRIVER}-{pool}")
}

/// UID of an NVIDIADriver.
fn uid_of(pool: &str) -> String {
    format!("nvidia-driver-{pool}")
}

/// The NVIDIADriver that has the node. A model of its selector: real ones may not use this label.
fn selector_of(pool: &str) -> Labels {
    labels(&[(names::DRIVER_OWNER_LABEL, pool)])
}

/// How many of these nodes each NVIDIADriver has.
pub(super) fn count_pools<'n>(setup: &SimulationSetup, nodes: impl Iterator<Item = &'n ObservedNode>) -> BTreeMap<String, i32> {
    let mut counts: BTreeMap<String, i32> = setup.pools.iter().map(|pool| (pool.name.clone(), 0)).collect();
    for node in nodes {
        if let Some(count) = node.driver_owner().and_then(|owner| counts.get_mut(owner)) {
            *count += 1;
        }
    }
    counts
}

/// A pod of an operand on this node: a driver pod is its NVIDIADriver's, where there are any.
pub(super) fn joins_pool(pod: &mut ObservedPod, operand: SimulatedOperand, node: &ObservedNode, setup: &SimulationSetup) {
    if let Some(pool) = node.driver_owner().filter(|_| operand == SimulatedOperand::Driver && !setup.pools.is_empty()) {
        pod.owner = Some(daemon_set_of(pool));
    }
}

/// The NVIDIADrivers, each with its policy.
fn nvidia_drivers(fixed: &OperatorObjects, setup: &SimulationSetup) -> Vec<NvidiaDriver> {
    let common = upgrade_policy(setup);
    let of = |pool: &PoolSetup| NvidiaDriver {
        name: pool.name.clone(),
        uid: uid_of(&pool.name),
        generation: i64::try_from(fixed.revisions.len()).unwrap_or(i64::MAX),
        node_selector: selector_of(&pool.name),
        driver: image("driver", &fixed.asked),
        upgrade_policy: LiveUpgradePolicy {
            max_parallel: Some(pool.max_parallel_upgrades),
            max_unavailable: pool.max_unavailable.map(|count| count.to_string()),
            ..common.clone()
        },
        ..NvidiaDriver::default()
    };
    setup.pools.iter().map(of).collect()
}

/// The driver DaemonSets of the NVIDIADrivers, made after the one that the ClusterPolicy would have.
fn pool_daemon_sets(template: &ObservedDaemonSet, fixed: &OperatorObjects, setup: &SimulationSetup) -> Vec<ObservedDaemonSet> {
    let of = |pool: &PoolSetup| {
        let mut node_selector = template.node_selector.clone();
        node_selector.extend(selector_of(&pool.name).iter().map(|(key, value)| (key.clone(), value.clone())));
        ObservedDaemonSet {
            name: format!("{}-{}", template.name, pool.name),
            uid: daemon_set_of(&pool.name),
            owner: Some(uid_of(&pool.name)),
            desired: fixed.desired_of.get(&pool.name).copied().unwrap_or(0),
            node_selector,
            ..template.clone()
        }
    };
    setup.pools.iter().map(of).collect()
}

/// Revisions of the driver. A version that comes back has its old revision under a new number.
fn revisions(fixed: &OperatorObjects, setup: &SimulationSetup) -> Vec<ObservedRevision> {
    if setup.pools.is_empty() {
        return revisions_of(DRIVER, fixed);
    }
    setup.pools.iter().flat_map(|pool| revisions_of(&daemon_set_of(&pool.name), fixed)).collect()
}

fn revisions_of(daemon_set: &str, fixed: &OperatorObjects) -> Vec<ObservedRevision> {
    let revision = |(index, version): (usize, &String)| ObservedRevision {
        owner: daemon_set.to_owned(),
        revision: i64::try_from(index).unwrap_or(i64::MAX),
        hash: version.clone(),
    };
    let last_of = |index: usize, version: &String| !fixed.revisions[index + 1..].contains(version);
    fixed.revisions.iter().enumerate().filter(|(index, version)| last_of(*index, version)).map(revision).collect()
}

/// The DaemonSet that somebody has made, and nothing of an operator's.
fn alone(view: &mut Observed, fixed: &OperatorObjects, setup: &SimulationSetup) {
    view.daemon_sets = vec![ObservedDaemonSet {
        namespace: setup.settings.operator_namespace.clone(),
        name: setup.settings.daemon_set.clone().unwrap_or_default(),
        uid: DRIVER.to_owned(),
        observed: true,
        on_delete: true,
        desired: i32::try_from(setup.nodes).unwrap_or(i32::MAX),
        images: BTreeMap::from([("driver".to_owned(), driver_image(&fixed.template))]),
        ..ObservedDaemonSet::default()
    }];
    view.revisions = revisions_of(DRIVER, fixed);
}

fn operator_pod(number: u32) -> String {
    format!("gpu-operator-{number}")
}

/// Writes what the operator has made into a view.
pub(super) fn fixed(view: &mut Observed, fixed: &OperatorObjects, setup: &SimulationSetup) {
    if !setup.has_operator() {
        return alone(view, fixed, setup);
    }
    if let Some(found) = &setup.found {
        view.workloads.claims = found.claims.clone();
    }
    let available = i32::from(fixed.operator_up);
    let toolkit = ("nvidia-container-toolkit-ctr".to_owned(), "nvcr.io/nvidia/container-toolkit:v1.18.1".to_owned());
    let manager = (names::DRIVER_MANAGER_CONTAINER.to_owned(), "nvcr.io/nvidia/k8s-driver-manager:v0.9.1".to_owned());
    let driver = (Driver::Gpu.traits().container.to_owned(), driver_image(&fixed.template));
    let version = fixed.operator_version.clone();
    view.operator = Some(ObservedDeployment {
        replicas: 1,
        current: 1,
        updated: 1,
        available,
        observed: true,
        version,
        selector: labels(&OPERATOR),
        ..ObservedDeployment::default()
    });
    view.operator_pods = if fixed.operator_up {
        vec![OperatorPod { name: operator_pod(fixed.operator_pod), labels: labels(&OPERATOR), deleting: false, ready: true }]
    } else {
        Vec::new()
    };
    // When it was renewed is what a hook sees for itself.
    let renewed = view.operator_lease.as_ref().and_then(|lease| lease.renewed);
    let holder = format!("{}_{}", operator_pod(fixed.operator_leader), fixed.operator_leader);
    view.operator_lease = Some(OperatorLease {
        holder,
        duration_seconds: LEASE_SECONDS,
        led_seconds: if fixed.operator_leader == 0 { OLD_LEADER_SECONDS } else { 0 },
        renewed,
    });
    let mut policy = ClusterPolicy {
        uid: "policy".to_owned(),
        generation: i64::try_from(fixed.revisions.len()).unwrap_or(i64::MAX),
        driver_enabled: true,
        uses_nvidia_drivers: !setup.pools.is_empty(),
        driver: image("driver", &fixed.asked),
        driver_manager: image("k8s-driver-manager", "v0.9.1"),
        toolkit_enabled: true,
        toolkit: image("container-toolkit", "v1.18.1"),
        upgrade_policy: upgrade_policy(setup),
        state: Some("ready".to_owned()),
        ready_reason: Some("Reconciled".to_owned()),
        ..ClusterPolicy::default()
    };
    view.nvidia_drivers = OptionalApi::Served(nvidia_drivers(fixed, setup));
    let of = |operand: SimulatedOperand, selector: &str| ObservedDaemonSet {
        namespace: setup.settings.operator_namespace.clone(),
        name: format!("nvidia-{}", operand.name()),
        uid: operand.owner().to_owned(),
        owner: Some("policy".to_owned()),
        observed: true,
        template_labels: labels(operand.labels()),
        node_selector: labels(&[(selector, "true")]),
        ..ObservedDaemonSet::default()
    };
    view.daemon_sets = vec![
        ObservedDaemonSet {
            on_delete: true,
            generation: i64::try_from(fixed.revisions.len()).unwrap_or(i64::MAX),
            desired: fixed.desired,
            images: BTreeMap::from([driver, manager]),
            config_digest: Some(config_digest(setup, &fixed.template)),
            manager_environment: match setup.operator {
                Some(_) => labels(&[]),
                None => labels(&[("ENABLE_GPU_POD_EVICTION", "false"), ("ENABLE_AUTO_DRAIN", "false")]),
            },
            ..of(SimulatedOperand::Driver, names::DEPLOY_DRIVER_LABEL)
        },
        ObservedDaemonSet { images: BTreeMap::from([toolkit]), ..of(SimulatedOperand::Toolkit, names::DEPLOY_TOOLKIT_LABEL) },
    ];
    if !setup.pools.is_empty() {
        let template = view.daemon_sets.remove(0);
        view.daemon_sets.splice(0..0, pool_daemon_sets(&template, fixed, setup));
    }
    view.revisions = revisions(fixed, setup);
    view.revisions.push(ObservedRevision { owner: TOOLKIT.to_owned(), revision: 1, hash: "only".to_owned() });
    if setup.operands {
        operand_pods::fixed(view, &mut policy, fixed, setup.nodes);
    }
    view.cluster_policy = OptionalApi::Served(Some(policy));
    if setup.dra {
        let plugin = ("gpus".to_owned(), "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0".to_owned());
        view.dra = ObservedDra {
            namespaces: vec![DRA_NAMESPACE.to_owned()],
            daemon_sets: vec![ObservedDaemonSet {
                namespace: DRA_NAMESPACE.to_owned(),
                name: "dra-plugin".to_owned(),
                uid: PLUGIN.to_owned(),
                observed: true,
                desired: 1,
                images: BTreeMap::from([plugin]),
                ..ObservedDaemonSet::default()
            }],
            pods: std::mem::take(&mut view.dra.pods),
            slices: OptionalApi::Served(view.dra.slices.served().cloned().unwrap_or_default()),
        };
    }
}

/// A node with a GPU, labeled by the operator, if there is one.
pub(super) fn node(name: &str, uid: String, created: Timestamp, group: Option<(String, String)>, operator: bool) -> ObservedNode {
    let operators = labels(&[
        (names::GPU_PRESENT_LABEL, "true"),
        (names::DEPLOY_DRIVER_LABEL, "true"),
        (names::DEPLOY_TOOLKIT_LABEL, "true"),
        (names::DEPLOY_VALIDATOR_LABEL, "true"),
        ("feature.node.kubernetes.io/pci-10de.present", "true"),
    ]);
    let mut labels = if operator { operators } else { Labels::default() };
    labels.extend(group);
    ObservedNode { name: name.to_owned(), uid, created, ready: true, ready_since: Some(created), labels, ..ObservedNode::default() }
}

/// A new pod of an operand, not started.
pub(super) fn operand(
    operand: SimulatedOperand,
    node: &str,
    uid: String,
    revision: &str,
    now: u64,
    setup: &SimulationSetup,
) -> ObservedPod {
    let is_driver = operand == SimulatedOperand::Driver;
    ObservedPod {
        namespace: if operand == SimulatedOperand::Plugin { DRA_NAMESPACE.to_owned() } else { setup.settings.operator_namespace.clone() },
        name: format!("{}-{uid}", operand.name()),
        uid,
        owner: Some(operand.owner().to_owned()),
        node: Some(node.to_owned()),
        revision: Some(revision.to_owned()),
        labels: labels(operand.labels()),
        created: setup.clocks.of_server(now),
        containers: vec![ObservedContainer {
            name: operand.container_name().to_owned(),
            image: if is_driver { driver_image(revision) } else { String::new() },
            started: None,
            restarts: 0,
        }],
        config_digest: is_driver.then(|| config_digest(setup, revision)),
        ..ObservedPod::default()
    }
}

/// The pod's containers run since then, by the node's clock, and are ready.
pub(super) fn is_ready(pod: &mut ObservedPod, at: Timestamp) {
    (pod.running, pod.ready, pod.containers_ready) = (true, true, true);
    (pod.ready_since, pod.unready_restarts, pod.trouble) = (Some(at), 0, None);
    for container in &mut pod.containers {
        container.started = Some(at);
    }
}

/// What the node's plugin has published.
pub(super) fn slice(node: &str, version: &str) -> ObservedSlice {
    ObservedSlice {
        driver: names::DRA_GPU_DRIVER.to_owned(),
        node: node.to_owned(),
        driver_version: Some(version.to_owned()),
        devices: 8,
        ..ObservedSlice::default()
    }
}

/// The container by which an operand's pod is known.
pub(super) fn container(operand: SimulatedOperand) -> &'static str {
    operand.container_name()
}
