//! The cluster-wide objects that the operator creates.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use contract::count::Count;
use contract::driver::Driver;
use contract::mode::Mode;
use contract::names;
use contract::operand::Operand;
use contract::policy::{PodDeletionPolicy, Policy};
use observed::{
    ClusterPolicy, ImageSpec, Labels, LiveUpgradePolicy, NvidiaDriver, Observed, ObservedDaemonSet,
    ObservedDeployment, ObservedDra, ObservedNode, ObservedRevision, OperatorLease, OperatorPod,
    OptionalApi,
};

use super::objects::{
    DRA_NAMESPACE, DRIVER, PLUGIN, SimulatedOperand, SimulatedOperandTraits, TOOLKIT,
    config_digest, driver_image, labels, pool_daemon_set,
};
use super::operand_pods;
use super::setup::{PoolSetup, SimulationSetup};

/// Labels of the operator's pods.
const OPERATOR: [(&str, &str); 1] = [("app", "gpu-operator")];
/// How long the first leader has led at the start of a run.
const OLD_LEADER_SECONDS: u64 = 3600;
/// The duration of the operator's Lease with Helm.
const LEASE_SECONDS: u64 = 15;

/// The cluster-wide objects that the operator has created.
#[derive(Clone, Debug)]
pub(super) struct OperatorObjects {
    /// Whether the operator's newest pod is ready.
    pub(super) is_up: bool,
    /// The number of the operator's newest pod.
    pub(super) pod: u32,
    /// The number of the pod that holds the Lease, even if this pod is gone.
    pub(super) leader: u32,
    /// The version of the operator's Deployment.
    pub(super) version: Option<String>,
    /// The driver version that the ClusterPolicy requests.
    pub(super) asked: String,
    /// The version in the template of the driver's DaemonSet.
    pub(super) template: String,
    /// The desired number of driver pods, if the setup maintains it.
    pub(super) desired: i32,
    /// The desired number of driver pods of each NVIDIADriver.
    pub(super) desired_of_pool: BTreeMap<String, i32>,
    /// The numbers of the newest revisions of other operands, or 0 if there is none.
    pub(super) operand_revisions: BTreeMap<Operand, u32>,
    /// The versions of the driver's revisions, the newest last. A version that returns keeps its
    /// old hash.
    pub(super) revisions: Vec<String>,
    /// Nodes in maintenance by the maintenance-operator.
    pub(super) maintenances: BTreeSet<String>,
}

impl OperatorObjects {
    /// Returns the objects before the rollout. Some nodes of a found fleet may already have the new
    /// driver.
    pub(super) fn new(setup: &SimulationSetup) -> Self {
        let is_found = setup.found.is_some();
        Self {
            is_up: true,
            pod: 0,
            leader: 0,
            version: setup
                .operator_upgrade
                .as_ref()
                .map(|upgrade| upgrade.from.clone())
                .or_else(|| setup.operator.clone()),
            asked: setup.to.clone(),
            template: if is_found { setup.to.clone() } else { setup.from.clone() },
            desired: i32::try_from(setup.nodes).unwrap_or(i32::MAX),
            desired_of_pool: BTreeMap::new(),
            operand_revisions: BTreeMap::new(),
            revisions: if is_found {
                vec![setup.from.clone(), setup.to.clone()]
            } else {
                vec![setup.from.clone()]
            },
            maintenances: BTreeSet::new(),
        }
    }

    /// Returns the newest revision of the driver.
    pub(super) fn newest(&self) -> &str {
        self.revisions.last().map_or("", String::as_str)
    }

    /// Returns the generation of the objects that name the driver's version.
    fn generation(&self) -> i64 {
        i64::try_from(self.revisions.len()).unwrap_or(i64::MAX)
    }
}

fn image(name: &str, version: &str) -> ImageSpec {
    ImageSpec {
        repository: Some("nvcr.io/nvidia".to_owned()),
        image: Some(name.to_owned()),
        version: Some(version.to_owned()),
    }
}

/// Returns the policy of the operator's own controller: that of the settings, or, if the hook
/// decides when a node starts, one that starts few nodes if all holds are lost.
pub(super) fn policy(setup: &SimulationSetup) -> Policy {
    let asked = &setup.settings.upgrade.policy;
    match setup.settings.mode {
        Mode::Steer => Policy {
            max_parallel_upgrades: 1,
            max_unavailable: Some(Count::Percent(25)),
            ..asked.clone()
        },
        Mode::Observe | Mode::Assist | Mode::Drive => asked.clone(),
    }
}

fn upgrade_policy(setup: &SimulationSetup) -> LiveUpgradePolicy {
    if setup.operator.is_none() {
        return LiveUpgradePolicy {
            stated: true,
            auto_upgrade: false,
            ..LiveUpgradePolicy::default()
        };
    }
    let Policy { max_parallel_upgrades, max_unavailable, wait_for_completion, pod_deletion, drain } =
        policy(setup);
    LiveUpgradePolicy {
        stated: true,
        auto_upgrade: true,
        max_parallel: Some(max_parallel_upgrades),
        max_unavailable: max_unavailable.map(|count| count.to_string()),
        wait_for_completion,
        // The chart always sets these fields.
        pod_deletion: pod_deletion.or_else(|| Some(PodDeletionPolicy::default())),
        drain,
        lacks_drain: false,
    }
}

/// Returns the UID of an NVIDIADriver.
fn uid_of(pool: &str) -> String {
    format!("nvidia-driver-{pool}")
}

/// Returns the selector of an NVIDIADriver. It is a simplification: real selectors must not use
/// this label.
fn selector_of(pool: &str) -> Labels {
    labels(&[(names::DRIVER_OWNER_LABEL, pool)])
}

/// Counts the nodes of each NVIDIADriver.
pub(super) fn count_pools<'n>(
    setup: &SimulationSetup,
    nodes: impl Iterator<Item = &'n ObservedNode>,
) -> BTreeMap<String, i32> {
    let mut counts: BTreeMap<String, i32> =
        setup.pools.iter().map(|pool| (pool.name.clone(), 0)).collect();
    for node in nodes {
        if let Some(count) = node.driver_owner().and_then(|owner| counts.get_mut(owner)) {
            *count += 1;
        }
    }
    counts
}

/// Returns the NVIDIADrivers, each with its policy.
fn nvidia_drivers(operator: &OperatorObjects, setup: &SimulationSetup) -> Vec<NvidiaDriver> {
    let common = upgrade_policy(setup);
    let driver = |pool: &PoolSetup| NvidiaDriver {
        name: pool.name.clone(),
        uid: uid_of(&pool.name),
        generation: operator.generation(),
        node_selector: selector_of(&pool.name),
        driver: image("driver", &operator.asked),
        upgrade_policy: LiveUpgradePolicy {
            max_parallel: Some(pool.max_parallel_upgrades),
            max_unavailable: pool.max_unavailable.map(|count| count.to_string()),
            ..common.clone()
        },
        ..NvidiaDriver::default()
    };
    setup.pools.iter().map(driver).collect()
}

/// Returns the driver DaemonSets of the NVIDIADrivers, derived from that of the ClusterPolicy.
fn pool_daemon_sets(
    template: &ObservedDaemonSet,
    operator: &OperatorObjects,
    setup: &SimulationSetup,
) -> Vec<ObservedDaemonSet> {
    let daemon_set = |pool: &PoolSetup| {
        let mut node_selector = template.node_selector.clone();
        node_selector.extend(
            selector_of(&pool.name).iter().map(|(key, value)| (key.clone(), value.clone())),
        );
        ObservedDaemonSet {
            name: format!("{}-{}", template.name, pool.name),
            uid: pool_daemon_set(&pool.name),
            owner: Some(uid_of(&pool.name)),
            desired: operator.desired_of_pool.get(&pool.name).copied().unwrap_or(0),
            node_selector,
            ..template.clone()
        }
    };
    setup.pools.iter().map(daemon_set).collect()
}

/// Returns the revisions of the driver. A version that returns has its old revision with a new
/// number.
fn revisions(operator: &OperatorObjects, setup: &SimulationSetup) -> Vec<ObservedRevision> {
    if setup.pools.is_empty() {
        return revisions_of(DRIVER, operator);
    }
    setup
        .pools
        .iter()
        .flat_map(|pool| revisions_of(&pool_daemon_set(&pool.name), operator))
        .collect()
}

fn revisions_of(daemon_set: &str, operator: &OperatorObjects) -> Vec<ObservedRevision> {
    let revision = |(index, version): (usize, &String)| ObservedRevision {
        owner: daemon_set.to_owned(),
        revision: i64::try_from(index).unwrap_or(i64::MAX),
        hash: version.clone(),
    };
    let last_of =
        |index: usize, version: &String| !operator.revisions[index + 1..].contains(version);
    operator
        .revisions
        .iter()
        .enumerate()
        .filter(|(index, version)| last_of(*index, version))
        .map(revision)
        .collect()
}

/// Writes a DaemonSet without an operator.
fn write_lone_daemon_set(view: &mut Observed, operator: &OperatorObjects, setup: &SimulationSetup) {
    view.daemon_sets = vec![ObservedDaemonSet {
        namespace: setup.settings.operator_namespace.clone(),
        name: setup.settings.daemon_set.clone().unwrap_or_default(),
        uid: DRIVER.to_owned(),
        observed: true,
        on_delete: true,
        desired: i32::try_from(setup.nodes).unwrap_or(i32::MAX),
        images: BTreeMap::from([("driver".to_owned(), driver_image(&operator.template))]),
        ..ObservedDaemonSet::default()
    }];
    view.revisions = revisions_of(DRIVER, operator);
}

fn operator_pod(number: u32) -> String {
    format!("gpu-operator-{number}")
}

/// Writes the operator's objects into the observed state.
pub(super) fn write_operator_objects(
    view: &mut Observed,
    operator: &OperatorObjects,
    setup: &SimulationSetup,
) {
    if !setup.has_operator() {
        return write_lone_daemon_set(view, operator, setup);
    }
    if let Some(found) = &setup.found {
        view.workloads.claims = found.claims.clone();
    }
    write_deployment(view, operator);
    view.nvidia_drivers = OptionalApi::Served(nvidia_drivers(operator, setup));
    view.daemon_sets = daemon_sets(operator, setup);
    view.revisions = revisions(operator, setup);
    view.revisions.push(ObservedRevision {
        owner: TOOLKIT.to_owned(),
        revision: 1,
        hash: "only".to_owned(),
    });
    let mut policy = cluster_policy(operator, setup);
    if setup.operands {
        operand_pods::write_daemon_sets(view, &mut policy, operator, setup.nodes);
    }
    view.cluster_policy = OptionalApi::Served(Some(policy));
    if setup.dra {
        write_dra(view);
    }
}

/// Writes the operator's Deployment, its pod and its Lease.
fn write_deployment(view: &mut Observed, operator: &OperatorObjects) {
    view.operator = Some(ObservedDeployment {
        replicas: 1,
        current: 1,
        updated: 1,
        available: i32::from(operator.is_up),
        observed: true,
        version: operator.version.clone(),
        selector: labels(&OPERATOR),
        ..ObservedDeployment::default()
    });
    let pod = OperatorPod {
        name: operator_pod(operator.pod),
        labels: labels(&OPERATOR),
        deleting: false,
        ready: true,
    };
    view.operator_pods = operator.is_up.then_some(pod).into_iter().collect();
    view.operator_lease = Some(OperatorLease {
        holder: format!("{}_{}", operator_pod(operator.leader), operator.leader),
        duration_seconds: LEASE_SECONDS,
        led_seconds: if operator.leader == 0 { OLD_LEADER_SECONDS } else { 0 },
        // No decision depends on the holder's clock.
        renew_time: Timestamp::UNIX_EPOCH,
        // The hook itself observes the time of the renewal.
        renewed: view.operator_lease.as_ref().and_then(|lease| lease.renewed),
    });
}

fn cluster_policy(operator: &OperatorObjects, setup: &SimulationSetup) -> ClusterPolicy {
    ClusterPolicy {
        uid: "policy".to_owned(),
        generation: operator.generation(),
        driver_enabled: true,
        uses_nvidia_drivers: !setup.pools.is_empty(),
        driver: image("driver", &operator.asked),
        driver_manager: image("k8s-driver-manager", "v0.9.1"),
        toolkit_enabled: true,
        toolkit: image("container-toolkit", "v1.18.1"),
        upgrade_policy: upgrade_policy(setup),
        state: Some("ready".to_owned()),
        ready_reason: Some("Reconciled".to_owned()),
        ..ClusterPolicy::default()
    }
}

/// Returns the DaemonSets of driver and toolkit.
fn daemon_sets(operator: &OperatorObjects, setup: &SimulationSetup) -> Vec<ObservedDaemonSet> {
    let daemon_set = |SimulatedOperandTraits { name, daemon_set, labels: template, .. },
                      selector: &str| ObservedDaemonSet {
        namespace: setup.settings.operator_namespace.clone(),
        name: format!("nvidia-{name}"),
        uid: daemon_set.to_owned(),
        owner: Some("policy".to_owned()),
        observed: true,
        template_labels: labels(template),
        node_selector: labels(&[(selector, "true")]),
        ..ObservedDaemonSet::default()
    };
    let container = |name: &str, image: &str| (name.to_owned(), image.to_owned());
    let driver = ObservedDaemonSet {
        on_delete: true,
        generation: operator.generation(),
        desired: operator.desired,
        images: BTreeMap::from([
            container(Driver::Gpu.traits().container, &driver_image(&operator.template)),
            container(names::DRIVER_MANAGER_CONTAINER, "nvcr.io/nvidia/k8s-driver-manager:v0.9.1"),
        ]),
        config_digest: Some(config_digest(setup, &operator.template)),
        manager_environment: match setup.operator {
            Some(_) => labels(&[]),
            None => labels(&[("ENABLE_GPU_POD_EVICTION", "false"), ("ENABLE_AUTO_DRAIN", "false")]),
        },
        ..daemon_set(SimulatedOperand::Driver.traits(), names::DEPLOY_DRIVER_LABEL)
    };
    let toolkit = ObservedDaemonSet {
        images: BTreeMap::from([container(
            SimulatedOperand::Toolkit.traits().container,
            "nvcr.io/nvidia/container-toolkit:v1.18.1",
        )]),
        ..daemon_set(SimulatedOperand::Toolkit.traits(), names::DEPLOY_TOOLKIT_LABEL)
    };
    let mut daemon_sets = if setup.pools.is_empty() {
        vec![driver]
    } else {
        pool_daemon_sets(&driver, operator, setup)
    };
    daemon_sets.push(toolkit);
    daemon_sets
}

/// Writes the DRA driver's DaemonSet. Its pods and slices do not belong to the operator.
fn write_dra(view: &mut Observed) {
    let plugin = (
        SimulatedOperand::Plugin.traits().container.to_owned(),
        "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0".to_owned(),
    );
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
