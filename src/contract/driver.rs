//! The kinds of driver that an operator rolls out, and the one table of what differs between them. Everything else about a rollout is
//! the same code (NVIDIA's operators share theirs too: k8s-operator-libs `pkg/upgrade`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names;

/// A kind of driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// The GPU driver, of the GPU operator.
    #[default]
    Gpu,
    /// The network driver (OFED, DOCA-OFED), of the network operator.
    Ofed,
}

/// What a driver's rollout is recognized by.
#[derive(Debug)]
pub struct Traits {
    /// The driver's name in settings and chart.
    pub name: &'static str,
    /// Its operator, for people.
    pub operator: &'static str,
    /// The operator's Deployment, unless the settings name another.
    pub operator_deployment: &'static str,
    /// The kind of the custom resource that asks for the driver.
    pub policy_kind: &'static str,
    /// Its API resource.
    pub policy_resource: &'static str,
    /// Where the upgrade policy stands in it, for people.
    pub upgrade_policy: &'static str,
    /// The field that names the driver's version.
    pub version_field: &'static str,
    /// What a node has that needs the driver, for people.
    pub device: &'static str,
    /// The labels that say so, each with `true` as value.
    pub device_labels: &'static [&'static str],
    /// The label of driver DaemonSets and pods; without a value its presence counts.
    pub label: (&'static str, Option<&'static str>),
    /// The container that installs the driver.
    pub container: &'static str,
    /// The node label with the state of the vendor's upgrade.
    pub state_label: &'static str,
    /// The node label by which a user leaves a node alone.
    pub skip_label: &'static str,
}

const GPU: Traits = Traits {
    name: "gpu",
    operator: "GPU operator",
    operator_deployment: names::OPERATOR_DEPLOYMENT,
    policy_kind: "ClusterPolicy",
    policy_resource: "clusterpolicies.nvidia.com",
    upgrade_policy: "driver.upgradePolicy",
    version_field: "spec.driver.version",
    device: "GPU",
    device_labels: &names::GPU_LABELS,
    label: (names::DRIVER_COMPONENT.0, Some(names::DRIVER_COMPONENT.1)),
    container: names::DRIVER_CONTAINER,
    state_label: names::UPGRADE_STATE_LABEL,
    skip_label: names::UPGRADE_SKIP_LABEL,
};

const OFED: Traits = Traits {
    name: "ofed",
    operator: "network operator",
    operator_deployment: names::NETWORK_OPERATOR_DEPLOYMENT,
    policy_kind: "NicClusterPolicy",
    policy_resource: "nicclusterpolicies.mellanox.com",
    upgrade_policy: "ofedDriver.upgradePolicy",
    version_field: "spec.ofedDriver.version",
    device: "NIC",
    device_labels: &[names::NIC_PRESENT_LABEL],
    label: (names::OFED_DRIVER_LABEL, None),
    container: names::OFED_CONTAINER,
    state_label: names::OFED_UPGRADE_STATE_LABEL,
    skip_label: names::OFED_UPGRADE_SKIP_LABEL,
};

impl Driver {
    /// Every driver.
    pub const ALL: [Self; 2] = [Self::Gpu, Self::Ofed];

    /// The driver's row of the table.
    pub fn traits(self) -> &'static Traits {
        match self {
            Self::Gpu => &GPU,
            Self::Ofed => &OFED,
        }
    }
}
