//! The objects of a node with the GPU Operator, as the engine observes them.

use jiff::Timestamp;

use contract::driver::Driver;
use contract::names;
use observed::{Labels, ObservedContainer, ObservedNode, ObservedPod, ObservedSlice};

use super::setup::SimulationSetup;

/// The start time of a simulated run: 2026-01-01T00:00:00Z.
const EPOCH_SECONDS: i64 = 1_767_225_600;

/// UID of the driver's DaemonSet.
pub(super) const DRIVER: &str = "driver-daemonset";
/// UID of the toolkit's DaemonSet.
pub(super) const TOOLKIT: &str = "toolkit-daemonset";
/// UID of the DRA plugin's DaemonSet.
pub(super) const PLUGIN: &str = "plugin-daemonset";
/// The namespace of the DRA driver.
pub(super) const DRA_NAMESPACE: &str = "nvidia-dra-driver-gpu";

/// Returns the time this many milliseconds after the start.
pub(super) fn timestamp(milliseconds: u64) -> Timestamp {
    let since = i64::try_from(milliseconds).unwrap_or(i64::MAX);
    Timestamp::from_millisecond((EPOCH_SECONDS * 1000).saturating_add(since))
        .unwrap_or(Timestamp::MAX)
}

/// Returns the same time in whole seconds, as in Kubernetes objects.
pub(super) fn second(milliseconds: u64) -> Timestamp {
    timestamp(milliseconds / 1000 * 1000)
}

/// Returns the milliseconds since the start, or 0 for earlier times.
pub(super) fn milliseconds(moment: Timestamp) -> u64 {
    u64::try_from(moment.as_millisecond() - EPOCH_SECONDS * 1000).unwrap_or(0)
}

/// An operand that runs on every node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SimulatedOperand {
    Driver,
    Toolkit,
    Validator,
    Plugin,
}

/// The properties of an operand.
pub(super) struct SimulatedOperandTraits {
    pub(super) name: &'static str,
    /// UID of its DaemonSet.
    pub(super) daemon_set: &'static str,
    pub(super) container: &'static str,
    /// Labels of its pods.
    pub(super) labels: &'static [(&'static str, &'static str)],
}

impl SimulatedOperand {
    pub(super) const ALL: [Self; 4] = [Self::Driver, Self::Toolkit, Self::Validator, Self::Plugin];

    pub(super) fn traits(self) -> SimulatedOperandTraits {
        let driver: &[_] = &[names::DRIVER_COMPONENT, ("app", "nvidia-driver-daemonset")];
        let (name, daemon_set, container, labels) = match self {
            Self::Driver => ("driver", DRIVER, Driver::Gpu.traits().container, driver),
            Self::Toolkit => {
                ("toolkit", TOOLKIT, "nvidia-container-toolkit-ctr", &[names::TOOLKIT_APP][..])
            }
            Self::Validator => (
                "validator",
                "validator-daemonset",
                "nvidia-operator-validator",
                &[("app", "nvidia-operator-validator")][..],
            ),
            Self::Plugin => ("plugin", PLUGIN, "gpus", &[("app", "dra-plugin")][..]),
        };
        SimulatedOperandTraits { name, daemon_set, container, labels }
    }
}

pub(super) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(super) fn driver_image(version: &str) -> String {
    format!("nvcr.io/nvidia/driver:{version}-ubuntu22.04")
}

/// Returns the digest of the driver's configuration.
pub(super) fn config_digest(setup: &SimulationSetup, version: &str) -> String {
    if setup.same_config { "config".to_owned() } else { format!("config-{version}") }
}

/// Returns a node with a GPU, with the operator's labels if the setup has an operator.
pub(super) fn node(
    name: &str,
    uid: String,
    created: Timestamp,
    group: Option<(String, String)>,
    operator: bool,
) -> ObservedNode {
    let operators = labels(&[
        (names::GPU_PRESENT_LABEL, "true"),
        (names::DEPLOY_DRIVER_LABEL, "true"),
        (names::DEPLOY_TOOLKIT_LABEL, "true"),
        (names::DEPLOY_VALIDATOR_LABEL, "true"),
        ("feature.node.kubernetes.io/pci-10de.present", "true"),
    ]);
    let mut labels = if operator { operators } else { Labels::default() };
    labels.extend(group);
    ObservedNode {
        name: name.to_owned(),
        uid,
        created,
        ready: true,
        ready_since: Some(created),
        labels,
        ..ObservedNode::default()
    }
}

/// Returns the UID of the driver DaemonSet of an NVIDIADriver.
pub(super) fn pool_daemon_set(pool: &str) -> String {
    format!("{DRIVER}-{pool}")
}

/// Returns a new pod of an operand that has not started. A driver pod belongs to the NVIDIADriver
/// of its node, if the setup has NVIDIADrivers.
pub(super) fn operand(
    operand: SimulatedOperand,
    node: &ObservedNode,
    uid: String,
    revision: &str,
    now: u64,
    setup: &SimulationSetup,
) -> ObservedPod {
    let is_driver = operand == SimulatedOperand::Driver;
    let traits = operand.traits();
    let pool = node.driver_owner().filter(|_| is_driver && !setup.pools.is_empty());
    ObservedPod {
        namespace: if operand == SimulatedOperand::Plugin {
            DRA_NAMESPACE.to_owned()
        } else {
            setup.settings.operator_namespace.clone()
        },
        name: format!("{}-{uid}", traits.name),
        uid,
        owner: Some(pool.map_or_else(|| traits.daemon_set.to_owned(), pool_daemon_set)),
        node: Some(node.name.clone()),
        revision: Some(revision.to_owned()),
        labels: labels(traits.labels),
        created: setup.clocks.of_server(now),
        containers: vec![ObservedContainer {
            name: traits.container.to_owned(),
            image: if is_driver { driver_image(revision) } else { String::new() },
            started: None,
            restarts: 0,
        }],
        config_digest: is_driver.then(|| config_digest(setup, revision)),
        ..ObservedPod::default()
    }
}

/// Marks the containers of the pod as ready, and as running since `at` by the node's clock.
pub(super) fn set_pod_ready(pod: &mut ObservedPod, at: Timestamp) {
    (pod.running, pod.ready, pod.containers_ready) = (true, true, true);
    (pod.ready_since, pod.unready_restarts, pod.trouble) = (Some(at), 0, None);
    for container in &mut pod.containers {
        container.started = Some(at);
    }
}

/// Returns the ResourceSlice of a node's plugin.
pub(super) fn slice(node: &str, version: &str) -> ObservedSlice {
    ObservedSlice {
        driver: names::DRA_GPU_DRIVER.to_owned(),
        node: node.to_owned(),
        driver_version: Some(version.to_owned()),
        devices: 8,
        ..ObservedSlice::default()
    }
}
